//! The checkpointer on a SQLite file.

use std::{collections::BTreeMap, path::Path};

use async_trait::async_trait;
use graph_core::checkpoint::{
    Checkpoint, CheckpointError, CheckpointWrite, Checkpointer, HistoryQuery, Keep, Lease, Lookup,
    PruneStats,
};
use rusqlite::Connection;

use super::{
    Sqlite, copy,
    failure::Failure,
    lease::{self, LeaseGuard},
    read,
    remove::{self, RemovedCheckpoints},
    sizes,
    sweep::BATCH_ROWS,
    thread_cache::ThreadCache,
    writer::Session,
};
use crate::{
    chain::LinkPlacement,
    codec::CodecError,
    encoded::{EncodedChange, EncodedCheckpoint, EncodedRecords},
    error::OpenError,
    sizes::Sizes,
};

/// Stores threads in a SQLite file. Clones share the same file.
///
/// ```
/// use graph_core::{START, State, StateGraph};
/// use graph_store::SqliteSaver;
///
/// #[derive(State, Clone, Debug, Default)]
/// struct Count {
///     value: u32,
/// }
///
/// async fn increment(count: &Count) -> CountUpdate {
///     Count::update().value(count.value + 1)
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("threads.db");
/// let graph = || StateGraph::<Count>::new().node(increment).edge(START, increment);
/// let first = graph().checkpointer(SqliteSaver::open(&path)?).compile()?;
/// first.thread("visits", ()).invoke(Count { value: 41 }).await?;
/// drop(first);
///
/// // Another process, or this one after a restart, finds the thread in the file.
/// let second = graph().checkpointer(SqliteSaver::open(&path)?).compile()?;
/// let state = second.thread("visits", ()).state().await?.expect("the thread has run");
/// assert_eq!(state.values.value, 42);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct SqliteSaver {
    database: Sqlite,
}

impl SqliteSaver {
    /// Opens a file with the default settings, and creates it if it is missing.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        Ok(Self::new(&Sqlite::open(path)?))
    }

    /// Creates a saver that stores threads in an open database.
    pub fn new(database: &Sqlite) -> Self {
        Self { database: database.clone() }
    }

    /// Returns the database in which threads are stored.
    pub fn database(&self) -> &Sqlite {
        &self.database
    }

    /// Measures the stored data of the whole database. This reads every row.
    pub async fn sizes(&self) -> Result<Sizes, CheckpointError> {
        self.read(sizes::all).await
    }

    /// Measures the stored data of one thread.
    pub async fn thread_sizes(&self, thread: &str) -> Result<Sizes, CheckpointError> {
        let thread = thread.to_owned();
        self.read(move |connection| sizes::of_thread(connection, &thread)).await
    }

    async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Failure<CheckpointError>> + Send + 'static,
    ) -> Result<T, CheckpointError> {
        self.database.read(work).await.map_err(|it| self.database.checkpoint_error(it))
    }

    /// Encodes a write before it is passed to the writer.
    fn encode_write(&self, write: CheckpointWrite) -> Result<EncodedWrite, CodecError> {
        let codec = self.database.codec();
        Ok(match write {
            CheckpointWrite::Put(checkpoint) => {
                EncodedWrite::Put(EncodedCheckpoint::new(codec, *checkpoint)?)
            }
            CheckpointWrite::Record(at, records) => {
                EncodedWrite::Record(EncodedRecords::new(codec, at, &records)?)
            }
        })
    }

    /// Commits work that may change any thread.
    async fn commit<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Failure<CheckpointError>> + Send + 'static,
    ) -> Result<T, CheckpointError> {
        let work = |session: &mut Session| {
            session.cache.clear();
            work(&session.connection)
        };
        self.database
            .writer()
            .write(work, false)
            .await
            .map_err(|it| self.database.checkpoint_error(it))
    }

    /// Removes one batch after the other, until nothing is left to remove.
    async fn in_batches<F>(
        &self,
        slice: impl Fn() -> F,
    ) -> Result<RemovedCheckpoints, CheckpointError>
    where
        F: FnOnce(&Connection) -> Result<RemovedCheckpoints, Failure<CheckpointError>>
            + Send
            + 'static,
    {
        let mut removed = RemovedCheckpoints::default();
        loop {
            let more = self.commit(slice()).await?;
            if more.checkpoints == 0 {
                return Ok(removed);
            }
            removed.add(more);
        }
    }

    async fn sweep(
        &self,
        namespaces: Vec<i64>,
        removed_tips: Vec<i64>,
    ) -> Result<(), CheckpointError> {
        let swept = self.database.sweep(namespaces, removed_tips).await;
        swept.map(|_| ()).map_err(|it| self.database.checkpoint_error(it))
    }
}

/// Maximum size of a write that may be committed on the calling OS thread, in bytes.
const INLINE_WRITE_BYTES: usize = 64 << 10;

/// An encoded checkpoint or encoded task records.
enum EncodedWrite {
    Put(EncodedCheckpoint),
    Record(EncodedRecords),
}

impl EncodedWrite {
    fn bytes(&self) -> usize {
        match self {
            Self::Put(it) => {
                it.body.len() + it.changes.iter().map(|it| it.encoded.len()).sum::<usize>()
            }
            Self::Record(it) => it.rows.iter().map(|it| it.body.len()).sum(),
        }
    }

