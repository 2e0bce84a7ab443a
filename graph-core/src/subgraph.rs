//! Subgraphs: compiled graphs that are nodes of other graphs or that run from within a node.

mod same_state;

use std::{fmt, marker::PhantomData, sync::Arc};

use serde_json::Value;

use crate::{
    command::route::DeclaredTargets,
    context::{Context, task::TaskContext},
    engine::{input::RunInput, outcome::GraphOutcome, start},
    error::{Cause, Halt, NodeError, RunError},
    graph::{
        compiled::CompiledGraph,
        endpoint::{Source, Target},
        erased::Subgraph,
        into_node::{IntoNode, NodeParts, NodeShape},
    },
    label::Label,
    namespace::Persistence,
    node::{
        erased::{BoxFuture, ErasedNode, NodeBody, Private, TaskInput},
        function::PayloadType,
        options::NodeOptions,
        output::NodeOutput,
    },
    remote::{self, graph::RemoteGraph},
    run::{future::RunFuture, input::IntoInput},
    state::{
        State,
        erased::{AnyState, downcast_state},
    },
};

/// Creates a node that runs a graph with an input derived from the state.
///
/// `input` converts the parent's state into the input of the subgraph, and `output` converts the final state of the
/// subgraph into an update of the parent's state. A graph with the same state type as its parent needs neither: add a
/// reference to the compiled graph with [`StateGraph::node`](crate::StateGraph::node) or
/// [`node_as`](crate::StateGraph::node_as).
///
/// ```
/// use graph_core::{START, State, StateGraph, subgraph};
///
/// #[derive(State, Clone, Debug, Default)]
/// struct Essay {
///     topic: String,
///     text: String,
/// }
///
/// #[derive(State, Clone, Debug, Default)]
/// struct Draft {
///     title: String,
///     #[reduce(append)]
///     lines: Vec<String>,
/// }
///
/// async fn line(draft: &Draft) -> DraftUpdate {
///     Draft::update().lines([format!("All about {}.", draft.title)])
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let drafting = StateGraph::<Draft>::new().node(line).edge(START, line).compile()?;
/// let write = subgraph(
///     "write",
///     &drafting,
///     |essay: &Essay| Draft { title: essay.topic.clone(), ..Default::default() },
///     |draft: Draft| Essay::update().text(draft.lines.join("\n")),
/// );
/// let graph = StateGraph::<Essay>::new().node(&write).edge(START, &write).compile()?;
/// let essay = graph.invoke(Essay { topic: "rust".into(), ..Default::default() }, ()).await?;
/// assert_eq!(essay.text, "All about rust.");
/// # Ok(()) }
/// ```
pub fn subgraph<S, G, C, I>(
    name: impl Into<String>,
    graph: &G,
    input: impl Fn(&S) -> I + Send + Sync + 'static,
    output: impl Fn(G::State) -> S::Update + Send + Sync + 'static,
) -> SubgraphNode<S, C>
where
    S: State,
    G: SubgraphSource<C>,
    C: Send + Sync + 'static,
    I: IntoInput<G::State>,
{
    let input = move |task: TaskInput, cx: &TaskContext| {
        let state = task.state::<S>(cx.node())?;
        Ok(input(&state).into_input().erase())
    };
    let input_json = |task: &TaskInput, _: &TaskContext| task.to_json::<S>();
    let (inner, output) = (graph.subgraph(Private(())), output_from_state::<S, G::State>(output));
    SubgraphNode::erased(name.into(), inner, input, output, input_json)
}

/// Creates a node that runs a graph with an input derived from a payload.
///
/// `input` converts the payload into the input of the subgraph, and `output` converts the final state of the subgraph
/// into an update of the parent's state.
///
/// ```
/// use graph_core::{Goto, START, State, StateGraph, subgraph_on_payload};
///
/// #[derive(State, Clone, Debug, Default)]
/// struct Draft {
///     title: String,
///     text: String,
/// }
///
/// async fn write(draft: &Draft) -> DraftUpdate {
///     Draft::update().text(format!("On {}", draft.title))
/// }
///
/// #[derive(State, Clone, Debug, Default)]
/// struct Essay {
///     #[reduce(append)]
///     parts: Vec<String>,
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let draft = StateGraph::<Draft>::new().node(write).edge(START, write).compile()?;
/// let section = subgraph_on_payload(
///     "section",
///     &draft,
///     |title: String| Draft { title, ..Default::default() },
///     |draft| Essay::update().parts([draft.text]),
/// );
/// let graph = StateGraph::<Essay>::new()
///     .node(section)
///     .branch(START, |_: &Essay| ["tea", "milk"].map(|it| Goto::send("section", it.into())).to_vec())
///     .compile()?;
/// assert_eq!(graph.invoke(Essay::default(), ()).await?.parts, ["On tea", "On milk"]);
/// # Ok(()) }
/// ```
pub fn subgraph_on_payload<S, G, C, P, I>(
    name: impl Into<String>,
    graph: &G,
    input: impl Fn(P) -> I + Send + Sync + 'static,
    output: impl Fn(G::State) -> S::Update + Send + Sync + 'static,
) -> SubgraphNode<S, C>
where
    S: State,
    G: SubgraphSource<C>,
    C: Send + Sync + 'static,
    P: PayloadType,
    I: IntoInput<G::State>,
{
    let input = move |task: TaskInput, cx: &TaskContext| {
        Ok(input(task.payload::<P>(cx.node())?).into_input().erase())
    };
    let input_json = |task: &TaskInput, _: &TaskContext| task.payload_json();
    let (inner, output) = (graph.subgraph(Private(())), output_from_state::<S, G::State>(output));
    SubgraphNode::erased(name.into(), inner, input, output, input_json)
}

