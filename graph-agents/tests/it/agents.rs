use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use async_trait::async_trait;
use graph_agents::{
    Agent, AiMessage, ChatModel, Command, CompiledAgent, InvalidToolCall, LlmModel, Message,
    ResponseFormat, ScriptedModel, Tool, ToolCall, ToolMessage, Update,
    middleware::{HumanInTheLoop, ModelCallLimit, ReviewRule},
    model::{ChunkSink, Prompt},
};
use graph_core::{
    AsNode, Checkpointer, MemorySaver, NodeError,
    json::JsonUpdate,
    store::{InMemoryStore, Store},
};
use llm::{Llm, Reply, Request, Scripted};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

pub(crate) fn calls(names: &[&str]) -> AiMessage {
    let call = |(index, name): (usize, &&str)| ToolCall::new(*name, json!({}), format!("c{index}"));
    AiMessage { tool_calls: names.iter().enumerate().map(call).collect(), ..AiMessage::default() }
}

/// Returns a tool that counts its calls.
fn counting(name: &str) -> (Tool, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let counter = count.clone();
    let tool = Tool::dynamic(name, "Counts its calls.", json!({}), move |_, _| {
        let n = counter.fetch_add(1, Ordering::Relaxed) + 1;
        async move { n }
    });
    (tool, count)
}

