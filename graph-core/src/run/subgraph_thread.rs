//! The subgraphs of a thread. Their states are JSON, because their types are not those of the thread's graph.

use std::fmt;

use serde_json::Value;

use crate::{
    checkpoint::id::CheckpointId,
    engine::{
        edit::{AsNode, ErasedEdit},
        inspect::Snapshot,
        start::run_root,
        thread_state::ThreadState,
    },
    error::RunError,
    graph::find_subgraph::FoundSubgraph,
    run::{
        future::RunFuture, history::HistoryFilter, input::IntoInput, outcome::RunOutcome,
        reader::Reader, stream::RunStream, thread::Thread,
    },
    state::{State, field::Field},
};

/// A subgraph of a thread: reads and edits its state, and runs the thread from its checkpoints. Created by
/// [`Thread::subgraph`]. Cheap to clone.
///
/// ```
/// use graph_core::{Context, Input, MemorySaver, NodeError, START, State, StateGraph, subgraph};
///
/// #[derive(State, Clone, Debug, Default)]
/// struct Draft {
///     title: String,
///     text: String,
/// }
///
/// async fn write(draft: &Draft, cx: &Context) -> Result<DraftUpdate, NodeError> {
///     let style: String = cx.interrupt("Which style?")?;
///     Ok(Draft::update().text(format!("{} ({style})", draft.title)))
/// }
///
/// # #[derive(State, Clone, Debug, Default)]
/// # struct Essay {
/// #     text: String,
/// # }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let drafting = StateGraph::<Draft>::new().node(write).edge(START, write).compile()?;
/// let draft = subgraph(
///     "draft",
///     &drafting,
///     |_: &Essay| Draft { title: "Tea".into(), ..Default::default() },
///     |draft: Draft| Essay::update().text(draft.text),
/// );
/// # let graph = StateGraph::<Essay>::new().node(&draft).edge(START, &draft);
/// # let graph = graph.checkpointer(MemorySaver::new()).compile()?;
/// let thread = graph.thread("1", ());
/// thread.run(Essay::default()).await?;
/// let state = thread.state().await?.ok_or("the thread has run")?;
/// let namespace = state.tasks[0].subgraph_namespace.as_deref().ok_or("the node is a subgraph")?;
///
/// let inner = thread.subgraph(namespace)?;
/// let question = inner.state().await?.ok_or("the subgraph has started")?;
/// assert_eq!(question.next, ["write"]);
/// assert_eq!(thread.resume("brief").await?.state().text, "Tea (brief)");
///
/// // Back to the question inside the subgraph, for another answer.
/// let outcome = inner.at(question.id).run(Input::proceed()).await?;
/// assert_eq!(outcome.interrupts()[0].value, "Which style?");
/// assert_eq!(thread.resume("long").await?.state().text, "Tea (long)");
/// # Ok(()) }
/// ```
pub struct SubgraphThread<S: State, C = ()> {
    thread: Thread<S, C>,
    subgraph: FoundSubgraph,
    at: Option<CheckpointId>,
}

impl<S: State, C> Clone for SubgraphThread<S, C> {
    fn clone(&self) -> Self {
        Self { thread: self.thread.clone(), subgraph: self.subgraph.clone(), at: self.at }
    }
}

impl<S: State, C> fmt::Debug for SubgraphThread<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SubgraphThread")
            .field("thread", &self.thread)
            .field("namespace", &self.subgraph.namespace)
            .field("at", &self.at)
            .finish()
    }
}

impl<S: State, C: Send + Sync + 'static> Thread<S, C> {
    /// Returns the subgraph with this namespace. [`TaskState`](crate::TaskState) and [`Event`](crate::Event) contain
    /// the namespaces of subgraphs.
    ///
    /// Fails with [`RunError::UnknownSubgraph`] if the graph has no such subgraph. The subgraph need not have started.
    /// A graph that a node runs itself must be declared: see [`runs_graph`](crate::runs_graph()).
    ///
    /// ```
    /// use graph_core::{AsNode, Context, MemorySaver, NodeError, START, State, StateGraph, subgraph};
    /// use serde_json::json;
    ///
    /// #[derive(State, Clone, Debug, Default)]
    /// struct Draft {
    ///     title: String,
    ///     text: String,
    /// }
    ///
    /// async fn write(draft: &Draft, cx: &Context) -> Result<DraftUpdate, NodeError> {
    ///     let style: String = cx.interrupt("Which style?")?;
    ///     Ok(Draft::update().text(format!("{} ({style})", draft.title)))
    /// }
    ///
    /// #[derive(State, Clone, Debug, Default)]
    /// struct Essay {
    ///     text: String,
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let drafting = StateGraph::<Draft>::new().node(write).edge(START, write).compile()?;
    /// let draft = subgraph(
    ///     "draft",
    ///     &drafting,
    ///     |_: &Essay| Draft { title: "Tea".into(), ..Default::default() },
    ///     |draft| Essay::update().text(draft.text),
    /// );
    /// let graph = StateGraph::<Essay>::new()
    ///     .node(&draft)
    ///     .edge(START, &draft)
    ///     .checkpointer(MemorySaver::new())
    ///     .compile()?;
    /// let thread = graph.thread("1", ());
    /// thread.run(Essay::default()).await?;
    ///
    /// let state = thread.state().await?.ok_or("the thread has run")?;
    /// let namespace = state.tasks[0].subgraph_namespace.as_deref().ok_or("the node is a subgraph")?;
    /// let inner = thread.subgraph(namespace)?;
    /// assert_eq!(inner.history(None).await?[0].values["title"], "Tea");
    /// inner.update_state(json!({ "title": "Milk" }), AsNode::Last).await?;
    /// assert_eq!(thread.resume("brief").await?.state().text, "Milk (brief)");
    /// # Ok(()) }
    /// ```
    pub fn subgraph(&self, namespace: &str) -> Result<SubgraphThread<S, C>, RunError> {
        let subgraph = self.graph().erased().find_subgraph(namespace)?;
        Ok(SubgraphThread { thread: self.clone(), subgraph, at: None })
    }
}

