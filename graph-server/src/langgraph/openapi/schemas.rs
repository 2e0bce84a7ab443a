//! The schemas of bodies, query parameters and answers.

use serde_json::{Map, Value, json};

use crate::langgraph::{
    records::{
        ASSISTANT_FIELDS, ASSISTANT_SORT_FIELDS, CRON_FIELDS, CRON_SORT_FIELDS, RUN_FIELDS,
        THREAD_FIELDS, THREAD_SORT_FIELDS,
    },
    request::run::MAX_DELAY_SECONDS,
};

/// Returns all schemas by name.
pub(super) fn schemas() -> Map<String, Value> {
    let named = [
        ("Error", error()),
        ("Empty", closed(&[], &[])),
        ("Text", json!({ "type": "string", "minLength": 1 })),
        ("Uuid", uuid()),
        ("Flag", one_of(&["true", "false", "True", "False", "1", "0"])),
        ("Limit", limit()),
        ("Offset", offset()),
        ("Xray", json!({ "type": "string", "pattern": "^(true|false|[0-9]{1,2})$" })),
        (
            "RunStatus",
            one_of(&["pending", "running", "success", "error", "interrupted", "timeout"]),
        ),
        ("RunFields", list(&one_of(&RUN_FIELDS))),
        ("ThreadExtra", one_of(&["ttl"])),
        ("MetricsFormat", one_of(&["prometheus"])),
        ("CancelAction", one_of(&["interrupt", "rollback"])),
        ("StreamModes", list(&stream_mode())),
        ("ThreadStreamModes", list(&one_of(&["run_modes", "lifecycle", "state_update"]))),
        ("StateFields", list(&state_field())),
        ("Config", config()),
        ("Command", command()),
        ("CheckpointRef", checkpoint_ref()),
    ];
    let all = named.into_iter().chain(answers()).chain(assistants()).chain(threads());
    let all =
        all.chain(runs()).chain(crons()).chain(store()).chain(protocols()).chain(interfaces());
    all.map(|(name, schema)| (name.to_owned(), schema)).collect()
}

fn text() -> Value {
    json!({ "type": "string" })
}

fn uuid() -> Value {
    json!({ "type": "string", "format": "uuid" })
}

fn boolean() -> Value {
    json!({ "type": "boolean" })
}

fn map() -> Value {
    json!({ "type": "object" })
}

fn limit() -> Value {
    json!({ "type": "integer", "minimum": 1, "maximum": 1000, "default": 10 })
}

fn offset() -> Value {
    json!({ "type": "integer", "minimum": 0, "maximum": 1_000_000, "default": 0 })
}

fn one_of(values: &[&str]) -> Value {
    json!({ "type": "string", "enum": values })
}

fn list(items: &Value) -> Value {
    json!({ "type": "array", "items": items })
}

pub(super) fn reference(schema: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{schema}") })
}

