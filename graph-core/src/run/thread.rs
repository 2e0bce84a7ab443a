//! Threads: a graph's state kept from run to run.

use std::{fmt, sync::Arc, time::SystemTime};

use serde::Serialize;
use serde_json::{Map, Value};

use super::{CompiledGraph, Exit, Input, RunOptions, RunStream};
use crate::{
    Interrupt, RunError, State,
    checkpoint::{Checkpoint, CheckpointId, Checkpointer, History, Lookup, Source},
    engine::{
        self,
        edit::{self, AsNode, Site},
        inspect::{Snapshot, TaskState, View, snapshot},
    },
    node::AnyUpdate,
    subgraph,
};

/// A thread of a graph: its state is kept by the graph's checkpointer. Cheap to clone.
///
/// ```
/// use graph_core::{Context, Exit, MemorySaver, NodeError, START, State, StateGraph};
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
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let graph = StateGraph::<Order>::new()
///     .node(approve)
///     .edge(START, approve)
///     .checkpointer(MemorySaver::new())
///     .compile()?;
/// let thread = graph.thread("order-7", ());
/// let exit = thread.run(Order { item: "tea".into(), ..Default::default() }).await?;
/// assert_eq!(exit.interrupts()[0].value, "buy tea?");
/// let Exit::Done(order) = thread.resume(true).await? else { panic!("one question only") };
/// assert!(order.approved);
/// # Ok(())
/// # }
/// ```
pub struct Thread<S: State, C = ()> {
    graph: CompiledGraph<S, C>,
    place: Place,
    deps: Arc<C>,
    options: RunOptions,
}

/// A thread, or one checkpoint of it.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) name: Arc<str>,
    pub(super) at: Option<CheckpointId>,
}

impl<S: State, C> Clone for Thread<S, C> {
    fn clone(&self) -> Self {
        Self {
            graph: self.graph.clone(),
            place: self.place.clone(),
            deps: self.deps.clone(),
            options: self.options.clone(),
        }
    }
}

impl<S: State, C> fmt::Debug for Thread<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Thread").field("place", &self.place).finish_non_exhaustive()
    }
}

impl<S: State, C: Send + Sync + 'static> Thread<S, C> {
    pub(super) fn new(graph: CompiledGraph<S, C>, name: String, deps: Arc<C>) -> Self {
        let place = Place { name: Arc::from(name), at: None };
        Self { graph, place, deps, options: RunOptions::new() }
    }

    /// The thread's name.
    pub fn name(&self) -> &str {
        &self.place.name
    }

    /// The graph.
    pub fn graph(&self) -> &CompiledGraph<S, C> {
        &self.graph
    }

    /// What holds for its runs.
    pub fn options(&self) -> &RunOptions {
        &self.options
    }

    /// The same thread, its runs having these options.
    #[must_use]
    pub fn with(mut self, options: RunOptions) -> Self {
        self.options = options;
        self
    }

    /// The thread at one of its checkpoints: runs and edits start from there and make a new branch.
    #[must_use]
    pub fn at(&self, checkpoint: CheckpointId) -> Self {
        let place = Place { name: self.place.name.clone(), at: Some(checkpoint) };
        Self { place, ..self.clone() }
    }

    /// Runs with fresh input, or with a command.
    pub async fn run(&self, input: impl Into<Input<S>>) -> Result<Exit<S>, RunError> {
        let request = self.graph.request(
            input.into(),
            self.deps.clone(),
            self.options.clone(),
            Some(&self.place),
        );
        Ok(Exit::new(engine::run_root(request).await?))
    }

    /// Goes on where the thread stands: after a failure, a static stop or a crash.
    pub async fn proceed(&self) -> Result<Exit<S>, RunError> {
        self.run(Input::proceed()).await
    }

    /// Answers the one question that waits.
    pub async fn resume(&self, answer: impl Serialize) -> Result<Exit<S>, RunError> {
        self.run(Input::resume(answer)?).await
    }

    /// Answers questions by their ids.
    pub async fn resume_each(
        &self,
        answers: impl IntoIterator<Item = (String, Value)>,
    ) -> Result<Exit<S>, RunError> {
        self.run(Input::answers(answers)).await
    }

    /// Runs and gives the events as they come.
    pub fn stream(&self, input: impl Into<Input<S>>) -> RunStream<S> {
        RunStream::new(self.options.clone(), |options, events| {
            let deps = self.deps.clone();
            let mut request = self.graph.request(input.into(), deps, options, Some(&self.place));
            request.events = events.map(|it| it(request.run.clone()));
            request
        })
    }

    /// How the thread stands, or `None` if it never ran.
    ///
    /// At a checkpoint, this is the record of the step that followed it.
    pub async fn state(&self) -> Result<Option<ThreadState<S>>, RunError> {
        self.look(false).await
    }

    /// Like [`state`](Self::state), with the states of subgraphs that are in the middle of something.
    pub async fn state_with_subgraphs(&self) -> Result<Option<ThreadState<S>>, RunError> {
        self.look(true).await
    }

    async fn look(&self, subgraphs: bool) -> Result<Option<ThreadState<S>>, RunError> {
        let saver = self.saver()?;
        let lookup = Lookup { id: self.place.at, ..Lookup::head(&*self.place.name, "") };
        let view = View { live: self.place.at.is_none(), subgraphs };
        match saver.get(&lookup).await? {
            Some(checkpoint) => Ok(Some(self.shown(checkpoint, view).await?)),
            None => Ok(None),
        }
    }

    /// The thread's checkpoints, newest first, each with the record of the step that followed it.
    pub async fn history(&self, limit: Option<usize>) -> Result<Vec<ThreadState<S>>, RunError> {
        let query = History { limit, ..History::of(&*self.place.name, "") };
        let mut history = Vec::new();
        for checkpoint in self.saver()?.list(&query).await? {
            history.push(self.shown(checkpoint, View { live: false, subgraphs: false }).await?);
        }
        Ok(history)
    }

    /// Edits the state as if a node had returned the update: its edges decide what runs next.
    pub async fn update_state(
        &self,
        update: S::Update,
        as_node: AsNode,
    ) -> Result<CheckpointId, RunError> {
        self.edit_steps([[Edit { update: Some(update), as_node }]]).await
    }

    /// Makes several steps of edits; those of one step count as one.
    pub async fn edit_steps<E: IntoIterator<Item = Edit<S>>>(
        &self,
        steps: impl IntoIterator<Item = E>,
    ) -> Result<CheckpointId, RunError> {
        let erase = |it: Edit<S>| edit::Edit {
            update: it.update.map(|it| Box::new(it) as AnyUpdate),
            as_node: it.as_node,
        };
        let steps = steps.into_iter().map(|it| it.into_iter().map(erase).collect()).collect();
        let site = Site {
            graph: self.graph.erased(),
            thread: &self.place.name,
            at: self.place.at,
            run: self.options.run_id(),
            deps: self.deps.clone(),
            settings: Arc::new(self.options.settings.clone()),
        };
        edit::edit(site, steps).await
    }

    fn saver(&self) -> Result<&Arc<dyn Checkpointer>, RunError> {
        self.graph.erased().checkpointer.as_ref().ok_or(RunError::NoCheckpointer)
    }

    async fn shown(&self, checkpoint: Checkpoint, view: View) -> Result<ThreadState<S>, RunError> {
        let shown = snapshot(self.graph.erased(), self.saver()?, checkpoint, view).await?;
        Ok(ThreadState::new(shown))
    }
}

