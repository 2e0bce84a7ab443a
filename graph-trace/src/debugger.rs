//! Executes a run one superstep at a time.
//!
//! Each step is a separate run that stops before the next step. A debugger therefore works with any checkpointer,
//! can be dropped and recreated in another process, and always shows the stored state.

use std::{fmt, sync::Arc};

use graph_core::{
    AsNode, Input, Interrupt, RunControl, RunError, RunOptions, State, Stops, Thread, ThreadState,
};
use serde::Serialize;

use crate::{
    build::TraceBuilder,
    record::header,
    trace::{Header, RunStatus, StepTrace, Trace},
};

/// Executes the runs of a thread step by step. Between steps, the state can be inspected and changed, and the run
/// can be continued or forked from an earlier step.
///
/// A step is a superstep of the thread's own graph. A subgraph runs within the step of its task and can be halted
/// only at the stops with which it was compiled (call
/// [`StateGraph::stop_before`](graph_core::StateGraph::stop_before) on the subgraph). Breakpoints by name refer to
/// nodes of the thread's graph. The stops of the thread's graph and of the thread's options are ignored, because
/// the debugger halts after each step anyway.
///
/// The thread must not be positioned at a checkpoint; to go back, use [`fork_at`](Self::fork_at). Only one run of a
/// thread can be active at a time, so several debuggers for one thread must take turns.
///
/// ```
/// use graph_core::{MemorySaver, START, State, StateGraph};
/// use graph_trace::Debugger;
///
/// #[derive(State, Clone, Debug, Default)]
/// struct Essay {
///     topic: String,
///     text: String,
/// }
///
/// async fn plan(_: &Essay) {}
///
/// async fn write(essay: &Essay) -> EssayUpdate {
///     Essay::update().text(format!("On {}", essay.topic))
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let graph = StateGraph::<Essay>::new()
///     .node(plan)
///     .node(write)
///     .sequence((plan, write))
///     .checkpointer(MemorySaver::new())
///     .compile()?;
/// let mut debugger = Debugger::new(graph.thread("essay-1", ()));
/// debugger.start(Essay { topic: "tea".into(), ..Essay::default() }).await?;
/// let step = debugger.step().await?.expect("`plan` is the first node");
/// assert_eq!(step.tasks[0].node, "plan");
/// assert_eq!(debugger.next(), ["write"]);
///
/// debugger.edit(Essay::update().topic("coffee")).await?;
/// debugger.continue_run().await?;
/// assert_eq!(debugger.state().unwrap().text, "On coffee");
///
/// let mut other = debugger.fork_at(0).await?;
/// other.continue_run().await?;
/// assert_eq!(other.state().unwrap().text, "On tea");
/// # Ok(()) }
/// ```
pub struct Debugger<S: State, C = ()> {
    thread: Thread<S, C>,
    /// The state of this debugger's branch of the thread, once it has been loaded.
    state: Option<ThreadState<S>>,
    breakpoints: Vec<Breakpoint<S>>,
    builder: TraceBuilder,
    header: Header,
    end: RunStatus,
}

/// The error returned by [`Debugger::fork_at`].
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum ForkError {
    /// The thread's history cannot be read.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The current branch has no checkpoint for this step.
    #[error("the thread has no step {step} to fork from; its steps are {steps:?}")]
    UnknownStep {
        /// The requested step.
        step: i64,
        /// The steps of the branch.
        steps: Vec<i64>,
    },
}

graph_core::readable_debug!(ForkError);

/// A condition under which [`Debugger::continue_run`] halts.
enum Breakpoint<S> {
    Before(String),
    When(Arc<dyn Fn(&S) -> bool + Send + Sync>),
}

impl<S> Clone for Breakpoint<S> {
    fn clone(&self) -> Self {
        match self {
            Self::Before(node) => Self::Before(node.clone()),
            Self::When(holds) => Self::When(holds.clone()),
        }
    }
}

