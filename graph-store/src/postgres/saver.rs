//! The checkpointer on a PostgreSQL server.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use graph_core::checkpoint::{
    Checkpoint, CheckpointError, CheckpointWrite, Checkpointer, HistoryQuery, Keep, Lease, Lookup,
    PruneStats,
};

use super::{
    Postgres, chains::name, failure::Failure, ops::WriteOp, read, remove, sizes, write::Writer,
};
use crate::{error::OpenError, sizes::Sizes};

/// Stores threads on a PostgreSQL server. Clones share the same database.
///
/// ```no_run
/// use graph_core::{START, State, StateGraph};
/// use graph_store::PostgresSaver;
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
/// let url = "postgresql://graphs:secret@db.example.org/graphs";
/// let graph = StateGraph::<Count>::new()
///     .node(increment)
///     .edge(START, increment)
///     .checkpointer(PostgresSaver::connect(url).await?)
///     .compile()?;
/// let state = graph.thread("visits", ()).invoke(Count { value: 41 }).await?;
/// assert_eq!(state.value, 42);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct PostgresSaver {
    database: Postgres,
    writer: Arc<Writer>,
}

impl PostgresSaver {
    /// Connects with the default settings and creates the tables if they are missing.
    pub async fn connect(url: &str) -> Result<Self, OpenError> {
        Ok(Self::new(&Postgres::connect(url).await?))
    }

    /// Creates a saver that stores threads in an open database.
    pub fn new(database: &Postgres) -> Self {
        Self { database: database.clone(), writer: Arc::new(Writer::new()) }
    }

    /// Returns the database in which threads are stored.
    pub fn database(&self) -> &Postgres {
        &self.database
    }

    /// Measures the stored data of the whole database. This reads every row.
    pub async fn sizes(&self) -> Result<Sizes, CheckpointError> {
        self.map_error(sizes::all(&self.database).await)
    }

    /// Measures the stored data of one thread.
    pub async fn thread_sizes(&self, thread: &str) -> Result<Sizes, CheckpointError> {
        self.map_error(sizes::of_thread(&self.database, thread).await)
    }

    fn map_error<T>(
        &self,
        result: Result<T, Failure<CheckpointError>>,
    ) -> Result<T, CheckpointError> {
        result.map_err(|it| self.database.checkpoint_error(it))
    }
}

impl fmt::Debug for PostgresSaver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresSaver").field("database", &self.database).finish_non_exhaustive()
    }
}

impl Postgres {
    pub(super) fn checkpoint_error(&self, failure: Failure<CheckpointError>) -> CheckpointError {
        match failure {
            Failure::Rejected(error) => error,
            Failure::Database(error) => {
                CheckpointError::Storage(Arc::new(self.database_error(error)))
            }
        }
    }
}

#[async_trait]
impl Checkpointer for PostgresSaver {
    async fn lease(&self, thread: &str) -> Result<Lease, CheckpointError> {
        self.map_error(self.database.acquire(thread).await).map(Lease::new)
    }

    async fn evict_lease_holder(&self, thread: &str) -> Result<bool, CheckpointError> {
        self.map_error(self.database.evict(thread).await.map_err(Failure::from))
    }

    /// Stores the writes in one commit. If all of them belong to one namespace, this takes one round trip.
    async fn write(&self, writes: Vec<CheckpointWrite>) -> Result<(), CheckpointError> {
        let codec = self.database.codec();
        let ops: Result<Vec<WriteOp>, _> =
            writes.into_iter().map(|it| WriteOp::new(codec, it)).collect();
        let ops = self.map_error(ops.map_err(Failure::from))?;
        self.map_error(self.writer.write(&self.database, &ops).await)
    }

    async fn get(&self, at: &Lookup) -> Result<Option<Checkpoint>, CheckpointError> {
        self.map_error(read::get(&self.database, &self.writer.tip_cache, at).await)
    }

    async fn list(&self, query: &HistoryQuery) -> Result<Vec<Checkpoint>, CheckpointError> {
        self.map_error(read::list(&self.database, query).await)
    }

    async fn threads(&self) -> Result<Vec<String>, CheckpointError> {
        let select = "SELECT DISTINCT n.thread FROM @.namespace n
                      WHERE EXISTS (SELECT FROM @.checkpoint c WHERE c.namespace = n.id)
                      ORDER BY n.thread";
        let rows = self.database.query(select, &[]).await;
        let rows = self.map_error(rows.map_err(Failure::from))?;
        let threads = rows.iter().map(|row| row.try_get(0).map(name)).collect::<Result<_, _>>();
        self.map_error(threads.map_err(Failure::from))
    }

    async fn namespaces(&self, thread: &str) -> Result<Vec<(String, usize)>, CheckpointError> {
        let select = "SELECT n.name, count(*) FROM @.namespace n
                      JOIN @.checkpoint c ON c.namespace = n.id
                      WHERE n.thread = $1 GROUP BY n.name ORDER BY n.name";
        let rows = self.database.query(select, &[&thread.as_bytes()]).await;
        let rows = self.map_error(rows.map_err(Failure::from))?;
        let counted = rows.iter().map(|row| {
            let count: i64 = row.try_get(1)?;
            Ok((name(row.try_get(0)?), usize::try_from(count).unwrap_or(0)))
        });
        let counted: Result<_, tokio_postgres::Error> = counted.collect();
        self.map_error(counted.map_err(Failure::from))
    }

    async fn delete_thread(&self, thread: &str) -> Result<(), CheckpointError> {
        let delete = "SELECT @.delete_thread($1)";
        let deleted = self.database.query(delete, &[&thread.as_bytes()]).await;
        self.map_error(deleted.map(drop).map_err(Failure::from))
    }

    async fn delete_runs(&self, runs: &[String]) -> Result<(), CheckpointError> {
        self.map_error(remove::delete_runs(&self.database, runs).await)
    }

    async fn copy_thread(&self, from: &str, to: &str) -> Result<(), CheckpointError> {
        self.map_error(remove::copy_thread(&self.database, from, to).await)
    }

    async fn prune(&self, threads: &[String], keep: Keep) -> Result<PruneStats, CheckpointError> {
        let mut pruned = PruneStats::default();
        for thread in threads {
            pruned.checkpoints +=
                self.map_error(remove::prune(&self.database, thread, keep).await)?;
        }
        Ok(pruned)
    }
}
