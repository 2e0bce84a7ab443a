//! States, histories and edits of subgraphs, and runs from their checkpoints.

use graph_core::{Context, NodeError, START, State, StateGraph, subgraph};
use graph_server::langgraph::{Graphs, Schemas};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::server::Server;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Text {
    title: String,
    text: String,
}

async fn write(draft: &Text, cx: &Context) -> Result<TextUpdate, NodeError> {
    let style: String = cx.interrupt("Which style?")?;
    Ok(Text::update().text(format!("{} ({style})", draft.title)))
}

/// Adds the graph `essay` with the subgraph `section`, whose subgraph `draft` interrupts.
fn add_essay(graphs: Graphs) -> Graphs {
    let draft = StateGraph::<Text>::new().node(write).edge(START, write).compile().unwrap();
    let output = |it: Text| Text::update().text(it.text);
    let draft = subgraph("draft", &draft, Text::clone, output);
    let section = StateGraph::<Text>::new().edge(START, &draft).node(draft).compile().unwrap();
    let section = subgraph("section", &section, Text::clone, output);
    let graph = StateGraph::<Text>::new().edge(START, &section).node(section);
    graphs.add("essay", graph, Schemas::default()).unwrap()
}

/// A thread whose run waits for the answer to an interrupt in `draft`.
struct Essay {
    server: Server,
    thread: String,
    /// Namespace of `section`.
    section: String,
    /// Namespace of `draft`.
    draft: String,
}

impl Essay {
    async fn start() -> Self {
        let server = Server::start_with_graphs(add_essay).await;
        let thread = format!("/threads/{}", server.new_thread().await);
        let run = json!({ "assistant_id": "essay", "input": { "title": "Tea" } });
        let (status, output) = server.post(&format!("{thread}/runs/wait"), &run).await;
        assert_eq!(status, 200, "{output}");
        let mut essay = Self { server, thread, section: String::new(), draft: String::new() };
        let (_, state) = essay.server.get(&format!("{}/state", essay.thread)).await;
        essay.section = namespace(&state);
        let (_, state) = essay.read(&essay.section).await;
        essay.draft = namespace(&state);
        essay
    }

    async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        self.server.post(&format!("{}{path}", self.thread), body).await
    }

    /// Reads the newest state of a subgraph.
    async fn read(&self, namespace: &str) -> (u16, Value) {
        let body = json!({ "checkpoint": { "checkpoint_ns": namespace } });
        self.post("/state/checkpoint", &body).await
    }

    async fn resume(&self, answer: &str, checkpoint: &Value) -> Value {
        let resume = json!({ "resume": answer });
        let run = json!({ "assistant_id": "essay", "command": resume, "checkpoint": checkpoint });
        self.post("/runs/wait", &run).await.1
    }
}