    /// Returns whether the write can be stored without reading from the database. A change that compacts its chain
    /// reads the previous links.
    fn only_appends(&self, cache: &ThreadCache) -> bool {
        let put = match self {
            Self::Put(put) => put,
            Self::Record(_) => return true,
        };
        let newest = cache.namespace(&put.key).and_then(|it| it.newest);
        let tips = newest.filter(|it| Some(it.id) == put.base).and_then(|it| it.tips);
        tips.is_some_and(|tips| {
            let placement =
                |new: &EncodedChange| LinkPlacement::of(&new.change, tips.get(&new.field).copied());
            put.changes.iter().all(|it| !matches!(placement(it), LinkPlacement::Compact { .. }))
        })
    }
}

impl Sqlite {
    pub(super) fn checkpoint_error(&self, failure: Failure<CheckpointError>) -> CheckpointError {
        failure.into_checkpoint_error(self.path())
    }
}

#[async_trait]
impl Checkpointer for SqliteSaver {
    async fn lease(&self, thread: &str) -> Result<Lease, CheckpointError> {
        let busy = || CheckpointError::Busy { thread: thread.to_owned() };
        let guard = LeaseGuard::claim(&self.database, thread).ok_or_else(busy)?;
        let (owner, path) =
            (self.database.owner().name().to_owned(), self.database.path().to_owned());
        let (name, token) = (thread.to_owned(), guard.token);
        let acquire =
            move |session: &mut Session| lease::acquire(session, &path, &owner, &name, token);
        let acquired = self.database.writer().write(acquire, false).await;
        acquired.map_err(|it| self.database.checkpoint_error(it))?;
        Ok(Lease::new(guard))
    }

    /// Stores all writes or none, in one commit.
    async fn write(&self, writes: Vec<CheckpointWrite>) -> Result<(), CheckpointError> {
        let codec = self.database.codec().clone();
        let tokens: BTreeMap<String, i64> = writes
            .iter()
            .filter_map(|it| {
                Some((it.thread().to_owned(), self.database.owner().token(it.thread())?))
            })
            .collect();
        let encoded: Result<Vec<_>, _> =
            writes.into_iter().map(|it| self.encode_write(it)).collect();
        let encoded = encoded.map_err(|it| self.database.checkpoint_error(it.into()))?;
        let is_small = encoded.iter().map(EncodedWrite::bytes).sum::<usize>() < INLINE_WRITE_BYTES;
        let only_appends = |cache: &ThreadCache| encoded.iter().all(|it| it.only_appends(cache));
        let may_commit_inline =
            is_small && self.database.writer().inspect_cache(only_appends) == Some(true);
        let work = move |session: &mut Session| {
            // A process that has lost its lease must no longer write to the thread.
            for (thread, token) in tokens {
                if !lease::is_current(session, &thread, token)? {
                    return Err(CheckpointError::LeaseLost { thread }.into());
                }
            }
            encoded.into_iter().try_for_each(|write| match write {
                EncodedWrite::Put(put) => put.store(session, &codec),
                EncodedWrite::Record(records) => Ok(records.store(session)?),
            })
        };
        let done = self.database.writer().write(work, may_commit_inline).await;
        done.map_err(|it| self.database.checkpoint_error(it))
    }

    async fn get(&self, at: &Lookup) -> Result<Option<Checkpoint>, CheckpointError> {
        let (codec, at) = (self.database.codec().clone(), at.clone());
        self.read(move |connection| read::get(connection, &codec, &at)).await
    }

    async fn list(&self, query: &HistoryQuery) -> Result<Vec<Checkpoint>, CheckpointError> {
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
        let found = self
            .read(move |connection| Ok(remove::checkpoints_of_runs(connection, &runs)?))
            .await?;
        let mut removed_tips = Vec::new();
        for slice in found.chunks(BATCH_ROWS) {
            let slice = slice.to_vec();
            let removed =
                self.commit(move |connection| remove::remove(connection, slice.into_iter()));
            removed_tips.extend(removed.await?.links);
        }
        let mut namespaces: Vec<i64> = found.into_iter().map(|(namespace, _)| namespace).collect();
        namespaces.dedup();
        self.sweep(namespaces, removed_tips).await
    }

    async fn copy_thread(&self, from: &str, to: &str) -> Result<(), CheckpointError> {
        let (from, to) = (from.to_owned(), to.to_owned());
        self.commit(move |connection| copy::copy_thread(connection, &from, &to)).await
    }

    async fn prune(&self, threads: &[String], keep: Keep) -> Result<PruneStats, CheckpointError> {
        let mut pruned = PruneStats::default();
        for thread in threads {
            let name = thread.clone();
            let namespaces =
                self.read(move |connection| Ok(remove::namespaces(connection, &name)?)).await?;
            for namespace in namespaces {
                let removed = self
                    .in_batches(|| move |connection| remove::prune(connection, namespace, keep))
                    .await?;
                pruned.checkpoints += removed.checkpoints;
                self.sweep(vec![namespace], removed.links).await?;
            }
            let orphaned = self.in_batches(|| {
                let (codec, thread) = (self.database.codec().clone(), thread.clone());
                move |connection| remove::remove_orphaned_subgraphs(connection, &codec, &thread)
            });
            let orphaned = orphaned.await?;
            pruned.checkpoints += orphaned.checkpoints;
            self.sweep(Vec::new(), orphaned.links).await?;
        }
        Ok(pruned)
    }
}

#[cfg(test)]
mod tests;
