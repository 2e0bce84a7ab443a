//! Executes the calls in a script on the engine.

use std::sync::Arc;

use graph_core::{
    AsNode, Input, JsonState, RunError, RunOptions, StateEdit, Stops, StreamMode, Thread,
    ThreadState,
    checkpoint::{CheckpointId, Checkpointer},
    remote::RemoteTaskRunner,
};
use serde_json::{Value, json};

use crate::{
    answer::{self, Trace},
    build::{self, CaseDeps, Mode},
    built_graph::BuiltGraph,
    case::{Call, Case, EditSpec, InputCommand, TargetSpec},
    error::CallError,
    executor::{CaseRun, ExecutedRun, RunExecutor, RunInput},
    expr::Env,
    node::gotos,
    remote_tasks::Loopback,
};

/// How the runs of a case are executed.
#[derive(Clone, Debug, Default)]
pub enum Execution {
    /// The engine runs them.
    #[default]
    Engine,
    /// The engine runs them, and everything that a task receives and returns is serialised, as if the task ran in
    /// another process.
    RemoteTasks,
    /// An executor executes the runs that it can express; the engine executes the others.
    Executor(Arc<dyn RunExecutor>),
}

/// The answers of a case.
#[derive(Debug)]
pub(crate) struct Answers {
    /// One answer per call, or a single answer if the graph cannot be built.
    pub(crate) values: Vec<Value>,
    /// Whether a task started before a task of an earlier step ended.
    pub(crate) ran_ahead: bool,
}

/// Runs a case.
pub(crate) async fn answers(
    case: &Case,
    saver: &Arc<dyn Checkpointer>,
    mode: Mode,
    execution: &Execution,
) -> Answers {
    let deps = CaseDeps::new(saver.clone(), mode);
    let Ok(built_graph) = build::root(&case.graph, &deps) else {
        return Answers { values: vec![json!({ "error": "invalid_graph" })], ran_ahead: false };
    };
    let has_checkpointer = case.graph.compile.checkpointer != Some(false);
    let loopback = Arc::new(Loopback { graph: built_graph.graph.clone() });
    let task_runner: Option<Arc<dyn RemoteTaskRunner>> = match execution {
        Execution::RemoteTasks if !case.runs_graphs_in_nodes() => Some(loopback),
        _ => None,
    };
    let executor = match execution {
        Execution::Executor(executor) => Some(executor.clone()),
        Execution::Engine | Execution::RemoteTasks => None,
    };
    let session = Session { built_graph, deps, has_checkpointer, task_runner, executor };
    let mut values = Vec::new();
    for (index, call) in case.script.iter().enumerate() {
        let mut answer = session.answer(call).await;
        if answer["error"] == EXECUTOR_ERROR {
            // The executor does not know the code of the error.
            let expected = case.expect.get(index).map(|it| it["error"].clone());
            answer["error"] = expected.filter(|it| !it.is_null()).unwrap_or(json!(EXECUTOR_ERROR));
        }
        values.push(answer);
    }
    Answers { values, ran_ahead: session.deps.counters.ran_ahead() }
}

/// Returns the input of a run that executes a command, or `None` if the command has targets with payloads.
fn run_command(command: &InputCommand) -> Option<RunInput> {
    let name = |target: &Option<TargetSpec>| match target {
        Some(TargetSpec::Name(name)) => Some(name.clone()),
        _ => None,
    };
    let goto = command.goto.iter().flatten().map(name).collect::<Option<_>>()?;
    let update = command.update.clone().unwrap_or_default();
    Some(RunInput::Command { update, goto, resume: command.resume.clone() })
}

/// Placeholder for the unknown code of an error that an executor reported.
const EXECUTOR_ERROR: &str = "the executor reported an error";

/// A graph, and the state that is kept between calls.
struct Session {
    built_graph: BuiltGraph,
    deps: CaseDeps,
    /// Whether the graph has a checkpointer.
    has_checkpointer: bool,
    task_runner: Option<Arc<dyn RemoteTaskRunner>>,
    executor: Option<Arc<dyn RunExecutor>>,
}

impl Session {
    async fn answer(&self, call: &Call) -> Value {
        if call.runs() {
            return self.run(call).await;
        }
        let answer = self.inspect(call).await;
        answer.unwrap_or_else(|error| json!({ "error": error.code() }))
    }