/// A graph that can be a subgraph: a [`CompiledGraph`], or a [`RemoteGraph`] that runs in another process.
///
/// `C` is the type of the dependencies of the parent's run.
pub trait SubgraphSource<C> {
    /// The state of the graph.
    type State: State;

    #[doc(hidden)]
    fn subgraph(&self, _: Private) -> Subgraph;
}

impl<S: State, C: Send + Sync + 'static> SubgraphSource<C> for CompiledGraph<S, C> {
    type State = S;

    fn subgraph(&self, _: Private) -> Subgraph {
        let graph = self.erased().clone();
        Subgraph::local(graph, Persistence::Invocation)
    }
}

impl<S: State, C> SubgraphSource<C> for RemoteGraph<S> {
    type State = S;

    fn subgraph(&self, _: Private) -> Subgraph {
        Subgraph {
            remote: Some(self.runner.clone()),
            runs_in: Some(self.runner.runs_in().to_owned()),
            ..Subgraph::local(self.graph.clone(), Persistence::Invocation)
        }
    }
}

fn output_from_state<S: State, S2: State>(
    output: impl Fn(S2) -> S::Update,
) -> impl Fn(AnyState, &TaskContext) -> Result<NodeOutput, NodeError> {
    move |state, _| Ok(NodeOutput::update::<S>(output(downcast_state(state))))
}

/// A node that runs a graph: see [`subgraph`]. Edges refer to the node by a reference to this value.
pub struct SubgraphNode<S, C> {
    name: Label,
    body: Body,
    types: PhantomData<fn(S, C)>,
}

impl<S, C> Clone for SubgraphNode<S, C> {
    fn clone(&self) -> Self {
        Self { name: self.name.clone(), body: self.body.clone(), types: PhantomData }
    }
}

#[derive(Clone)]
struct Body {
    inner: Subgraph,
    input: Arc<dyn Fn(TaskInput, &TaskContext) -> Result<RunInput, NodeError> + Send + Sync>,
    output: Arc<dyn Fn(AnyState, &TaskContext) -> Result<NodeOutput, NodeError> + Send + Sync>,
    input_json: Arc<dyn Fn(&TaskInput, &TaskContext) -> Option<Value> + Send + Sync>,
}

impl<S: State, C: Send + Sync + 'static> SubgraphNode<S, C> {
    pub(crate) fn erased(
        name: String,
        inner: Subgraph,
        input: impl Fn(TaskInput, &TaskContext) -> Result<RunInput, NodeError> + Send + Sync + 'static,
        output: impl Fn(AnyState, &TaskContext) -> Result<NodeOutput, NodeError> + Send + Sync + 'static,
        input_json: impl Fn(&TaskInput, &TaskContext) -> Option<Value> + Send + Sync + 'static,
    ) -> Self {
        let body = Body {
            inner,
            input: Arc::new(input),
            output: Arc::new(output),
            input_json: Arc::new(input_json),
        };
        Self { name: Label::from(name), body, types: PhantomData }
    }

    /// Sets how the state of the subgraph is persisted.
    #[must_use]
    pub fn persistence(mut self, persistence: Persistence) -> Self {
        self.body.inner.persistence = persistence;
        self
    }
}

impl<S, C> fmt::Debug for SubgraphNode<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SubgraphNode").field("name", &self.name).finish_non_exhaustive()
    }
}

#[doc(hidden)]
#[derive(Debug)]
pub struct IsSubgraph;

#[diagnostic::do_not_recommend]
impl<S: State, C> NodeShape<S, C, IsSubgraph> for SubgraphNode<S, C> {
    type Checked = Self;
}

