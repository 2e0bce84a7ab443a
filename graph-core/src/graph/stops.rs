//! Static stops: nodes before or after which a run always stops.

use crate::label::Label;

/// The nodes before or after which a run stops.
///
/// ```
/// use graph_core::{MemorySaver, RunOptions, State, StateGraph, Stops};
///
/// #[derive(State, Clone, Debug, Default)]
/// struct Plan {
///     done: bool,
/// }
///
/// async fn plan(_: &Plan) {}
///
/// async fn act(_: &Plan) -> PlanUpdate {
///     Plan::update().done(true)
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let graph = StateGraph::<Plan>::new()
///     .node(plan)
///     .node(act)
///     .sequence((plan, act))
///     .checkpointer(MemorySaver::new())
///     .compile()?;
/// let options = RunOptions::new().stop_before(Stops::at(["act"]));
/// let thread = graph.thread("plan", ()).with_options(options);
/// assert!(!thread.run(Plan::default()).await?.state().done);
/// assert!(thread.proceed().await?.state().done);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Stops {
    /// No nodes.
    #[default]
    None,
    /// The named nodes.
    At(Vec<Label>),
    /// All nodes.
    All,
}

impl Stops {
    /// Returns [`Stops::At`] with the named nodes.
    pub fn at<L: Into<Label>>(nodes: impl IntoIterator<Item = L>) -> Self {
        Self::At(nodes.into_iter().map(Into::into).collect())
    }

    pub(crate) fn contains(&self, node: &Label) -> bool {
        match self {
            Self::None => false,
            Self::At(nodes) => nodes.contains(node),
            Self::All => true,
        }
    }
}