    async fn run(&self, call: &Call) -> Value {
        let counters = &self.deps.counters;
        counters.take_calls();
        let mut trace = Trace::default();
        let exit = self.exit(call, &mut trace).await;
        match &exit {
            // An executor does not report the error text of the failed task.
            Ok(()) | Err(CallError::Executor(_)) => {}
            Err(error) => counters.remember_code(error.text(), error.code()),
        }
        let output = trace.take_output().filter(|_| exit.is_ok());
        let mut answer = trace.answer(counters);
        answer.insert("output".to_owned(), output.unwrap_or_default());
        answer.insert("error".to_owned(), exit.err().map(|it| it.code()).into());
        answer.insert("calls".to_owned(), json!(counters.take_calls()));
        if let Some(name) = call.thread.as_ref().filter(|_| self.has_checkpointer) {
            let state = self.built_graph.graph.thread(name, ()).state().await;
            let (interrupts, next) = pending(state);
            answer.insert("interrupts".to_owned(), interrupts);
            answer.insert("next".to_owned(), next);
        }
        Value::Object(answer)
    }

    async fn exit(&self, call: &Call, trace: &mut Trace) -> Result<(), CallError> {
        if let Some(executor) = &self.executor {
            match self.case_run(call).await? {
                Err(reason) => executor.skip(reason),
                Ok(run) => {
                    if let Some(ExecutedRun { events, error }) = executor.execute(run).await {
                        events.into_iter().for_each(|it| trace.record(it));
                        return error.map_or(Ok(()), |it| Err(CallError::Executor(it.code)));
                    }
                }
            }
        }
        let input = self.input(call).await?;
        let mut events = if self.has_checkpointer && call.thread.is_some() {
            self.thread(call).await?.stream(input)
        } else {
            self.built_graph.graph.with(self.options(call)).stream(input, ())
        };
        while let Some(event) = events.next().await {
            trace.record(event);
        }
        let _ = events.finish().await?;
        Ok(())
    }

    /// Returns the run of a call for an executor, or the reason for which an executor cannot receive it.
    async fn case_run(&self, call: &Call) -> Result<Result<CaseRun, &'static str>, CallError> {
        let Some(thread) = call.thread.clone().filter(|_| self.has_checkpointer) else {
            return Ok(Err("the run has no thread"));
        };
        let input = match call {
            Call { command: Some(command), .. } => match run_command(command) {
                Some(input) => input,
                None => return Ok(Err("the command sends payloads")),
            },
            Call { resume_map: Some(questions), .. } => {
                RunInput::Answers(self.pending_answers(call, questions).await?)
            }
            Call { resume: Some(answer), .. } => RunInput::Answer(answer.clone()),
            Call { invoke: Some(Value::Null), .. } => RunInput::Continue,
            Call { invoke: Some(Value::Object(fields)), .. } => {
                let is_input = |name: &str| {
                    let mut fields = self.built_graph.graph.fields().iter();
                    fields.find(|it| it.name == name).is_some_and(|it| it.input)
                };
                let fields = fields.iter().filter(|(name, _)| is_input(name));
                RunInput::Fields(fields.map(|(name, it)| (name.clone(), it.clone())).collect())
            }
            _ => return Ok(Err("the input is not an object")),
        };
        let graph = self.built_graph.graph.with(self.options(call));
        let checkpoint = checkpoint(&graph.thread(&thread, ()), call).await?;
        Ok(Ok(CaseRun { graph, thread, checkpoint, input }))
    }

    /// Returns the answers to the pending interrupts with these values.
    async fn pending_answers(
        &self,
        call: &Call,
        questions: &[(Value, Value)],
    ) -> Result<Vec<(String, Value)>, CallError> {
        let state = self.thread(call).await?.state().await?;
        let pending = state.iter().flat_map(ThreadState::interrupts);
        let answers = pending.filter_map(|it| {
            let (_, answer) = questions.iter().find(|(question, _)| *question == it.value)?;
            Some((it.id.clone(), answer.clone()))
        });
        Ok(answers.collect())
    }

    async fn input(&self, call: &Call) -> Result<Input<JsonState>, CallError> {
        if let Some(questions) = &call.resume_map {
            return Ok(Input::resume_by_id(self.pending_answers(call, questions).await?));
        }
        if let Some(answer) = &call.resume {
            return Ok(Input::resume(answer)?);
        }
        if let Some(command) = &call.command {
            return self.command(command);
        }
        match &call.invoke {
            None => Err(CallError::UnknownCall),
            Some(Value::Null) => Ok(Input::proceed()),
            Some(input) => Ok(self.built_graph.schema.input(input.clone())?),
        }
    }

    fn command(&self, command: &InputCommand) -> Result<Input<JsonState>, CallError> {
        let mut input = Input::command();
        if let Some(update) = &command.update {
            input =
                input.with_update(self.built_graph.schema.update(Value::Object(update.clone()))?);
        }
        if command.goto.is_some() {
            // Null targets are valid only in branches.
            let gotos =
                gotos(&command.goto, &Env::default()).map_err(|_| CallError::UnknownCall)?;
            input = input.goto(gotos);
        }
        match &command.resume {
            Some(answer) => Ok(input.with_resume(answer)?),
            None => Ok(input),
        }
    }

    async fn inspect(&self, call: &Call) -> Result<Value, CallError> {
        let thread = self.thread(call).await?;
        if call.history {
            let history = thread.history(None).await?;
            let counters = &self.deps.counters;
            return Ok(history.iter().map(|it| answer::state(it, counters, false)).collect());
        }
        if call.namespaces {
            let counted =
                self.deps.saver.namespaces(thread.name()).await.map_err(RunError::from)?;
            let shown = counted.iter().map(|(name, n)| json!([answer::without_task_ids(name), n]));
            return Ok(shown.collect());
        }
        if call.state {
            let state = match call.subgraphs {
                true => thread.state_with_subgraphs().await?,
                false => thread.state().await?,
            };
            return Ok(self.state(state.as_ref(), call.subgraphs));
        }
        thread.bulk_update_state(self.edits(call)?).await?;
        let newest = self.built_graph.graph.thread(thread.name(), ()).state().await?;
        Ok(self.state(newest.as_ref(), false))
    }

    fn state(&self, state: Option<&ThreadState<JsonState>>, subgraphs: bool) -> Value {
        let counters = &self.deps.counters;
        state.map_or_else(answer::no_state, |it| answer::state(it, counters, subgraphs))
    }

    fn edits(&self, call: &Call) -> Result<Vec<Vec<StateEdit<JsonState>>>, CallError> {
        if let Some(steps) = &call.bulk_update {
            let step = |step: &Vec<EditSpec>| {
                step.iter().map(|it| self.edit(&it.values, it.as_node.as_deref())).collect()
            };
            return steps.iter().map(step).collect();
        }
        let values = call.update_state.as_ref().ok_or(CallError::UnknownCall)?;
        Ok(vec![vec![self.edit(values, call.as_node.as_deref())?]])
    }

    fn edit(
        &self,
        values: &Value,
        as_node: Option<&str>,
    ) -> Result<StateEdit<JsonState>, CallError> {
        let update = match values {
            Value::Null => None,
            values => Some(self.built_graph.schema.update(values.clone())?),
        };
        let as_node = match as_node {
            None => AsNode::Last,
            Some("__input__") => AsNode::Input,
            Some("__copy__") => AsNode::Copy,
            Some(name) => AsNode::node(name),
        };
        Ok(StateEdit { update, as_node })
    }

    /// Returns the thread on which a call operates, positioned at the snapshot that the call specifies.
    async fn thread(&self, call: &Call) -> Result<Thread<JsonState>, CallError> {
        let name = call.thread.as_ref().ok_or(RunError::MissingThread)?;
        let thread = self.built_graph.graph.thread(name, ()).with_options(self.options(call));
        Ok(match checkpoint(&thread, call).await? {
            Some(id) => thread.at(id),
            None => thread,
        })
    }

    fn options(&self, call: &Call) -> RunOptions {
        let options = options(call);
        match &self.task_runner {
            Some(runner) => options.task_runner(runner.clone()),
            None => options,
        }
    }
}