#[diagnostic::do_not_recommend]
impl<S: State, C> IntoNode<S, C, IsSubgraph> for SubgraphNode<S, C> {
    type Input = S;

    fn into_node(self, _: Private) -> NodeParts {
        NodeParts {
            label: Some(self.name),
            subgraph: Some(self.body.inner.clone()),
            body: NodeBody(Arc::new(self.body)),
            targets: DeclaredTargets::default(),
            options: NodeOptions::default(),
        }
    }
}

#[diagnostic::do_not_recommend]
impl<S: State, C> NodeShape<S, C, IsSubgraph> for &SubgraphNode<S, C> {
    type Checked = Self;
}

#[diagnostic::do_not_recommend]
impl<S: State, C> IntoNode<S, C, IsSubgraph> for &SubgraphNode<S, C> {
    type Input = S;

    fn into_node(self, private: Private) -> NodeParts {
        self.clone().into_node(private)
    }
}

#[diagnostic::do_not_recommend]
impl<S: State, C> Source<S, C, IsSubgraph> for &SubgraphNode<S, C> {
    fn source(self) -> Label {
        self.name.clone()
    }
}

#[diagnostic::do_not_recommend]
impl<S: State, C> Target<S, C, IsSubgraph> for &SubgraphNode<S, C> {
    fn target(self) -> Label {
        self.name.clone()
    }
}

impl ErasedNode for Body {
    fn call(
        &self,
        input: TaskInput,
        cx: &Arc<TaskContext>,
    ) -> BoxFuture<Result<NodeOutput, NodeError>> {
        let (body, cx) = (self.clone(), cx.clone());
        Box::pin(async move {
            let input = (body.input)(input, &cx)?;
            let outcome = run_nested(&cx, &body.inner, input).await?;
            // A subgraph that wrote no output field does not update the parent.
            if outcome.has_output {
                (body.output)(outcome.state, &cx)
            } else {
                Ok(NodeOutput::default())
            }
        })
    }

    fn input_json(&self, input: &TaskInput, cx: &TaskContext) -> Option<Value> {
        (self.input_json)(input, cx)
    }
}

impl<C: Send + Sync + 'static> Context<C> {
    /// Runs another graph as a subgraph of this run, with its own namespace and history.
    ///
    /// Drawings show the subgraph if the node declares it: see [`runs_graph`](crate::runs_graph()).
    ///
    /// The subgraph's interrupts and failures are returned as errors, which the node must propagate with `?`. When the
    /// node runs again, the subgraph resumes from its last checkpoint. Returns `None` if no output field was written.
    pub fn run_graph<G: SubgraphSource<C>>(
        &self,
        graph: &G,
        persistence: Persistence,
        input: impl IntoInput<G::State>,
    ) -> RunFuture<'_, Option<G::State>, NodeError> {
        let inner = Subgraph { persistence, ..graph.subgraph(Private(())) };
        let input = input.into_input().erase();
        Box::pin(async move {
            let outcome = run_nested(&self.task, &inner, input).await?;
            Ok(outcome.has_output.then(|| downcast_state(outcome.state)))
        })
    }
}

/// Runs a graph as a subgraph within a task.
async fn run_nested(
    task: &Arc<TaskContext>,
    inner: &Subgraph,
    input: RunInput,
) -> Result<GraphOutcome, NodeError> {
    if let Some(host) = &task.scope.host {
        return Err(host.leave_to_host(task.node()));
    }
    task.wait_for_step().await;
    // The second and later subgraphs of a task get a number, which keeps their namespaces distinct.
    let suffix = match task.next_subgraph() {
        0 => String::new(),
        nth => format!("|{nth}"),
    };
    let namespace = inner.persistence.namespace(task.namespace()) + &suffix;
    let outcome = match &inner.remote {
        Some(runner) => remote::host::run(task, inner, runner, namespace, input).await?,
        // Boxed, because the engine's future is recursive: it runs nodes that run the engine.
        None => {
            let run = Box::pin(start::run_nested(task.clone(), inner.clone(), namespace, input));
            run.await.map_err(node_error)?
        }
    };
    match outcome.halt {
        None => Ok(outcome),
        Some(Halt::ParentCommand(command)) => {
            Err(NodeError::from_cause(Cause::DeliveredCommand(command)))
        }
        Some(Halt::Interrupted(interrupts)) => Err(task.raise_interrupts(interrupts)),
        Some(halt) => Err(NodeError::halted(halt)),
    }
}

/// Converts the failure of a subgraph into the failure of the node that runs it.
fn node_error(error: RunError) -> NodeError {
    match error {
        RunError::Node { error, terminal, .. } => {
            NodeError::from_cause(Cause::Failed { source: error, terminal })
        }
        error => NodeError::terminal(error),
    }
}
