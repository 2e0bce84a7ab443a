use std::sync::Arc;

use async_trait::async_trait;
use graph_agents::{
    Agent, AgentError, AgentState, AiMessage, Command, CompiledAgent, Dep, Message, MessagesState,
    MessagesStateUpdate, ScriptedModel, StateField, Status, Tool, ToolCall, ToolMessage, ToolNode,
    ToolOutput, ToolResults, ToolRuntime, Update,
    message::messages_from_json,
    middleware::{Hooks, Middleware},
    tool,
    tool::{ToolAnswer, ToolHandler, ToolRequest},
};
use graph_core::{
    Context, JsonFieldKind, NodeError, START, StateGraph,
    store::{InMemoryStore, Store},
};
use serde_json::{Value, json};

/// Adds two numbers.
#[tool]
async fn add(
    /// First summand.
    a: i64,
    /// Second summand.
    #[serde(default)]
    b: i64,
) -> i64 {
    a + b
}

/// Counts the messages.
#[tool(name = "count_messages", return_direct)]
async fn count(state: &AgentState) -> usize {
    state.messages().len()
}

/// Remembers a city.
#[tool]
async fn remember(city: String, runtime: &ToolRuntime) -> Command {
    let answer = ToolMessage::success(runtime.call(), "noted");
    Command::new().update(Update::new().set("city", city).messages([answer]))
}

/// Fails.
#[tool]
async fn fail() -> Result<String, NodeError> {
    Err(AgentError::named("ConnectionError", "no route").into())
}

/// Returns a picture.
#[tool]
async fn picture() -> ToolOutput {
    ToolOutput::WithArtifact { content: json!("a cat"), artifact: json!({"bytes": 3}) }
}

/// Runs an agent whose model calls the tool once, and returns the tool's message.
async fn call(tool: Tool, args: Value) -> Result<ToolMessage, NodeError> {
    let call = ToolCall::new(tool.name(), args, "c1");
    let model = ScriptedModel::new([AiMessage::new("").tool_call(call), AiMessage::new("done")]);
    let agent = Agent::new(model)
        .tools([tool])
        .state_field(StateField::new("city", JsonFieldKind::Last))
        .compile()?;
    let outcome = agent.run("hi").await?;
    let message = outcome.messages.iter().find_map(|it| it.as_tool());
    Ok(message.expect("the tool was called").clone())
}

#[tokio::test]
async fn only_calls_of_tools_that_read_the_state_receive_it() {
    let count = |name: &str| {
        Tool::dynamic(name, "Counts the messages.", json!({}), |_, runtime| async move {
            runtime.state().messages().len()
        })
    };
    let call = |name: &str| ToolCall::new(name, json!({}), name);
    let calls = AiMessage::new("").tool_call(call("reads")).tool_call(call("ignores"));
    let model = ScriptedModel::new([calls, AiMessage::new("done")]);
    let tools = [count("reads"), count("ignores").reads_state(false)];
    let outcome = Agent::new(model).tools(tools).compile().unwrap().run("hi").await.unwrap();
    let texts: Vec<_> = outcome.messages[2..].iter().map(Message::text).collect();
    assert_eq!(texts, ["2", "0", "done"]);
}

/// Returns the idempotency keys of the call and of its task.
#[tool]
async fn keys(runtime: &ToolRuntime) -> Vec<String> {
    vec![runtime.idempotency_key(), runtime.context().idempotency_key()]
}

async fn run_keys(state: &MessagesState, cx: &Context) -> Result<MessagesStateUpdate, NodeError> {
    match ToolNode::new([keys()]).run_messages(state.messages.clone(), cx).await? {
        ToolResults::Messages(messages) => Ok(MessagesState::update().messages(messages)),
        _ => Err("the tool returns no commands".into()),
    }
}

#[tokio::test]
async fn calls_of_one_task_have_different_idempotency_keys() {
    let graph = StateGraph::<MessagesState>::new().node(run_keys).edge(START, run_keys);
    let call = |id: &str| ToolCall::new("keys", json!({}), id);
    let calls = AiMessage::new("").tool_call(call("c1")).tool_call(call("c2"));
    let state = MessagesState { messages: vec![calls.into()] };
    let state = graph.compile().unwrap().invoke(state, ()).await.unwrap();
    let results = state.messages[1..].iter().map(|it| serde_json::from_str(&it.text()).unwrap());
    let results: Vec<[String; 2]> = results.collect();
    assert_eq!(results.len(), 2);
    assert_eq!(results[0][1], results[1][1], "one task runs both calls");
    assert_ne!(results[0][0], results[1][0]);
}

#[test]
fn macro_creates_schema_and_description() {
    let tool = add();
    assert_eq!((tool.name(), tool.description()), ("add", "Adds two numbers."));
    assert_eq!(tool.schema()["required"], json!(["a"]));
    assert_eq!(tool.schema()["properties"]["a"]["description"], "First summand.");
    assert!(count().is_return_direct());
    assert_eq!(count().schema()["properties"], json!({}));
}

