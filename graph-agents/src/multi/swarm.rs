//! Agents that hand the conversation over to each other.

use std::sync::Arc;

use graph_core::{
    Checkpointer, Goto, IntoShared, JsonFieldKind, JsonStateSchema, Persistence, START,
    json::{JsonBranch, json_subgraph},
};
use serde_json::Value;

use super::{agent_name, handoff::ACTIVE_AGENT};
use crate::{AgentError, CompiledAgent, message::messages_field, notation, state::MESSAGES};

/// Builder of a swarm: agents that hand the conversation over to each other with [`handoff_tool`](super::handoff_tool).
///
/// A run starts at the agent that was active last.
///
/// ```
/// use graph_agents::{
///     Agent, AiMessage, ScriptedModel, ToolCall,
///     multi::{Swarm, handoff_tool},
/// };
/// use graph_core::MemorySaver;
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let call = ToolCall::new("transfer_to_support", json!({}), "call-1");
/// let sales = Agent::new(ScriptedModel::new([AiMessage::new("").tool_call(call)]))
///     .name("sales")
///     .tools([handoff_tool("support")])
///     .compile()?;
/// let support = Agent::new(ScriptedModel::new([AiMessage::new("Have you tried another cable?")]))
///     .name("support")
///     .compile()?;
/// let swarm = Swarm::new([sales, support], "sales").checkpointer(MemorySaver::new()).compile()?;
/// let outcome = swarm.conversation("ann").send("My phone is broken.").await?;
/// assert_eq!(outcome.text(), "Have you tried another cable?");
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Swarm {
    agents: Vec<CompiledAgent>,
    default: String,
    checkpointer: Option<Arc<dyn Checkpointer>>,
}

impl Swarm {
    /// Creates a swarm. `default` is the name of the agent that is active first.
    pub fn new(
        agents: impl IntoIterator<Item = CompiledAgent>,
        default: impl Into<String>,
    ) -> Self {
        Self { agents: agents.into_iter().collect(), default: default.into(), checkpointer: None }
    }

    /// Sets the checkpointer that stores the conversations: a value, an `Arc` of it, or an `Arc<dyn Checkpointer>`.
    pub fn checkpointer<M>(self, checkpointer: impl IntoShared<dyn Checkpointer, M>) -> Self {
        self.shared_checkpointer(checkpointer.into_shared())
    }

    /// Like [`checkpointer`](Self::checkpointer), with a parameter type that helps type inference.
    pub fn shared_checkpointer(mut self, checkpointer: Arc<dyn Checkpointer>) -> Self {
        self.checkpointer = Some(checkpointer);
        self
    }

    /// Compiles the swarm.
    pub fn compile(self) -> Result<CompiledAgent, AgentError> {
        let names = agent_name::names(&self.agents)?;
        if !names.contains(&self.default) {
            return Err(AgentError::value(format!(
                "Default active agent '{}' not found in agent names {}",
                self.default,
                notation::python_list(&names)
            )));
        }
        let invalid = |error: &dyn std::fmt::Display| AgentError::value(error.to_string());
        let fields = [(MESSAGES, messages_field()), (ACTIVE_AGENT, JsonFieldKind::Last)];
        let schema = JsonStateSchema::new(fields).map_err(|it| invalid(&it))?;
        let mut graph = schema.graph();
        for (name, agent) in names.iter().zip(&self.agents) {
            graph = graph.node(json_subgraph(name, agent.graph(), Persistence::Invocation));
        }
        let default = self.default;
        let route = JsonBranch::new("active_agent", move |input| {
            let active = input.get(ACTIVE_AGENT).and_then(Value::as_str).unwrap_or(&default);
            Ok(vec![Goto::node(active.to_owned())])
        });
        graph = graph.json_branch(START, route.destinations(names));
        if let Some(checkpointer) = self.checkpointer {
            graph = graph.shared_checkpointer(checkpointer);
        }
        Ok(CompiledAgent::new(graph.compile().map_err(|it| invalid(&it))?, schema, None))
    }
}
