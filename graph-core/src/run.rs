//! Runs a compiled graph once, on a thread, or as a stream of events.

mod control;
mod input;
mod options;
mod stream;
mod thread;

use std::{fmt, marker::PhantomData, sync::Arc};

use serde_json::{Map, Value};

pub use control::RunControl;
pub use input::Input;
pub use options::RunOptions;
pub use stream::RunStream;
pub use thread::{StateEdit, Thread, ThreadState};

use crate::{
    BuildProblem, FieldWrite, Interrupt, RunError, State,
    engine::{self, ExitReason, GraphOutcome, RootRun},
    error::StopReason,
    graph::Graph,
    state::{FieldError, limits},
    subgraph,
};

/// A validated graph that can be run. Cheap to clone.
pub struct CompiledGraph<S: State, C = ()> {
    graph: Arc<Graph>,
    types: PhantomData<fn(S, C) -> S>,
}

impl<S: State, C> Clone for CompiledGraph<S, C> {
    fn clone(&self) -> Self {
        Self { graph: self.graph.clone(), types: PhantomData }
    }
}

impl<S: State, C> fmt::Debug for CompiledGraph<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.graph.fmt(f)
    }
}

impl<S: State, C: Send + Sync + 'static> CompiledGraph<S, C> {
    pub(crate) fn new(graph: Arc<Graph>) -> Self {
        Self { graph, types: PhantomData }
    }

    pub(crate) fn erased(&self) -> &Arc<Graph> {
        &self.graph
    }

    /// Returns likely mistakes that do not prevent the graph from running, such as unreachable nodes and joins that
    /// never fire.
    pub fn warnings(&self) -> &[BuildProblem] {
        &self.graph.warnings
    }

    /// Returns the names of the nodes, sorted.
    pub fn nodes(&self) -> Vec<String> {
        self.graph.node_names()
    }

    /// Runs the graph once and returns the final state.
    ///
    /// Fails with [`RunError::Unfinished`] if the run is interrupted or reaches a static stop. Use a
    /// [`thread`](Self::thread) to continue such a run.
    pub async fn run(&self, input: impl Into<Input<S>>, deps: C) -> Result<S, RunError> {
        match self.invoke(input, deps, RunOptions::new()).await? {
            RunOutcome::Done(state) => Ok(state),
            exit => Err(RunError::Unfinished(exit.reason())),
        }
    }

    /// Runs the graph once with options and returns the outcome.
    pub async fn invoke(
        &self,
        input: impl Into<Input<S>>,
        deps: C,
        options: RunOptions,
    ) -> Result<RunOutcome<S>, RunError> {
        let request = self.request(input.into(), Arc::new(deps), options, None);
        Ok(RunOutcome::new(engine::run_root(request).await?))
    }

    /// Runs the graph once and streams its events.
    ///
    /// Polling the stream drives the run. Dropping the stream cancels the run.
    pub fn stream(&self, input: impl Into<Input<S>>, deps: C, options: RunOptions) -> RunStream<S> {
        RunStream::new(options, |options, events| {
            let mut request = self.request(input.into(), Arc::new(deps), options, None);
            request.events = events.map(|it| it(request.run.clone()));
            request
        })
    }

    /// Converts an input to JSON: the fields that it sets, or the parts of a command.
    pub fn input_to_json(&self, input: &Input<S>) -> Result<Value, FieldError> {
        input.to_json(&self.graph)
    }

    /// Converts JSON fields into an update, for input that arrives as JSON.
    ///
    /// ```
    /// # use graph_core::{Input, START, State, StateGraph};
    /// # #[derive(State, Clone, Debug, Default)]
    /// # struct Essay { topic: String }
    /// # async fn write(_: &Essay) -> EssayUpdate { Essay::update() }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let graph = StateGraph::<Essay>::new().node(write).edge(START, write).compile()?;
    /// let fields = serde_json::json!({ "topic": "tea" });
    /// let update = graph.update_from_json(fields.as_object().cloned().unwrap_or_default())?;
    /// let essay = graph.run(Input::update(update), ()).await?;
    /// assert_eq!(essay.topic, "tea");
    /// # Ok(())
    /// # }
    /// ```
    pub fn update_from_json(&self, fields: Map<String, Value>) -> Result<S::Update, FieldError> {
        let write = |(field, value): (String, Value)| {
            let value = limits::ensure_depth(&field, value)?;
            Ok(FieldWrite { field, value, overwrite: false })
        };
        let writes = fields.into_iter().map(write).collect::<Result<_, _>>()?;
        let update = self.graph.initial.update_from(writes)?;
        Ok(*update
            .downcast()
            .expect("an update created from the initial state has the type `S::Update`"))
    }

    /// Opens the thread with this name. The graph's checkpointer stores the thread's state between runs.
    pub fn thread(&self, name: impl Into<String>, deps: C) -> Thread<S, C> {
        Thread::new(self.clone(), name.into(), Arc::new(deps))
    }

    fn request(
        &self,
        input: Input<S>,
        deps: Arc<C>,
        options: RunOptions,
        thread: Option<&thread::ThreadPosition>,
    ) -> RootRun {
        RootRun {
            graph: self.graph.clone(),
            run: options.resolve_run_id(),
            thread: thread.map(|it| it.name.clone()),
            at: thread.and_then(|it| it.at),
            deps,
            control: options.control.clone(),
            settings: Arc::new(options.settings),
            events: None,
            input: input.erase(),
        }
    }
}