/// Returns the namespace of the subgraph of the first task.
fn namespace(state: &Value) -> String {
    state["tasks"][0]["checkpoint"]["checkpoint_ns"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn tasks_refer_to_their_subgraphs_and_contain_their_states_on_request() {
    let essay = Essay::start().await;
    let task = essay.server.get(&format!("{}/state", essay.thread)).await.1["tasks"][0].take();
    assert_eq!(task["state"], Value::Null, "{task}");
    let id = task["id"].as_str().unwrap();
    assert_eq!(essay.section, format!("section:{id}"));

    let all = format!("{}/state?subgraphs=true", essay.thread);
    let state = essay.server.get(&all).await.1["tasks"][0]["state"].take();
    assert_eq!(state["values"]["title"], "Tea", "{state}");
    let inner = &state["tasks"][0]["state"];
    assert_eq!(inner["checkpoint"]["checkpoint_ns"], json!(essay.draft), "{inner}");
    assert_eq!((&inner["next"], &inner["values"]["title"]), (&json!(["write"]), &json!("Tea")));
    assert_eq!(inner["interrupts"][0]["value"], "Which style?");
}

#[tokio::test]
async fn states_and_histories_of_subgraphs_are_read_by_namespace() {
    let essay = Essay::start().await;
    let (_, root) = essay.server.get(&format!("{}/state", essay.thread)).await;
    let (status, state) = essay.read(&essay.draft).await;
    assert_eq!((status, &state["next"]), (200, &json!(["write"])), "{state}");
    let map = state["checkpoint"]["checkpoint_map"].as_object().unwrap();
    assert_eq!((map.len(), &map[""]), (3, &root["checkpoint_id"]), "{state}");
    assert_eq!(map[&essay.draft], state["checkpoint_id"]);
    assert_eq!(state["metadata"]["parents"][""], root["checkpoint_id"]);

    let body = json!({ "checkpoint": { "checkpoint_ns": essay.draft } });
    let (_, history) = essay.post("/history", &body).await;
    let shown = history.as_array().unwrap().iter().map(|it| (&it["metadata"]["step"], &it["next"]));
    let expect = [(json!(0), json!(["write"])), (json!(-1), json!(["__start__"]))];
    assert!(shown.eq(expect.iter().map(|it| (&it.0, &it.1))), "{history}");
    let (status, old) =
        essay.post("/state/checkpoint", &json!({ "checkpoint": history[1]["checkpoint"] })).await;
    assert_eq!((status, &old["checkpoint_id"]), (200, &history[1]["checkpoint_id"]), "{old}");

    let (_, section) = essay.read(&essay.section).await;
    let id = section["checkpoint_id"].as_str().unwrap();
    for path in ["state".to_owned(), format!("state/{id}")] {
        let path = format!("{}/{path}?checkpoint_ns={}", essay.thread, essay.section);
        let (status, state) = essay.server.get(&path).await;
        assert_eq!((status, &state["checkpoint"]), (200, &section["checkpoint"]), "{state}");
    }
}

#[tokio::test]
async fn the_event_protocol_reads_the_state_of_a_subgraph() {
    let essay = Essay::start().await;
    let read = async |namespace: &str| {
        let path: Vec<_> = namespace.split('|').filter(|it| !it.is_empty()).collect();
        let params = json!({ "namespace": path, "keys": ["title"] });
        let command = json!({ "id": 1, "method": "state.get", "params": params });
        essay.post("/commands", &command).await.1
    };
    let (_, state) = essay.read(&essay.draft).await;
    let found = read(&essay.draft).await;
    assert_eq!(found["result"]["values"], json!({ "title": "Tea" }), "{found}");
    let checkpoint = json!({ "id": state["checkpoint_id"], "ns": essay.draft });
    assert_eq!(found["result"]["checkpoint"], checkpoint);
    assert_eq!(read("").await["result"]["checkpoint"]["ns"], "");
    assert_eq!(read("surprise:1").await["error"], "no_such_namespace");
}

#[tokio::test]
async fn runs_use_the_edited_state_of_a_subgraph() {
    let essay = Essay::start().await;
    let edit = json!({
        "values": { "title": "Milk", "unknown": 1 }, "as_node": "__start__",
        "checkpoint": { "checkpoint_ns": essay.draft },
    });
    let (status, edited) = essay.post("/state", &edit).await;
    assert_eq!(status, 200, "{edited}");
    assert_eq!(edited["checkpoint"]["checkpoint_ns"], json!(essay.draft));
    assert_eq!(edited["checkpoint"]["checkpoint_map"].as_object().unwrap().len(), 3, "{edited}");
    let (_, state) = essay.read(&essay.draft).await;
    assert_eq!(state["checkpoint"], edited["checkpoint"]);
    assert_eq!(state["metadata"]["source"], "update");
    assert_eq!(essay.resume("brief", &Value::Null).await["text"], "Milk (brief)");
}

#[tokio::test]
async fn runs_start_from_a_checkpoint_of_a_subgraph() {
    let essay = Essay::start().await;
    let (_, state) = essay.read(&essay.draft).await;
    assert_eq!(essay.resume("brief", &state["checkpoint"]).await["text"], "Tea (brief)");
    let edit = json!({ "values": { "title": "Milk" }, "checkpoint": state["checkpoint"] });
    let (_, edited) = essay.post("/state", &edit).await;
    assert_eq!(essay.resume("long", &edited["checkpoint"]).await["text"], "Milk (long)");
}

#[tokio::test]
async fn unknown_subgraphs_and_checkpoints_do_not_exist() {
    let essay = Essay::start().await;
    let unknown = json!({ "checkpoint": { "checkpoint_ns": "surprise:1" } });
    for path in ["/state/checkpoint", "/history", "/state"] {
        let (status, error) = essay.post(path, &unknown).await;
        assert_eq!(status, 404, "{path}: {error}");
        assert!(error["detail"].as_str().unwrap().contains("section|draft"), "{error}");
    }
    let (_, root) = essay.server.get(&format!("{}/state", essay.thread)).await;
    let other = json!({ "checkpoint_ns": essay.draft, "checkpoint_id": root["checkpoint_id"] });
    assert_eq!(essay.post("/state/checkpoint", &json!({ "checkpoint": other })).await.0, 404);
    let output = essay.resume("brief", &other).await;
    assert!(output["__error__"]["message"].as_str().unwrap().contains("no checkpoint"), "{output}");
}

async fn speak(_: &Text, cx: &Context) -> Result<TextUpdate, NodeError> {
    cx.emit(json!({ "progress": 1 })).await;
    let call = json!({ "id": "c1", "name": "add", "args": { "a": 1 } });
    cx.message(json!({ "type": "ai", "content": "", "id": "m1", "tool_calls": [call] })).await;
    let result = json!({
        "type": "tool", "content": "2", "id": "m2", "tool_call_id": "c1", "name": "add",
    });
    cx.message(result).await;
    Ok(Text::update().text("2".to_owned()))
}

/// Adds the graph `talk` with a subgraph `inner` that calls a tool.
fn add_talk(graphs: Graphs) -> Graphs {
    let inner = StateGraph::<Text>::new().node(speak).edge(START, speak).compile().unwrap();
    let output = |it: Text| Text::update().text(it.text);
    let inner = subgraph("inner", &inner, Text::clone, output);
    let graph = StateGraph::<Text>::new().edge(START, &inner).node(inner);
    graphs.add("talk", graph, Schemas::default()).unwrap()
}

/// Runs the graph `talk`, and returns the lines of its stream.
async fn stream_of_talk(server: &Server, mode: &str, subgraphs: bool) -> Vec<String> {
    let body = json!({
        "assistant_id": "talk", "input": { "title": "Tea" },
        "stream_mode": mode, "stream_subgraphs": subgraphs,
    });
    let text = server.post_text("/runs/stream", &body).await;
    text.lines().map(str::to_owned).collect()
}

#[tokio::test]
async fn every_stream_mode_contains_the_events_of_subgraphs_on_request() {
    let server = Server::start_with_graphs(add_talk).await;
    for (mode, event) in [
        ("values", "values"),
        ("updates", "updates"),
        ("custom", "custom"),
        ("tasks", "tasks"),
        ("checkpoints", "checkpoints"),
        ("debug", "debug"),
        ("messages-tuple", "messages"),
        ("messages", "messages/complete"),
        ("tools", "tools"),
    ] {
        let with = stream_of_talk(&server, mode, true).await;
        let inner = format!("event: {event}|inner:");
        assert!(with.iter().any(|it| it.starts_with(&inner)), "{mode}: {with:#?}");
        let without = stream_of_talk(&server, mode, false).await;
        let is_namespaced = |it: &String| it.starts_with("event: ") && it.contains('|');
        assert!(!without.iter().any(is_namespaced), "{mode}: {without:#?}");
    }
    let events = stream_of_talk(&server, "events", true).await;
    assert!(events.iter().any(|it| it.contains(r#""name":"speak""#)), "{events:#?}");
}

#[tokio::test]
async fn the_tools_stream_contains_the_start_and_the_end_of_a_tool_call() {
    let server = Server::start_with_graphs(add_talk).await;
    let lines = stream_of_talk(&server, "tools", true).await;
    let data = lines.iter().filter_map(|it| it.strip_prefix("data: ")).skip(1);
    let data: Vec<Value> = data.map(|it| serde_json::from_str(it).unwrap()).collect();
    let started = json!({
        "event": "on_tool_start", "toolCallId": "c1", "name": "add", "input": { "a": 1 },
    });
    let ended = json!({
        "event": "on_tool_end", "toolCallId": "c1", "name": "add", "output": "2",
    });
    assert_eq!(data, [started, ended]);
}
