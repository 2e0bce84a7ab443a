//! The builder of a deep agent.

use std::sync::Arc;

use super::task::{SubAgent, task_tool};
use crate::{
    Agent, AgentError,
    files::FileTools,
    middleware::{Middleware, TodoList},
    model::{ChatModel, SharedModel},
    tool::Tool,
};

const PROMPT: &str = "\
Work on the task in steps. Plan longer work with `write_todos`. Keep intermediate results and long texts in files. \
Delegate parts that need many steps, but of which you need only the result, with `task`; sub-agents see the files, but \
not this conversation, so describe the part completely. When all is done, answer the user.";

/// Name of the sub-agent that every deep agent has.
const GENERAL: &str = "general-purpose";

/// Builder of an agent for long tasks.
///
/// The agent has a to-do list (the tool `write_todos`), files in its state ([`FileTools`]), and the tool `task`, which
/// runs a sub-agent with an empty conversation and the same files. The sub-agent `general-purpose` has the agent's
/// model and tools. Sub-agents cannot delegate further. To run programs, add `CodeTools` with
/// [`middleware`](Self::middleware); its programs see the same files.
///
/// ```
/// use graph_agents::{Agent, AiMessage, ScriptedModel, ToolCall, deep::DeepAgent};
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let writer = Agent::new(ScriptedModel::new([AiMessage::new("Autumn leaves fall.")]));
/// let task = json!({"agent": "writer", "description": "Write a haiku about autumn."});
/// let model = ScriptedModel::new([
///     AiMessage::new("").tool_call(ToolCall::new("task", task, "call-1")),
///     AiMessage::new("Here it is: Autumn leaves fall."),
/// ]);
/// let agent = DeepAgent::new(model).sub_agent("writer", "Writes texts.", writer).build()?.compile()?;
/// assert!(agent.run("I need a haiku.").await?.text().ends_with("Autumn leaves fall."));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct DeepAgent {
    /// The model, tools and dependencies of this agent and of the general-purpose sub-agent.
    base: Agent,
    prompt: Option<String>,
    middleware: Vec<Arc<dyn Middleware>>,
    sub_agents: Vec<(String, String, Agent)>,
}

impl DeepAgent {
    /// Creates a builder with a model.
    pub fn new(model: impl ChatModel + 'static) -> Self {
        Self::with_shared_model(Arc::new(model))
    }

    /// Creates a builder with a model that other agents may share.
    pub fn with_shared_model(model: SharedModel) -> Self {
        let base = Agent::with_shared_model(model);
        Self { base, prompt: None, middleware: Vec::new(), sub_agents: Vec::new() }
    }

    /// Sets instructions that precede those of the deep agent.
    pub fn prompt(mut self, prompt: impl Into<String>) -> Self {
        self.prompt = Some(prompt.into());
        self
    }

    /// Adds tools, for this agent and the general-purpose sub-agent.
    pub fn tools(mut self, tools: impl IntoIterator<Item = Tool>) -> Self {
        self.base = self.base.tools(tools);
        self
    }

    /// Adds a value that tools and middleware can use, for this agent and all sub-agents; see [`Agent::dependency`]. A
    /// value of the same type that was added to a sub-agent takes precedence there.
    pub fn dependency<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.base = self.base.dependency(value);
        self
    }

    /// Adds middleware, for this agent and all sub-agents.
    pub fn middleware(mut self, middleware: impl Middleware + 'static) -> Self {
        self.middleware.push(Arc::new(middleware));
        self
    }

    /// Adds a sub-agent. The description tells the model when to use it. The sub-agent gets the file tools.
    pub fn sub_agent(
        mut self,
        name: impl Into<String>,
        description: impl Into<String>,
        agent: Agent,
    ) -> Self {
        self.sub_agents.push((name.into(), description.into(), agent));
        self
    }

    /// Returns the agent, for further settings such as the checkpointer.
    ///
    /// # Errors
    ///
    /// Returns an error if a sub-agent cannot be compiled, or if two sub-agents have the same name.
    pub fn build(self) -> Result<Agent, AgentError> {
        let mut agents: Vec<SubAgent> = Vec::new();
        let general = (GENERAL.to_owned(), "Any task.".to_owned(), self.base.clone());
        for (name, description, agent) in [general].into_iter().chain(self.sub_agents) {
            if agents.iter().any(|it| it.name == name) {
                let text = format!("two sub-agents have the name `{name}`; rename one of them");
                return Err(AgentError::value(text));
            }
            let agent = agent.inherit_dependencies(&self.base).middleware(FileTools::new());
            let agent = with_middleware(agent, &self.middleware);
            agents.push(SubAgent { agent: agent.compile()?, name, description });
        }
        let prompt =
            self.prompt.map_or_else(|| PROMPT.to_owned(), |it| format!("{it}\n\n{PROMPT}"));
        let agent = self
            .base
            .prompt(prompt)
            .tools([task_tool(agents)])
            .middleware(TodoList::new())
            .middleware(FileTools::new());
        Ok(with_middleware(agent, &self.middleware))
    }
}

fn with_middleware(agent: Agent, middleware: &[Arc<dyn Middleware>]) -> Agent {
    middleware.iter().cloned().fold(agent, Agent::shared_middleware)
}
