//! A checkpointer that keeps threads in memory.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    convert::Infallible,
    sync::{Arc, Mutex, MutexGuard},
};

use async_trait::async_trait;
use serde_json::{Map, Value};

use crate::{
    checkpoint::{
        error::CheckpointError,
        id::{CheckpointId, TaskId},
        query::{HistoryQuery, Keep, Lookup, PruneStats},
        record::{FrontierRecord, TaskRecord},
        saver::{Checkpointer, Lease},
        stored::{Checkpoint, CheckpointKey, CheckpointWrite, Header, NewCheckpoint},
    },
    state::change::Change,
    sync::lock,
};

/// Stores checkpoints in memory. Clones share the same threads.
///
/// Each field is stored as a chain of changes. Checkpoints share these chains, so the cost of a step is proportional to
/// the size of its changes.
///
/// ```
/// use graph_core::{MemorySaver, START, State, StateGraph};
///
/// # #[derive(State, Clone, Debug, Default)]
/// # struct Count {
/// #     #[reduce(add)]
/// #     value: u32,
/// # }
/// # async fn increment(_: &Count) -> CountUpdate {
/// #     Count::update().value(1)
/// # }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let graph = StateGraph::<Count>::new().node(increment).edge(START, increment);
/// let graph = graph.checkpointer(MemorySaver::new()).compile()?;
/// let thread = graph.thread("1", ());
/// thread.invoke(Count::default()).await?;
/// assert_eq!(thread.state().await?.map(|it| it.values.value), Some(1));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default)]
pub struct MemorySaver {
    // This is a std mutex, because it is held briefly and never across an await.
    threads: Arc<Mutex<Threads>>,
}

impl MemorySaver {
    /// Creates an empty saver.
    pub fn new() -> Self {
        Self::default()
    }

    fn lock(&self) -> MutexGuard<'_, Threads> {
        lock(&self.threads)
    }
}

#[derive(Debug, Default)]
struct Threads {
    threads: BTreeMap<String, BTreeMap<String, Namespace>>,
    leased: BTreeSet<String>,
}

impl Threads {
    fn put(&mut self, checkpoint: NewCheckpoint) -> Result<(), CheckpointError> {
        let NewCheckpoint { key, expected_head, base, header, frontier, changes } = checkpoint;
        let namespaces = self.threads.entry(key.thread.clone()).or_default();
        let namespace = namespaces.entry(key.namespace.clone()).or_default();
        match namespace.find(key.id) {
            Some(known) if known.header.run == header.run => return Ok(()),
            Some(_) => return Err(CheckpointError::HeadMoved { thread: key.thread }),
            None => {}
        }
        if namespace.head() != expected_head {
            return Err(CheckpointError::HeadMoved { thread: key.thread });
        }
        if expected_head.is_some_and(|it| key.id < it) {
            return Err(CheckpointError::NotNewer { thread: key.thread, id: key.id });
        }
        let mut fields = match base {
            None => BTreeMap::new(),
            Some(base) => match namespace.find(base) {
                Some(stored) => stored.fields.clone(),
                None => {
                    return Err(CheckpointError::UnknownCheckpoint {
                        thread: key.thread,
                        namespace: key.namespace,
                        id: base,
                    });
                }
            },
        };
        for (field, change) in changes {
            let before = if change.replaces_value() { None } else { fields.get(&field).cloned() };
            fields.insert(field, Arc::new(Link { change, before }));
        }
        namespace.checkpoints.insert(key.id, Stored { header, frontier, fields });
        Ok(())
    }

    fn record(&mut self, at: &CheckpointKey, records: Vec<TaskRecord>) {
        let namespaces = self.threads.entry(at.thread.clone()).or_default();
        let namespace = namespaces.entry(at.namespace.clone()).or_default();
        let stored = namespace.records.entry(at.id).or_default();
        for record in records {
            let order = stored.len();
            let slot = (record.task, record.event.slot());
            match stored.entry(slot) {
                Entry::Vacant(entry) => {
                    entry.insert((order, record));
                }
                Entry::Occupied(_) if record.event.keeps_first() => {}
                Entry::Occupied(mut entry) => entry.get_mut().1 = record,
            }
        }
    }

    fn namespace(&self, thread: &str, namespace: &str) -> Option<&Namespace> {
        self.threads.get(thread)?.get(namespace)
    }

    /// Returns whether the thread exists, that is, has a checkpoint. A rejected checkpoint does not create a thread,
    /// and neither does a record without a checkpoint.
    fn exists(&self, thread: &str) -> bool {
        let mut namespaces = self.threads.get(thread).into_iter().flat_map(BTreeMap::values);
        namespaces.any(|it| !it.checkpoints.is_empty())
    }
}

