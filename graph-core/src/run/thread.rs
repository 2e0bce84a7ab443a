//! Threads: graph state that is stored between runs.

use std::{fmt, sync::Arc};

use serde::Serialize;
use serde_json::Value;

use crate::{
    checkpoint::{id::CheckpointId, saver::Checkpointer},
    engine::{
        edit::{AsNode, EditRequest, ErasedEdit, apply_edits},
        inspect::Snapshot,
        start::{RootRun, run_root},
        thread_state::ThreadState,
    },
    error::RunError,
    graph::{compiled::CompiledGraph, erased::Graph, run_options::RunOptions},
    run::{
        future::RunFuture,
        history::HistoryFilter,
        input::{Input, IntoInput},
        outcome::RunOutcome,
        reader::Reader,
        request::{ThreadPosition, request},
        stream::RunStream,
    },
    state::{
        State,
        erased::{AnyUpdate, downcast_state},
    },
};

/// A thread of a graph. Its state is stored by the graph's checkpointer. Cheap to clone.
///
/// ```
/// use graph_core::{Context, MemorySaver, NodeError, RunOutcome, START, State, StateGraph};
///
/// #[derive(State, Clone, Debug, Default)]
/// struct Order {
///     item: String,
///     approved: bool,
/// }
///
/// async fn approve(order: &Order, cx: &Context) -> Result<OrderUpdate, NodeError> {
///     let answer: bool = cx.interrupt(format!("buy {}?", order.item))?;
///     Ok(Order::update().approved(answer))
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let graph = StateGraph::<Order>::new()
///     .node(approve)
///     .edge(START, approve)
///     .checkpointer(MemorySaver::new())
///     .compile()?;
/// let thread = graph.thread("order-7", ());
/// let outcome = thread.run(Order { item: "tea".into(), ..Default::default() }).await?;
/// assert_eq!(outcome.interrupts()[0].value, "buy tea?");
/// let RunOutcome::Done(order) = thread.resume(true).await? else { panic!("there is only one interrupt") };
/// assert!(order.approved);
/// # Ok(()) }
/// ```
pub struct Thread<S: State, C = ()> {
    graph: CompiledGraph<S, C>,
    position: ThreadPosition,
    deps: Arc<C>,
    options: RunOptions,
}

impl<S: State, C> Clone for Thread<S, C> {
    fn clone(&self) -> Self {
        Self {
            graph: self.graph.clone(),
            position: self.position.clone(),
            deps: self.deps.clone(),
            options: self.options.clone(),
        }
    }
}

impl<S: State, C> fmt::Debug for Thread<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Thread").field("position", &self.position).finish_non_exhaustive()
    }
}