/// One edit of a thread's state.
#[derive(Clone)]
pub struct Edit<S: State> {
    /// What it writes; nothing, where only what runs next is to change.
    pub update: Option<S::Update>,
    /// What it stands for.
    pub as_node: AsNode,
}

impl<S: State> fmt::Debug for Edit<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Edit")
            .field("updates", &self.update.is_some())
            .field("as_node", &self.as_node)
            .finish()
    }
}

/// A thread at one of its checkpoints.
#[derive(Clone, Debug)]
pub struct ThreadState<S> {
    /// The state.
    pub values: S,
    /// The nodes that run next. Those whose task is done already are left out, so an empty list does not mean that
    /// the thread is at its end: see [`is_done`](Self::is_done).
    pub next: Vec<String>,
    /// The tasks of the step that follows, with what is known of them.
    pub tasks: Vec<TaskState>,
    /// The checkpoint.
    pub id: CheckpointId,
    /// The one before it.
    pub parent: Option<CheckpointId>,
    /// The step's number.
    pub step: i64,
    /// What came to the checkpoint.
    pub source: Source,
    /// When it was made.
    pub created_at: SystemTime,
    /// The run that made it.
    pub run: String,
    /// What the run's options said to find it by.
    pub metadata: Map<String, Value>,
    /// The joins that have seen some of their sources: where each leads, and what it still waits for.
    pub waiting: Vec<(String, Vec<String>)>,
}

impl<S: State> ThreadState<S> {
    fn new(shown: Snapshot) -> Self {
        let Checkpoint { place, header, .. } = shown.checkpoint;
        Self {
            values: subgraph::downcast(shown.state.snapshot()),
            next: shown.next,
            tasks: shown.tasks,
            id: place.id,
            parent: header.parent,
            step: header.step,
            source: header.source,
            created_at: header.created_at,
            run: header.run,
            metadata: header.metadata,
            waiting: shown.waiting,
        }
    }
}

impl<S> ThreadState<S> {
    /// Whether the thread is at its end: no step follows.
    ///
    /// After a crash all tasks of a step may be done while the step itself is not stored; then
    /// [`next`](Self::next) is empty and the thread has still to go on.
    pub fn is_done(&self) -> bool {
        self.tasks.is_empty()
    }

    /// The questions that wait for an answer.
    pub fn interrupts(&self) -> impl Iterator<Item = &Interrupt> {
        self.tasks.iter().flat_map(|it| &it.interrupts)
    }
}
