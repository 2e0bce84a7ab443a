//! Graphs that this process executes. Only this module knows their state types.

use std::time::Duration;

use async_trait::async_trait;
use graph_core::{
    CompiledGraph, Event, HistoryFilter, Input, RunError, RunOptions, RunOutcome, State, StateEdit,
    StreamMode, SubgraphThread, TaskState, Thread, ThreadState,
    checkpoint::{CheckpointError, CheckpointId, Source},
    draw::Drawing,
    state::{Field, FieldError},
};
use serde_json::{Map, Value};
use tokio::time::{Instant, sleep};

use super::{
    any_graph::{AnyGraph, Edit, GraphEnd, GraphFailure, GraphRun, Snapshot, select_fields},
    position::Position,
    request::{command::Command, run::RunKwargs},
    schemas::Schemas,
    stream::message::complete_fields,
};

/// Interval between attempts to lease a thread. A cancelled run keeps its lease until its queued writes are stored.
const LEASE_RETRY: Duration = Duration::from_millis(10);
/// Maximum time for which a run waits for the lease on its thread. PostgreSQL releases the lease of a lost machine
/// within half a minute.
const LEASE_TIMEOUT: Duration = Duration::from_secs(45);

/// Creates the dependencies of a run from its context.
pub(super) type DepsFn<C> = Box<dyn Fn(&Map<String, Value>) -> Result<C, String> + Send + Sync>;

/// A graph that this process executes.
pub(super) struct TypedGraph<S: State, C> {
    pub(super) graph: CompiledGraph<S, C>,
    pub(super) deps: DepsFn<C>,
    pub(super) schemas: Schemas,
}

impl<S: State, C: Send + Sync + 'static> TypedGraph<S, C> {
    fn thread(
        &self,
        name: &str,
        at: Option<CheckpointId>,
        context: &Map<String, Value>,
    ) -> Result<Thread<S, C>, RunError> {
        let deps = (self.deps)(context).map_err(RunError::InvalidUpdate)?;
        let thread = self.graph.thread(name, deps);
        Ok(match at {
            Some(at) => thread.at(at),
            None => thread,
        })
    }

    /// Returns a subgraph of a thread.
    fn subgraph(
        &self,
        thread: &str,
        at: &Position,
        options: RunOptions,
    ) -> Result<SubgraphThread<S, C>, RunError> {
        let thread = self.thread(thread, None, &Map::new())?.with_options(options);
        let subgraph = thread.subgraph(&at.namespace)?;
        Ok(match at.checkpoint {
            Some(at) => subgraph.at(at),
            None => subgraph,
        })
    }

    /// Returns the checkpoint that a run starts from, and its input. A run that already wrote to its thread before the
    /// server was killed continues where it stopped.
    async fn start(&self, run: &GraphRun<'_>) -> Result<(Position, Input<S>), RunError> {
        let head = self.thread(run.thread, None, &run.kwargs.context)?.state().await?;
        let Some(head) = head.filter(|it| it.run == run.run) else {
            return Ok((run.at.clone(), self.input(run.kwargs)?));
        };
        // The checkpoint of a fork contains the update and the targets of the command, but not its resume value.
        let command = run.kwargs.command.as_ref().filter(|it| it.answers().is_none());
        let input = match command.and_then(|it| it.resume.as_ref()) {
            Some(value) if head.source == Source::Fork && head.interrupts().is_empty() => {
                Input::resume(value)?
            }
            _ => Input::proceed(),
        };
        Ok((Position::HEAD, input))
    }

    /// Returns the input of a run that has not started.
    fn input(&self, kwargs: &RunKwargs) -> Result<Input<S>, RunError> {
        match (&kwargs.input, &kwargs.command) {
            (_, Some(command)) => self.command(command),
            (Some(Value::Object(fields)), None) => {
                Ok(Input::update(self.update(fields, |it| it.input)?))
            }
            (Some(Value::Null) | None, None) => Ok(Input::proceed()),
            (Some(_), None) => {
                let problem = "the input must be a JSON object of state fields";
                Err(RunError::InvalidUpdate(problem.to_owned()))
            }
        }
    }

    /// Converts values of a client to an update of the selected fields.
    fn update(
        &self,
        fields: &Map<String, Value>,
        select: impl Fn(&Field) -> bool,
    ) -> Result<S::Update, FieldError> {
        self.graph.update_from_json(select_fields(self.graph.fields(), fields, select))
    }

    fn command(&self, command: &Command) -> Result<Input<S>, RunError> {
        let mut input = match (command.answers(), &command.resume) {
            (Some(answers), _) => Input::resume_by_id(answers.clone()),
            (None, Some(value)) => Input::resume(value)?,
            (None, None) => Input::command(),
        };
        if let Some(fields) = command.fields() {
            input = input.with_update(self.update(&fields, |_| true)?);
        }
        let gotos = command.gotos();
        Ok(if gotos.is_empty() { input } else { input.goto(gotos) })
    }

    fn options(&self, run: &GraphRun<'_>) -> RunOptions {
        let kwargs = run.kwargs;
        let mut options = RunOptions::new()
            .run_id(run.run)
            .stream_modes(StreamMode::DEBUG)
            .subgraphs()
            .durability(kwargs.durability.into())
            .control(run.control.clone());
        if let Some(limit) = kwargs.config.recursion_limit {
            options = options.step_limit(limit);
        }
        if let Some(limit) = kwargs.config.max_concurrency {
            options = options.max_concurrency(limit);
        }
        if let Some(stops) = &kwargs.interrupt_before {
            options = options.stop_before(stops.stops());
        }
        if let Some(stops) = &kwargs.interrupt_after {
            options = options.stop_after(stops.stops());
        }
        let config = kwargs.config.configurable.iter();
        options = config.fold(options, |options, (key, value)| options.config(key, value.clone()));
        let metadata = run.metadata.iter();
        metadata.fold(options, |options, (key, value)| options.metadata(key, value.clone()))
    }
}

