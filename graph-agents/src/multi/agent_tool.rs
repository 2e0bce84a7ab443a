//! An agent as a tool of another agent.

use graph_core::{NodeError, Persistence};
use serde_json::{Value, json};

use crate::{
    AgentError, AgentState, CompiledAgent, Message, ToolRuntime,
    state::MESSAGES,
    tool::{ExceptionAnswer, Tool},
};

/// Creates a tool that gives a task to `agent` and returns the text of its last message.
///
/// Each call starts with an empty conversation. The agent runs as a subgraph of the call: its questions interrupt the
/// caller's run, and after a crash it continues from its last checkpoint, which the caller's checkpointer stores. A
/// failure is returned to the model as the result of the call.
///
/// ```
/// use graph_agents::{Agent, AiMessage, ScriptedModel, ToolCall, multi::agent_tool};
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let poet = Agent::new(ScriptedModel::new([AiMessage::new("Autumn leaves fall.")])).compile()?;
/// let call = ToolCall::new("poet", json!({"task": "Write a haiku about autumn."}), "call-1");
/// let model = ScriptedModel::new([
///     AiMessage::new("").tool_call(call),
///     AiMessage::new("Here it is: Autumn leaves fall."),
/// ]);
/// let agent = Agent::new(model).tools([agent_tool(poet, "poet", "Writes poems.")]).compile()?;
/// assert!(agent.run("I need a haiku.").await?.text().ends_with("Autumn leaves fall."));
/// # Ok(()) }
/// ```
pub fn agent_tool(
    agent: CompiledAgent,
    name: impl Into<String>,
    description: impl Into<String>,
) -> Tool {
    let name = name.into();
    let schema = json!({
        "properties": {
            "task": {
                "type": "string",
                "description": "The complete task, with everything that the agent must know.",
            },
        },
        "required": ["task"],
    });
    let tool = Tool::dynamic(name.clone(), description, schema, move |args, runtime| {
        let (agent, name) = (agent.clone(), name.clone());
        async move {
            let task = args.get("task").and_then(Value::as_str).unwrap_or_default();
            let input = json!({ MESSAGES: [Message::human(task)] });
            let state = run_agent(&agent, &name, input, &runtime).await?;
            Ok::<_, NodeError>(state.messages().last().map(Message::text).unwrap_or_default())
        }
    });
    tool.reads_state(false).handle_exceptions(ExceptionAnswer::Message)
}

/// Runs an agent as a subgraph of a tool call and returns its final state. `input` contains its first messages.
pub(crate) async fn run_agent(
    agent: &CompiledAgent,
    name: &str,
    input: Value,
    runtime: &ToolRuntime,
) -> Result<AgentState, NodeError> {
    let failed = |reason: String| AgentError::tool(format!("the agent `{name}` {reason}"));
    let input = agent.schema().input(input).map_err(NodeError::terminal)?;
    let running = runtime.context().run_graph(agent.graph(), Persistence::Invocation, input);
    let state = running.await.map_err(|error| match error.source() {
        Some(source) => failed(format!("failed: {source}")).into(),
        // The agent waits for an answer or was stopped, which is not a failure.
        None => error,
    })?;
    let state = state.ok_or_else(|| failed("did not answer".to_owned()))?;
    let fields = state.to_value();
    AgentState::from_fields(fields.as_object().cloned().unwrap_or_default())
}
