//! Tests of malformed tool calls from models of the crate `llm`.

use std::sync::{Arc, Mutex};

use graph_agents::{
    Agent, AiMessage, LlmModel, Message, ScriptedModel, StateField, Status, Tool,
    middleware::{ModelCallLimit, Size, Summarization},
};
use graph_core::{JsonFieldKind, MemorySaver};
use llm::{Llm, Part, Reply, Request, Scripted};
use serde_json::{Value, json};

type Requests = Arc<Mutex<Vec<Request>>>;

/// Returns a model that gives these replies, and the requests that it receives.
fn model(replies: impl IntoIterator<Item = Reply>) -> (LlmModel, Requests) {
    let requests = Requests::default();
    let (log, replies) =
        (requests.clone(), Mutex::new(replies.into_iter().collect::<Vec<_>>().into_iter()));
    let scripted = Scripted::new("small", move |request: &Request| {
        log.lock().unwrap().push(request.clone());
        replies.lock().unwrap().next().unwrap()
    });
    (LlmModel::new(Llm::new(scripted)), requests)
}

fn call(arguments: Value) -> Reply {
    Reply::ToolCall { name: "weather".to_owned(), arguments }
}

/// Returns a tool, and the cities with which it was called.
fn weather() -> (Tool, Arc<Mutex<Vec<Value>>>) {
    let cities = Arc::new(Mutex::new(Vec::new()));
    let log = cities.clone();
    let schema = json!({
        "type": "object", "properties": { "city": { "type": "string" } }, "required": ["city"],
    });
    let tool = Tool::dynamic("weather", "Returns the weather.", schema, move |args, _| {
        log.lock().unwrap().push(args["city"].clone());
        async { "rain" }
    });
    (tool, cities)
}

#[tokio::test]
async fn unambiguous_arguments_are_repaired() {
    let replies = [call(json!("```json\n{city: 'Rome',}\n```")), "It rains.".into()];
    let (model, requests) = model(replies);
    let (tool, cities) = weather();
    let agent = Agent::new(model).tools([tool]).compile().unwrap();
    assert_eq!(agent.run("Does it rain?").await.unwrap().text(), "It rains.");
    assert_eq!(*cities.lock().unwrap(), ["Rome"]);
    assert_eq!(requests.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn malformed_call_is_returned_and_corrected() {
    let replies =
        [call(json!("{\"city\": \"Ro")), call(json!({ "city": "Rome" })), "It rains.".into()];
    let (model, requests) = model(replies);
    let (tool, cities) = weather();
    let agent = Agent::new(model).tools([tool]).compile().unwrap();
    let outcome = agent.run("Does it rain?").await.unwrap();
    assert_eq!(outcome.text(), "It rains.");
    assert_eq!(*cities.lock().unwrap(), ["Rome"]);
    let errors = outcome.messages.iter().filter_map(Message::as_tool);
    assert_eq!(errors.filter(|it| it.status == Status::Error).count(), 1);

    let requests = requests.lock().unwrap();
    let [_, answer, error] = &requests[1].messages[..] else { panic!("{:?}", requests[1]) };
    let [Part::InvalidToolCall(malformed)] = &answer.parts[..] else { panic!("{answer:?}") };
    assert_eq!(malformed.arguments, "{\"city\": \"Ro");
    let [Part::ToolResult { id, content, failed: true, .. }] = &error.parts[..] else {
        panic!("{error:?}")
    };
    assert_eq!(*id, malformed.id);
    assert!(content.contains(&malformed.error), "{content}");
}

#[tokio::test]
async fn call_limits_bound_the_retries() {
    let (model, requests) = model((0..9).map(|_| call(json!("{"))));
    let (tool, cities) = weather();
    let agent = Agent::new(model)
        .tools([tool])
        .malformed_call_retries(8)
        .middleware(ModelCallLimit::new(None, Some(3)).unwrap())
        .compile()
        .unwrap();
    let outcome = agent.run("Does it rain?").await.unwrap();
    assert_eq!(outcome.text(), "Model call limits exceeded: run limit (3/3)");
    assert_eq!(requests.lock().unwrap().len(), 3);
    assert!(cities.lock().unwrap().is_empty());
}

#[tokio::test]
async fn summaries_do_not_reset_the_number_of_retries() {
    let (model, requests) = model((0..9).map(|_| call(json!("{"))));
    let summaries = ScriptedModel::new((0..9).map(|_| AiMessage::new("a summary")));
    let summaries = Summarization::new(summaries).trigger(Size::Messages(2));
    let agent = Agent::new(model)
        .tools([weather().0])
        .malformed_call_retries(2)
        .middleware(summaries.keep(Size::Messages(1)))
        .compile()
        .unwrap();
    agent.run("Does it rain?").await.unwrap();
    assert_eq!(requests.lock().unwrap().len(), 3);
}

#[tokio::test]
async fn retry_count_restarts_with_each_run_and_after_a_valid_call() {
    let malformed = || call(json!("{"));
    let valid = call(json!({ "city": "Rome" }));
    let replies = [malformed(), valid, malformed(), malformed(), malformed(), malformed()];
    let (model, requests) = model(replies);
    let agent = Agent::new(model).tools([weather().0]).malformed_call_retries(1);
    let agent = agent.checkpointer(MemorySaver::new()).compile().unwrap();
    let conversation = agent.conversation("a");
    conversation.send("Does it rain?").await.unwrap();
    assert_eq!(requests.lock().unwrap().len(), 4);
    conversation.send("Does it rain now?").await.unwrap();
    assert_eq!(requests.lock().unwrap().len(), 6);
}

#[tokio::test]
async fn state_field_of_an_application_does_not_affect_the_retry_count() {
    let (model, requests) = model((0..9).map(|_| call(json!("{"))));
    let agent = Agent::new(model)
        .tools([weather().0])
        .malformed_call_retries(2)
        .state_field(StateField::new("malformed_calls", JsonFieldKind::Append))
        .compile()
        .unwrap();
    agent.run("Does it rain?").await.unwrap();
    assert_eq!(requests.lock().unwrap().len(), 3);
}

#[test]
fn stored_invalid_calls_without_an_error_are_read() {
    let stored = json!({
        "type": "ai", "content": "",
        "invalid_tool_calls": [{ "name": "weather", "args": "{", "id": "1" }],
    });
    let message: Message = serde_json::from_value(stored.clone()).unwrap();
    assert_eq!(message.as_ai().unwrap().invalid_tool_calls[0].error, None);
    assert_eq!(serde_json::to_value(&message).unwrap(), stored);
}