/// Returns the checkpoint of the snapshot that a call specifies.
async fn checkpoint(
    thread: &Thread<JsonState>,
    call: &Call,
) -> Result<Option<CheckpointId>, CallError> {
    let Some(place) = call.at else { return Ok(None) };
    let history = thread.history(None).await?;
    let snapshot = history.get(place).ok_or(CallError::NoSnapshot(place))?;
    Ok(Some(snapshot.id))
}

fn options(call: &Call) -> RunOptions {
    let mut options = RunOptions::new()
        .step_limit(u32::try_from(call.recursion_limit).unwrap_or(0))
        .durability(call.durability)
        .stream_modes([
            StreamMode::Values,
            StreamMode::Updates,
            StreamMode::Custom,
            StreamMode::Tasks,
        ]);
    // An empty list keeps the stops that were set at compile time.
    if let Some(stops) = call.interrupt_before.as_ref().filter(|it| !it.is_empty()) {
        options = options.stop_before(Stops::from(stops));
    }
    if let Some(stops) = call.interrupt_after.as_ref().filter(|it| !it.is_empty()) {
        options = options.stop_after(Stops::from(stops));
    }
    options
}

/// Returns the pending interrupts and nodes of a thread.
fn pending(state: Result<Option<ThreadState<JsonState>>, RunError>) -> (Value, Value) {
    match state {
        Ok(Some(state)) => {
            let questions = state.interrupts().into_iter().map(|it| it.value.clone()).collect();
            (questions, json!(state.next))
        }
        Ok(None) => (json!([]), json!([])),
        Err(error) => (json!({ "error": error.to_string() }), Value::Null),
    }
}