/// Returns the schema of an object that has no other fields. A field that is not required can be null.
fn closed(fields: &[(&str, Value)], required: &[&str]) -> Value {
    let field = |(name, schema): &(&str, Value)| match required.contains(name) {
        true => ((*name).to_owned(), schema.clone()),
        false => ((*name).to_owned(), json!({ "anyOf": [schema, { "type": "null" }] })),
    };
    let properties: Map<_, _> = fields.iter().map(field).collect();
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

/// Returns the schema of an object that can have other fields too.
fn open(fields: &[(&str, Value)]) -> Value {
    let mut schema = closed(fields, &fields.iter().map(|it| it.0).collect::<Vec<_>>());
    schema["additionalProperties"] = json!(true);
    schema
}

fn error() -> Value {
    open(&[("detail", json!({ "description": "What is wrong, and how to fix it." }))])
}

fn state_field() -> Value {
    let whole = one_of(&["values", "next", "tasks", "metadata", "interrupts"]);
    json!({ "anyOf": [whole, { "type": "string", "pattern": "^values\\.[A-Za-z0-9_-]+$" }] })
}

/// Returns the schema of a request to set the time to live of a thread.
fn ttl() -> Value {
    let minutes = json!({ "type": "number", "minimum": 0.1, "maximum": 1_000_000 });
    closed(&[("ttl", minutes), ("strategy", one_of(&["delete", "keep_latest"]))], &["ttl"])
}

fn stream_mode() -> Value {
    one_of(&[
        "values", "updates", "messages", "messages-tuple", "custom", "tasks", "checkpoints",
        "debug", "events", "tools",
    ])
}

fn config() -> Value {
    closed(
        &[
            ("configurable", map()),
            ("metadata", map()),
            ("tags", list(&text())),
            ("recursion_limit", json!({ "type": "integer", "minimum": 1, "maximum": 10_000 })),
            ("max_concurrency", json!({ "type": "integer", "minimum": 1, "maximum": 1000 })),
            ("run_name", text()),
        ],
        &[],
    )
}

fn command() -> Value {
    let target = json!({ "anyOf": [text(), closed(&[("node", text()), ("input", json!({}))], &["node", "input"])] });
    closed(
        &[
            ("resume", json!({})),
            ("update", map()),
            ("goto", json!({ "anyOf": [target.clone(), list(&target)] })),
        ],
        &[],
    )
}

fn checkpoint_ref() -> Value {
    closed(
        &[
            ("thread_id", text()),
            ("checkpoint_ns", text()),
            ("checkpoint_id", uuid()),
            ("checkpoint_map", map()),
        ],
        &[],
    )
}

type Named = Vec<(&'static str, Value)>;

fn answers() -> Named {
    vec![
        (
            "Assistant",
            open(&[
                ("assistant_id", uuid()),
                ("graph_id", text()),
                ("config", map()),
                ("context", map()),
                ("metadata", map()),
                ("name", text()),
                ("created_at", text()),
                ("updated_at", text()),
                ("version", json!({ "type": "integer" })),
            ]),
        ),
        (
            "Thread",
            open(&[
                ("thread_id", uuid()),
                ("created_at", text()),
                ("updated_at", text()),
                ("metadata", map()),
                ("status", one_of(&["idle", "busy", "interrupted", "error"])),
                ("values", json!({ "type": ["object", "null"] })),
                ("interrupts", map()),
            ]),
        ),
        (
            "Run",
            open(&[
                ("run_id", uuid()),
                ("thread_id", uuid()),
                ("assistant_id", uuid()),
                ("created_at", text()),
                ("updated_at", text()),
                ("status", reference("RunStatus")),
                ("metadata", map()),
                ("kwargs", map()),
                ("multitask_strategy", text()),
            ]),
        ),
        ("State", map()),
        (
            "Cron",
            open(&[
                ("cron_id", uuid()),
                ("assistant_id", uuid()),
                ("schedule", text()),
                ("payload", map()),
                ("enabled", boolean()),
            ]),
        ),
    ]
}

fn assistants() -> Named {
    let search = [
        ("metadata", map()),
        ("graph_id", text()),
        ("name", text()),
        ("limit", limit()),
        ("offset", offset()),
        ("sort_by", one_of(&ASSISTANT_SORT_FIELDS)),
        ("sort_order", one_of(&["asc", "desc"])),
        ("select", list(&one_of(&ASSISTANT_FIELDS))),
    ];
    let create = [
        ("graph_id", text()),
        ("assistant_id", uuid()),
        ("config", reference("Config")),
        ("context", map()),
        ("metadata", map()),
        ("name", text()),
        ("description", text()),
        ("if_exists", one_of(&["raise", "do_nothing"])),
    ];
    let update = [
        ("graph_id", text()),
        ("config", reference("Config")),
        ("context", map()),
        ("metadata", map()),
        ("name", text()),
        ("description", text()),
    ];
    let versions = [("metadata", map()), ("limit", limit()), ("offset", offset())];
    let version = json!({ "type": "integer", "minimum": 1, "maximum": 1_000_000 });
    vec![
        ("AssistantCreate", closed(&create, &["graph_id"])),
        ("AssistantUpdate", closed(&update, &[])),
        ("AssistantSearch", closed(&search, &[])),
        ("VersionSearch", closed(&versions, &[])),
        ("VersionSelect", closed(&[("version", version)], &["version"])),
    ]
}

fn threads() -> Named {
    let item =
        closed(&[("values", map()), ("command", reference("Command")), ("as_node", text())], &[]);
    let superstep = closed(&[("updates", list(&item))], &["updates"]);
    let create = [
        ("thread_id", uuid()),
        ("metadata", map()),
        ("if_exists", one_of(&["raise", "do_nothing"])),
        ("graph_id", text()),
        ("supersteps", list(&superstep)),
        ("ttl", ttl()),
    ];
    let filter = json!({ "type": "object", "minProperties": 1 });
    let filters = json!({ "type": "array", "items": filter, "minItems": 1 });
    let search = [
        ("metadata", map()),
        ("exclude_metadata", json!({ "anyOf": [filter, filters] })),
        ("values", map()),
        ("ids", list(&uuid())),
        ("status", one_of(&["idle", "busy", "interrupted", "error"])),
        ("limit", limit()),
        ("offset", offset()),
        ("sort_by", one_of(&THREAD_SORT_FIELDS)),
        ("sort_order", one_of(&["asc", "desc"])),
        ("select", list(&one_of(&THREAD_FIELDS))),
        ("extract", json!({ "type": "object", "additionalProperties": text() })),
    ];
    let prune = [("thread_ids", list(&uuid())), ("strategy", one_of(&["delete", "keep_latest"]))];
    let update = [
        ("values", json!({ "anyOf": [map(), list(&map())] })),
        ("as_node", text()),
        ("checkpoint_id", uuid()),
        ("checkpoint", reference("CheckpointRef")),
    ];
    let read = [
        ("checkpoint", reference("CheckpointRef")),
        ("subgraphs", boolean()),
        ("select", reference("StateFields")),
    ];
    let history = [
        ("limit", limit()),
        ("before", json!({ "anyOf": [uuid(), open(&[("checkpoint_id", uuid())])] })),
        ("metadata", map()),
        ("checkpoint", reference("CheckpointRef")),
        ("select", reference("StateFields")),
    ];
    vec![
        ("ThreadCreate", closed(&create, &[])),
        ("ThreadSearch", closed(&search, &[])),
        ("ThreadPrune", closed(&prune, &["thread_ids"])),
        ("ThreadUpdate", closed(&[("metadata", map()), ("ttl", ttl())], &[])),
        ("StateUpdate", closed(&update, &[])),
        ("StateRead", closed(&read, &["checkpoint"])),
        ("HistorySearch", closed(&history, &[])),
    ]
}

/// Returns the fields of a request to create a run.
fn run_fields() -> Named {
    let nodes = json!({ "anyOf": [{ "const": "*" }, list(&text())] });
    let modes = json!({ "anyOf": [stream_mode(), list(&stream_mode())] });
    vec![
        ("assistant_id", text()),
        ("input", json!({})),
        ("command", reference("Command")),
        ("stream_mode", modes),
        ("stream_subgraphs", boolean()),
        ("stream_resumable", boolean()),
        ("config", reference("Config")),
        ("context", map()),
        ("metadata", map()),
        ("interrupt_before", nodes.clone()),
        ("interrupt_after", nodes),
        ("webhook", json!({ "type": "string", "format": "uri" })),
        ("checkpoint", reference("CheckpointRef")),
        ("checkpoint_id", uuid()),
        ("checkpoint_during", boolean()),
        ("multitask_strategy", one_of(&["reject", "enqueue", "interrupt", "rollback"])),
        ("if_not_exists", one_of(&["create", "reject"])),
        ("on_disconnect", one_of(&["cancel", "continue"])),
        ("on_completion", one_of(&["delete", "keep"])),
        ("after_seconds", json!({ "type": "number", "minimum": 0, "maximum": MAX_DELAY_SECONDS })),
        ("durability", one_of(&["sync", "async", "exit"])),
        ("strict_resume", boolean()),
    ]
}

fn runs() -> Named {
    let by_ids =
        closed(&[("thread_id", uuid()), ("run_ids", list(&uuid()))], &["thread_id", "run_ids"]);
    let status = one_of(&["pending", "running", "all"]);
    let by_status = closed(&[("status", status), ("thread_id", uuid())], &["status"]);
    let mut in_batch = run_fields();
    in_batch.push(("thread_id", uuid()));
    let mut batch = list(&closed(&in_batch, &["assistant_id"]));
    batch["minItems"] = json!(1);
    vec![
        ("RunCreate", closed(&run_fields(), &["assistant_id"])),
        ("RunBatch", batch),
        ("RunsCancel", json!({ "anyOf": [by_ids, by_status] })),
    ]
}

fn crons() -> Named {
    let mut fields = run_fields();
    fields.extend([
        ("schedule", text()),
        ("timezone", text()),
        ("end_time", json!({ "type": "string", "format": "date-time" })),
        ("enabled", boolean()),
        ("on_run_completed", one_of(&["delete", "keep"])),
    ]);
    let mut changes: Vec<_> = fields.iter().filter(|it| it.0 != "assistant_id").cloned().collect();
    for (_, end_time) in changes.iter_mut().filter(|it| it.0 == "end_time") {
        end_time["type"] = json!(["string", "null"]);
    }
    let search = [
        ("assistant_id", text()),
        ("thread_id", uuid()),
        ("enabled", boolean()),
        ("metadata", map()),
        ("limit", limit()),
        ("offset", offset()),
        ("sort_by", one_of(&CRON_SORT_FIELDS)),
        ("sort_order", one_of(&["asc", "desc"])),
        ("select", list(&one_of(&CRON_FIELDS))),
    ];
    vec![
        ("CronCreate", closed(&fields, &["assistant_id", "schedule"])),
        ("CronUpdate", closed(&changes, &[])),
        ("CronSearch", closed(&search, &[])),
    ]
}

fn store() -> Named {
    let label = json!({ "type": "string", "pattern": "^[A-Za-z0-9_-]+$" });
    let namespace = json!({ "type": "array", "items": label, "minItems": 1, "maxItems": 20 });
    let key = json!({ "type": "string", "minLength": 1 });
    let put = [
        ("namespace", namespace.clone()),
        ("key", key.clone()),
        ("value", map()),
        ("index", json!({ "anyOf": [{ "type": "boolean" }, list(&text())] })),
        ("ttl", json!({ "type": "number", "minimum": 0.1 })),
    ];
    let search = [
        ("namespace_prefix", list(&label)),
        ("filter", map()),
        ("limit", limit()),
        ("offset", offset()),
        ("query", text()),
        ("refresh_ttl", boolean()),
    ];
    let namespaces = [
        ("prefix", list(&label)),
        ("suffix", list(&label)),
        ("max_depth", json!({ "type": "integer", "minimum": 1, "maximum": 100 })),
        ("limit", limit()),
        ("offset", offset()),
    ];
    let item = [("namespace", namespace), ("key", key)];
    vec![
        ("ItemPut", closed(&put, &["namespace", "key", "value"])),
        ("ItemDelete", closed(&item, &["namespace", "key"])),
        ("ItemSearch", closed(&search, &[])),
        ("NamespaceSearch", closed(&namespaces, &[])),
    ]
}

fn protocols() -> Named {
    let number = json!({ "type": "integer", "minimum": 0 });
    let methods = one_of(&[
        "run.start", "input.respond", "input.inject", "state.get", "state.listCheckpoints",
        "state.fork", "agent.getTree",
    ]);
    let command = [("id", number.clone()), ("method", methods), ("params", map())];
    let channels = one_of(&[
        "values", "updates", "messages", "tools", "lifecycle", "input", "checkpoints", "tasks",
        "custom",
    ]);
    let selection = [
        ("channels", json!({ "type": "array", "items": channels, "minItems": 1 })),
        ("namespaces", list(&list(&text()))),
        ("depth", number.clone()),
        ("since", number),
    ];
    let rpc = [("jsonrpc", text()), ("id", json!({})), ("method", text()), ("params", json!({}))];
    vec![
        ("ProtocolCommand", closed(&command, &["id", "method"])),
        ("EventSelection", closed(&selection, &["channels"])),
        ("RpcRequest", closed(&rpc, &["jsonrpc", "method"])),
    ]
}

fn interfaces() -> Named {
    let status = one_of(&["resolved", "cancelled"]);
    let answer = [("interruptId", text()), ("status", status), ("payload", json!({}))];
    let answer = closed(&answer, &["interruptId", "status"]);
    let ag_ui = [
        ("threadId", text()),
        ("runId", text()),
        ("protocolVersion", json!({ "const": "1.0" })),
        ("state", map()),
        ("messages", list(&map())),
        ("tools", list(&map())),
        ("context", list(&map())),
        ("forwardedProps", json!({})),
        ("resume", list(&answer)),
    ];
    let chat = [
        ("id", text()),
        ("messages", list(&map())),
        ("trigger", one_of(&["submit-message", "regenerate-message"])),
        ("messageId", text()),
        ("resume", json!({})),
        ("context", map()),
        ("on_disconnect", one_of(&["cancel", "continue"])),
    ];
    vec![
        ("AgUiRun", closed(&ag_ui, &["threadId", "runId", "messages", "tools", "context"])),
        ("AiSdkChat", closed(&chat, &["id", "messages"])),
    ]
}
