//! Tests of the dependencies, middleware and stores of supervisors and deep agents.

use std::sync::{Arc, Mutex};

use graph_agents::{
    Agent, AiMessage, CompiledAgent, Dep, Message, ScriptedModel, Tool, ToolCall, deep::DeepAgent,
    middleware::ModelCallLimit, multi::Supervisor, tool,
};
use graph_core::{
    NodeError,
    store::{InMemoryStore, Store},
};
use serde_json::{Value, json};

/// A greeting that records each use.
#[derive(Clone)]
struct Greeting {
    text: &'static str,
    used: Arc<Mutex<Vec<&'static str>>>,
}

/// Greets the user.
#[tool]
async fn greet(greeting: Dep<Greeting>) -> &'static str {
    greeting.used.lock().unwrap().push(greeting.text);
    greeting.text
}

/// Stores a note.
#[tool]
async fn note(call: &ToolCall, store: &dyn Store) -> Result<&'static str, NodeError> {
    store.put(&["notes"], call.id(), json!({})).await?;
    Ok("stored")
}

fn call(tool: &str, args: Value, id: &str) -> AiMessage {
    AiMessage::new("").tool_call(ToolCall::new(tool, args, id))
}

fn greetings() -> [Greeting; 2] {
    let used = Arc::default();
    ["Hello", "Hola"].map(|text| Greeting { text, used: Arc::clone(&used) })
}

/// Returns a model that calls `tool` and then answers.
fn calls_once(tool: &str, id: &str) -> ScriptedModel {
    ScriptedModel::new([call(tool, json!({}), id), AiMessage::new("done")])
}

/// Returns a supervisor that calls `tool` and then hands over to `bob`.
fn supervisor(tool: Tool, bob: CompiledAgent) -> Supervisor {
    let model = ScriptedModel::new([
        call(tool.name(), json!({}), "c1"),
        call("transfer_to_bob", json!({}), "c2"),
        AiMessage::new("bye"),
    ]);
    Supervisor::new(model, [bob]).tools([tool])
}

#[tokio::test]
async fn tools_of_a_supervisor_use_its_dependencies() {
    let [hello, hola] = greetings();
    let used = hello.used.clone();
    let bob = Agent::new(calls_once("greet", "c3")).name("bob").tools([greet()]).dependency(hola);
    let team = supervisor(greet(), bob.compile().unwrap());
    let problem = team.clone().compile().unwrap_err().to_string();
    assert!(problem.starts_with("tool `greet` cannot run: no dependency of type"), "{problem}");
    let team = team.dependency(hello).compile().unwrap();
    assert_eq!(team.run("hi").await.unwrap().text(), "bye");
    assert_eq!(*used.lock().unwrap(), ["Hello", "Hola"]);
}

#[tokio::test]
async fn supervisor_and_its_agents_use_the_store_of_the_supervisor() {
    let store = Arc::new(InMemoryStore::new());
    let bob = Agent::new(calls_once("note", "c3")).name("bob").tools([note()]).compile().unwrap();
    let team = supervisor(note(), bob).store(store.clone()).compile().unwrap();
    assert_eq!(team.run("hi").await.unwrap().text(), "bye");
    for id in ["c1", "c3"] {
        assert!(store.get(&["notes"], id).await.unwrap().is_some(), "{id}");
    }
}

#[tokio::test]
async fn middleware_of_a_supervisor_limits_its_model_calls() {
    let [hello, _] = greetings();
    let bob = Agent::new(calls_once("note", "c3")).name("bob").compile().unwrap();
    let team = supervisor(greet(), bob)
        .dependency(hello)
        .middleware(ModelCallLimit::new(None, Some(1)).unwrap())
        .compile()
        .unwrap();
    let texts: Vec<_> = team.run("hi").await.unwrap().messages.iter().map(Message::text).collect();
    assert_eq!(texts[..3], ["hi", "", "Hello"]);
    assert!(texts[3].contains("run limit (1/1)"), "{texts:?}");
}

#[tokio::test]
async fn tools_of_a_deep_agent_and_its_sub_agents_use_its_dependencies() {
    let [hello, hola] = greetings();
    let used = hello.used.clone();
    let task = |agent: &str| call("task", json!({"agent": agent, "description": "Greet."}), "t");
    // The general-purpose sub-agent has the same model.
    let model = ScriptedModel::new([
        call("greet", json!({}), "c1"),
        task("general-purpose"),
        call("greet", json!({}), "c2"),
        AiMessage::new("done"),
        task("inheriting"),
        task("spanish"),
        AiMessage::new("bye"),
    ]);
    let sub_agent = || Agent::new(calls_once("greet", "c3")).tools([greet()]);
    let agent = DeepAgent::new(model)
        .tools([greet()])
        .dependency(hello)
        .sub_agent("inheriting", "Greets.", sub_agent())
        .sub_agent("spanish", "Greets in Spanish.", sub_agent().dependency(hola))
        .build()
        .unwrap();
    assert_eq!(agent.compile().unwrap().run("hi").await.unwrap().text(), "bye");
    assert_eq!(*used.lock().unwrap(), ["Hello", "Hello", "Hello", "Hola"]);
}
