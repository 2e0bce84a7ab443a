//! The checkpointer on a SQLite file.

use std::{collections::BTreeMap, path::Path};

use async_trait::async_trait;
use graph_core::checkpoint::{
    Checkpoint, CheckpointError, Checkpointer, History, Keep, Lease, Lookup, NewCheckpoint, Place,
    Pruned, TaskRecord, Write,
};
use rusqlite::Connection;

use super::{
    Sqlite, copy,
    failure::Failure,
    known::Known,
    lease::{self, Held},
    read,
    remove::{self, Removed, SLICE},
    sizes,
    writer::Session,
};
use crate::{
    chain::Hook,
    codec::CodecError,
    error::OpenError,
    sizes::Sizes,
    stored::{NewChange, Put, Records},
};

/// Keeps threads in a SQLite file. Cloning gives another handle to the same file.
///
/// ```
/// use std::sync::Arc;
/// use graph_core::checkpoint::Checkpointer;
/// use graph_store::SqliteSaver;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("threads.db");
/// let saver = Arc::new(SqliteSaver::open(path)?);
/// // Give it to a graph: `graph.shared_checkpointer(saver.clone()).compile()?`.
/// assert!(saver.threads().await?.is_empty());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct SqliteSaver {
    database: Sqlite,
}

impl SqliteSaver {
    /// Opens a file with the usual settings, and makes it if it is missing.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        Ok(Self::new(&Sqlite::open(path)?))
    }

    /// Keeps threads in an open database.
    pub fn new(database: &Sqlite) -> Self {
        Self { database: database.clone() }
    }

    /// The database.
    pub fn database(&self) -> &Sqlite {
        &self.database
    }

    /// Measures what is stored of all threads. It reads every row.
    pub async fn sizes(&self) -> Result<Sizes, CheckpointError> {
        self.read(sizes::all).await
    }

    /// Measures what is stored of one thread.
    pub async fn thread_sizes(&self, thread: &str) -> Result<Sizes, CheckpointError> {
        let thread = thread.to_owned();
        self.read(move |connection| sizes::of_thread(connection, &thread)).await
    }

    async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Failure<CheckpointError>> + Send + 'static,
    ) -> Result<T, CheckpointError> {
        self.database.read(work).await.map_err(|it| self.database.explain(it))
    }

    /// Brings a write into its stored form, before the writer gets it.
    fn ready(&self, write: Write) -> Result<Ready, CodecError> {
        let codec = self.database.codec();
        Ok(match write {
            Write::Put(checkpoint) => Ready::Put(Put::new(codec, *checkpoint)?),
            Write::Record(at, records) => Ready::Record(Records::new(codec, at, &records)?),
        })
    }

    /// Does work that may change any thread.
    async fn commit<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Failure<CheckpointError>> + Send + 'static,
    ) -> Result<T, CheckpointError> {
        let work = |session: &mut Session| {
            session.known.forget();
            work(&session.connection)
        };
        self.database.writer().write(work, false).await.map_err(|it| self.database.explain(it))
    }

    /// Removes one slice after the other, until nothing is left to remove.
    async fn in_slices<F>(&self, slice: impl Fn() -> F) -> Result<Removed, CheckpointError>
    where
        F: FnOnce(&Connection) -> Result<Removed, Failure<CheckpointError>> + Send + 'static,
    {
        let mut removed = Removed::default();
        loop {
            let more = self.commit(slice()).await?;
            if more.checkpoints == 0 {
                return Ok(removed);
            }
            removed.add(more);
        }
    }

    async fn sweep(&self, namespaces: Vec<i64>, gone: Vec<i64>) -> Result<(), CheckpointError> {
        let swept = self.database.sweep(namespaces, gone).await;
        swept.map(|_| ()).map_err(|it| self.database.explain(it))
    }
}

/// How many bytes are written in a moment.
const SMALL: usize = 64 << 10;

/// A write in its stored form.
enum Ready {
    Put(Put),
    Record(Records),
}

impl Ready {
    fn bytes(&self) -> usize {
        match self {
            Self::Put(it) => {
                it.body.len() + it.changes.iter().map(|it| it.encoded.len()).sum::<usize>()
            }
            Self::Record(it) => it.rows.iter().map(|it| it.body.len()).sum(),
        }
    }

