//! Subgraphs: a compiled graph as a node of another, or called from within a node.

use std::{fmt, marker::PhantomData, sync::Arc};

use serde_json::Value;

use crate::{
    CompiledGraph, Input, NodeError, RunError, State,
    context::TaskContext,
    engine::{self, Ended, Finished, RunInput},
    graph::Graph,
    label::Label,
    node::{
        BoxFuture, ErasedNode, InputError, NodeBody, Outcome, PayloadType, Private, Subgraph,
        TaskInput,
        options::{IntoNode, NodeOptions, NodeParts},
    },
    state::{erased::AnyState, state_json},
};

/// What a subgraph keeps of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Persistence {
    /// Its own history for each visit: it starts empty every time, and goes on where it stood when the visit
    /// was interrupted or failed.
    #[default]
    Visit,
    /// One history for the thread: its state stays from visit to visit.
    Thread,
    /// Nothing: after an interrupt it starts over, so it can ask one question at the most.
    Nothing,
}

/// A graph as a node: `input` makes the child's input from the parent's state, `output` the parent's update from
/// the child's final state.
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
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let drafting = StateGraph::<Draft>::new().node(line).edge(START, line).compile()?;
/// let write = subgraph(
///     "write",
///     &drafting,
///     |essay: &Essay| Draft { title: essay.topic.clone(), ..Default::default() },
///     |draft: Draft| Essay::update().text(draft.lines.join("\n")),
/// );
/// let graph = StateGraph::<Essay>::new().node(write).edge(START, "write").compile()?;
/// let essay = graph.run(Essay { topic: "rust".into(), ..Default::default() }, ()).await?;
/// assert_eq!(essay.text, "All about rust.");
/// # Ok(())
/// # }
/// ```
pub fn subgraph<S, S2, C, I>(
    name: impl Into<String>,
    graph: &CompiledGraph<S2, C>,
    input: impl Fn(&S) -> I + Send + Sync + 'static,
    output: impl Fn(S2) -> S::Update + Send + Sync + 'static,
) -> SubgraphNode<S, C>
where
    S: State,
    S2: State,
    C: Send + Sync + 'static,
    I: Into<Input<S2>>,
{
    let input = move |task: TaskInput, cx: &TaskContext| {
        let state = task.state::<S>(cx.node())?;
        Ok(input(&state).into().erase())
    };
    let describe = |task: &TaskInput, _: &TaskContext| match task {
        TaskInput::State(state) => state_json(state.downcast_ref::<S>()?, |_| true).ok(),
        TaskInput::Payload(payload) => payload.to_json().ok(),
    };
    SubgraphNode::erased(name.into(), graph, input, returning::<S, S2>(output), describe)
}

/// A graph as a node that is sent payloads: `input` makes the child's input from the payload.
pub fn subgraph_on<S, S2, C, P, I>(
    name: impl Into<String>,
    graph: &CompiledGraph<S2, C>,
    input: impl Fn(P) -> I + Send + Sync + 'static,
    output: impl Fn(S2) -> S::Update + Send + Sync + 'static,
) -> SubgraphNode<S, C>
where
    S: State,
    S2: State,
    C: Send + Sync + 'static,
    P: PayloadType,
    I: Into<Input<S2>>,
{
    let input = move |task: TaskInput, cx: &TaskContext| match task {
        TaskInput::Payload(payload) => match payload.take::<P>() {
            Ok(payload) => Ok(input(payload).into().erase()),
            Err(error) => Err(NodeError::terminal(InputError::BadPayload {
                node: cx.node().to_owned(),
                problem: error.to_string(),
            })),
        },
        TaskInput::State(_) => {
            Err(NodeError::terminal(InputError::WantsPayload { node: cx.node().to_owned() }))
        }
    };
    let describe = |task: &TaskInput, _: &TaskContext| match task {
        TaskInput::Payload(payload) => payload.to_json().ok(),
        TaskInput::State(_) => None,
    };
    SubgraphNode::erased(name.into(), graph, input, returning::<S, S2>(output), describe)
}

fn returning<S: State, S2: State>(
    output: impl Fn(S2) -> S::Update,
) -> impl Fn(AnyState, &TaskContext) -> Result<Outcome, NodeError> {
    move |state, _| Ok(Outcome::update::<S>(output(downcast(state))))
}

/// A graph as a node: see [`subgraph`].
pub struct SubgraphNode<S, C> {
    name: Label,
    body: Body,
    types: PhantomData<fn(S, C)>,
}

