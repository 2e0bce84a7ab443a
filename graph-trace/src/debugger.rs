//! Going through a run one superstep at a time.
//!
//! Each step is a run of its own that stops before the next one. So a debugger works with any checkpointer, may be
//! given up and taken up again in another process, and shows what is stored.

use std::{fmt, sync::Arc};

use graph_core::{
    AsNode, Control, Input, Interrupt, RunError, RunOptions, State, Stops, Thread, ThreadState,
};
use serde::Serialize;

use crate::{
    build::TraceBuilder,
    record::header,
    trace::{End, Header, StepTrace, Trace},
};

/// Goes through the runs of a thread step by step: look at the state, change it, go on, go back.
///
/// A step is a superstep of the thread's own graph. A graph inside a task runs within its task's step: it can be
/// halted only where it was compiled to stop ([`StateGraph::stop_before`](graph_core::StateGraph::stop_before) on
/// that graph), and breakpoints by name are those of the thread's graph. The stops of the thread's graph itself, and
/// those in the thread's options, are passed over: the debugger halts everywhere already.
///
/// The thread is to be one as it stands, not one at a checkpoint; [`fork_at`](Self::fork_at) goes back. Only one run of
/// a thread can be under way, so debuggers of one thread take turns.
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
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let graph = StateGraph::<Essay>::new()
///     .node(plan)
///     .node(write)
///     .sequence((plan, write))
///     .checkpointer(MemorySaver::new())
///     .compile()?;
/// let mut debugger = Debugger::new(graph.thread("essay-1", ()));
/// debugger.start(Essay { topic: "tea".into(), ..Essay::default() }).await?;
/// let step = debugger.step().await?.expect("`plan` is there to run");
/// assert_eq!(step.tasks[0].node, "plan");
/// assert_eq!(debugger.next(), ["write"]);
///
/// debugger.edit(Essay::update().topic("coffee")).await?;
/// debugger.go_on().await?;
/// assert_eq!(debugger.state().unwrap().text, "On coffee");
///
/// let mut other = debugger.fork_at(0).await?;
/// other.go_on().await?;
/// assert_eq!(other.state().unwrap().text, "On tea");
/// # Ok(())
/// # }
/// ```
pub struct Debugger<S: State, C = ()> {
    thread: Thread<S, C>,
    /// How our line of the thread stands, as far as it was looked at.
    here: Option<ThreadState<S>>,
    breaks: Vec<Break<S>>,
    builder: TraceBuilder,
    header: Header,
    end: End,
}

/// Why a debugger cannot go back.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ForkError {
    /// The thread could not be read.
    #[error(transparent)]
    Run(#[from] RunError),
    /// No checkpoint on the way to where the debugger stands is that of the step.
    #[error("the thread has no step {step} to go back to; its steps are {steps:?}")]
    UnknownStep {
        /// The step.
        step: i64,
        /// Those that there are.
        steps: Vec<i64>,
    },
}

/// Where to halt.
enum Break<S> {
    Before(String),
    When(Arc<dyn Fn(&S) -> bool + Send + Sync>),
}

impl<S> Clone for Break<S> {
    fn clone(&self) -> Self {
        match self {
            Self::Before(node) => Self::Before(node.clone()),
            Self::When(holds) => Self::When(holds.clone()),
        }
    }
}

