//! Commands that start runs.

use std::sync::Arc;

use graph_core::state::Field;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::{
    super::run_response::create_run,
    command::{CommandError, CommandResult, applied_through, parse},
};
use crate::langgraph::{
    id::{parse_checkpoint, parse_namespace},
    manager::Manager,
    position::Position,
    records::Thread,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StartRun {
    assistant_id: String,
    input: Option<Value>,
    #[serde(flatten)]
    options: RunSettings,
}

/// Options that all commands that start runs have in common.
#[derive(Default, Deserialize)]
struct RunSettings {
    config: Option<Map<String, Value>>,
    metadata: Option<Map<String, Value>>,
    #[serde(default, rename = "multitaskStrategy", alias = "multitask_strategy")]
    multitask_strategy: Option<String>,
}

/// Starts a run. If the thread waits for an answer, the input is the answer.
pub(super) async fn start_run(
    manager: &Arc<Manager>,
    thread: Uuid,
    params: Map<String, Value>,
) -> CommandResult<(Value, u64)> {
    let StartRun { assistant_id, input, options } = parse(params)?;
    let waits = !pending_interrupts(manager, thread).await?.is_empty();
    let what = match input.filter(|it| !it.is_null()) {
        Some(answer) if waits => json!({ "command": { "resume": answer } }),
        input => json!({ "input": input }),
    };
    let seq = applied_through(manager, thread).await?;
    let run = create(manager, thread, &assistant_id, what, options).await?;
    Ok((json!({ "run_id": run }), seq))
}

/// Creates a run. `body` contains its input or its command.
async fn create(
    manager: &Arc<Manager>,
    thread: Uuid,
    assistant: &str,
    mut body: Value,
    options: RunSettings,
) -> CommandResult<Uuid> {
    let config = options.config.map(Value::Object).unwrap_or(Value::Null);
    body["assistant_id"] = json!(assistant);
    body["if_not_exists"] = json!("create");
    // Clients of this protocol can resume every stream.
    body["stream_resumable"] = json!(true);
    let configurable = &config["configurable"];
    body["checkpoint"] = json!({
        "checkpoint_ns": configurable["checkpoint_ns"],
        "checkpoint_id": configurable["checkpoint_id"],
        "checkpoint_map": configurable["checkpoint_map"],
    });
    body["config"] = config;
    body["metadata"] = json!(options.metadata);
    body["multitask_strategy"] = json!(options.multitask_strategy);
    let body = match body {
        Value::Object(body) => parse(body)?,
        _ => return Err(CommandError::invalid("invalid params: they must be an object")),
    };
    let (run, _) = create_run(manager, Some(thread), &body).await?;
    Ok(run.run_id)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Respond {
    interrupt_id: Option<String>,
    #[serde(default)]
    response: Value,
    #[serde(default)]
    responses: Vec<RespondOne>,
    /// Ids of interrupts are unique within a thread, so their namespaces are not needed.
    #[serde(default, rename = "namespace")]
    _namespace: Vec<String>,
    update: Option<Value>,
    goto: Option<Value>,
    #[serde(flatten)]
    options: RunSettings,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RespondOne {
    interrupt_id: String,
    #[serde(default)]
    response: Value,
    #[serde(default, rename = "namespace")]
    _namespace: Vec<String>,
}

/// Returns the assistant of a thread's latest run.
fn assistant_of(thread: &Thread) -> CommandResult<&str> {
    thread.metadata.get("assistant_id").and_then(Value::as_str).ok_or_else(|| {
        let problem = "the thread has no run yet; start one with `run.start`";
        CommandError("no_such_run", problem.to_owned())
    })
}

/// Answers interrupts and continues the thread.
pub(super) async fn respond_to_interrupts(
    manager: &Arc<Manager>,
    thread: Uuid,
    params: Map<String, Value>,
) -> CommandResult<(Value, u64)> {
    let request: Respond = parse(params)?;
    let mut answers: Map<String, Value> =
        request.responses.into_iter().map(|it| (it.interrupt_id, it.response)).collect();
    answers.extend(request.interrupt_id.map(|id| (id, request.response)));
    if answers.is_empty() {
        let problem = "`input.respond` needs an `interrupt_id` or a list of `responses`";
        return Err(CommandError::invalid(problem));
    }
    let pending = pending_interrupts(manager, thread).await?;
    if let Some(id) = answers.keys().find(|it| !pending.contains(it)) {
        let problem = format!("interrupt `{id}` is not pending on this thread");
        return Err(CommandError("no_such_interrupt", problem));
    }
    let stored = manager.thread(thread).await?;
    let assistant = assistant_of(&stored)?;
    let mut command = json!({ "resume": answers });
    for (name, value) in [("update", request.update), ("goto", request.goto)] {
        if let Some(value) = value {
            command[name] = value;
        }
    }
    let seq = applied_through(manager, thread).await?;
    let run =
        create(manager, thread, assistant, json!({ "command": command }), request.options).await?;
    Ok((json!({ "run_id": run }), seq))
}

/// Returns the ids of the interrupts for which the thread waits. Waits for the active run to end if it raised an
/// interrupt: clients answer as soon as they learn of it.
async fn pending_interrupts(manager: &Manager, thread: Uuid) -> CommandResult<Vec<String>> {
    let last = manager.feed(thread).await?.runs.borrow().last().cloned();
    if let Some(run) = last.filter(|it| it.buffer.has_interrupt()) {
        run.output().await;
    }
    let stored = manager.database.get::<Thread>(&thread.to_string()).await?;
    let interrupts = stored.map(|it| it.interrupts).unwrap_or_default();
    let lists = interrupts.values().filter_map(Value::as_array).flatten();
    Ok(lists.filter_map(|it| it["id"].as_str().map(str::to_owned)).collect())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Inject {
    #[serde(default)]
    namespace: Vec<String>,
    message: InjectedMessage,
}

#[derive(Serialize, Deserialize)]
struct InjectedMessage {
    role: InjectedRole,
    content: String,
    /// Other fields of the message, such as its name.
    #[serde(flatten)]
    more: Map<String, Value>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum InjectedRole {
    User,
    System,
}

/// Sends a message to the thread's assistant, as the input of a new run. The run starts when the active ones have
/// ended, because the state of a graph cannot be changed while it runs.
pub(super) async fn inject(
    manager: &Arc<Manager>,
    thread: Uuid,
    params: Map<String, Value>,
) -> CommandResult<(Value, u64)> {
    let Inject { namespace, message } = parse(params)?;
    if !namespace.is_empty() {
        let problem = "a message cannot be injected into a subgraph; leave `namespace` empty";
        return Err(CommandError("not_supported", problem.to_owned()));
    }
    let stored = manager.thread(thread).await?;
    let assistant = assistant_of(&stored)?;
    let graph = stored.graph().map(|it| manager.graph(it)).transpose()?;
    let is_messages = |it: &Field| it.input && it.name == "messages";
    if !graph.is_some_and(|it| it.fields().iter().any(is_messages)) {
        let problem = "the graph has no input field `messages`; send its input with `run.start`";
        return Err(CommandError("not_supported", problem.to_owned()));
    }
    if !pending_interrupts(manager, thread).await?.is_empty() {
        let problem =
            "the thread waits for an answer to an interrupt; send it with `input.respond`";
        return Err(CommandError::invalid(problem));
    }
    let seq = applied_through(manager, thread).await?;
    let input = json!({ "input": { "messages": [message] } });
    let run = create(manager, thread, assistant, input, RunSettings::default()).await?;
    Ok((json!({ "run_id": run }), seq))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fork {
    checkpoint_id: String,
    input: Option<Value>,
    config: Option<Map<String, Value>>,
}

/// Starts a run from a checkpoint of the thread. Its checkpoints form a new branch of the same thread.
pub(super) async fn fork(
    manager: &Arc<Manager>,
    thread: Uuid,
    params: Map<String, Value>,
) -> CommandResult<(Value, u64)> {
    let Fork { checkpoint_id, input, config } = parse(params)?;
    let mut config = config.unwrap_or_default();
    let mut configurable = match config.remove("configurable") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(configurable)) => configurable,
        Some(_) => return Err(CommandError::invalid("`config.configurable` must be an object")),
    };
    let namespace = configurable.get("checkpoint_ns").and_then(Value::as_str);
    let namespace = namespace.map(parse_namespace).unwrap_or_default();
    let at = Position { namespace, checkpoint: Some(parse_checkpoint(&checkpoint_id)?) };
    let stored = manager.thread(thread).await?;
    let state = match stored.graph() {
        Some(graph) => manager.graph(graph)?.state(&thread.to_string(), &at, false).await?,
        None => None,
    };
    if state.is_none() {
        let problem = format!(
            "thread {thread} has no checkpoint {checkpoint_id}; `state.listCheckpoints` returns its checkpoints"
        );
        return Err(CommandError("no_such_checkpoint", problem));
    }
    configurable.insert("checkpoint_id".to_owned(), json!(checkpoint_id));
    config.insert("configurable".to_owned(), Value::Object(configurable));
    let options = RunSettings { config: Some(config), ..RunSettings::default() };
    let seq = applied_through(manager, thread).await?;
    let assistant = assistant_of(&stored)?;
    let run = create(manager, thread, assistant, json!({ "input": input }), options).await?;
    Ok((json!({ "run_id": run, "thread_id": thread }), seq))
}
