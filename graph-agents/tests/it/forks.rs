//! Tests of time travel: conversations that continue from an earlier checkpoint.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use async_trait::async_trait;
use graph_agents::{
    Agent, AiMessage, CompiledAgent, Content, Conversation, Message, Tool, ToolCall,
    messages_from_json,
    model::{ChatModel, ChunkSink, Prompt},
};
use graph_core::{
    AsNode, HistoryFilter, JsonState, MemorySaver, NodeError, ThreadState, checkpoint::CheckpointId,
};
use serde_json::json;

/// A model that calls the tool after each question, and then answers with the texts of the conversation.
#[derive(Debug)]
struct Model;

#[async_trait]
impl ChatModel for Model {
    async fn call(&self, prompt: &Prompt, _: &mut ChunkSink<'_>) -> Result<AiMessage, NodeError> {
        let n = prompt.messages.len();
        match prompt.messages.last() {
            Some(Message::Human(_)) => {
                let call = ToolCall::new("count", json!({}), format!("call-{n}"));
                Ok(AiMessage::new("").tool_call(call))
            }
            _ => {
                let texts = prompt.messages.iter().map(Message::text);
                let texts: Vec<_> = texts.filter(|it| !it.is_empty()).collect();
                Ok(AiMessage::new(format!("[{}]", texts.join(" "))))
            }
        }
    }
}

/// Returns an agent with a tool that counts its calls.
fn agent() -> (CompiledAgent, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let counter = count.clone();
    let tool = Tool::dynamic("count", "Counts its calls.", json!({}), move |_, _| {
        let n = counter.fetch_add(1, Ordering::Relaxed) + 1;
        async move { n }
    });
    let agent = Agent::new(Model).tools([tool]).checkpointer(MemorySaver::new());
    (agent.compile().unwrap(), count)
}

fn texts(state: &JsonState) -> Vec<String> {
    let messages = messages_from_json(state.get("messages").unwrap()).unwrap();
    messages.iter().map(Message::text).filter(|it| !it.is_empty()).collect()
}

async fn head(chat: &Conversation) -> CheckpointId {
    chat.thread().state().await.unwrap().unwrap().id
}

/// Returns the newest checkpoint after which this node runs.
async fn before(chat: &Conversation, node: &str) -> ThreadState<JsonState> {
    let filter = HistoryFilter::new().next(node).limit(1);
    chat.thread().history(filter).await.unwrap().remove(0)
}

#[tokio::test]
async fn fork_continues_an_earlier_conversation_and_keeps_the_original() {
    let (agent, count) = agent();
    let chat = agent.conversation("t");
    chat.send("a").await.unwrap();
    let middle = head(&chat).await;
    chat.send("b").await.unwrap();
    let original = head(&chat).await;

    let fork = chat.thread().at(middle).run(agent.input("c").unwrap()).await.unwrap();
    assert_eq!(texts(fork.state()), ["a", "1", "[a 1]", "c", "3", "[a 1 [a 1] c 3]"]);
    let kept = chat.thread().at(original).state().await.unwrap().unwrap();
    assert_eq!(texts(&kept.values), ["a", "1", "[a 1]", "b", "2", "[a 1 [a 1] b 2]"]);
    // The conversation continues on the fork.
    let outcome = chat.send("d").await.unwrap();
    assert_eq!(texts(&outcome.state)[3..5], ["c", "3"]);
    assert_eq!(count.load(Ordering::Relaxed), 4);
}

#[tokio::test]
async fn replay_from_the_middle_runs_the_tools_again() {
    let (agent, count) = agent();
    let chat = agent.conversation("t");
    chat.send("a").await.unwrap();
    let checkpoint = before(&chat, "tools").await;
    let again = chat.thread().at(checkpoint.id).proceed().await.unwrap();
    assert_eq!(texts(again.state()), ["a", "2", "[a 2]"]);
    assert_eq!(count.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn edited_tool_result_is_answered_without_running_the_tool() {
    let (agent, count) = agent();
    let chat = agent.conversation("t");
    chat.send("a").await.unwrap();
    let checkpoint = before(&chat, "model").await;
    let messages = messages_from_json(checkpoint.values.get("messages").unwrap()).unwrap();
    let mut result = messages.last().unwrap().as_tool().unwrap().clone();
    result.content = Content::from("edited");
    let update = agent.schema().update(json!({"messages": [Message::Tool(result)]})).unwrap();
    let fork = chat.thread().at(checkpoint.id);
    fork.update_state(update, AsNode::node("tools")).await.unwrap();
    let outcome = chat.thread().proceed().await.unwrap();
    assert_eq!(texts(outcome.state()), ["a", "edited", "[a edited]"]);
    assert_eq!(count.load(Ordering::Relaxed), 1);
}