#[derive(Clone)]
struct Body {
    graph: Arc<Graph>,
    persistence: Persistence,
    input: Arc<dyn Fn(TaskInput, &TaskContext) -> Result<RunInput, NodeError> + Send + Sync>,
    output: Arc<dyn Fn(AnyState, &TaskContext) -> Result<Outcome, NodeError> + Send + Sync>,
    describe: Arc<dyn Fn(&TaskInput, &TaskContext) -> Option<Value> + Send + Sync>,
}

impl<S: State, C: Send + Sync + 'static> SubgraphNode<S, C> {
    pub(crate) fn erased<S2: State>(
        name: String,
        graph: &CompiledGraph<S2, C>,
        input: impl Fn(TaskInput, &TaskContext) -> Result<RunInput, NodeError> + Send + Sync + 'static,
        output: impl Fn(AnyState, &TaskContext) -> Result<Outcome, NodeError> + Send + Sync + 'static,
        describe: impl Fn(&TaskInput, &TaskContext) -> Option<Value> + Send + Sync + 'static,
    ) -> Self {
        let body = Body {
            graph: graph.erased().clone(),
            persistence: Persistence::Visit,
            input: Arc::new(input),
            output: Arc::new(output),
            describe: Arc::new(describe),
        };
        Self { name: Label::from(name), body, types: PhantomData }
    }

    /// Says what the subgraph keeps of itself.
    #[must_use]
    pub fn persistence(mut self, persistence: Persistence) -> Self {
        self.body.persistence = persistence;
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

impl<S: State, C> IntoNode<S, C, IsSubgraph> for SubgraphNode<S, C> {
    fn into_node(self, _: Private) -> NodeParts {
        NodeParts {
            label: Some(self.name),
            node: NodeBody(Arc::new(self.body)),
            targets: Some(Vec::new()),
            options: NodeOptions::default(),
        }
    }
}

impl ErasedNode for Body {
    fn call(
        &self,
        input: TaskInput,
        cx: &Arc<TaskContext>,
    ) -> BoxFuture<Result<Outcome, NodeError>> {
        let (body, cx) = (self.clone(), cx.clone());
        Box::pin(async move {
            let input = (body.input)(input, &cx)?;
            let finished = run_nested(&cx, &body.graph, body.persistence, input).await?;
            // A graph that showed nothing has nothing to say.
            if finished.shown { (body.output)(finished.state, &cx) } else { Ok(Outcome::default()) }
        })
    }

    fn describe(&self, input: &TaskInput, cx: &TaskContext) -> Option<Value> {
        (self.describe)(input, cx)
    }

    fn subgraph(&self) -> Option<Subgraph<'_>> {
        Some(Subgraph { graph: &self.graph, persistence: self.persistence })
    }
}

/// Runs a graph as part of a task.
pub(crate) async fn run_nested(
    task: &Arc<TaskContext>,
    graph: &Arc<Graph>,
    persistence: Persistence,
    input: RunInput,
) -> Result<Finished, NodeError> {
    let place = match task.next_graph() {
        0 => String::new(),
        nth => format!("|{nth}"),
    };
    let namespace = match persistence {
        Persistence::Thread => {
            join(&without_task_ids(&task.scope.namespace), &format!("{}{place}", task.node()))
        }
        _ => format!("{}{place}", task.namespace()),
    };
    // Boxed, since the engine runs nodes that run the engine.
    let run =
        Box::pin(engine::run_nested(task.clone(), graph.clone(), namespace, persistence, input));
    match run.await {
        Ok(finished) => match finished.ended {
            Ended::Done => Ok(finished),
            Ended::Asked(interrupts) => Err(NodeError::asked(interrupts)),
            Ended::Stopped(stop) => Err(NodeError::stopped(stop)),
            Ended::Parent(command) => Err(NodeError::delivered(command)),
        },
        Err(RunError::Node { error, terminal, .. }) => Err(NodeError::inner(error, terminal)),
        Err(error) => Err(NodeError::terminal(error)),
    }
}

/// A finished graph's state, at its own type.
pub(crate) fn downcast<S: State>(state: AnyState) -> S {
    let state = state.downcast::<S>();
    // Mostly nobody else holds it by now, and nothing is copied.
    Arc::unwrap_or_clone(state.expect("a graph over a state ends with a state of that type"))
}

/// The namespace inside another.
pub(crate) fn join(outer: &str, inner: &str) -> String {
    if outer.is_empty() { inner.to_owned() } else { format!("{outer}|{inner}") }
}

pub(crate) fn without_task_ids(namespace: &str) -> String {
    let parts = namespace.split('|').map(|it| it.split(':').next().unwrap_or(it));
    parts.collect::<Vec<_>>().join("|")
}