impl<S: State, C: Send + Sync + 'static> Debugger<S, C> {
    /// A debugger of a thread, which may be a new one or one that stands somewhere already.
    pub fn new(thread: Thread<S, C>) -> Self {
        let header = header(thread.graph(), &Input::<S>::proceed());
        let (here, breaks, builder) = (None, Vec::new(), TraceBuilder::new());
        Self { thread, here, breaks, builder, header, end: End::Unfinished }
    }

    /// Halts [`go_on`](Self::go_on) before a node of this name.
    #[must_use]
    pub fn break_before(mut self, node: impl Into<String>) -> Self {
        self.breaks.push(Break::Before(node.into()));
        self
    }

    /// Halts [`go_on`](Self::go_on) after a step that left a state of which this holds.
    #[must_use]
    pub fn break_when(mut self, holds: impl Fn(&S) -> bool + Send + Sync + 'static) -> Self {
        self.breaks.push(Break::When(Arc::new(holds)));
        self
    }

    /// Forgets all breakpoints.
    pub fn clear_breaks(&mut self) {
        self.breaks.clear();
    }

    /// Takes in an input and halts before the first node. Gives the step in which START ran.
    pub async fn start(&mut self, input: impl Into<Input<S>>) -> Result<StepTrace, RunError> {
        self.look().await?;
        self.run(input.into()).await
    }

    /// Takes one step and gives what it did; `None` where there is none to take: at the end, or at a question.
    ///
    /// A step that failed is tried once more by the next call. A step in which a graph inside a task came to one of its
    /// own stops is not over: the next call goes on with it.
    pub async fn step(&mut self) -> Result<Option<StepTrace>, RunError> {
        let here = self.look().await?.ok_or(RunError::EmptyInput)?;
        if here.is_done() || here.interrupts().next().is_some() {
            return Ok(None);
        }
        self.run(Input::proceed()).await.map(Some)
    }

    /// Goes on until a breakpoint holds, a question waits, a graph inside a task stops, or nothing is left to run.
    /// Gives the steps it took.
    pub async fn go_on(&mut self) -> Result<Vec<StepTrace>, RunError> {
        let mut steps = Vec::new();
        loop {
            let before = self.look().await?.map(|it| it.id);
            let Some(step) = self.step().await? else { return Ok(steps) };
            steps.push(step);
            let is_open = self.here.as_ref().map(|it| it.id) == before;
            if is_open || self.breaks.iter().any(|it| self.holds(it)) {
                return Ok(steps);
            }
        }
    }

    /// Answers the one question that waits, and takes the step it belongs to once more.
    pub async fn answer(&mut self, answer: impl Serialize) -> Result<StepTrace, RunError> {
        self.look().await?;
        self.run(Input::resume(answer)?).await
    }

    /// Changes the state where the thread stands. What runs next stays what it is.
    pub async fn edit(&mut self, update: S::Update) -> Result<(), RunError> {
        self.look().await?.ok_or(RunError::EmptyInput)?;
        // A run that is told to stop before it begins takes the command in and does nothing more.
        let control = Control::new();
        control.drain();
        let options = self.thread.options().clone().control(control);
        let input = Input::command().with_update(update);
        self.run_with(input, options).await.map(drop)
    }

    /// Changes the state as if a node had returned the update: its edges and branches decide anew what runs next.
    pub async fn edit_as(&mut self, update: S::Update, as_node: AsNode) -> Result<(), RunError> {
        self.look().await?;
        self.place().await?.update_state(update, as_node).await?;
        self.refresh().await
    }

    /// Another debugger, at the end of an earlier step: what it does makes a branch of its own.
    ///
    /// Step -1 is a new thread's first input and 0 what START did with it. This one keeps its place: when it goes on
    /// after the other one did, it makes a branch in turn. Edits that were made at the step are part of it.
    ///
    /// The step that follows is done anew, all of its tasks, answered questions and graphs inside included.
    pub async fn fork_at(&self, step: i64) -> Result<Self, ForkError> {
        let history = self.thread.history(None).await?;
        let mut at = self.here.as_ref().map(|it| it.id).or(history.first().map(|it| it.id));
        let mut steps = Vec::new();
        while let Some(state) = history.iter().find(|it| Some(it.id) == at) {
            if state.step == step {
                return Ok(self.at(state));
            }
            steps.push(state.step);
            at = state.parent;
        }
        Err(ForkError::UnknownStep { step, steps })
    }

    fn at(&self, state: &ThreadState<S>) -> Self {
        let mut here = self.here.clone().filter(|it| it.id == state.id);
        let here = here.get_or_insert_with(|| {
            let mut state = state.clone();
            for task in &mut state.tasks {
                // What came of it then does not count: it is run again.
                (task.error, task.result, task.subgraph) = (None, None, None);
                task.interrupts.clear();
            }
            state
        });
        Self {
            thread: self.thread.clone(),
            here: Some(here.clone()),
            breaks: self.breaks.clone(),
            builder: self.builder.clone(),
            header: self.header.clone(),
            end: End::Stopped,
        }
    }

    /// How the thread stands: its state, the tasks that run next, graphs inside them that are in the middle of
    /// something, the step's number. `None` before the first call of something that looks.
    pub fn here(&self) -> Option<&ThreadState<S>> {
        self.here.as_ref()
    }

    /// The state.
    pub fn state(&self) -> Option<&S> {
        self.here.as_ref().map(|it| &it.values)
    }

    /// The nodes that run next.
    pub fn next(&self) -> &[String] {
        self.here.as_ref().map_or(&[], |it| &it.next)
    }

    /// The questions that wait for an answer.
    pub fn questions(&self) -> impl Iterator<Item = &Interrupt> {
        self.here.iter().flat_map(ThreadState::interrupts)
    }

    /// Whether nothing is left to run.
    pub fn is_done(&self) -> bool {
        self.here.as_ref().is_some_and(ThreadState::is_done)
    }

    /// What was done so far under this debugger, as one trace.
    pub fn trace(&self) -> Trace {
        self.builder.clone().finish(self.header.clone(), self.end.clone())
    }

    fn holds(&self, at: &Break<S>) -> bool {
        match at {
            Break::Before(node) => self.next().contains(node),
            Break::When(holds) => self.state().is_some_and(|it| holds(it)),
        }
    }

    /// How the thread stands, read if nobody has looked yet.
    async fn look(&mut self) -> Result<Option<&ThreadState<S>>, RunError> {
        if self.here.is_none() {
            self.refresh().await?;
        }
        Ok(self.here.as_ref())
    }

    /// What was stored last is what we have just done.
    async fn refresh(&mut self) -> Result<(), RunError> {
        self.here = self.thread.state_with_subgraphs().await?;
        Ok(())
    }

    /// The thread where we stand on it: as it is, unless somebody has gone on since.
    async fn place(&self) -> Result<Thread<S, C>, RunError> {
        let newest = self.thread.history(Some(1)).await?;
        let newest = newest.first().map(|it| it.id);
        match self.here.as_ref().map(|it| it.id) {
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
        let options = options.stop_before(Stops::Everywhere).stop_after(Stops::Nowhere);
        let given = header(self.thread.graph(), &input);
        let thread = self.place().await?.with(TraceBuilder::watch(options));
        let mut step = TraceBuilder::new();
        self.builder.begin(given.input.clone());
        let mut events = thread.stream(input);
        while let Some(event) = events.next().await {
            self.builder.note(&event);
            step.note(&event);
        }
        let outcome = events.finish().await;
        self.end = End::of(&outcome);
        self.refresh().await?;
        let _exit = outcome?;
        let mut steps = step.finish(given, End::Stopped).root.steps;
        let busy = steps.iter().rposition(|it| !it.tasks.is_empty());
        Ok(match busy.or(steps.len().checked_sub(1)) {
            Some(last) => steps.swap_remove(last),
            None => StepTrace::default(),
        })
    }
}

impl<S: State, C> fmt::Debug for Debugger<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Debugger")
            .field("thread", &self.thread)
            .field("here", &self.here.as_ref().map(|it| (it.step, &it.next)))
            .field("breaks", &self.breaks.len())
            .finish_non_exhaustive()
    }
}