#[tokio::test]
async fn arguments_are_converted_and_defaults_filled_in() {
    let message = call(add(), json!({"a": "40"})).await.unwrap();
    assert_eq!(message.content, "40".into());
}

#[tokio::test]
async fn invalid_arguments_are_answered() {
    let message = call(add(), json!({"a": "x"})).await.unwrap();
    assert_eq!(message.status, Status::Error);
    assert!(message.content.text().contains("a: Input should be a valid integer"));
}

#[tokio::test]
async fn state_is_filled_in_and_return_direct_ends_the_loop() {
    let model = ScriptedModel::new([AiMessage::new("").tool_call(ToolCall::new(
        "count_messages",
        json!({}),
        "c1",
    ))]);
    let outcome = Agent::new(model).tools([count()]).compile().unwrap().run("hi").await.unwrap();
    assert_eq!(outcome.text(), "2");
}

#[tokio::test]
async fn command_updates_the_state() {
    let message = call(remember(), json!({"city": "Rome"})).await.unwrap();
    assert_eq!(message.content, "noted".into());
    assert_eq!(message.name.as_deref(), Some("remember"));
}

#[tokio::test]
async fn error_of_a_tool_fails_the_run() {
    let error = call(fail(), json!({})).await.unwrap_err();
    assert!(error.to_string().contains("no route"), "{error}");
}

struct Greeting(&'static str);

/// Greets a person.
#[tool]
async fn greet(name: String, greeting: Dep<Greeting>) -> Result<String, AgentError> {
    Ok(format!("{} {name}", greeting.0))
}

/// Replaces the argument `name` of tool calls with the agent's dependency of type `String`.
#[derive(Debug)]
struct Rename;

#[async_trait]
impl Middleware for Rename {
    fn name(&self) -> String {
        "Rename".to_owned()
    }

    fn hooks(&self) -> Hooks {
        Hooks::new().wrap_tool_call()
    }

    async fn wrap_tool_call(
        &self,
        mut request: ToolRequest,
        next: ToolHandler,
    ) -> Result<ToolAnswer, NodeError> {
        let name = request.dependencies.get::<String>()?;
        request.call.args.insert("name".to_owned(), json!(*name));
        next.call(request).await
    }
}

#[tokio::test]
async fn tools_and_middleware_see_the_dependencies() {
    assert_eq!(greet().schema()["required"], json!(["name"]));
    let call = ToolCall::new("greet", json!({"name": "Ann"}), "c1");
    let model = ScriptedModel::new([AiMessage::new("").tool_call(call), AiMessage::new("done")]);
    let agent = Agent::new(model).tools([greet()]).middleware(Rename).dependency("Bob".to_owned());
    let problem = agent.clone().compile().unwrap_err().to_string();
    assert!(problem.starts_with("tool `greet` cannot run: no dependency of type"), "{problem}");
    let outcome = agent.dependency(Greeting("Hello")).compile().unwrap().run("hi").await.unwrap();
    assert_eq!(outcome.messages[2].text(), "Hello Bob");
}

/// Greets the user of this run, and remembers the call.
#[tool]
async fn welcome(
    call: &ToolCall,
    context: &Context,
    store: &dyn Store,
    greeting: Dep<Greeting>,
) -> Result<String, NodeError> {
    let user = context.config("user").and_then(Value::as_str).unwrap_or("nobody").to_owned();
    store.put(&["calls"], call.id(), json!({ "user": user })).await?;
    Ok(format!("{} {user}", greeting.0))
}

#[tokio::test]
async fn store_call_and_context_of_the_run_are_filled_in() {
    assert_eq!(welcome().schema()["properties"], json!({}), "the model sees no parameter");
    let call = ToolCall::new("welcome", json!({}), "c7");
    let model =
        || ScriptedModel::new([AiMessage::new("").tool_call(call.clone()), AiMessage::new("ok")]);
    let agent = |model| Agent::new(model).tools([welcome()]).dependency(Greeting("Hello"));
    let store = Arc::new(InMemoryStore::new());
    let compiled = agent(model()).store(store.clone()).compile().unwrap();
    let options = CompiledAgent::run_options().config("user", "Ann");
    let input = compiled.input("hi").unwrap();
    let outcome = compiled.graph().with(options).run(input, ()).await.unwrap();
    let messages = messages_from_json(outcome.state().get("messages").unwrap()).unwrap();
    assert_eq!(messages[2].text(), "Hello Ann");
    let item = store.get(&["calls"], "c7").await.unwrap().unwrap();
    assert_eq!(item.value, json!({ "user": "Ann" }));

    let error = agent(model()).compile().unwrap().run("hi").await.unwrap_err().to_string();
    assert!(error.contains("tool `welcome` needs a store"), "{error}");
}

#[tokio::test]
async fn artifact_is_kept_on_the_message() {
    let message = call(picture(), json!({})).await.unwrap();
    assert_eq!(message.artifact, Some(json!({"bytes": 3})));
}
