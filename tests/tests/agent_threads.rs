//! Stored data and traces of agent conversations.
#![expect(clippy::unwrap_used, reason = "test code, including helper functions")]

use std::{path::Path, sync::Arc};

use async_trait::async_trait;
use fastrand::Rng;
use graph_agents::{
    Agent, AiMessage, CompiledAgent, Conversation, Message, ScriptedModel, Tool, ToolCall,
    messages_from_json,
    model::{ChatModel, ChunkSink, Prompt},
};
use graph_core::{AsNode, Checkpointer, JsonState, NodeError, checkpoint::Keep};
use graph_store::SqliteSaver;
use graph_trace::{Detail, RecordedRun, SnapshotOptions, assert_trace_snapshot};
use serde_json::json;

/// Number of messages in a long conversation.
const N_MESSAGES: usize = 400;
/// Number of random characters per message, which compression cannot remove.
const LENGTH: usize = 500;

/// A model that calls a tool after each message of the user, and then answers.
#[derive(Debug)]
struct Model;

#[async_trait]
impl ChatModel for Model {
    async fn call(&self, prompt: &Prompt, _: &mut ChunkSink<'_>) -> Result<AiMessage, NodeError> {
        match prompt.messages.last() {
            Some(Message::Human(_)) => {
                let call = ToolCall::new("look", json!({}), "call-1");
                Ok(AiMessage::new("").tool_call(call))
            }
            _ => Ok(AiMessage::new("done")),
        }
    }
}

fn look() -> Tool {
    let tool = Tool::dynamic("look", "Looks.", json!({}), |_, _| async { "seen" });
    tool.reads_state(false)
}

fn agent(saver: Arc<SqliteSaver>) -> CompiledAgent {
    Agent::new(Model).tools([look()]).checkpointer(saver).compile().unwrap()
}

fn open(path: &Path) -> Arc<SqliteSaver> {
    Arc::new(SqliteSaver::open(path).unwrap())
}

/// Returns the number of bytes that the conversation `t` takes.
async fn stored_bytes(saver: &SqliteSaver) -> u64 {
    let sizes = saver.thread_sizes("t").await.unwrap();
    sizes.checkpoint_bytes + sizes.link_bytes + sizes.record_bytes
}

fn long_conversation() -> Vec<Message> {
    let mut rng = Rng::with_seed(1);
    let mut text = || (0..LENGTH).map(|_| rng.alphanumeric()).collect::<String>();
    (0..N_MESSAGES).map(|n| Message::human(text()).with_id(n.to_string())).collect()
}

async fn messages(chat: &Conversation) -> Vec<Message> {
    let state = chat.thread().state().await.unwrap().unwrap();
    messages_from_json(state.values.get("messages").unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_of_a_long_conversation_store_only_the_change() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("threads.db");
    let saver = open(&path);
    let first_agent = agent(saver.clone());
    let chat = first_agent.conversation("t");
    let mut expected = chat.send(long_conversation()).await.unwrap().messages;
    let conversation = stored_bytes(&saver).await;
    assert!(conversation > (N_MESSAGES * LENGTH / 2) as u64, "{conversation}");
    let limit = conversation / 10;

    // A question, a tool call, its result and the answer.
    let before = stored_bytes(&saver).await;
    let outcome = chat.send("short").await.unwrap();
    let appended = stored_bytes(&saver).await - before;
    assert!(appended < limit, "{appended} of {conversation} bytes");
    assert_eq!(outcome.messages[..expected.len()], expected);
    assert_eq!(outcome.messages.len(), expected.len() + 4);
    expected = outcome.messages;

    for (change, n_removed) in [
        (json!([{"type": "remove", "id": "7"}]), 1),
        (json!([{"type": "remove", "id": "8"}, {"type": "remove", "id": "0"}]), 2),
        (json!([{"type": "human", "content": "edited", "id": "9"}]), 0),
    ] {
        let (n, before) = (expected.len(), stored_bytes(&saver).await);
        let update = first_agent.schema().update(json!({ "messages": change })).unwrap();
        chat.thread().update_state(update, AsNode::node("model")).await.unwrap();
        let grown = stored_bytes(&saver).await - before;
        assert!(grown < limit, "{change}: {grown} of {conversation} bytes");
        expected = messages(&chat).await;
        assert_eq!(expected.len(), n - n_removed);
    }
    let ids: Vec<_> = expected.iter().filter_map(Message::id).take(8).collect();
    assert_eq!(ids, ["1", "2", "3", "4", "5", "6", "9", "10"]);
    assert_eq!(expected[6].text(), "edited");

    // Another process builds the same list from the stored changes.
    drop((chat, first_agent, saver));
    let reopened = agent(open(&path));
    assert_eq!(messages(&reopened.conversation("t")).await, expected);
}

/// Removals from a short conversation store the remaining list, so that reading it does not require the removed
/// messages.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conversation_that_drops_old_messages_is_read_from_few_changes() {
    let dir = tempfile::tempdir().unwrap();
    let saver = open(&dir.path().join("threads.db"));
    let agent = agent(saver.clone());
    let chat = agent.conversation("t");
    for _ in 0..20 {
        let outcome = chat.send("again").await.unwrap();
        let old = outcome.messages.iter().rev().skip(4).filter_map(Message::id);
        let old: Vec<_> = old.map(|id| json!({"type": "remove", "id": id})).collect();
        let update = agent.schema().update(json!({ "messages": old })).unwrap();
        chat.thread().update_state(update, AsNode::node("model")).await.unwrap();
    }
    assert_eq!(messages(&chat).await.len(), 4);
    let all = stored_bytes(&saver).await;
    saver.prune(&["t".to_owned()], Keep::Newest(1)).await.unwrap();
    let newest = stored_bytes(&saver).await;
    assert!(newest < all / 10, "{newest} of {all} bytes are needed for the newest checkpoint");
    assert_eq!(messages(&chat).await.len(), 4);
}

async fn record() -> RecordedRun<JsonState> {
    let call = |id: &str| ToolCall::new("look", json!({}), id);
    let model = ScriptedModel::new([
        AiMessage::new("").tool_call(call("call-1")).tool_call(call("call-2")),
        AiMessage::new("Nothing new."),
    ]);
    let agent = Agent::new(model).tools([look()]).compile().unwrap();
    let input = agent.input("What do you see?").unwrap();
    graph_trace::record(agent.graph(), input, (), CompiledAgent::run_options()).await
}

#[tokio::test]
async fn trace_of_an_agent_equals_its_snapshot() {
    let recorded = record().await;
    assert_trace_snapshot!(recorded; SnapshotOptions::new(Detail::Routes).redact("messages"));
}

#[tokio::test]
async fn trace_of_an_agent_contains_its_messages_and_is_the_same_in_every_run() {
    let options = SnapshotOptions::new(Detail::Full).redact("messages[*].id").redact("id");
    let content = options.content(&record().await);
    for part in ["What do you see?", "call-2", "seen", "Nothing new."] {
        assert!(content.contains(part), "{part} is missing:\n{content}");
    }
    assert_eq!(options.content(&record().await), content);
}