impl<S: State, C: Send + Sync + 'static> Debugger<S, C> {
    /// Creates a debugger for a new or existing thread.
    pub fn new(thread: Thread<S, C>) -> Self {
        let header = header(thread.graph(), &Input::<S>::proceed());
        let (state, breakpoints, builder) = (None, Vec::new(), TraceBuilder::new());
        Self { thread, state, breakpoints, builder, header, end: RunStatus::Unfinished }
    }

    /// Halts [`continue_run`](Self::continue_run) before this node.
    #[must_use]
    pub fn break_before(mut self, node: impl Into<String>) -> Self {
        self.breakpoints.push(Breakpoint::Before(node.into()));
        self
    }

    /// Halts [`continue_run`](Self::continue_run) after a step whose resulting state satisfies the predicate.
    #[must_use]
    pub fn break_when(mut self, holds: impl Fn(&S) -> bool + Send + Sync + 'static) -> Self {
        self.breakpoints.push(Breakpoint::When(Arc::new(holds)));
        self
    }

    /// Removes all breakpoints.
    pub fn clear_breakpoints(&mut self) {
        self.breakpoints.clear();
    }

    /// Applies an input and halts before the first node. Returns the trace of the START step.
    pub async fn start(&mut self, input: impl Into<Input<S>>) -> Result<StepTrace, RunError> {
        self.load_state().await?;
        self.run(input.into()).await
    }

    /// Executes one step and returns its trace. Returns `None` if the run has ended or an interrupt is pending.
    ///
    /// If a step fails, the next call retries it. If a subgraph halts at one of its own stops, the step is incomplete,
    /// and the next call continues it.
    pub async fn step(&mut self) -> Result<Option<StepTrace>, RunError> {
        let here = self.load_state().await?.ok_or(RunError::EmptyInput)?;
        if here.is_done() || !here.interrupts().is_empty() {
            return Ok(None);
        }
        self.run(Input::proceed()).await.map(Some)
    }

    /// Executes steps until a breakpoint is hit, an interrupt is pending, a subgraph stops, or nothing is left to
    /// run. Returns the traces of the executed steps.
    pub async fn continue_run(&mut self) -> Result<Vec<StepTrace>, RunError> {
        let mut steps = Vec::new();
        loop {
            let before = self.load_state().await?.map(|it| it.id);
            let Some(step) = self.step().await? else { return Ok(steps) };
            steps.push(step);
            let is_open = self.state.as_ref().map(|it| it.id) == before;
            if is_open || self.breakpoints.iter().any(|it| self.is_hit(it)) {
                return Ok(steps);
            }
        }
    }

    /// Answers the pending interrupt, of which there must be exactly one, and executes its step again.
    pub async fn answer(&mut self, answer: impl Serialize) -> Result<StepTrace, RunError> {
        self.load_state().await?;
        self.run(Input::resume(answer)?).await
    }

    /// Changes the current state. The nodes that run next stay the same.
    pub async fn edit(&mut self, update: S::Update) -> Result<(), RunError> {
        self.load_state().await?.ok_or(RunError::EmptyInput)?;
        // A drained run executes no further steps. This run is drained before it begins, so it only applies the update.
        let control = RunControl::new();
        control.drain();
        let options = self.thread.options().clone().control(control);
        let input = Input::command().with_update(update);
        self.run_with(input, options).await.map(drop)
    }

    /// Changes the state as if a node had returned the update. The edges and branches of that node determine again
    /// which nodes run next.
    pub async fn edit_as(&mut self, update: S::Update, as_node: AsNode) -> Result<(), RunError> {
        self.load_state().await?;
        self.positioned_thread().await?.update_state(update, as_node).await?;
        self.reload_state().await
    }

    /// Returns another debugger that is positioned after an earlier step. The steps that it executes form a new
    /// branch.
    ///
    /// Step -1 is the first input of a new thread, and step 0 is START. Edits that were made at the step are
    /// included. This debugger keeps its position. If it continues after the other debugger has executed steps, it
    /// creates a branch too.
    ///
    /// All tasks of the following step are executed again, including answered interrupts and subgraphs.
    pub async fn fork_at(&self, step: i64) -> Result<Self, ForkError> {
        let history = self.thread.history(None).await?;
        let mut at = self.state.as_ref().map(|it| it.id).or(history.first().map(|it| it.id));
        let mut steps = Vec::new();
        while let Some(state) = history.iter().find(|it| Some(it.id) == at) {
            if state.step == step {
                return Ok(self.forked_at(state));
            }
            steps.push(state.step);
            at = state.parent;
        }
        Err(ForkError::UnknownStep { step, steps })
    }

    fn forked_at(&self, state: &ThreadState<S>) -> Self {
        let mut here = self.state.clone().filter(|it| it.id == state.id);
        let here = here.get_or_insert_with(|| {
            let mut state = state.clone();
            for task in &mut state.tasks {
                // Discard the earlier results, because the task is executed again.
                (task.error, task.result, task.subgraph) = (None, None, None);
                task.interrupts.clear();
            }
            state
        });
        Self {
            thread: self.thread.clone(),
            state: Some(here.clone()),
            breakpoints: self.breakpoints.clone(),
            builder: self.builder.clone(),
            header: self.header.clone(),
            end: RunStatus::Stopped,
        }
    }

    /// Returns the current thread state, which contains the values, the tasks that run next, interrupted subgraphs
    /// and the step number. Returns `None` until a method that loads the state has been called.
    pub fn thread_state(&self) -> Option<&ThreadState<S>> {
        self.state.as_ref()
    }

    /// Returns the values of the current state, if it has been loaded.
    pub fn state(&self) -> Option<&S> {
        self.state.as_ref().map(|it| &it.values)
    }

    /// Returns the nodes that run next.
    pub fn next(&self) -> &[String] {
        self.state.as_ref().map_or(&[], |it| &it.next)
    }

    /// Returns the pending interrupts.
    pub fn interrupts(&self) -> impl Iterator<Item = &Interrupt> {
        self.state.iter().flat_map(ThreadState::interrupts)
    }

    /// Returns whether nothing is left to run.
    pub fn is_done(&self) -> bool {
        self.state.as_ref().is_some_and(ThreadState::is_done)
    }

    /// Returns the trace of all steps that this debugger has executed.
    pub fn trace(&self) -> Trace {
        self.builder.clone().finish(self.header.clone(), self.end.clone())
    }

    fn is_hit(&self, at: &Breakpoint<S>) -> bool {
        match at {
            Breakpoint::Before(node) => self.next().contains(node),
            Breakpoint::When(holds) => self.state().is_some_and(|it| holds(it)),
        }
    }

    /// Returns the thread state and loads it if necessary.
    async fn load_state(&mut self) -> Result<Option<&ThreadState<S>>, RunError> {
        if self.state.is_none() {
            self.reload_state().await?;
        }
        Ok(self.state.as_ref())
    }

    /// Loads the newest state, which is the result of this debugger's last operation.
    async fn reload_state(&mut self) -> Result<(), RunError> {
        self.state = self.thread.state_with_subgraphs().await?;
        Ok(())
    }

    /// Returns the thread at the position of this debugger. This is the thread's head, unless another caller has
    /// advanced the thread.
    async fn positioned_thread(&self) -> Result<Thread<S, C>, RunError> {
        let newest = self.thread.history(Some(1)).await?;
        let newest = newest.first().map(|it| it.id);
        match self.state.as_ref().map(|it| it.id) {
            Some(here) if newest != Some(here) => Ok(self.thread.at(here)),
            _ => Ok(self.thread.clone()),
        }
    }

    async fn run(&mut self, input: Input<S>) -> Result<StepTrace, RunError> {
        let options = self.thread.options().clone();
        self.run_with(input, options).await
    }

    async fn run_with(
        &mut self,
        input: Input<S>,
        options: RunOptions,
    ) -> Result<StepTrace, RunError> {
        let options = options.stop_before(Stops::All).stop_after(Stops::None);
        let header = header(self.thread.graph(), &input);
        let thread =
            self.positioned_thread().await?.with_options(TraceBuilder::enable_events(options));
        let mut step = TraceBuilder::new();
        self.builder.begin_run(header.input.clone());
        let mut events = thread.stream(input);
        while let Some(event) = events.next().await {
            self.builder.add_event(&event);
            step.add_event(&event);
        }
        let outcome = events.finish().await;
        self.end = RunStatus::from_result(&outcome);
        self.reload_state().await?;
        let _exit = outcome?;
        let mut steps = step.finish(header, RunStatus::Stopped).root.steps;
        let last_busy = steps.iter().rposition(|it| !it.tasks.is_empty());
        Ok(match last_busy.or(steps.len().checked_sub(1)) {
            Some(last) => steps.swap_remove(last),
            None => StepTrace::default(),
        })
    }
}

impl<S: State, C> fmt::Debug for Debugger<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Debugger")
            .field("thread", &self.thread)
            .field("here", &self.state.as_ref().map(|it| (it.step, &it.next)))
            .field("breakpoints", &self.breakpoints.len())
            .finish_non_exhaustive()
    }
}