#[derive(Clone, Debug, Default)]
struct Namespace {
    checkpoints: BTreeMap<CheckpointId, Stored>,
    /// Records by checkpoint id. They are stored separately because a record may arrive before its checkpoint.
    records: BTreeMap<CheckpointId, BTreeMap<(TaskId, String), (usize, TaskRecord)>>,
}

#[derive(Clone, Debug)]
struct Stored {
    header: Header,
    frontier: FrontierRecord,
    fields: BTreeMap<String, Arc<Link>>,
}

/// A field's value, stored as its last change and a chain of earlier changes.
#[derive(Debug)]
struct Link {
    change: Change,
    before: Option<Arc<Self>>,
}

impl Link {
    fn value(&self) -> Result<Option<Value>, String> {
        let mut chain = vec![&self.change];
        let mut link = self;
        while let (false, Some(before)) = (link.change.replaces_value(), &link.before) {
            link = before;
            chain.push(&link.change);
        }
        let mut value = None;
        for change in chain.into_iter().rev() {
            change.apply(&mut value)?;
        }
        Ok(value)
    }
}

impl Drop for Link {
    // Drops the chain iteratively, because the derived drop would recurse once per change and overflow the stack on
    // long chains.
    fn drop(&mut self) {
        let mut next = self.before.take();
        while let Some(mut link) = next.and_then(Arc::into_inner) {
            next = link.before.take();
        }
    }
}

impl Namespace {
    /// Returns a checkpoint. Runs mostly look up the newest checkpoint, or an id that is newer and not stored yet.
    /// Neither case searches the map.
    fn find(&self, id: CheckpointId) -> Option<&Stored> {
        let (newest, stored) = self.checkpoints.last_key_value()?;
        match id.cmp(newest) {
            Ordering::Greater => None,
            Ordering::Equal => Some(stored),
            Ordering::Less => self.checkpoints.get(&id),
        }
    }

    fn head(&self) -> Option<CheckpointId> {
        self.checkpoints.last_key_value().map(|(id, _)| *id)
    }

    fn read(
        &self,
        thread: &str,
        namespace: &str,
        id: CheckpointId,
    ) -> Result<Option<Checkpoint>, CheckpointError> {
        let Some(stored) = self.checkpoints.get(&id) else { return Ok(None) };
        let mut values = Map::new();
        for (field, link) in &stored.fields {
            let value = link.value().map_err(|problem| CheckpointError::Corrupt {
                thread: thread.to_owned(),
                id,
                problem: format!("field `{field}`: {problem}"),
            })?;
            values.extend(value.map(|it| (field.clone(), it)));
        }
        let mut records: Vec<_> = self.records.get(&id).into_iter().flatten().collect();
        records.sort_by_key(|(_, (order, _))| *order);
        Ok(Some(Checkpoint {
            key: CheckpointKey { thread: thread.to_owned(), namespace: namespace.to_owned(), id },
            header: stored.header.clone(),
            frontier: stored.frontier.clone(),
            values,
            records: records.into_iter().map(|(_, (_, record))| record.clone()).collect(),
        }))
    }

    fn retain(&mut self, keep: impl Fn(CheckpointId, &Stored) -> bool) -> usize {
        let removed = self.checkpoints.iter().filter(|(id, stored)| !keep(**id, stored));
        let removed: Vec<_> = removed.map(|(id, _)| *id).collect();
        for id in &removed {
            self.checkpoints.remove(id);
            // Records whose checkpoint is not stored yet are kept, because they belong to a run in progress.
            self.records.remove(id);
        }
        removed.len()
    }
}

/// Deletes subgraph namespaces that belong to deleted steps. Returns the number of deleted checkpoints.
fn remove_orphaned(namespaces: &mut BTreeMap<String, Namespace>) -> usize {
    let orphaned = |(name, namespace): &(&String, &Namespace)| {
        let Some((_, head)) = namespace.checkpoints.last_key_value() else { return false };
        let enclosing = |outer: &str, id: CheckpointId| {
            let outer = namespaces.get(outer);
            let stored = outer.is_some_and(|it| it.checkpoints.contains_key(&id));
            Ok::<_, Infallible>((stored, outer.and_then(Namespace::head)))
        };
        head.header.is_orphaned(name, enclosing) == Ok(true)
    };
    let removed: Vec<String> = namespaces.iter().filter(orphaned).map(|it| it.0.clone()).collect();
    removed.iter().filter_map(|it| namespaces.remove(it)).map(|it| it.checkpoints.len()).sum()
}

