//! Names of agents.

use crate::{AgentError, CompiledAgent};

/// Converts an agent's name for use in the name of a tool: lower case, with underscores instead of blanks.
pub(super) fn normalize(name: &str) -> String {
    name.split_whitespace().collect::<Vec<_>>().join("_").to_lowercase()
}

/// Returns the names of agents, or an error if one of them has none.
pub(super) fn names(agents: &[CompiledAgent]) -> Result<Vec<String>, AgentError> {
    let missing = || {
        AgentError::value(
            "Please specify a name when you create your agent, either via `create_react_agent(..., name=agent_name)` \
             or via `graph.compile(name=name)`.",
        )
    };
    agents.iter().map(|it| it.name().map(str::to_owned).ok_or_else(missing)).collect()
}
