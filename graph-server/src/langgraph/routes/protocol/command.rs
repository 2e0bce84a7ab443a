//! Commands: start a run, answer interrupts, read the state.

use std::sync::Arc;

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::super::run_response::create_run;
use crate::langgraph::{
    error::{ApiError, ApiResult},
    id::{parse_namespace, wire_id},
    manager::Manager,
    position::Position,
    records::Thread,
    stream::protocol::last_number,
};

/// A command for a thread.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CommandRequest {
    pub(super) id: u64,
    pub(super) method: String,
    #[serde(default)]
    pub(super) params: Map<String, Value>,
}

/// A failed command: an error code of the protocol and a description.
struct CommandError(&'static str, String);

type CommandResult<T> = Result<T, CommandError>;

impl From<ApiError> for CommandError {
    fn from(error: ApiError) -> Self {
        let code = if error.is_internal() { "unknown_error" } else { "invalid_argument" };
        Self(code, error.to_string())
    }
}

/// Executes a command and returns the answer to it. A command that fails is answered with an error of the protocol.
pub(super) async fn execute(
    manager: &Arc<Manager>,
    thread: Uuid,
    command: CommandRequest,
) -> ApiResult<Value> {
    let CommandRequest { id, method, params } = command;
    let done = match method.as_str() {
        "run.start" => start_run(manager, thread, params).await,
        "input.respond" => respond_to_interrupts(manager, thread, params).await,
        "state.get" => read_state(manager, thread, params).await,
        "agent.getTree"
        | "input.inject"
        | "state.listCheckpoints"
        | "state.fork"
        | "subscription.subscribe"
        | "subscription.unsubscribe"
        | "subscription.reconnect" => {
            let problem = format!("the command `{method}` is not supported by this server");
            Err(CommandError("not_supported", problem))
        }
        _ => Err(CommandError(
            "unknown_command",
            format!("unknown command `{method}`; use `run.start`, `input.respond` or `state.get`"),
        )),
    };
    // A command that fails does not create its thread, whose event feed must then be dropped.
    manager.release_feed(thread).await;
    Ok(match done {
        Ok((result, seq)) => json!({
            "type": "success",
            "id": id,
            "result": result,
            "meta": { "thread_id": thread, "applied_through_seq": seq },
        }),
        Err(CommandError(code, message)) => {
            json!({ "type": "error", "id": id, "error": code, "message": message })
        }
    })
}

fn parse<T: DeserializeOwned>(params: Map<String, Value>) -> CommandResult<T> {
    serde_json::from_value(Value::Object(params))
        .map_err(|error| CommandError("invalid_argument", format!("invalid params: {error}")))
}

/// Returns the number of the thread's last event.
async fn applied_through(manager: &Manager, thread: Uuid) -> ApiResult<u64> {
    Ok(last_number(manager.feed(thread).await?.last_seq()))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StartRun {
    assistant_id: String,
    #[serde(default)]
    input: Option<Value>,
    #[serde(flatten)]
    options: RunSettings,
}

/// Options that a started and a resumed run have in common.
#[derive(Deserialize)]
struct RunSettings {
    #[serde(default)]
    config: Option<Map<String, Value>>,
    #[serde(default)]
    metadata: Option<Map<String, Value>>,
    #[serde(default, rename = "multitaskStrategy", alias = "multitask_strategy")]
    multitask_strategy: Option<String>,
}

/// Starts a run. If the thread waits for an answer, the input is the answer.
async fn start_run(
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
        _ => {
            return Err(CommandError(
                "invalid_argument",
                "invalid params: they must be an object".to_owned(),
            ));
        }
    };
    let (run, _) = create_run(manager, Some(thread), &body).await?;
    Ok(run.run_id)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Respond {
    #[serde(default)]
    interrupt_id: Option<String>,
    #[serde(default)]
    response: Value,
    #[serde(default)]
    responses: Vec<RespondOne>,
    /// Ids of interrupts are unique within a thread, so their namespaces are not needed.
    #[serde(default, rename = "namespace")]
    _namespace: Vec<String>,
    #[serde(default)]
    update: Option<Value>,
    #[serde(default)]
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

/// Answers interrupts and continues the thread.
async fn respond_to_interrupts(
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
        return Err(CommandError("invalid_argument", problem.to_owned()));
    }
    let pending = pending_interrupts(manager, thread).await?;
    if let Some(id) = answers.keys().find(|it| !pending.contains(it)) {
        let problem = format!("the thread does not wait for an answer to interrupt `{id}`");
        return Err(CommandError("no_such_interrupt", problem));
    }
    let stored = manager.thread(thread).await?;
    let Some(assistant) = stored.metadata.get("assistant_id").and_then(Value::as_str) else {
        let problem = "the thread has no assistant; start a run first".to_owned();
        return Err(CommandError("no_such_run", problem));
    };
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
        run.result().await;
    }
    let stored = manager.database.get::<Thread>(&thread.to_string()).await?;
    let interrupts = stored.map(|it| it.interrupts).unwrap_or_default();
    let lists = interrupts.values().filter_map(Value::as_array).flatten();
    Ok(lists.filter_map(|it| it["id"].as_str().map(str::to_owned)).collect())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReadState {
    #[serde(default)]
    namespace: Vec<String>,
    #[serde(default)]
    keys: Option<Vec<String>>,
}

async fn read_state(
    manager: &Arc<Manager>,
    thread: Uuid,
    params: Map<String, Value>,
) -> CommandResult<(Value, u64)> {
    let ReadState { namespace, keys } = parse(params)?;
    let namespace = namespace.join("|");
    let at = Position { namespace: parse_namespace(&namespace), ..Position::HEAD };
    let stored = manager.thread(thread).await?;
    let state = match stored.graph() {
        Some(graph) => {
            let graph = manager.graph(graph)?;
            graph.state(&thread.to_string(), &at, false).await.map_err(ApiError::from)?
        }
        None => None,
    };
    let Some(state) = state else {
        return Ok((json!({ "values": {} }), applied_through(manager, thread).await?));
    };
    let mut values = state.values;
    if let (Some(keys), Value::Object(fields)) = (keys, &mut values) {
        fields.retain(|name, _| keys.contains(name));
    }
    let checkpoint = json!({ "id": wire_id(state.id), "ns": namespace });
    let result = json!({ "values": values, "checkpoint": checkpoint });
    Ok((result, applied_through(manager, thread).await?))
}
