//! Selection of checkpoints of a thread's history.

use serde_json::{Map, Value};

use crate::checkpoint::{id::CheckpointId, query::HistoryQuery, stored::Source};

/// Selects checkpoints of a thread: see [`Thread::history`](crate::Thread::history).
///
/// All conditions must hold. To read a long history in pages, set a [`limit`](Self::limit) and continue
/// [`before`](Self::before) the last checkpoint of the page.
///
/// ```
/// use graph_core::{HistoryFilter, MemorySaver, START, State, StateGraph};
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
/// # let graph = StateGraph::<Count>::new().node(increment).edge(START, increment);
/// # let graph = graph.checkpointer(MemorySaver::new()).compile()?;
/// let thread = graph.thread("1", ());
/// thread.invoke(Count::update().value(10)).await?;
/// // The checkpoint from which `increment` ran.
/// let states = thread.history(HistoryFilter::new().next("increment")).await?;
/// assert_eq!((states.len(), states[0].values.value), (1, 10));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct HistoryFilter {
    pub(super) before: Option<CheckpointId>,
    pub(super) source: Option<Source>,
    pub(super) run: Option<String>,
    pub(super) step: Option<i64>,
    pub(super) metadata: Map<String, Value>,
    pub(super) next: Option<String>,
    pub(super) limit: Option<usize>,
}

impl HistoryFilter {
    /// Selects the whole history.
    pub fn new() -> Self {
        Self::default()
    }

    /// Selects only checkpoints older than this one.
    pub fn before(mut self, checkpoint: CheckpointId) -> Self {
        self.before = Some(checkpoint);
        self
    }

    /// Selects only checkpoints with this source.
    pub fn source(mut self, source: Source) -> Self {
        self.source = Some(source);
        self
    }

    /// Selects only checkpoints that this run created.
    pub fn run(mut self, run: impl Into<String>) -> Self {
        self.run = Some(run.into());
        self
    }

    /// Selects only checkpoints of this step.
    pub fn step(mut self, step: i64) -> Self {
        self.step = Some(step);
        self
    }

    /// Selects only checkpoints whose metadata contains this entry.
    pub fn metadata(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.metadata.insert(key.into(), value.into());
        self
    }

    /// Selects only checkpoints at which this node runs next.
    pub fn next(mut self, node: impl Into<String>) -> Self {
        self.next = Some(node.into());
        self
    }

    /// Limits the number of checkpoints.
    pub fn limit(mut self, checkpoints: usize) -> Self {
        self.limit = Some(checkpoints);
        self
    }

    /// Returns the query for the conditions that a checkpointer evaluates, which are all except [`next`](Self::next)
    /// and the limit.
    pub(super) fn query(&self, thread: &str, namespace: &str) -> HistoryQuery {
        HistoryQuery {
            before: self.before,
            source: self.source,
            run: self.run.clone(),
            step: self.step,
            metadata: self.metadata.clone(),
            ..HistoryQuery::new(thread, namespace)
        }
    }
}

impl From<Option<usize>> for HistoryFilter {
    fn from(limit: Option<usize>) -> Self {
        Self { limit, ..Self::default() }
    }
}