#[tokio::test]
async fn a_resumed_run_does_not_repeat_finished_tools() {
    let (tool, count) = counting("count");
    let ask = Tool::dynamic("ask", "Asks.", json!({}), |_, runtime| async move {
        runtime.interrupt::<String>("sure?")
    });
    let model = ScriptedModel::new([calls(&["count", "ask"]), AiMessage::new("done")]);
    let agent =
        Agent::new(model).tools([tool, ask]).checkpointer(MemorySaver::new()).compile().unwrap();
    let chat = agent.conversation("t");
    assert_eq!(chat.send("hi").await.unwrap().interrupts[0].value, "sure?");
    let outcome = chat.resume("yes").await.unwrap();
    let texts: Vec<_> = outcome.messages.iter().map(Message::text).collect();
    assert_eq!(texts, ["hi", "", "1", "yes", "done"]);
    assert_eq!(count.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn message_with_a_run_id_can_be_sent_again() {
    let (tool, count) = counting("count");
    let model = ScriptedModel::new([calls(&["count"]), AiMessage::new("done")]);
    let agent = Agent::new(model).tools([tool]).checkpointer(MemorySaver::new()).compile().unwrap();
    let options = CompiledAgent::run_options().run_id("message-1");
    let chat = agent.conversation("t").with_options(options);
    for _ in 0..2 {
        let message = Message::human("hi").with_id("message-1");
        assert_eq!(chat.send(message).await.unwrap().messages.len(), 4);
    }
    assert_eq!(count.load(Ordering::Relaxed), 1);
}

/// A model that answers with the texts of the conversation.
#[derive(Debug)]
pub(crate) struct Repeat;

#[async_trait]
impl ChatModel for Repeat {
    async fn call(&self, prompt: &Prompt, _: &mut ChunkSink<'_>) -> Result<AiMessage, NodeError> {
        let texts: Vec<_> = prompt.messages.iter().map(Message::text).collect();
        Ok(AiMessage::new(texts.join(" ")))
    }
}

#[tokio::test]
async fn the_model_sees_edits_of_the_conversation() {
    let agent = Agent::new(Repeat).checkpointer(MemorySaver::new()).compile().unwrap();
    let (chat, schema) = (agent.conversation("t"), agent.schema());
    assert_eq!(chat.send("first").await.unwrap().text(), "first");

    let messages = json!([
        {"type": "human", "content": "a", "id": "1"},
        {"type": "ai", "content": "b", "id": "2"},
    ]);
    let overwrite = JsonUpdate::default().write(schema, "messages", messages, true).unwrap();
    chat.thread().update_state(overwrite, AsNode::Last).await.unwrap();
    assert_eq!(chat.send("c").await.unwrap().text(), "a b c");

    let removal = schema.update(json!({"messages": [{"type": "remove", "id": "1"}]})).unwrap();
    chat.thread().update_state(removal, AsNode::Last).await.unwrap();
    assert_eq!(chat.send("d").await.unwrap().text(), "b c a b c d");
}

#[tokio::test]
async fn models_checkpointers_and_stores_are_accepted_as_values_and_as_arcs() {
    let model = || ScriptedModel::new([AiMessage::new("hello")]);
    let shared: Arc<dyn ChatModel> = Arc::new(model());
    let saver: Arc<dyn Checkpointer> = Arc::new(MemorySaver::new());
    let store: Arc<dyn Store> = Arc::new(InMemoryStore::new());
    for agent in [
        Agent::new(model()).checkpointer(MemorySaver::new()).store(InMemoryStore::new()),
        Agent::new(Arc::new(model()))
            .checkpointer(Arc::new(MemorySaver::new()))
            .store(Arc::new(InMemoryStore::new())),
        Agent::new(shared).checkpointer(saver).store(store),
    ] {
        let agent = agent.compile().unwrap();
        assert_eq!(agent.conversation("t").send("hi").await.unwrap().text(), "hello");
    }
}

#[tokio::test]
async fn rejected_call_does_not_run() {
    let (tool, count) = counting("delete");
    let model = ScriptedModel::new([calls(&["delete"]), AiMessage::new("ok")]);
    let agent = Agent::new(model)
        .tools([tool])
        .middleware(HumanInTheLoop::new([("delete", ReviewRule::all())]))
        .checkpointer(MemorySaver::new())
        .compile()
        .unwrap();
    let chat = agent.conversation("t");
    chat.send("delete it").await.unwrap();
    let decisions = json!({"decisions": [{"type": "reject", "message": "no"}]});
    assert_eq!(chat.resume(decisions).await.unwrap().text(), "ok");
    assert_eq!(count.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn malformed_calls_are_returned_to_the_model_a_limited_number_of_times() {
    // The call has no id, so the agent assigns one.
    let call = InvalidToolCall {
        name: Some("count".to_owned()),
        args: Some("{\"a".to_owned()),
        ..InvalidToolCall::default()
    };
    let malformed = AiMessage { invalid_tool_calls: vec![call], ..AiMessage::default() };
    for retries in 0..3 {
        let (tool, _) = counting("count");
        let model = ScriptedModel::new(vec![malformed.clone(); 9]);
        let agent = Agent::new(model).tools([tool]).malformed_call_retries(retries);
        let outcome = agent.compile().unwrap().run("go").await.unwrap();
        let answers = outcome.messages.iter().filter(|it| it.as_ai().is_some());
        assert_eq!(answers.count(), retries + 1);
    }
}

#[tokio::test]
async fn invalid_decision_can_be_corrected() {
    for per_call in [false, true] {
        let (tool, count) = counting("delete");
        let model = ScriptedModel::new([calls(&["delete"]), AiMessage::new("ok")]);
        let review = HumanInTheLoop::new([("delete", ReviewRule::all())]);
        let agent = Agent::new(model)
            .tools([tool])
            .middleware(if per_call { review.per_call() } else { review })
            .checkpointer(MemorySaver::new())
            .compile()
            .unwrap();
        let chat = agent.conversation("t");
        let question = chat.send("delete it").await.unwrap().interrupts;
        let answer = |decision: &str| match per_call {
            true => json!({"type": decision}),
            false => json!({"decisions": [{"type": decision}]}),
        };
        for invalid in [answer("agree"), answer("maybe")] {
            chat.resume(invalid).await.unwrap_err();
        }
        // A run without an answer asks the same question again.
        let again = chat.thread().run(graph_core::Input::proceed()).await.unwrap();
        assert_eq!(again.interrupts(), question);
        assert_eq!(chat.resume(answer("approve")).await.unwrap().text(), "ok");
        assert_eq!(count.load(Ordering::Relaxed), 1);
    }
}

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
struct Weather {
    city: String,
    temperature: i64,
}

#[tokio::test]
async fn structured_response_has_the_requested_type() {
    let args = json!({"city": "Rome", "temperature": "20"});
    let model =
        ScriptedModel::new([AiMessage::new("").tool_call(ToolCall::new("Weather", args, "c1"))]);
    let agent = Agent::new(model).response::<Weather>().compile().unwrap();
    let outcome = agent.run("weather in Rome?").await.unwrap();
    let expected = Weather { city: "Rome".to_owned(), temperature: 20 };
    assert_eq!(outcome.response::<Weather>(), Some(expected));
}

#[tokio::test]
async fn rejected_structured_response_beside_a_plain_call_is_corrected() {
    let (tool, count) = counting("count");
    let weather = |args, id: &str| ToolCall::new("Weather", args, id);
    let model = ScriptedModel::new([
        calls(&["count"]).tool_call(weather(json!({"city": "Rome"}), "c1")),
        AiMessage::new("").tool_call(weather(json!({"city": "Rome", "temperature": 20}), "c2")),
    ]);
    let agent = Agent::new(model).tools([tool]).response::<Weather>().compile().unwrap();
    let outcome = agent.run("weather in Rome?").await.unwrap();
    assert_eq!(outcome.response::<Weather>().unwrap().temperature, 20);
    assert_eq!(count.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn structured_response_beside_a_plain_call_ends_the_loop_after_the_call() {
    let (tool, count) = counting("count");
    let args = json!({"city": "Rome", "temperature": 20});
    let model =
        ScriptedModel::new([calls(&["count"]).tool_call(ToolCall::new("Weather", args, "c1"))]);
    let agent = Agent::new(model).tools([tool]).response::<Weather>().compile().unwrap();
    let outcome = agent.run("weather in Rome?").await.unwrap();
    assert_eq!(outcome.response::<Weather>().unwrap().temperature, 20);
    assert_eq!(count.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn response_that_a_tool_writes_does_not_end_the_loop() {
    let tool = Tool::dynamic("write", "Writes a response.", json!({}), |_, runtime| async move {
        let answer = ToolMessage::success(runtime.call(), "written");
        let update = Update::new().messages([answer]).set("structured_response", "early");
        Command::new().update(update)
    });
    let model = ScriptedModel::new([calls(&["write"]), AiMessage::new("done")]);
    let agent = Agent::new(model).tools([tool]).compile().unwrap();
    assert_eq!(agent.run("go").await.unwrap().text(), "done");
}

#[test]
fn graph_has_the_shape_of_an_agent() {
    let (tool, _) = counting("t");
    let limit = ModelCallLimit::new(None, Some(3)).unwrap();
    let model = ScriptedModel::new(Vec::<AiMessage>::new());
    let agent = Agent::new(model).tools([tool]).middleware(limit).compile().unwrap();
    assert_eq!(
        agent.nodes(),
        [
            "ModelCallLimitMiddleware.after_model", "ModelCallLimitMiddleware.before_model",
            "model", "tools"
        ]
    );
}

#[tokio::test]
async fn strict_response_format_reaches_the_provider() {
    for strict in [None, Some(true), Some(false)] {
        let seen = Arc::new(Mutex::new(None));
        let recorder = seen.clone();
        let model = Scripted::new("m", move |request: &Request| {
            *recorder.lock().unwrap() = Some(request.strict_schema);
            Reply::from(json!({"city": "Rome", "temperature": 20}))
        });
        let format = ResponseFormat { strict, ..ResponseFormat::of::<Weather>() };
        let agent = Agent::new(LlmModel::new(Llm::new(model))).response_format(format);
        let outcome = agent.compile().unwrap().run("weather in Rome?").await.unwrap();
        assert_eq!(outcome.response::<Weather>().unwrap().temperature, 20);
        assert_eq!(*seen.lock().unwrap(), Some(strict));
    }
}
