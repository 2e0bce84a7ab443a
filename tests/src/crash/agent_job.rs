//! An agent with a tool that counts its executions, for workers that are killed.

use std::{io, path::Path, sync::Arc};

use async_trait::async_trait;
use graph_agents::{
    Agent, AgentError, AiMessage, CompiledAgent, Message, Tool, ToolCall,
    message::messages_from_json,
    model::{ChatModel, ChunkSink, Prompt},
};
use graph_core::{Checkpointer, Durability, Input, JsonState, NodeError, Thread};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{job, logs};

/// Ids of the tool calls in the two rounds of the agent's loop.
pub const ROUNDS: [&[&str]; 2] = [&["a", "b", "c"], &["d", "e"]];

/// The report that a worker prints when the agent has finished.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentReport {
    /// Call id and content of each tool result, in the order of the conversation.
    pub results: Vec<(String, String)>,
    /// Text of the last message.
    pub answer: String,
    /// Number of write points that the worker has passed.
    pub n_writes: usize,
}

/// A model that derives its answer from the conversation alone, so that it can be called again after a crash.
#[derive(Debug)]
struct Model;

#[async_trait]
impl ChatModel for Model {
    async fn call(&self, prompt: &Prompt, _: &mut ChunkSink<'_>) -> Result<AiMessage, NodeError> {
        let round = prompt.messages.iter().filter(|it| it.as_ai().is_some()).count();
        let calls = ROUNDS.get(round).copied().unwrap_or_default();
        let call = |id: &&str| ToolCall::new("count", json!({}), *id);
        let text = if calls.is_empty() { "done" } else { "" };
        Ok(AiMessage { tool_calls: calls.iter().map(call).collect(), ..AiMessage::new(text) })
    }
}

/// Creates an agent whose only tool appends the id of the call to a file and returns how often the file contains it.
pub fn agent(saver: Arc<dyn Checkpointer>, log: &Path) -> Result<CompiledAgent, AgentError> {
    let log = log.to_owned();
    let count = Tool::dynamic("count", "Counts.", json!({}), move |_, runtime| {
        let executed = execute(&log, runtime.call().id());
        async move { executed.map_err(NodeError::terminal) }
    });
    Agent::new(Model).tools([count]).shared_checkpointer(saver).compile()
}

fn execute(log: &Path, id: &str) -> io::Result<usize> {
    job::append_line(log, id)?;
    Ok(logs::effects(log)?[id])
}

/// Returns the thread of the agent.
pub fn thread(agent: &CompiledAgent, durability: Durability) -> Thread<JsonState> {
    let options = CompiledAgent::run_options().durability(durability);
    agent.thread("t", ()).with_options(options)
}

/// Runs the agent to its end, starting at the last checkpoint of its thread.
pub async fn finish(
    saver: Arc<dyn Checkpointer>,
    durability: Durability,
    log: &Path,
) -> Result<AgentReport, Box<dyn std::error::Error>> {
    let agent = agent(saver, log)?;
    let question = json!({ "messages": [{ "role": "user", "content": "go" }] });
    let input = Input::start_or_continue(agent.schema().update(question)?);
    let outcome = thread(&agent, durability).run(input).await?;
    let messages = outcome.into_state().get("messages").cloned().unwrap_or_default();
    let messages = messages_from_json(&messages)?;
    let results = messages.iter().filter_map(Message::as_tool);
    Ok(AgentReport {
        results: results.map(|it| (it.tool_call_id.clone(), it.content.text())).collect(),
        answer: messages.last().map(Message::text).unwrap_or_default(),
        n_writes: 0,
    })
}