#[async_trait]
impl<S: State, C: Send + Sync + 'static> AnyGraph for TypedGraph<S, C> {
    async fn run(
        &self,
        run: GraphRun<'_>,
        publish: &mut (dyn FnMut(Event) + Send),
    ) -> Result<GraphEnd, GraphFailure> {
        let deadline = Instant::now() + LEASE_TIMEOUT;
        let thread = self.thread(run.thread, None, &run.kwargs.context)?;
        let thread = thread.with_options(self.options(&run));
        let outcome = loop {
            let (at, input) = self.start(&run).await?;
            let mut stream = match (at.namespace.as_str(), at.checkpoint) {
                (_, None) => thread.stream(input),
                ("", Some(at)) => thread.at(at).stream(input),
                (namespace, Some(at)) => thread.subgraph(namespace)?.at(at).stream(input),
            };
            while let Some(event) = stream.next().await {
                publish(event);
            }
            match stream.finish().await {
                Err(RunError::Checkpoint(CheckpointError::Busy { .. }))
                    if Instant::now() < deadline =>
                {
                    sleep(LEASE_RETRY).await;
                }
                outcome => break outcome?,
            }
        };
        let interrupts = match &outcome {
            RunOutcome::Interrupted { interrupts, .. } => interrupts.clone(),
            _ => Vec::new(),
        };
        Ok(GraphEnd { output: fields(outcome.state(), |it| it.output), interrupts })
    }

    async fn state(
        &self,
        thread: &str,
        at: &Position,
        subgraphs: bool,
    ) -> Result<Option<Snapshot>, RunError> {
        if !at.namespace.is_empty() {
            let subgraph = self.subgraph(thread, at, RunOptions::new())?;
            let state = match subgraphs {
                true => subgraph.state_with_subgraphs().await?,
                false => subgraph.state().await?,
            };
            return Ok(state.map(complete));
        }
        let thread = self.thread(thread, at.checkpoint, &Map::new())?;
        let state = match subgraphs {
            true => thread.state_with_subgraphs().await?,
            false => thread.state().await?,
        };
        Ok(state.map(snapshot))
    }

    async fn history(
        &self,
        thread: &str,
        namespace: &str,
        filter: HistoryFilter,
    ) -> Result<Vec<Snapshot>, RunError> {
        if !namespace.is_empty() {
            let at = Position { namespace: namespace.to_owned(), checkpoint: None };
            let subgraph = self.subgraph(thread, &at, RunOptions::new())?;
            return Ok(subgraph.history(filter).await?.into_iter().map(complete).collect());
        }
        let thread = self.thread(thread, None, &Map::new())?;
        Ok(thread.history(filter).await?.into_iter().map(snapshot).collect())
    }

    async fn edit(
        &self,
        thread: &str,
        at: &Position,
        metadata: Map<String, Value>,
        steps: Vec<Vec<Edit>>,
    ) -> Result<CheckpointId, RunError> {
        let options = RunOptions::new();
        let options = metadata
            .into_iter()
            .fold(options, |options, (key, value)| options.metadata(key, value));
        if !at.namespace.is_empty() {
            let subgraph = self.subgraph(thread, at, options)?;
            let edit = |edit: Edit| {
                let fields = edit.fields.map(|it| select_fields(subgraph.fields(), &it, |_| true));
                (fields.map_or(Value::Null, Value::Object), edit.as_node)
            };
            let steps = steps.into_iter().map(|step| step.into_iter().map(edit).collect());
            let steps: Vec<Vec<_>> = steps.collect();
            return subgraph.bulk_update_state(steps).await;
        }
        let thread = self.thread(thread, at.checkpoint, &Map::new())?.with_options(options);
        let edit = |edit: Edit| {
            let update = edit.fields.map(|it| self.update(&it, |_| true)).transpose()?;
            Ok::<_, RunError>(StateEdit { update, as_node: edit.as_node })
        };
        let steps = steps.into_iter().map(|step| step.into_iter().map(edit).collect());
        let steps: Vec<Vec<_>> = steps.collect::<Result<_, RunError>>()?;
        thread.bulk_update_state(steps).await
    }

    fn check_context(&self, context: &Map<String, Value>) -> Result<(), String> {
        (self.deps)(context).map(drop)
    }

    fn drawing(&self, depth: usize) -> Drawing {
        self.graph.drawing(depth)
    }

    fn schemas(&self) -> &Schemas {
        &self.schemas
    }

    fn fields(&self) -> &[Field] {
        self.graph.fields()
    }
}