/// The outcome of a run that did not fail.
#[derive(Clone, Debug)]
#[must_use]
#[non_exhaustive]
pub enum RunOutcome<S> {
    /// The run completed.
    Done(S),
    /// Nodes raised interrupts; continue with [`Thread::resume`].
    Interrupted {
        /// State so far, including the writes of tasks that finished in the interrupted step.
        state: S,
        /// The pending interrupts.
        interrupts: Vec<Interrupt>,
    },
    /// The run reached a static stop or was drained; continue with [`Thread::proceed`].
    Stopped {
        /// State so far.
        state: S,
        /// Why the run stopped.
        reason: StopReason,
    },
}

impl<S: State> RunOutcome<S> {
    fn new(finished: GraphOutcome) -> Self {
        let state = subgraph::downcast_state(finished.state);
        match finished.exit {
            // `ParentCommand` does not occur here, because the engine reports it as an error in a top-level graph.
            ExitReason::Done | ExitReason::ParentCommand(_) => Self::Done(state),
            ExitReason::Interrupted(interrupts) => Self::Interrupted { state, interrupts },
            ExitReason::Stopped(reason) => Self::Stopped { state, reason },
        }
    }
}

impl<S> RunOutcome<S> {
    /// Returns a reference to the final state of the run.
    pub fn state(&self) -> &S {
        match self {
            Self::Done(state) | Self::Interrupted { state, .. } | Self::Stopped { state, .. } => {
                state
            }
        }
    }

    /// Consumes the outcome and returns the final state of the run.
    pub fn into_state(self) -> S {
        match self {
            Self::Done(state) | Self::Interrupted { state, .. } | Self::Stopped { state, .. } => {
                state
            }
        }
    }

    /// Returns the pending interrupts. The slice is empty unless the run was interrupted.
    pub fn interrupts(&self) -> &[Interrupt] {
        match self {
            Self::Interrupted { interrupts, .. } => interrupts,
            _ => &[],
        }
    }

    /// Returns whether the run completed.
    pub fn is_done(&self) -> bool {
        matches!(self, Self::Done(_))
    }

    fn reason(&self) -> String {
        match self {
            Self::Done(_) => "it completed".to_owned(),
            Self::Interrupted { interrupts, .. } => match interrupts.first() {
                Some(first) => format!("interrupted in `{}` with {}", first.namespace, first.value),
                None => "interrupted".to_owned(),
            },
            Self::Stopped { reason: StopReason::Drained, .. } => "drained".to_owned(),
            Self::Stopped { .. } => "static stop".to_owned(),
        }
    }
}
