//! Options of a worker.

use std::{collections::BTreeSet, fmt, sync::Arc, time::Duration};

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
    pub(crate) trace_parent: Option<TraceParent>,
}

/// Makes a stored trace context the parent of a span.
#[derive(Clone)]
pub(crate) struct TraceParent(pub(crate) Arc<dyn Fn(&tracing::Span, &str) + Send + Sync>);

impl fmt::Debug for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TraceParent")
    }
}

impl WorkerOptions {
    /// Makes the trace context of a caller the parent of a span, if both are known.
    pub(crate) fn set_parent(&self, span: &tracing::Span, trace_parent: Option<&str>) {
        if let (Some(TraceParent(set_parent)), Some(parent)) = (&self.trace_parent, trace_parent) {
            set_parent(span, parent);
        }
    }
}

impl Default for WorkerOptions {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(10),
            checkpoint_schema: "graph_store".to_owned(),
            task_capacity: 32,
            fan_out: FanOutRules { min_tasks: Some(32), pools: BTreeSet::new() },
            trace_parent: None,
        }
    }
}
