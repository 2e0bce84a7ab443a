//! Tests of files in the state and of deep agents.
#![expect(clippy::unwrap_used, reason = "a failure fails the test")]

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use graph_agents::{
    Agent, AgentOutcome, AiMessage, ScriptedModel, Status, ToolCall, ToolMessage, ToolRuntime,
    deep::DeepAgent,
    files::FileTools,
    model::{ChatModel, ChunkSink, Prompt},
    tool,
};
use graph_core::{MemorySaver, NodeError};
use serde_json::{Value, json};

fn call(tool: &str, args: Value) -> AiMessage {
    AiMessage::new("").tool_call(ToolCall::new(tool, args, "call-1"))
}

fn tool_messages(outcome: &AgentOutcome) -> Vec<&ToolMessage> {
    outcome.messages.iter().filter_map(|it| it.as_tool()).collect()
}

/// Runs an agent with the file tools, whose model gives these answers. Returns the tools' results and the files.
async fn run_files(answers: Vec<AiMessage>) -> (Vec<(Status, String)>, Value) {
    let answers = answers.into_iter().chain([AiMessage::new("done")]);
    let agent = Agent::new(ScriptedModel::new(answers)).middleware(FileTools::new());
    let outcome = agent.compile().unwrap().run("go").await.unwrap();
    let results = tool_messages(&outcome).into_iter().map(|it| (it.status, it.content.text()));
    (results.collect(), outcome.state.get("files").cloned().unwrap())
}