    /// Whether it reads nothing: every so often a change takes in those before it.
    fn adds_only(&self, known: &Known) -> bool {
        let put = match self {
            Self::Put(put) => put,
            Self::Record(_) => return true,
        };
        let newest = known.namespace(&put.place).and_then(|it| it.newest);
        let tips = newest.filter(|it| Some(it.id) == put.base).and_then(|it| it.tips);
        tips.is_some_and(|tips| {
            let hook = |new: &NewChange| Hook::of(&new.change, tips.get(&new.field).copied());
            put.changes.iter().all(|it| !matches!(hook(it), Hook::Over { .. }))
        })
    }
}

impl Sqlite {
    pub(super) fn explain(&self, failure: Failure<CheckpointError>) -> CheckpointError {
        failure.into_checkpoint_error(self.path())
    }
}

#[async_trait]
impl Checkpointer for SqliteSaver {
    async fn lease(&self, thread: &str) -> Result<Lease, CheckpointError> {
        let busy = || CheckpointError::Busy { thread: thread.to_owned() };
        let held = Held::new(&self.database, thread).ok_or_else(busy)?;
        let (owner, path) = (self.database.owner_name(), self.database.path().to_owned());
        let (name, token) = (thread.to_owned(), held.token);
        let take = move |session: &mut Session| lease::take(session, &path, &owner, &name, token);
        let taken = self.database.writer().write(take, false).await;
        taken.map_err(|it| self.database.explain(it))?;
        Ok(Lease::new(held))
    }

    async fn put(&self, checkpoint: NewCheckpoint) -> Result<(), CheckpointError> {
        self.write(vec![Write::Put(Box::new(checkpoint))]).await
    }

    async fn record(&self, at: &Place, records: Vec<TaskRecord>) -> Result<(), CheckpointError> {
        self.write(vec![Write::Record(at.clone(), records)]).await
    }

    /// All of them or none, in one commit.
    async fn write(&self, writes: Vec<Write>) -> Result<(), CheckpointError> {
        let codec = self.database.codec().clone();
        let held: BTreeMap<String, i64> = writes
            .iter()
            .filter_map(|it| {
                Some((it.thread().to_owned(), self.database.owner().token(it.thread())?))
            })
            .collect();
        let ready: Result<Vec<_>, _> = writes.into_iter().map(|it| self.ready(it)).collect();
        let ready = ready.map_err(|it| self.database.explain(it.into()))?;
        let is_small = ready.iter().map(Ready::bytes).sum::<usize>() < SMALL;
        let adds_only = |known: &Known| ready.iter().all(|it| it.adds_only(known));
        let takes_a_moment = is_small && self.database.writer().is_known(adds_only) == Some(true);
        let work = move |session: &mut Session| {
            // What this process held and has lost is not its own to write to any more.
            for (thread, token) in held {
                if !lease::holds(session, &thread, token)? {
                    return Err(CheckpointError::LeaseLost { thread }.into());
                }
            }
            ready.into_iter().try_for_each(|write| match write {
                Ready::Put(put) => put.run(session, &codec),
                Ready::Record(records) => Ok(records.run(session)?),
            })
        };
        let done = self.database.writer().write(work, takes_a_moment).await;
        done.map_err(|it| self.database.explain(it))
    }

    async fn get(&self, at: &Lookup) -> Result<Option<Checkpoint>, CheckpointError> {
        let (codec, at) = (self.database.codec().clone(), at.clone());
        self.read(move |connection| read::get(connection, &codec, &at)).await
    }

    async fn list(&self, query: &History) -> Result<Vec<Checkpoint>, CheckpointError> {
        let (codec, query) = (self.database.codec().clone(), query.clone());
        self.read(move |connection| read::list(connection, &codec, &query)).await
    }

    async fn threads(&self) -> Result<Vec<String>, CheckpointError> {
        self.read(|connection| {
            let mut select = connection.prepare_cached(
                "SELECT DISTINCT thread FROM namespace n
                 WHERE EXISTS (SELECT 1 FROM checkpoint c WHERE c.namespace = n.id)
                 ORDER BY thread",
            )?;
            let threads = select.query_map([], |row| row.get(0))?;
            Ok(threads.collect::<Result<_, _>>()?)
        })
        .await
    }