/// Returns the selected fields that have a value, in the form that clients expect.
fn fields<S: State>(state: &S, show: impl Fn(&Field) -> bool) -> Value {
    let fields = state.fields().iter().enumerate().filter(|(_, field)| show(field));
    let values = fields.filter_map(|(index, field)| {
        let value = state.value(index).ok().flatten()?;
        Some((field.name.to_string(), value))
    });
    complete_fields(Value::Object(values.collect()))
}

fn snapshot<S: State>(mut state: ThreadState<S>) -> Snapshot {
    complete_subgraphs(&mut state.tasks);
    state.map_values(|it| fields(&it, |_| true))
}

/// Completes the messages in the state of a subgraph.
fn complete(mut state: Snapshot) -> Snapshot {
    complete_subgraphs(&mut state.tasks);
    state.map_values(complete_fields)
}

fn complete_subgraphs(tasks: &mut [TaskState]) {
    for task in tasks {
        task.subgraph = task.subgraph.take().map(|it| Box::new(complete(*it)));
    }
}

#[cfg(test)]
mod tests {
    use graph_core::{Context, MemorySaver, NodeError, RunControl, START, StateGraph};
    use serde_json::json;

    use super::*;
    use crate::langgraph::request::run::RunCreate;

    #[derive(State, Clone, Debug, Default)]
    struct Talk {
        topic: String,
        answer: String,
    }

    async fn open(_: &Talk) {}

    async fn ask(talk: &Talk, cx: &Context) -> Result<TalkUpdate, NodeError> {
        let answer: String = cx.interrupt("Why?")?;
        Ok(Talk::update().answer(format!("{}: {answer}", talk.topic)))
    }

    /// Returns a graph with a thread `t` that was asked about tea and has answered, and the checkpoint before the
    /// question.
    async fn answered() -> (TypedGraph<Talk, ()>, CheckpointId) {
        let graph =
            StateGraph::<Talk>::new().node(open).node(ask).edge(START, open).edge(open, ask);
        let graph = graph.checkpointer(MemorySaver::new()).compile().unwrap();
        let thread = graph.thread("t", ());
        let _ = thread.run(Talk::update().topic("tea")).await.unwrap();
        let asked = thread.state().await.unwrap().unwrap().id;
        let _ = thread.resume("taste").await.unwrap();
        (TypedGraph { graph, deps: Box::new(|_| Ok(())), schemas: Schemas::default() }, asked)
    }

    /// Executes the run `r` from a checkpoint, after an earlier execution has stored its first checkpoint.
    async fn continue_run(
        graph: &TypedGraph<Talk, ()>,
        at: CheckpointId,
        first: Input<Talk>,
        request: Value,
    ) -> GraphEnd {
        let control = RunControl::new();
        control.drain();
        let stopped = RunOptions::new().run_id("r").control(control);
        let thread = graph.graph.thread("t", ()).at(at).with_options(stopped);
        assert!(!thread.run(first).await.unwrap().is_done());
        let request: RunCreate = serde_json::from_value(request).unwrap();
        let kwargs = request.kwargs("talk".to_owned(), false, Map::new()).unwrap();
        let run = GraphRun {
            run: "r",
            thread: "t",
            owner: None,
            at: Position { checkpoint: Some(at), ..Position::HEAD },
            kwargs: &kwargs,
            metadata: Map::new(),
            control: RunControl::new(),
        };
        graph.run(run, &mut |_: Event| ()).await.unwrap()
    }

    #[tokio::test]
    async fn a_run_from_a_checkpoint_keeps_its_input_after_a_crash() {
        let (graph, at) = answered().await;
        let first = Input::update(Talk::update().topic("milk"));
        let request = json!({ "assistant_id": "talk", "input": { "topic": "milk" } });
        let end = continue_run(&graph, at, first, request).await;
        assert_eq!(end.output["topic"], "milk");
        assert_eq!(end.interrupts.len(), 1);
    }

    #[tokio::test]
    async fn a_fork_keeps_its_resume_value_after_a_crash() {
        let (graph, at) = answered().await;
        let first = Input::proceed();
        let request = json!({ "assistant_id": "talk", "command": { "resume": "warmth" } });
        let end = continue_run(&graph, at, first, request).await;
        assert_eq!(end.output["answer"], "tea: warmth");
    }
}
