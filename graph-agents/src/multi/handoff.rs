//! Tools that hand the conversation to another agent.

use std::collections::BTreeSet;

use graph_core::Goto;
use serde_json::json;

use super::agent_name::normalize;
use crate::{
    command::{Command, Update},
    id::new_id,
    message::{AiMessage, Message, ToolCall, ToolMessage},
    notation,
    tool::{Tool, ToolOutput},
};

/// Name of the field that holds the active agent of a swarm.
pub(super) const ACTIVE_AGENT: &str = "active_agent";

/// Creates a tool that hands the conversation to another agent of a [`Swarm`](super::Swarm).
///
/// The handoff runs after all other tools that were called in the same message, so that the other agent sees their
/// results. If a message contains several handoffs, the first one wins. With [`Tool::hands_off`]`(false)`, the handoff
/// ends the agent immediately, and those results are lost, as in `langgraph-swarm`.
///
/// ```
/// use graph_agents::multi::handoff_tool;
///
/// assert_eq!(handoff_tool("support").name(), "transfer_to_support");
/// ```
pub fn handoff_tool(agent: impl Into<String>) -> Tool {
    handoff(agent.into(), None, |messages, answer, agent| {
        let messages = messages.iter().cloned().chain([answer.into()]);
        Update::new().messages(messages).set(ACTIVE_AGENT, agent)
    })
}

/// Creates a tool with which a supervisor hands a task to an agent.
pub(super) fn supervisor_handoff_tool(
    agent: String,
    prefix: Option<&str>,
    add_messages: bool,
) -> Tool {
    handoff(agent, prefix, move |messages, answer, _| match add_messages {
        true => Update::new().messages(messages.iter().cloned().chain([answer.into()])),
        false => {
            let (earlier, newest) = split_without_pending_calls(messages);
            Update::new().messages(earlier.iter().cloned().chain(newest))
        }
    })
}

/// Splits a conversation before the newest AI message. Removes the unanswered calls of this message, which are
/// handoffs, and the message itself if it has no other calls.
fn split_without_pending_calls(messages: &[Message]) -> (&[Message], Vec<Message>) {
    let index = messages.iter().rposition(|it| it.as_ai().is_some()).unwrap_or(messages.len());
    let (earlier, newest) = messages.split_at(index);
    let mut newest = newest.to_vec();
    if let Some((Message::Ai(calling), following)) = newest.split_first_mut() {
        let answers: Vec<_> = following.iter().filter_map(Message::as_tool).collect();
        calling.tool_calls.retain(|call| answers.iter().any(|it| it.tool_call_id == call.id()));
        if calling.tool_calls.is_empty() {
            newest.remove(0);
        }
    }
    (earlier, newest)
}

fn handoff(
    agent: String,
    prefix: Option<&str>,
    update: impl Fn(&[Message], ToolMessage, &str) -> Update + Send + Sync + 'static,
) -> Tool {
    let name = format!("{}{}", prefix.unwrap_or("transfer_to_"), normalize(&agent));
    let description = format!("Ask agent '{agent}' for help");
    let update = std::sync::Arc::new(update);
    let destination = agent.clone();
    Tool::dynamic(name, description, json!({}), move |_, runtime| {
        let (agent, update) = (agent.clone(), update.clone());
        async move {
            let text = format!("Successfully transferred to {agent}");
            let answer = ToolMessage::success(runtime.call(), text);
            let update = update(runtime.state().messages(), answer, &agent);
            Command::new().update(update).goto(Goto::node(agent)).to_parent()
        }
    })
    .hands_off(true)
    .leads_to(destination)
}

const BACK_PREFIX: &str = "transfer_back_to_";

/// Creates the messages that hand the conversation back to a supervisor.
pub(super) fn handoff_back_messages(agent: &str, supervisor: &str) -> [Message; 2] {
    let tool = format!("{BACK_PREFIX}{}", normalize(supervisor));
    let call = ToolCall::new(tool, json!({}), new_id());
    let mut message = AiMessage::new(format!("Transferring back to {supervisor}"));
    message.name = Some(agent.to_owned());
    let text = format!("Successfully transferred back to {supervisor}");
    let answer = ToolMessage::success(&call, text);
    [message.tool_call(call).into(), answer.into()]
}

fn is_handoff_back(message: &AiMessage) -> bool {
    message.tool_calls.iter().any(|it| it.name.starts_with(BACK_PREFIX))
}

/// Creates a tool with which a supervisor forwards the newest message of an agent as the supervisor's own answer. The
/// run then ends.
///
/// Other tools that were called in the same message run first, and their results stay in the conversation.
///
/// ```
/// use graph_agents::{
///     Agent, AiMessage, ScriptedModel, ToolCall,
///     multi::{Supervisor, forward_tool},
/// };
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let poet = Agent::new(ScriptedModel::new([AiMessage::new("Autumn leaves fall.")]))
///     .name("poet")
///     .compile()?;
/// let call = |name: &str, args, id: &str| AiMessage::new("").tool_call(ToolCall::new(name, args, id));
/// let model = ScriptedModel::new([
///     call("transfer_to_poet", json!({}), "call-1"),
///     call("forward_message", json!({"from_agent": "poet"}), "call-2"),
/// ]);
/// let team = Supervisor::new(model, [poet]).tools([forward_tool("supervisor")]).compile()?;
/// assert_eq!(team.run("I need a haiku.").await?.text(), "Autumn leaves fall.");
/// # Ok(()) }
/// ```
pub fn forward_tool(supervisor: impl Into<String>) -> Tool {
    let supervisor = supervisor.into();
    let schema =
        json!({"properties": {"from_agent": {"type": "string"}}, "required": ["from_agent"]});
    let description = "Forwards the newest message of an agent to the user without changes.";
    Tool::dynamic("forward_message", description, schema, move |args, runtime| {
        let supervisor = supervisor.clone();
        async move {
            let from = args["from_agent"].as_str().unwrap_or_default().to_owned();
            let messages = runtime.state().messages().iter().filter_map(Message::as_ai);
            let messages: Vec<_> = messages.collect();
            let is_source = |it: &&&AiMessage| {
                let name = it.name.as_deref().unwrap_or_default();
                name.to_lowercase() == from.to_lowercase() && !is_handoff_back(it)
            };
            let Some(source) = messages.iter().rev().find(is_source) else {
                let names: BTreeSet<_> =
                    messages.iter().filter_map(|it| it.name.as_deref()).collect();
                let names: Vec<_> = names.into_iter().map(notation::python_str).collect();
                let text = format!(
                    "Could not find message from source agent {from}. Found names: {{{}}}",
                    names.join(", ")
                );
                return ToolOutput::Value(text.into());
            };
            let mut copy = AiMessage::new(source.content.clone());
            copy.name = Some(supervisor);
            let (_, newest) = split_without_pending_calls(runtime.state().messages());
            let update = Update::new().messages(newest.into_iter().chain([Message::Ai(copy)]));
            ToolOutput::Command(Command::new().update(update).goto(Goto::end()).to_parent())
        }
    })
    .hands_off(true)
    .leads_to("__end__".to_owned())
}