/// Releases the lease when dropped.
#[derive(Debug)]
struct LeaseGuard {
    threads: Arc<Mutex<Threads>>,
    thread: String,
}

impl Drop for LeaseGuard {
    fn drop(&mut self) {
        lock(&self.threads).leased.remove(&self.thread);
    }
}

#[async_trait]
impl Checkpointer for MemorySaver {
    async fn lease(&self, thread: &str) -> Result<Lease, CheckpointError> {
        if !self.lock().leased.insert(thread.to_owned()) {
            return Err(CheckpointError::Busy { thread: thread.to_owned() });
        }
        Ok(Lease::new(LeaseGuard { threads: self.threads.clone(), thread: thread.to_owned() }))
    }

    async fn write(&self, writes: Vec<CheckpointWrite>) -> Result<(), CheckpointError> {
        let mut threads = self.lock();
        for write in writes {
            match write {
                CheckpointWrite::Put(checkpoint) => threads.put(*checkpoint)?,
                CheckpointWrite::Record(at, records) => threads.record(&at, records),
            }
        }
        Ok(())
    }

    async fn get(&self, at: &Lookup) -> Result<Option<Checkpoint>, CheckpointError> {
        let threads = self.lock();
        let Some(namespace) = threads.namespace(&at.thread, &at.namespace) else { return Ok(None) };
        match at.id.or_else(|| namespace.head()) {
            Some(id) => namespace.read(&at.thread, &at.namespace, id),
            None => Ok(None),
        }
    }

    async fn list(&self, query: &HistoryQuery) -> Result<Vec<Checkpoint>, CheckpointError> {
        let threads = self.lock();
        let namespace = threads.namespace(&query.thread, &query.namespace);
        let Some(namespace) = namespace else { return Ok(Vec::new()) };
        let matching = namespace.checkpoints.iter().rev();
        let matching = matching.filter(|(id, stored)| query.matches(**id, &stored.header));
        matching
            .take(query.limit.unwrap_or(usize::MAX))
            .filter_map(|(id, _)| namespace.read(&query.thread, &query.namespace, *id).transpose())
            .collect()
    }

    async fn threads(&self) -> Result<Vec<String>, CheckpointError> {
        let threads = self.lock();
        Ok(threads.threads.keys().filter(|it| threads.exists(it)).cloned().collect())
    }

    async fn namespaces(&self, thread: &str) -> Result<Vec<(String, usize)>, CheckpointError> {
        let threads = self.lock();
        let namespaces = threads.threads.get(thread).into_iter().flatten();
        let counted = namespaces.map(|(name, it)| (name.clone(), it.checkpoints.len()));
        Ok(counted.filter(|(_, count)| *count > 0).collect())
    }

    async fn delete_thread(&self, thread: &str) -> Result<(), CheckpointError> {
        self.lock().threads.remove(thread);
        Ok(())
    }

    async fn delete_runs(&self, runs: &[String]) -> Result<(), CheckpointError> {
        for namespace in self.lock().threads.values_mut().flat_map(BTreeMap::values_mut) {
            namespace.retain(|_, stored| !runs.contains(&stored.header.run));
        }
        Ok(())
    }

    async fn copy_thread(&self, from: &str, to: &str) -> Result<(), CheckpointError> {
        let mut threads = self.lock();
        if threads.exists(to) {
            return Err(CheckpointError::ThreadExists { thread: to.to_owned() });
        }
        let copy = threads.threads.get(from).filter(|_| threads.exists(from)).cloned();
        let Some(copy) = copy else {
            return Err(CheckpointError::UnknownThread { thread: from.to_owned() });
        };
        threads.threads.insert(to.to_owned(), copy);
        Ok(())
    }

    async fn prune(&self, names: &[String], keep: Keep) -> Result<PruneStats, CheckpointError> {
        let mut threads = self.lock();
        let mut pruned = PruneStats::default();
        for name in names {
            for namespace in
                threads.threads.get_mut(name).into_iter().flat_map(BTreeMap::values_mut)
            {
                let head = namespace.head();
                let newest = match keep {
                    Keep::Newest(count) => {
                        namespace.checkpoints.keys().rev().nth(count.max(1) - 1).copied()
                    }
                    Keep::Since(_) => None,
                };
                pruned.checkpoints += namespace.retain(|id, stored| match keep {
                    Keep::Newest(_) => newest.is_none_or(|oldest| id >= oldest),
                    Keep::Since(since) => Some(id) == head || stored.header.created_at >= since,
                });
            }
            if let Some(namespaces) = threads.threads.get_mut(name) {
                pruned.checkpoints += remove_orphaned(namespaces);
            }
        }
        Ok(pruned)
    }
}