impl<S: State, C: Send + Sync + 'static> Thread<S, C> {
    pub(super) fn new(graph: CompiledGraph<S, C>, name: String, deps: Arc<C>) -> Self {
        let position = ThreadPosition { name: Arc::from(name), at: None };
        let options = graph.options().clone();
        Self { graph, position, deps, options }
    }

    /// Returns the thread's name.
    pub fn name(&self) -> &str {
        &self.position.name
    }

    /// Returns the graph that the thread runs.
    pub fn graph(&self) -> &CompiledGraph<S, C> {
        &self.graph
    }

    /// Returns the options for runs on this thread.
    pub fn options(&self) -> &RunOptions {
        &self.options
    }

    /// Sets the options for runs on this thread. They replace the options of the graph.
    #[must_use]
    pub fn with_options(mut self, options: RunOptions) -> Self {
        self.options = options;
        self
    }

    /// Returns the thread at one of its checkpoints. Runs and edits start from that checkpoint and create a new
    /// branch.
    #[must_use]
    pub fn at(&self, checkpoint: CheckpointId) -> Self {
        let position = ThreadPosition { name: self.position.name.clone(), at: Some(checkpoint) };
        Self { position, ..self.clone() }
    }

    /// Runs the graph with fresh input or a command and returns the outcome.
    pub fn run(&self, input: impl IntoInput<S>) -> RunFuture<'_, RunOutcome<S>> {
        Box::pin(self.run_input(input.into_input()))
    }

    async fn run_input(&self, input: Input<S>) -> Result<RunOutcome<S>, RunError> {
        let request = self.request(input, self.options.clone(), None);
        Ok(RunOutcome::new(run_root(request).await?))
    }

    /// Runs the graph with fresh input or a command and returns the final state.
    ///
    /// Fails with [`RunError::Unfinished`] if the run is interrupted or reaches a static stop. The thread keeps its
    /// state in that case: continue with [`resume`](Self::resume) or [`proceed`](Self::proceed).
    pub fn invoke(&self, input: impl IntoInput<S>) -> RunFuture<'_, S> {
        let run = self.run_input(input.into_input());
        Box::pin(async { run.await?.into_final_state(true) })
    }

    /// Starts the thread with `state` if it has no checkpoint, and continues it from its last checkpoint otherwise.
    ///
    /// The decision is made while the run holds the thread's lease. A caller that checks [`state`](Self::state) first
    /// and then decides between [`run`](Self::run) and [`proceed`](Self::proceed) races with other processes and with
    /// the last write of a process that was just killed. Such a caller may apply the input twice.
    ///
    /// A finished thread returns its state without running a node; a thread with a pending interrupt returns the
    /// interrupt again.
    ///
    /// ```
    /// use graph_core::{MemorySaver, START, State, StateGraph};
    ///
    /// #[derive(State, Clone, Debug, Default)]
    /// struct Count {
    ///     #[reduce(add)]
    ///     value: u32,
    /// }
    ///
    /// async fn increment(_: &Count) -> CountUpdate {
    ///     Count::update().value(1)
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let graph = StateGraph::<Count>::new()
    ///     .node(increment)
    ///     .edge(START, increment)
    ///     .checkpointer(MemorySaver::new())
    ///     .compile()?;
    /// let thread = graph.thread("counter", ());
    /// // Call it as often as needed, for example after each restart: the input is applied once.
    /// for _ in 0..3 {
    ///     let outcome = thread.start_or_continue(Count { value: 10 }).await?;
    ///     assert_eq!(outcome.state().value, 11);
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn start_or_continue(&self, state: S) -> Result<RunOutcome<S>, RunError> {
        self.run_input(Input::start_or_continue(state.into_update())).await
    }

    /// Starts the thread with `state` if it has no checkpoint, and otherwise resumes its only pending interrupt with
    /// `value`.
    ///
    /// Like [`start_or_continue`](Self::start_or_continue), this method decides while the run holds the thread's lease.
    /// A new thread, and a thread without a pending interrupt, ignore the value and return their next interrupt, if
    /// there is one.
    ///
    /// A caller that repeats the call because its result was lost needs a different [run id](crate::RunOptions::run_id)
    /// for each value; otherwise the value could answer the next interrupt.
    ///
    /// ```
    /// use graph_core::{Context, MemorySaver, NodeError, START, State, StateGraph};
    ///
    /// #[derive(State, Clone, Debug, Default)]
    /// struct Chat {
    ///     #[reduce(append)]
    ///     lines: Vec<String>,
    /// }
    ///
    /// async fn listen(chat: &Chat, cx: &Context) -> Result<ChatUpdate, NodeError> {
    ///     Ok(Chat::update().lines([cx.interrupt::<String>(format!("{} lines", chat.lines.len()))?]))
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let graph = StateGraph::<Chat>::new()
    ///     .node(listen)
    ///     .edge(START, listen)
    ///     .edge(listen, listen)
    ///     .checkpointer(MemorySaver::new())
    ///     .compile()?;
    /// let thread = graph.thread("ann", ());
    /// // The first message starts the conversation. The next ones are answers to its pending interrupt.
    /// for (line, heard) in [("Hello!", "1 lines"), ("It rains.", "2 lines"), ("Bye!", "3 lines")] {
    ///     let outcome = thread.start_or_resume(Chat { lines: vec![line.into()] }, line).await?;
    ///     assert_eq!(outcome.interrupts()[0].value, heard);
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn start_or_resume(
        &self,
        state: S,
        value: impl Serialize,
    ) -> Result<RunOutcome<S>, RunError> {
        self.run_input(Input::start_or_continue(state.into_update()).with_resume(value)?).await
    }

    /// Continues the thread from its last checkpoint, for example after a failure, a static stop or a crash.
    pub async fn proceed(&self) -> Result<RunOutcome<S>, RunError> {
        self.run_input(Input::proceed()).await
    }

    /// Resumes the only pending interrupt with this value.
    ///
    /// As in LangGraph, a thread without a pending interrupt ignores the value and continues as with
    /// [`proceed`](Self::proceed). [`resume_by_id`](Self::resume_by_id) fails in that case.
    pub async fn resume(&self, value: impl Serialize) -> Result<RunOutcome<S>, RunError> {
        self.run_input(Input::resume(value)?).await
    }

    /// Resumes pending interrupts with one value per interrupt id.
    pub async fn resume_by_id(
        &self,
        values: impl IntoIterator<Item = (String, Value)>,
    ) -> Result<RunOutcome<S>, RunError> {
        self.run_input(Input::resume_by_id(values)).await
    }

    /// Runs the graph and streams its events.
    pub fn stream(&self, input: impl IntoInput<S>) -> RunStream<S> {
        let options = self.options.clone();
        RunStream::new(options, |options| self.request(input.into_input(), options, None))
    }

    /// Creates a request for a run that starts from the thread's position, or from a checkpoint of a subgraph.
    pub(super) fn request(
        &self,
        input: Input<S>,
        options: RunOptions,
        at_subgraph: Option<(String, CheckpointId)>,
    ) -> RootRun {
        let (graph, deps) = (self.graph.erased(), self.deps.clone());
        RootRun { at_subgraph, ..request(graph, input, deps, options, Some(&self.position)) }
    }

    /// Returns the current state of the thread, or `None` if the thread has no checkpoint.
    ///
    /// For a thread [at a checkpoint](Self::at), returns the checkpoint and the records of the step that followed it.
    pub async fn state(&self) -> Result<Option<ThreadState<S>>, RunError> {
        self.read_state(false).await
    }

    /// Like [`state`](Self::state), but also includes the states of unfinished subgraphs.
    pub async fn state_with_subgraphs(&self) -> Result<Option<ThreadState<S>>, RunError> {
        self.read_state(true).await
    }

    async fn read_state(&self, subgraphs: bool) -> Result<Option<ThreadState<S>>, RunError> {
        Ok(self.reader()?.state(self.position.at, subgraphs).await?.map(typed))
    }

    /// Returns the checkpoints that the filter selects, newest first. Each checkpoint contains the records of the step
    /// that followed it. `None` selects the whole history, `Some(n)` the newest `n` checkpoints.
    ///
    /// ```
    /// # use graph_core::{HistoryFilter, MemorySaver, START, State, StateGraph, checkpoint::Source};
    /// # #[derive(State, Clone, Debug, Default)]
    /// # struct Essay { topic: String }
    /// # async fn write(_: &Essay) -> EssayUpdate { Essay::update().topic("done") }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let saver = MemorySaver::new();
    /// # let graph = StateGraph::<Essay>::new().node(write).edge(START, write).checkpointer(saver).compile()?;
    /// # let thread = graph.thread("t", ());
    /// # thread.run(Essay::default()).await?;
    /// // The checkpoint from which `write` last ran, to run it again.
    /// let before_write = thread.history(HistoryFilter::new().next("write").limit(1)).await?;
    /// let outcome = thread.at(before_write[0].id).proceed().await?;
    /// # assert_eq!(outcome.into_state().topic, "done");
    /// # Ok(()) }
    /// ```
    pub async fn history(
        &self,
        filter: impl Into<HistoryFilter>,
    ) -> Result<Vec<ThreadState<S>>, RunError> {
        Ok(self.reader()?.history(filter.into()).await?.into_iter().map(typed).collect())
    }

    /// Updates the state as if a node had returned the update. The node's edges decide what runs next.
    ///
    /// ```
    /// use graph_core::{AsNode, MemorySaver, State, StateGraph};
    ///
    /// #[derive(State, Clone, Debug, Default)]
    /// struct Story {
    ///     hero: String,
    ///     text: String,
    /// }
    ///
    /// async fn begin(_: &Story) -> StoryUpdate {
    ///     Story::update().hero("Ada")
    /// }
    ///
    /// async fn tell(story: &Story) -> StoryUpdate {
    ///     Story::update().text(format!("{} sets out.", story.hero))
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let graph = StateGraph::<Story>::new()
    ///     .node(begin)
    ///     .node(tell)
    ///     .sequence((begin, tell))
    ///     .checkpointer(MemorySaver::new())
    ///     .compile()?;
    /// let thread = graph.thread("story", ());
    /// thread.run(Story::default()).await?;
    /// thread.update_state(Story::update().hero("Bob"), AsNode::node("begin")).await?;
    /// assert_eq!(thread.proceed().await?.state().text, "Bob sets out.");
    /// # Ok(()) }
    /// ```
    pub async fn update_state(
        &self,
        update: S::Update,
        as_node: AsNode,
    ) -> Result<CheckpointId, RunError> {
        self.bulk_update_state([[StateEdit { update: Some(update), as_node }]]).await
    }

    /// Applies several edits and returns the id of the last checkpoint. Each inner list forms one step and creates one
    /// checkpoint.
    pub async fn bulk_update_state<E: IntoIterator<Item = StateEdit<S>>>(
        &self,
        steps: impl IntoIterator<Item = E>,
    ) -> Result<CheckpointId, RunError> {
        let erase = |it: StateEdit<S>| ErasedEdit {
            update: it.update.map(|it| Box::new(it) as AnyUpdate),
            as_node: it.as_node,
        };
        let steps = steps.into_iter().map(|it| it.into_iter().map(erase).collect()).collect();
        self.apply_edits(self.graph.erased(), "", self.position.at, steps).await
    }

    /// Applies edits to the graph with this namespace: the thread's own graph, or one of its subgraphs.
    pub(super) async fn apply_edits(
        &self,
        graph: &Arc<Graph>,
        namespace: &str,
        at: Option<CheckpointId>,
        steps: Vec<Vec<ErasedEdit>>,
    ) -> Result<CheckpointId, RunError> {
        let request = EditRequest {
            graph,
            saver: self.saver()?.clone(),
            thread: &self.position.name,
            namespace,
            at,
            run: self.options.resolve_run_id(),
            deps: self.deps.clone(),
            settings: Arc::new(self.options.settings.clone()),
        };
        apply_edits(request, steps).await
    }

    pub(super) fn saver(&self) -> Result<&Arc<dyn Checkpointer>, RunError> {
        self.graph.erased().checkpointer.as_ref().ok_or(RunError::NoCheckpointer)
    }

    fn reader(&self) -> Result<Reader<'_>, RunError> {
        let graph = self.graph.erased();
        Ok(Reader { graph, saver: self.saver()?, thread: self.name(), namespace: "" })
    }
}

fn typed<S: State>(snapshot: Snapshot) -> ThreadState<S> {
    snapshot.map_values(|it| downcast_state(it.snapshot()))
}

/// One edit of a thread's state.
#[derive(Clone)]
pub struct StateEdit<S: State> {
    /// The update. `None` changes only what runs next.
    pub update: Option<S::Update>,
    /// The node or event that the edit is attributed to.
    pub as_node: AsNode,
}

impl<S: State> fmt::Debug for StateEdit<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StateEdit")
            .field("updates", &self.update.is_some())
            .field("as_node", &self.as_node)
            .finish()
    }
}
