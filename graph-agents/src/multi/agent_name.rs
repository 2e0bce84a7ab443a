//! Names of agents.

use crate::{AgentError, CompiledAgent};

/// Converts an agent's name for use in the name of a tool: lower case, with underscores instead of blanks.
pub(super) fn normalize(name: &str) -> String {
    name.split_whitespace().collect::<Vec<_>>().join("_").to_lowercase()
}

/// Returns the name of an agent, or an error if it has none.
pub(super) fn require(agent: &CompiledAgent) -> Result<&str, AgentError> {
    agent.name().ok_or_else(|| {
        AgentError::value(
            "Please specify a name when you create your agent, either via `create_react_agent(..., name=agent_name)` \
             or via `graph.compile(name=name)`.",
        )
    })
}
