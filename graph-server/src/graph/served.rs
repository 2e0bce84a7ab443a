//! A graph whose state's type is known here and nowhere else.

use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use futures_util::FutureExt;
use graph_core::{
    CompiledGraph, Event, Exit, Input, Interrupt, RunError, RunOptions, RunStream, State, Thread,
    ThreadState, checkpoint::CheckpointError,
};
use serde_json::{Map, Value, json};
use tokio::time::{Instant, sleep};

use super::{Given, Graphs};
use crate::{
    run::to_millis,
    runner::{Ended, Failure, Teller},
};

/// So many events are stored together, if they are there at once.
const TOGETHER: usize = 64;

/// A run that was stopped holds its thread until what it queued is stored. Whoever goes on with it tries again so
/// often, for so long.
const PAUSE: Duration = Duration::from_millis(50);
const PATIENCE: Duration = Duration::from_secs(5);

/// A graph of any state.
#[async_trait]
pub(super) trait Served: Send + Sync {
    /// Goes on with a run on a thread.
    async fn go(
        &self,
        graphs: &Graphs,
        run: &str,
        given: Given,
        answers: Map<String, Value>,
        teller: &Teller,
    ) -> Result<Ended, Failure>;

    /// How a thread stands; `None` if it never ran.
    async fn state(&self, thread: &str) -> Result<Option<Value>, RunError>;

    /// A thread's checkpoints, newest first.
    async fn history(&self, thread: &str, limit: usize) -> Result<Vec<Value>, RunError>;

    /// The questions that wait on a thread, and the run that asks them; `None` if it never ran.
    async fn questions(&self, thread: &str) -> Result<Option<(String, Vec<Interrupt>)>, RunError>;

    /// Whether these fields can be an input, and if not, why.
    fn check(&self, input: &Map<String, Value>) -> Result<(), String>;

    /// The graph as nodes and edges.
    fn drawing(&self) -> Value;
}

pub(super) struct Typed<S: State, C> {
    pub(super) graph: CompiledGraph<S, C>,
    pub(super) deps: Box<dyn Fn() -> C + Send + Sync>,
}

impl<S: State, C: Send + Sync + 'static> Typed<S, C> {
    fn thread(&self, name: &str) -> Thread<S, C> {
        self.graph.thread(name, (self.deps)())
    }

    /// What the thread is given: the run's input, unless the thread has it already, or answers that are still wanted.
    async fn input(
        &self,
        graphs: &Graphs,
        thread: &Thread<S, C>,
        run: &str,
        given: Given,
        mut answers: Map<String, Value>,
    ) -> Result<Input<S>, Failure> {
        let here = thread.state().await.map_err(failure)?;
        let is_there = here.is_some();
        let Some(here) = here.filter(|it| it.run == run) else {
            if graphs.has_begun(run) {
                let why = if is_there {
                    "a later run is on this run's thread; start a new one"
                } else {
                    "the run's thread is gone from its checkpointer; start a new run"
                };
                return Err(Failure(why.into()));
            }
            let update =
                self.graph.read_update(given.input).map_err(|it| Failure(it.to_string()))?;
            return Ok(Input::update(update));
        };
        let wanted = here.interrupts().map(|it| it.id.clone());
        let answers: Vec<_> = wanted.filter_map(|id| answers.remove_entry(&id)).collect();
        Ok(if answers.is_empty() { Input::proceed() } else { Input::answers(answers) })
    }
}

#[async_trait]
impl<S: State, C: Send + Sync + 'static> Served for Typed<S, C> {
    async fn go(
        &self,
        graphs: &Graphs,
        run: &str,
        given: Given,
        answers: Map<String, Value>,
        teller: &Teller,
    ) -> Result<Ended, Failure> {
        let until = Instant::now() + PATIENCE;
        let exit = loop {
            let options = RunOptions::new().run_named(run).modes(given.modes.clone()).subgraphs();
            let thread = self.thread(&given.thread);
            let input = self.input(graphs, &thread, run, given.clone(), answers.clone()).await?;
            let mut stream = thread.with(options).stream(input);
            while let Some(events) = several(&mut stream).await {
                let events = events.iter().map(shown).collect();
                for event in graphs.store(run, events).await? {
                    teller.tell(event);
                }
            }
            match stream.finish().await {
                Err(RunError::Checkpoint(CheckpointError::Busy { .. }))
                    if Instant::now() < until =>
                {
                    sleep(PAUSE).await;
                }
                ended => break ended.map_err(failure)?,
            }
        };
        match exit {
            Exit::Done(state) => Ok(Ended::Complete(values(&state))),
            _ => Ok(Ended::Waiting),
        }
    }

    async fn state(&self, thread: &str) -> Result<Option<Value>, RunError> {
        Ok(self.thread(thread).state().await?.as_ref().map(state))
    }

    async fn history(&self, thread: &str, limit: usize) -> Result<Vec<Value>, RunError> {
        Ok(self.thread(thread).history(Some(limit)).await?.iter().map(state).collect())
    }

    async fn questions(&self, thread: &str) -> Result<Option<(String, Vec<Interrupt>)>, RunError> {
        let here = self.thread(thread).state().await?;
        Ok(here.map(|it| (it.run.clone(), it.interrupts().cloned().collect())))
    }

    fn check(&self, input: &Map<String, Value>) -> Result<(), String> {
        self.graph.read_update(input.clone()).map(drop).map_err(|error| error.to_string())
    }

    fn drawing(&self) -> Value {
        self.graph.to_json(1)
    }
}

/// Why a run failed, for its clients. A storage names its files or its server, which are for the log alone.
fn failure(error: RunError) -> Failure {
    match error {
        RunError::Checkpoint(CheckpointError::Storage(cause)) => {
            tracing::error!(%cause, "a thread cannot be read or written");
            Failure("the run's thread cannot be read or written; the server's log says why".into())
        }
        other => Failure(other.to_string()),
    }
}

/// Waits for an event, and takes with it those that are there already.
async fn several<S: State>(stream: &mut RunStream<S>) -> Option<Vec<Event>> {
    let mut events = vec![stream.next().await?];
    while events.len() < TOGETHER
        && let Some(Some(event)) = stream.next().now_or_never()
    {
        events.push(event);
    }
    Some(events)
}

fn shown(event: &Event) -> Value {
    json!({
        "type": event.kind.mode(),
        "namespace": &*event.namespace,
        "step": event.step,
        "node": event.node.as_deref(),
        "event": event.kind,
    })
}

/// The fields of a state that were ever written.
fn values<S: State>(state: &S) -> Value {
    let fields = state.fields().iter().enumerate().filter_map(|(idx, field)| {
        let value = state.value(idx).ok().flatten()?;
        Some((field.name.to_string(), value))
    });
    Value::Object(fields.collect())
}

fn state<S: State>(state: &ThreadState<S>) -> Value {
    let time = |it: SystemTime| to_millis(it);
    json!({
        "values": values(&state.values),
        "next": state.next,
        "checkpoint": state.id.to_string(),
        "parent": state.parent.map(|it| it.to_string()),
        "step": state.step,
        "run": state.run,
        "created_at_ms": time(state.created_at),
        "interrupts": state.interrupts().collect::<Vec<_>>(),
        "metadata": state.metadata,
    })
}
