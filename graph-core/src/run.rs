//! Running a compiled graph: once, on a thread, or as a stream of events.

mod control;
mod input;
mod options;
mod stream;
mod thread;

use std::{fmt, marker::PhantomData, sync::Arc};

use serde_json::{Map, Value};

pub use control::Control;
pub use input::Input;
pub use options::RunOptions;
pub use stream::RunStream;
pub use thread::{Edit, Thread, ThreadState};

use crate::{
    FieldWrite, Interrupt, Problem, RunError, State,
    engine::{self, Ended, Finished, RootRun},
    error::Stop,
    graph::Graph,
    state::{FieldError, guard},
    subgraph,
};

/// A graph that was checked and can be run. Cheap to clone.
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

    /// What looks wrong with the graph, though it can be run: nodes that nothing leads to, joins that never fire.
    pub fn warnings(&self) -> &[Problem] {
        &self.graph.warnings
    }

    /// The names of the graph's nodes, sorted.
    pub fn nodes(&self) -> Vec<String> {
        self.graph.node_names()
    }

    /// Runs the graph once and gives the final state.
    ///
    /// A question or a static stop on the way is [`RunError::Unfinished`]; use a [`thread`](Self::thread) where
    /// they are to be expected.
    pub async fn run(&self, input: impl Into<Input<S>>, deps: C) -> Result<S, RunError> {
        match self.invoke(input, deps, RunOptions::new()).await? {
            Exit::Done(state) => Ok(state),
            exit => Err(RunError::Unfinished(exit.reason())),
        }
    }

    /// Runs the graph once, with options, and says how it ended.
    pub async fn invoke(
        &self,
        input: impl Into<Input<S>>,
        deps: C,
        options: RunOptions,
    ) -> Result<Exit<S>, RunError> {
        let request = self.request(input.into(), Arc::new(deps), options, None);
        Ok(Exit::new(engine::run_root(request).await?))
    }

    /// Runs the graph once and gives its events as they come.
    ///
    /// Polling the stream drives the run, step by step; dropping it ends the run.
    pub fn stream(&self, input: impl Into<Input<S>>, deps: C, options: RunOptions) -> RunStream<S> {
        RunStream::new(options, |options, events| {
            let mut request = self.request(input.into(), Arc::new(deps), options, None);
            request.events = events.map(|it| it(request.run.clone()));
            request
        })
    }

    /// An input as JSON: the fields it sets, or what the command holds.
    pub fn describe(&self, input: &Input<S>) -> Result<Value, FieldError> {
        input.to_json(&self.graph)
    }

    /// The update that writes these fields: what an input means that came as JSON.
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
    /// let update = graph.read_update(fields.as_object().cloned().unwrap_or_default())?;
    /// let essay = graph.run(Input::update(update), ()).await?;
    /// assert_eq!(essay.topic, "tea");
    /// # Ok(())
    /// # }
    /// ```
    pub fn read_update(&self, fields: Map<String, Value>) -> Result<S::Update, FieldError> {
        let write = |(field, value): (String, Value)| {
            let value = guard::admit(&field, value)?;
            Ok(FieldWrite { field, value, overwrite: false })
        };
        let writes = fields.into_iter().map(write).collect::<Result<_, _>>()?;
        let update = self.graph.initial.update_from(writes)?;
        Ok(*update.downcast().expect("a graph's initial state makes updates of its own type"))
    }

    /// A thread of this name: its state is kept by the graph's checkpointer from run to run.
    pub fn thread(&self, name: impl Into<String>, deps: C) -> Thread<S, C> {
        Thread::new(self.clone(), name.into(), Arc::new(deps))
    }

    fn request(
        &self,
        input: Input<S>,
        deps: Arc<C>,
        options: RunOptions,
        thread: Option<&thread::Place>,
    ) -> RootRun {
        RootRun {
            graph: self.graph.clone(),
            run: options.run_id(),
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

/// How a run ended, if it did not fail.
#[derive(Clone, Debug)]
#[must_use]
#[non_exhaustive]
pub enum Exit<S> {
    /// It came to its end.
    Done(S),
    /// Nodes ask something; [`Thread::resume`] answers.
    Interrupted {
        /// The state so far, with what finished siblings of the asking nodes wrote.
        state: S,
        /// What they ask.
        interrupts: Vec<Interrupt>,
    },
    /// It came to a static stop, or was drained; [`Thread::proceed`] goes on.
    Stopped {
        /// The state so far.
        state: S,
        /// Why it stopped.
        stop: Stop,
    },
}

impl<S: State> Exit<S> {
    fn new(finished: Finished) -> Self {
        let state = subgraph::downcast(finished.state);
        match finished.ended {
            // A root graph has no parent, and says so with an error.
            Ended::Done | Ended::Parent(_) => Self::Done(state),
            Ended::Asked(interrupts) => Self::Interrupted { state, interrupts },
            Ended::Stopped(stop) => Self::Stopped { state, stop },
        }
    }
}

impl<S> Exit<S> {
    /// The state the run ended with.
    pub fn state(&self) -> &S {
        match self {
            Self::Done(state) | Self::Interrupted { state, .. } | Self::Stopped { state, .. } => {
                state
            }
        }
    }

    /// The state the run ended with.
    pub fn into_state(self) -> S {
        match self {
            Self::Done(state) | Self::Interrupted { state, .. } | Self::Stopped { state, .. } => {
                state
            }
        }
    }

    /// The questions that wait for an answer.
    pub fn interrupts(&self) -> &[Interrupt] {
        match self {
            Self::Interrupted { interrupts, .. } => interrupts,
            _ => &[],
        }
    }

    /// Whether the run came to its end.
    pub fn is_done(&self) -> bool {
        matches!(self, Self::Done(_))
    }

    fn reason(&self) -> String {
        match self {
            Self::Done(_) => "it is done".to_owned(),
            Self::Interrupted { interrupts, .. } => match interrupts.first() {
                Some(first) => format!("`{}` asks {}", first.namespace, first.value),
                None => "a node asks something".to_owned(),
            },
            Self::Stopped { stop: Stop::Drained, .. } => "it was drained".to_owned(),
            Self::Stopped { .. } => "a static stop".to_owned(),
        }
    }
}
