//! Tests that recorded conversations are replayed without calling models or tools.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use async_trait::async_trait;
use graph_agents::{
    Agent, AiMessage, Command, CompiledAgent, Message, ResponseFormat, ScriptedModel, StateField,
    Tool, ToolCall, ToolMessage, Update,
    middleware::{
        Hooks, Middleware, RecordReplay, Size, Summarization, ToolEmulator, ToolSelector,
    },
    model::{ModelAnswer, ModelHandler, ModelRequest, ToolChoice},
    multi::{Supervisor, Swarm, handoff_tool},
    response::{ResponseSchema, Strategy},
};
use graph_core::{JsonFieldKind, JsonState, NodeError};
use serde_json::json;
use tempfile::TempDir;

use crate::middleware_budget::budget;

/// Returns a model with these answers, or without answers for a replay.
fn model(records: bool, answers: impl IntoIterator<Item = AiMessage>) -> ScriptedModel {
    ScriptedModel::new(answers.into_iter().filter(|_| records))
}

fn calls(tool: &str, ids: &[&str]) -> AiMessage {
    let calls = ids.iter().map(|id| ToolCall::new(tool, json!({}), *id));
    AiMessage { tool_calls: calls.collect(), ..AiMessage::default() }
}

fn clock() -> Tool {
    Tool::dynamic("clock", "Returns the time.", json!({}), |_, _| async { "noon" })
}

fn texts(messages: &[Message]) -> Vec<String> {
    messages.iter().map(Message::text).collect()
}

/// Runs an agent that records its calls, and another one that replays them. `agent` creates both; its first argument is
/// `true` for the agent that records. Returns the final texts and states of both.
async fn record_and_replay(
    agent: impl Fn(bool, RecordReplay) -> CompiledAgent,
    messages: Vec<Message>,
) -> [(Vec<String>, JsonState); 2] {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("calls.jsonl");
    let recorded = agent(true, RecordReplay::record(&file).unwrap()).run(messages.clone()).await;
    let replayed = agent(false, RecordReplay::replay(&file).unwrap()).run(messages).await;
    [recorded, replayed].map(|it| it.unwrap()).map(|it| (texts(&it.messages), it.state))
}

fn hi() -> Vec<Message> {
    vec![Message::human("hi")]
}

#[tokio::test]
async fn recorded_conversation_is_replayed_without_model_and_tools() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("calls.jsonl");
    let runs = Arc::new(AtomicUsize::new(0));
    let agent = |records: bool, middleware: RecordReplay| {
        let runs = runs.clone();
        let roll = Tool::dynamic("roll", "Rolls a die.", json!({}), move |_, _| {
            let n = runs.fetch_add(1, Ordering::Relaxed);
            async move { n }
        });
        let script = [calls("roll", &["c1"]), calls("roll", &["c2"]), AiMessage::new("done")];
        let agent = Agent::new(model(records, script)).tools([roll]).middleware(middleware);
        agent.compile().unwrap()
    };
    let recorded = agent(true, RecordReplay::record(&file).unwrap()).run("go").await.unwrap();
    assert_eq!(runs.load(Ordering::Relaxed), 2);
    let replay = agent(false, RecordReplay::replay(&file).unwrap());
    let replayed = replay.run("go").await.unwrap();
    assert_eq!(texts(&replayed.messages), texts(&recorded.messages));
    assert_eq!(texts(&replayed.messages), ["go", "", "0", "", "1", "done"]);
    assert_eq!(runs.load(Ordering::Relaxed), 2);
    let problem = replay.run("something else").await.unwrap_err().to_string();
    assert!(problem.contains("the recording has no answer to this model call"), "{problem}");
}

#[tokio::test]
async fn commands_of_tools_are_replayed() {
    let runs = Arc::new(AtomicUsize::new(0));
    let agent = |records: bool, middleware: RecordReplay| {
        let runs = runs.clone();
        let count = Tool::dynamic("count", "Counts.", json!({}), move |_, runtime| {
            let n = runs.fetch_add(1, Ordering::Relaxed);
            async move {
                let result = ToolMessage::success(runtime.call(), n.to_string());
                Command::new().update(Update::new().set("counts", [n]).messages([result]))
            }
        });
        // Ids of messages differ in each run.
        let forget = Tool::dynamic("forget", "Forgets.", json!({}), |_, runtime| async move {
            let first = runtime.state().messages()[0].id().unwrap_or_default().to_owned();
            let result = ToolMessage::success(runtime.call(), "forgotten");
            let messages = [Message::remove(first), result.into()];
            Command::new().update(Update::new().messages(messages))
        });
        let script =
            [calls("count", &["c1", "c2"]), calls("forget", &["c3"]), AiMessage::new("done")];
        Agent::new(model(records, script))
            .tools([count, forget])
            .state_field(StateField::new("counts", JsonFieldKind::Append))
            .middleware(middleware)
            .compile()
            .unwrap()
    };
    let [recorded, replayed] = record_and_replay(agent, hi()).await;
    assert_eq!(runs.load(Ordering::Relaxed), 2);
    assert_eq!(replayed.1.get("counts"), recorded.1.get("counts"));
    assert_eq!(replayed.0, recorded.0);
    assert_eq!(replayed.0[3..], ["", "forgotten", "done"]);
    assert_eq!(replayed.0.len(), 6, "the first message was removed");
}