    async fn namespaces(&self, thread: &str) -> Result<Vec<(String, usize)>, CheckpointError> {
        let thread = thread.to_owned();
        self.read(move |connection| {
            let mut select = connection.prepare_cached(
                "SELECT n.name, count(*) FROM namespace n JOIN checkpoint c ON c.namespace = n.id
                 WHERE n.thread = ?1 GROUP BY n.id ORDER BY n.name",
            )?;
            let counted = select.query_map([thread], |row| Ok((row.get(0)?, row.get(1)?)))?;
            Ok(counted.collect::<Result<_, _>>()?)
        })
        .await
    }

    async fn delete_thread(&self, thread: &str) -> Result<(), CheckpointError> {
        let thread = thread.to_owned();
        let removed = self.commit(move |connection| remove::delete_thread(connection, &thread));
        self.sweep(Vec::new(), removed.await?.links).await
    }

    async fn delete_runs(&self, runs: &[String]) -> Result<(), CheckpointError> {
        let runs = runs.to_vec();
        let found = self.read(move |connection| Ok(remove::of_runs(connection, &runs)?)).await?;
        let mut gone = Vec::new();
        for slice in found.chunks(SLICE) {
            let slice = slice.to_vec();
            let removed =
                self.commit(move |connection| remove::remove(connection, slice.into_iter()));
            gone.extend(removed.await?.links);
        }
        let mut namespaces: Vec<i64> = found.into_iter().map(|(namespace, _)| namespace).collect();
        namespaces.dedup();
        self.sweep(namespaces, gone).await
    }

    async fn copy_thread(&self, from: &str, to: &str) -> Result<(), CheckpointError> {
        let (from, to) = (from.to_owned(), to.to_owned());
        self.commit(move |connection| copy::copy_thread(connection, &from, &to)).await
    }

    async fn prune(&self, threads: &[String], keep: Keep) -> Result<Pruned, CheckpointError> {
        let mut pruned = Pruned::default();
        for thread in threads {
            let name = thread.clone();
            let namespaces =
                self.read(move |connection| Ok(remove::namespaces(connection, &name)?)).await?;
            for namespace in namespaces {
                let removed = self
                    .in_slices(|| move |connection| remove::prune(connection, namespace, keep))
                    .await?;
                pruned.checkpoints += removed.checkpoints;
                self.sweep(vec![namespace], removed.links).await?;
            }
            let outlived = self.in_slices(|| {
                let (codec, thread) = (self.database.codec().clone(), thread.clone());
                move |connection| remove::remove_outlived(connection, &codec, &thread)
            });
            let outlived = outlived.await?;
            pruned.checkpoints += outlived.checkpoints;
            self.sweep(Vec::new(), outlived.links).await?;
        }
        Ok(pruned)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use graph_core::checkpoint::{Change, CheckpointId};
    use serde_json::json;

    use super::*;
    use crate::{
        chain::{SPAN, Tip, Tips},
        sqlite::known::{Namespace, Newest},
    };

    /// Then it may be done on a runtime's thread.
    #[test]
    fn a_put_only_adds_unless_it_takes_in_what_was_stored_before() {
        let (base, id) = (CheckpointId::next(), CheckpointId::next());
        let place = Place { thread: "thread".into(), namespace: String::new(), id };
        let put = Ready::Put(Put {
            place: place.clone(),
            expected_head: Some(base),
            base: Some(base),
            made_at: 0,
            run: String::new(),
            body: Vec::new(),
            changes: vec![NewChange {
                field: "list".into(),
                change: Change::Extend(vec![json!(1)]),
                encoded: Vec::new(),
            }],
        });
        let mut known = Known::default();
        assert!(!put.adds_only(&known), "nothing is known of its base");
        for (depth, adds_only) in [(0, true), (SPAN - 2, true), (SPAN - 1, false), (SPAN, true)] {
            let tips = Tips::from([("list".to_owned(), Tip { link: 1, depth })]);
            let newest = Newest { id: base, tips: Some(Arc::new(tips)), records: None };
            known.stands(&place, Namespace { id: 1, newest: Some(newest) });
            assert_eq!(put.adds_only(&known), adds_only, "{depth}");
        }
    }
}