#[tokio::test]
async fn files_are_written_edited_and_read() {
    let (results, files) = run_files(vec![
        call("write_file", json!({"path": "/a/b.md", "content": "one\ntwo\nthree\n"})),
        call("edit_file", json!({"path": "a/b.md", "old": "two", "new": "2"})),
        call("read_file", json!({"path": "a/b.md", "offset": 1, "limit": 1})),
        call("list_files", json!({})),
    ])
    .await;
    assert_eq!(files, json!({"a/b.md": "one\n2\nthree\n"}));
    assert!(results.iter().all(|it| it.0 == Status::Success), "{results:?}");
    assert_eq!((results[2].1.as_str(), results[3].1.as_str()), ("2\t2\n", r#"["a/b.md"]"#));
}

#[tokio::test]
async fn errors_of_file_tools_are_returned_to_the_model() {
    let (results, files) = run_files(vec![
        call("write_file", json!({"path": "../x", "content": "1"})),
        call("read_file", json!({"path": "x"})),
        call("edit_file", json!({"path": "x", "old": "a", "new": "b"})),
        call("write_file", json!({"path": "x", "content": "aa"})),
        call("edit_file", json!({"path": "x", "old": "a", "new": "b"})),
        call("edit_file", json!({"path": "x", "old": "c", "new": "b"})),
        call("edit_file", json!({"path": "x", "old": "a", "new": "b", "all": true})),
    ])
    .await;
    assert_eq!(files, json!({"x": "bb"}));
    let parts = [
        "invalid path", "there is no file `x`", "does not exist", "Changed", "occurs 2 times",
        "does not contain", "Changed",
    ];
    for ((status, text), part) in results.iter().zip(parts) {
        assert_eq!(*status == Status::Success, part == "Changed", "{text}");
        assert!(text.contains(part), "{text}");
    }
}

#[tokio::test]
async fn second_change_of_a_file_in_one_message_is_refused() {
    let write = |path: &str, id: &str| {
        ToolCall::new("write_file", json!({"path": path, "content": id}), id)
    };
    let message = AiMessage::new("")
        .tool_call(write("x", "first"))
        .tool_call(write("y", "other"))
        .tool_call(write("./x", "second"));
    let (results, files) = run_files(vec![message]).await;
    assert_eq!(files, json!({"x": "first", "y": "other"}));
    assert!(results[2].1.contains("another call in the same message changes `x`"), "{results:?}");
}

#[tokio::test]
async fn call_without_a_path_does_not_affect_other_calls() {
    let args = json!({"path": "x", "content": "1"});
    let message = AiMessage::new("")
        .tool_call(ToolCall::new("write_file", json!({"content": "0"}), "c1"))
        .tool_call(ToolCall::new("write_file", args, "c2"));
    let (results, files) = run_files(vec![message]).await;
    assert_eq!(files, json!({"x": "1"}));
    let statuses: Vec<_> = results.iter().map(|it| it.0).collect();
    assert_eq!(statuses, [Status::Error, Status::Success]);
}

/// Returns the number of a sale.
#[tool]
async fn sale() -> i64 {
    40
}

#[tokio::test]
async fn sub_agent_works_on_the_same_files_with_an_empty_conversation() {
    let writer = ScriptedModel::new([
        call("read_file", json!({"path": "in.txt"})),
        call("write_file", json!({"path": "out.txt", "content": "42"})),
        AiMessage::new("It is in out.txt."),
    ]);
    let model = ScriptedModel::new([
        call("write_file", json!({"path": "in.txt", "content": "6 * 7"})),
        call("task", json!({"agent": "writer", "description": "Compute in.txt."})),
        AiMessage::new("42"),
    ]);
    let agent = DeepAgent::new(model).sub_agent("writer", "Writes.", Agent::new(writer));
    let agent = agent.build().unwrap().checkpointer(MemorySaver::new()).compile().unwrap();
    let outcome = agent.conversation("a").send("Compute 6 * 7.").await.unwrap();
    assert_eq!(outcome.state.get("files"), Some(&json!({"in.txt": "6 * 7", "out.txt": "42"})));
    assert_eq!(tool_messages(&outcome)[1].content.text(), "It is in out.txt.");
    assert_eq!(outcome.text(), "42");
}

/// Asks a person for a price.
#[tool]
async fn ask_price(product: String, runtime: &ToolRuntime) -> Result<u32, NodeError> {
    runtime.interrupt(format!("How much is {product}?"))
}

#[tokio::test]
async fn question_of_a_sub_agent_reaches_the_caller_and_its_calls_are_not_repeated() {
    let seller_model = ScriptedModel::new([
        call("ask_price", json!({"product": "tea"})),
        AiMessage::new("Tea costs 3."),
    ]);
    let seller = Agent::new(seller_model).tools([ask_price()]);
    let model = ScriptedModel::new([
        call("task", json!({"agent": "seller", "description": "Find the price of tea."})),
        AiMessage::new("It is 3."),
    ]);
    let agent = DeepAgent::new(model).sub_agent("seller", "Knows prices.", seller).build().unwrap();
    let agent = agent.checkpointer(MemorySaver::new()).compile().unwrap();
    let chat = agent.conversation("t");
    let waiting = chat.send("What does tea cost?").await.unwrap();
    assert_eq!(waiting.interrupts[0].value, "How much is tea?");
    // The scripted models have exactly one answer for each call, so a repeated call would fail.
    let outcome = chat.resume(3).await.unwrap();
    assert_eq!(tool_messages(&outcome)[0].content.text(), "Tea costs 3.");
    assert_eq!(outcome.text(), "It is 3.");
}

#[tokio::test]
async fn failure_of_a_sub_agent_is_returned_to_the_model() {
    let model = ScriptedModel::new([
        call("task", json!({"agent": "writer", "description": "Write."})),
        call("task", json!({"agent": "unknown", "description": "Write."})),
        AiMessage::new("sorry"),
    ]);
    let writer = Agent::new(ScriptedModel::new(Vec::<AiMessage>::new()));
    let agent = DeepAgent::new(model).sub_agent("writer", "Writes.", writer).build().unwrap();
    let outcome = agent.compile().unwrap().run("go").await.unwrap();
    let results = tool_messages(&outcome);
    assert!(results.iter().all(|it| it.status == Status::Error), "{results:?}");
    assert!(results[0].content.text().starts_with("the agent `writer` failed: "), "{results:?}");
    assert!(results[1].content.text().contains("'general-purpose' or 'writer'"), "{results:?}");
}

/// A model that records the tools that it may call.
#[derive(Debug)]
struct Recorder(ScriptedModel, Arc<Mutex<Vec<Vec<String>>>>);

#[async_trait]
impl ChatModel for Recorder {
    async fn call(
        &self,
        prompt: &Prompt,
        chunks: &mut ChunkSink<'_>,
    ) -> Result<AiMessage, NodeError> {
        let names = prompt.tools.iter().map(|it| it.name().to_owned()).collect();
        self.1.lock().unwrap().push(names);
        self.0.call(prompt, chunks).await
    }
}

#[tokio::test]
async fn general_sub_agent_has_the_tools_but_cannot_delegate() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let model = ScriptedModel::new([
        call("task", json!({"agent": "general-purpose", "description": "Get the sale."})),
        call("sale", json!({})),
        AiMessage::new("40"),
        AiMessage::new("It was 40."),
    ]);
    let agent = DeepAgent::new(Recorder(model, seen.clone())).tools([sale()]).build().unwrap();
    let outcome = agent.compile().unwrap().run("How much was the sale?").await.unwrap();
    assert_eq!(outcome.text(), "It was 40.");
    let seen = seen.lock().unwrap();
    let files = ["list_files", "read_file", "write_file", "edit_file"];
    assert_eq!(seen[0], [&["write_todos"], &files[..], &["sale", "task"]].concat());
    assert_eq!(seen[1], [&files[..], &["sale"]].concat());
}

#[test]
fn sub_agents_with_the_same_name_are_rejected() {
    let agent = || Agent::new(ScriptedModel::new(Vec::<AiMessage>::new()));
    let deep = DeepAgent::new(ScriptedModel::new(Vec::<AiMessage>::new()));
    let error = deep.sub_agent("a", "", agent()).sub_agent("a", "", agent()).build().unwrap_err();
    assert_eq!(error.message(), "two sub-agents have the name `a`; rename one of them");
}