#[tokio::test]
async fn handoffs_of_swarms_are_replayed() {
    let swarm = |records: bool, middleware: RecordReplay| {
        let agent = |name: &str, answer| {
            Agent::new(model(records, [answer])).name(name).middleware(middleware.clone())
        };
        let alice = agent("alice", calls("transfer_to_bob", &["c1"])).tools([handoff_tool("bob")]);
        let bob = agent("bob", AiMessage::new("bob"));
        Swarm::new([alice.compile().unwrap(), bob.compile().unwrap()], "alice").compile().unwrap()
    };
    let [recorded, replayed] = record_and_replay(swarm, hi()).await;
    assert_eq!(replayed.0, ["hi", "", "Successfully transferred to bob", "bob"]);
    assert_eq!(replayed.0, recorded.0);
}

#[tokio::test]
async fn handoffs_of_supervisors_are_replayed() {
    let team = |records: bool, middleware: RecordReplay| {
        let bob = Agent::new(model(records, ["bob".into()])).name("bob");
        let bob = bob.middleware(middleware.clone()).compile().unwrap();
        let script = [calls("transfer_to_bob", &["c1"]), AiMessage::new("done")];
        // The call that hands the conversation back has a random id.
        Supervisor::new(model(records, script), [bob]).middleware(middleware).compile().unwrap()
    };
    let [recorded, replayed] = record_and_replay(team, hi()).await;
    assert_eq!(replayed.0.last().unwrap(), "done");
    assert_eq!(replayed.0, recorded.0);
}

#[tokio::test]
async fn model_calls_of_middleware_are_replayed() {
    let agent = |records: bool, middleware: RecordReplay| {
        let model = |answers: &[&str]| {
            model(records, answers.iter().copied().map(AiMessage::new).collect::<Vec<_>>())
        };
        let choice = r#"{"tools": ["clock"]}"#;
        let script = [calls("clock", &["c1"]), AiMessage::new("It is noon.")];
        Agent::new(self::model(records, script))
            .tools([clock()])
            .middleware(
                Summarization::new(model(&["a summary"]))
                    .trigger(Size::Messages(5))
                    .keep(Size::Messages(1)),
            )
            .middleware(ToolSelector::new().model(model(&[choice, choice])))
            .middleware(ToolEmulator::new(model(&["12:00"])))
            .middleware(middleware)
            .compile()
            .unwrap()
    };
    let conversation = ["one", "two", "three", "four", "What time is it?"].map(Message::human);
    let [recorded, replayed] = record_and_replay(agent, conversation.into()).await;
    assert!(replayed.0[0].contains("a summary"), "{:?}", replayed.0);
    assert_eq!(replayed.0[1..], ["What time is it?", "", "12:00", "It is noon."]);
    assert_eq!(replayed.0, recorded.0);
}

/// Forces the model to call a tool.
#[derive(Debug)]
struct ForceTool;

#[async_trait]
impl Middleware for ForceTool {
    fn name(&self) -> String {
        "ForceTool".to_owned()
    }

    fn hooks(&self) -> Hooks {
        Hooks::new().wrap_model_call()
    }

    async fn wrap_model_call(
        &self,
        mut request: ModelRequest,
        next: ModelHandler,
    ) -> Result<ModelAnswer, NodeError> {
        request.tool_choice = Some(ToolChoice::Any);
        next.call(request).await
    }
}

/// Records a conversation of one message. Returns the directory of the file.
async fn record_hello() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let record = RecordReplay::record(dir.path().join("calls.jsonl")).unwrap();
    hello_agent(true).middleware(record).compile().unwrap().run(hi()).await.unwrap();
    dir
}

fn hello_agent(records: bool) -> Agent {
    Agent::new(model(records, [AiMessage::new("Hello!")])).tools([clock()])
}

fn replay(dir: &Path) -> RecordReplay {
    RecordReplay::replay(dir.join("calls.jsonl")).unwrap()
}

#[tokio::test]
async fn request_with_another_tool_choice_or_response_format_is_not_in_the_recording() {
    let dir = record_hello().await;
    let response = || {
        let schema = ResponseSchema::new("Greeting", json!({"type": "object"}));
        ResponseFormat::new([schema]).strategy(Strategy::Provider)
    };
    let changed =
        [hello_agent(false).middleware(ForceTool), hello_agent(false).response_format(response())];
    for agent in changed {
        let agent = agent.middleware(replay(dir.path())).compile().unwrap();
        let problem = agent.run(hi()).await.unwrap_err().to_string();
        assert!(problem.contains("the recording has no answer to this model call"), "{problem}");
    }
}

#[tokio::test]
async fn replayed_calls_cost_nothing() {
    let dir = record_hello().await;
    let agent = hello_agent(false).middleware(replay(dir.path())).middleware(budget(0.0));
    assert_eq!(agent.compile().unwrap().run(hi()).await.unwrap().text(), "Hello!");
}
