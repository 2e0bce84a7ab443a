//! Errors of a cluster.

use graph_store::OpenError;

use crate::run_status::RunStatus;

/// Classes of PostgreSQL's error codes whose cause may be temporary: connection, transaction state (a standby that is
/// read-only), rollback, resources, object state, operator intervention, system.
const TRANSIENT: [&str; 7] = ["08", "25", "40", "53", "55", "57", "58"];

/// An operation on a cluster that failed.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// The run does not exist.
    #[error("run `{0}` does not exist")]
    UnknownRun(String),
    /// The id of a run, the name of a thread or the name of a graph is invalid.
    #[error("{what} `{value}` is invalid: it must have 1 to {max} bytes and no control characters")]
    InvalidName {
        /// Kind of the name.
        what: &'static str,
        /// The name, shortened.
        value: String,
        /// Maximum length in bytes.
        max: usize,
    },
    /// The run id belongs to a run with another request.
    #[error(
        "run id `{0}` is already used by a run with another request; use a new id for a new run"
    )]
    IdReused(String),
    /// The run was started with another scheduler, whose workers execute it.
    #[error(
        "run `{run}` was started with the scheduler `{scheduler}`; use a client with this scheduler"
    )]
    OtherScheduler {
        /// Id of the run.
        run: String,
        /// Name of the scheduler.
        scheduler: String,
    },
    /// The run has both an input and a command.
    #[error(
        "run `{0}` has both an input and a command; set fields with `RunCommand::update`, or remove the command"
    )]
    InputAndCommand(String),
    /// The run cannot be resumed in its present status.
    #[error(
        "run `{run}` is {status} and cannot be resumed; only interrupted, stopped and failed runs can"
    )]
    NotResumable {
        /// Id of the run.
        run: String,
        /// Status of the run.
        status: RunStatus,
    },
    /// An answer does not match a pending interrupt.
    #[error("cannot resume run `{run}`: {problem}")]
    InvalidAnswer {
        /// Id of the run.
        run: String,
        /// Description of the mismatch, and how to fix it.
        problem: String,
    },
    /// The run has ended, so it cannot be cancelled.
    #[error("run `{run}` is {status} and cannot be cancelled")]
    NotCancellable {
        /// Id of the run.
        run: String,
        /// Status of the run.
        status: RunStatus,
    },
    /// Two graphs were registered with the same name.
    #[error("graph `{0}` is registered twice; use another name")]
    DuplicateGraph(String),
    /// A node is bound to a pool but can only run on the worker that executes its run.
    #[error(
        "node `{node}` of graph `{graph}` is bound to a pool but cannot run on another worker: it is a subgraph or part \
         of one, or its graph is eager or has untracked fields; remove the pool, or move the node to a graph without these"
    )]
    ImmovableNode {
        /// Name of the graph.
        graph: String,
        /// Path of the node.
        node: String,
    },
    /// The checkpointer is not in the database of the cluster.
    #[error(
        "the cluster database has no checkpoint tables in the schema `{0}`: connect `PostgresSaver` to the database of \
         the `RunStore` before the worker starts, and set its schema with `Worker::checkpoint_schema`"
    )]
    NoCheckpointer(String),
    /// The worker does not serve the version of the graph that the run uses.
    #[error(
        "worker `{worker}` does not serve graph `{graph}`, which run `{run}` uses; start a worker that serves it, or \
         register a version that continues it with `RegisteredGraph::continues`"
    )]
    VersionNotServed {
        /// Id of the run.
        run: String,
        /// Name and version of the graph.
        graph: String,
        /// Id of the worker.
        worker: String,
    },
    /// The tenant of the run has reached its limit.
    #[error("run `{0}` must wait: its tenant has reached its limit of concurrent runs")]
    TenantBusy(String),
    /// The run is queued or executing, so it cannot be deleted.
    #[error(
        "run `{0}` is active and cannot be deleted; cancel it, wait for its end, and try again"
    )]
    ActiveRun(String),
    /// Another run of the thread is executing.
    #[error("run `{run}` must wait: another run of thread `{thread}` is executing")]
    ThreadBusy {
        /// Id of the run.
        run: String,
        /// Name of the thread.
        thread: String,
    },
    /// A newer version of this crate has created the tables.
    #[error(
        "the tables of the cluster have version {found}, but this program supports only versions up to {supported}; \
         update the program"
    )]
    NewerSchema {
        /// Version of the tables.
        found: i64,
        /// Newest version that this program supports.
        supported: i64,
    },
    /// The database cannot be reached, or cannot execute statements at present.
    #[error("the cluster database failed: {0}")]
    Database(String),
    /// The database has rejected a statement. Retrying it does not help.
    #[error("the cluster database rejected a statement: {0}")]
    Rejected(String),
    /// A stored value is invalid.
    #[error("run `{run}` is corrupt in the cluster database: {problem}")]
    Corrupt {
        /// Id of the run.
        run: String,
        /// Description of the invalid data.
        problem: String,
    },
    /// The scheduler did not accept a run.
    #[error("the scheduler {scheduler} failed: {problem}")]
    Scheduler {
        /// Name of the scheduler.
        scheduler: &'static str,
        /// Description of the failure, and how to fix it.
        problem: String,
    },
}

graph_core::readable_debug!(ClusterError);

impl From<OpenError> for ClusterError {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::TooNew { found, supported, .. } => Self::NewerSchema { found, supported },
            other => Self::Database(other.to_string()),
        }
    }
}

impl From<deadpool_postgres::PoolError> for ClusterError {
    fn from(error: deadpool_postgres::PoolError) -> Self {
        match error {
            deadpool_postgres::PoolError::Backend(error) => error.into(),
            other => Self::Database(other.to_string()),
        }
    }
}

impl From<tokio_postgres::Error> for ClusterError {
    fn from(error: tokio_postgres::Error) -> Self {
        // The message of the error itself is only its kind, such as `db error`.
        let cause = std::error::Error::source(&error).map(|it| format!(": {it}"));
        let message = format!("{error}{}", cause.unwrap_or_default());
        match error.code().map(|it| it.code()) {
            Some(code) if !TRANSIENT.contains(&&code[..2]) => Self::Rejected(message),
            _ => Self::Database(message),
        }
    }
}
