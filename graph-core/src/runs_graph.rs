//! Nodes that declare the graph which they run.

use std::marker::PhantomData;

use crate::{
    graph::{
        compiled::CompiledGraph,
        erased::Subgraph,
        into_node::{IntoNode, NodeParts, NodeShape},
    },
    namespace::Persistence,
    node::erased::Private,
    state::State,
};

/// Declares that a node runs a graph itself, with [`Context::run_graph`](crate::Context::run_graph).
///
/// Drawings, fingerprints and [`Thread::state_with_subgraphs`](crate::Thread::state_with_subgraphs) then contain the
/// graph, as if the node were a [`subgraph`](crate::subgraph()). The declaration does not affect what the node does. It
/// applies to graphs that the node runs with [`Persistence::Invocation`]. Do not declare a graph for a node that runs
/// different graphs, because the engine would read the checkpoints of the other graphs as those of the declared graph.
/// If a task runs the graph several times, the thread's state contains the first run, and
/// [`Thread::subgraph`](crate::Thread::subgraph) finds the others by the number after their namespace: `node:task|1` is
/// the second run.
///
/// The engine treats the node like a subgraph in all other respects too:
/// - In an eager graph, the node does not run ahead of its step: see [`StateGraph::eager`](crate::StateGraph::eager).
/// - Its tasks cannot run in another process: see [`RunOptions::task_runner`](crate::RunOptions::task_runner).
/// - The targets that the nodes of the graph declare for commands to their parent are targets of the node.
///
/// ```
/// use graph_core::{Context, NodeError, Persistence, START, State, StateGraph, runs_graph};
///
/// #[derive(State, Clone, Debug, Default)]
/// struct Draft {
///     text: String,
/// }
///
/// async fn write(_: &Draft) -> DraftUpdate {
///     Draft::update().text("All about tea.")
/// }
///
/// #[derive(State, Clone, Debug, Default)]
/// struct Essay {
///     text: String,
/// }
///
/// fn drafting() -> Result<graph_core::CompiledGraph<Draft>, graph_core::BuildError> {
///     StateGraph::<Draft>::new().node(write).edge(START, write).compile()
/// }
///
/// // Runs the graph only if there is something to do, which a node made with `subgraph` cannot decide.
/// async fn draft(essay: &Essay, cx: &Context<()>) -> Result<EssayUpdate, NodeError> {
///     if !essay.text.is_empty() {
///         return Ok(Essay::update());
///     }
///     let draft = cx.run_graph(&drafting()?, Persistence::Invocation, Draft::default()).await?;
///     Ok(Essay::update().text(draft.unwrap_or_default().text))
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let graph = StateGraph::<Essay>::new().node(runs_graph(draft, &drafting()?)).edge(START, draft).compile()?;
/// assert!(graph.mermaid_expanded(1).contains("write"));
/// # Ok(()) }
/// ```
pub fn runs_graph<N, S: State, C: Send + Sync + 'static>(
    node: N,
    graph: &CompiledGraph<S, C>,
) -> RunsGraph<N> {
    let inner = Subgraph::local(graph.erased().clone(), Persistence::Invocation);
    RunsGraph { node, inner: Subgraph { may_repeat: true, ..inner } }
}

/// A node that declares the graph which it runs: see [`runs_graph`].
#[derive(Clone, Debug)]
pub struct RunsGraph<N> {
    node: N,
    inner: Subgraph,
}

impl<N> RunsGraph<N> {
    /// Sets where the graph runs, as a noun for drawings, such as `sandbox`. The default is the process of the parent.
    #[must_use]
    pub fn runs_in(mut self, place: impl Into<String>) -> Self {
        self.inner.runs_in = Some(place.into());
        self
    }
}

#[doc(hidden)]
#[derive(Debug)]
pub struct IsRunsGraph<M>(PhantomData<M>);

#[diagnostic::do_not_recommend]
impl<N, S, C, M> NodeShape<S, C, IsRunsGraph<M>> for RunsGraph<N>
where
    N: NodeShape<S, C, M>,
    S: State,
{
    type Checked = Self;
}

#[diagnostic::do_not_recommend]
impl<N, S, C, M> IntoNode<S, C, IsRunsGraph<M>> for RunsGraph<N>
where
    N: IntoNode<S, C, M>,
    S: State,
{
    type Input = N::Input;

    fn into_node(self, private: Private) -> NodeParts {
        NodeParts { subgraph: Some(self.inner), ..self.node.into_node(private) }
    }
}
