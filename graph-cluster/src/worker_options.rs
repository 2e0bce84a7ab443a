//! Options of a worker.

use std::{collections::BTreeSet, time::Duration};

use crate::fan_out::FanOutRules;

/// Options of a worker that its legs and tasks use.
#[derive(Clone, Debug)]
pub(crate) struct WorkerOptions {
    /// Time after which another worker claims a run or a task if this worker does not report.
    pub(crate) lease: Duration,
    /// Schema of the checkpointer's tables.
    pub(crate) checkpoint_schema: String,
    /// Maximum number of tasks that the worker executes concurrently for runs of any worker.
    pub(crate) task_capacity: usize,
    pub(crate) fan_out: FanOutRules,
}

impl Default for WorkerOptions {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(10),
            checkpoint_schema: "graph_store".to_owned(),
            task_capacity: 32,
            fan_out: FanOutRules { min_tasks: Some(32), pools: BTreeSet::new() },
        }
    }
}
