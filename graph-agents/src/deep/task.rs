//! The tool that runs a sub-agent.

use std::{fmt::Write as _, sync::Arc};

use graph_core::NodeError;
use serde_json::{Map, Value, json};

use crate::{
    AgentError, CompiledAgent, Message, ToolRuntime,
    command::{Command, Update},
    files::{FILES, changes, read_files},
    message::ToolMessage,
    multi::run_agent,
    state::MESSAGES,
    tool::{ExceptionAnswer, Tool},
};

/// A sub-agent of a deep agent.
pub(super) struct SubAgent {
    pub(super) name: String,
    pub(super) description: String,
    pub(super) agent: CompiledAgent,
}

/// Creates the tool `task`, which runs one of the sub-agents.
pub(super) fn task_tool(agents: Vec<SubAgent>) -> Tool {
    let mut description =
        "Delegates a task to a sub-agent and returns its result. Sub-agents:".to_owned();
    for SubAgent { name, description: about, .. } in &agents {
        // Writing to a string cannot fail.
        let _ = write!(description, "\n- {name}: {about}");
    }
    let names: Vec<_> = agents.iter().map(|it| it.name.as_str()).collect();
    let schema = json!({
        "properties": {
            "agent": {"enum": names, "description": "Name of the sub-agent."},
            "description": {
                "type": "string",
                "description": "The complete task, with everything that the sub-agent must know.",
            },
        },
        "required": ["agent", "description"],
    });
    let agents = Arc::new(agents);
    let tool = Tool::dynamic("task", description, schema, move |args, runtime| {
        let agents = agents.clone();
        async move { run(&agents, &args, &runtime).await }
    });
    tool.handle_exceptions(ExceptionAnswer::Message)
}

async fn run(
    agents: &[SubAgent],
    args: &Map<String, Value>,
    runtime: &ToolRuntime,
) -> Result<Command, NodeError> {
    let text = |key: &str| args.get(key).and_then(Value::as_str).unwrap_or_default();
    let agent = agents.iter().find(|it| it.name == text("agent"));
    let SubAgent { name, agent, .. } = agent.ok_or_else(|| {
        AgentError::tool(format!(
            "unknown sub-agent `{}`; use one that this tool describes",
            text("agent")
        ))
    })?;
    let before = read_files(runtime.state());
    let input = json!({ MESSAGES: [Message::human(text("description"))], FILES: before });
    let state = run_agent(agent, name, input, runtime).await?;
    let answer = state.messages().last().map(Message::text).unwrap_or_default();
    let update = Update::new().messages([ToolMessage::success(runtime.call(), answer)]);
    Ok(Command::new().update(match changes(&before, &read_files(&state)) {
        Some(changed) => update.set(FILES, changed),
        None => update,
    }))
}