impl<S: State, C: Send + Sync + 'static> SubgraphThread<S, C> {
    /// Returns the namespace in which the checkpoints of the subgraph are stored.
    pub fn namespace(&self) -> &str {
        &self.subgraph.namespace
    }

    /// Returns the fields of the subgraph's state.
    pub fn fields(&self) -> &[Field] {
        self.subgraph.graph.initial.fields()
    }

    /// Returns the subgraph at one of its checkpoints. Runs and edits start from that checkpoint.
    #[must_use]
    pub fn at(&self, checkpoint: CheckpointId) -> Self {
        Self { at: Some(checkpoint), ..self.clone() }
    }

    /// Returns the current state of the subgraph, or the state [at a checkpoint](Self::at). Returns `None` if there is
    /// no checkpoint.
    pub async fn state(&self) -> Result<Option<ThreadState<Value>>, RunError> {
        self.read_state(false).await
    }

    /// Like [`state`](Self::state), but also includes the states of unfinished subgraphs inside the subgraph.
    pub async fn state_with_subgraphs(&self) -> Result<Option<ThreadState<Value>>, RunError> {
        self.read_state(true).await
    }

    async fn read_state(&self, subgraphs: bool) -> Result<Option<ThreadState<Value>>, RunError> {
        let state = self.reader()?.state(self.at, subgraphs).await?;
        Ok(state.map(Snapshot::into_json).transpose()?)
    }

    /// Returns the checkpoints of the subgraph that the filter selects, newest first: see [`Thread::history`].
    pub async fn history(
        &self,
        filter: impl Into<HistoryFilter>,
    ) -> Result<Vec<ThreadState<Value>>, RunError> {
        let history = self.reader()?.history(filter.into()).await?;
        Ok(history.into_iter().map(Snapshot::into_json).collect::<Result<_, _>>()?)
    }

    /// Updates the state of the subgraph as if one of its nodes had returned the update: see [`Thread::update_state`].
    ///
    /// `fields` is a JSON object with the fields to change, or null to change only what runs next. The edit creates a
    /// checkpoint in the namespace of the subgraph. If the task that runs the subgraph is pending, the next run of the
    /// thread continues the subgraph from that checkpoint. To use an edit of a subgraph that has finished,
    /// [run](Self::run) the thread from the new checkpoint.
    ///
    /// An interrupt that was pending in the subgraph is raised again, with another id.
    pub async fn update_state(
        &self,
        fields: Value,
        as_node: AsNode,
    ) -> Result<CheckpointId, RunError> {
        self.bulk_update_state([[(fields, as_node)]]).await
    }

    /// Applies several edits and returns the id of the last checkpoint. Each inner list forms one step and creates one
    /// checkpoint: see [`update_state`](Self::update_state).
    pub async fn bulk_update_state<E: IntoIterator<Item = (Value, AsNode)>>(
        &self,
        steps: impl IntoIterator<Item = E>,
    ) -> Result<CheckpointId, RunError> {
        let graph = &self.subgraph.graph;
        let erase = |(fields, as_node)| {
            let update = match fields {
                Value::Null => None,
                Value::Object(fields) => Some(graph.update_from_json(fields)?),
                _ => {
                    let problem =
                        "the update of a subgraph must be a JSON object of fields, or null";
                    return Err(RunError::InvalidUpdate(problem.to_owned()));
                }
            };
            Ok(ErasedEdit { update, as_node })
        };
        let steps = steps.into_iter().map(|it| it.into_iter().map(erase).collect());
        let steps = steps.collect::<Result<Vec<_>, _>>()?;
        self.thread.apply_edits(graph, &self.subgraph.namespace, self.at, steps).await
    }

    /// Runs the thread's graph and returns the outcome, like [`Thread::run`].
    ///
    /// If the subgraph is [at a checkpoint](Self::at), each enclosing graph starts from the checkpoint that was current
    /// when the subgraph's checkpoint was created, and the subgraph continues from its own checkpoint. The run creates
    /// new branches, in the thread and in the subgraph.
    pub fn run(&self, input: impl IntoInput<S>) -> RunFuture<'_, RunOutcome<S>> {
        let options = self.thread.options().clone();
        let request = self.thread.request(input.into_input(), options, self.position());
        Box::pin(async { Ok(RunOutcome::new(run_root(request).await?)) })
    }

    /// Runs the thread's graph like [`run`](Self::run), and streams its events.
    pub fn stream(&self, input: impl IntoInput<S>) -> RunStream<S> {
        RunStream::new(self.thread.options().clone(), |options| {
            self.thread.request(input.into_input(), options, self.position())
        })
    }

    fn position(&self) -> Option<(String, CheckpointId)> {
        self.at.map(|at| (self.subgraph.namespace.clone(), at))
    }

    fn reader(&self) -> Result<Reader<'_>, RunError> {
        Ok(Reader {
            graph: &self.subgraph.graph,
            saver: self.thread.saver()?,
            thread: self.thread.name(),
            namespace: &self.subgraph.namespace,
        })
    }
}
