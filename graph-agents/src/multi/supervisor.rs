//! An agent that hands tasks to other agents.

use std::sync::Arc;

use graph_core::{
    Checkpointer, Input, IntoShared, JsonState, JsonStateSchema, Persistence, START, StateGraph,
    SubgraphNode,
    json::{JsonUpdate, json_subgraph},
    store::Store,
    subgraph,
};
use serde_json::{Value, json};

use super::{
    agent_name,
    handoff::{handoff_back_messages, supervisor_handoff_tool},
    inline_names::InlineNames,
};
use crate::{
    Agent, AgentError, CompiledAgent,
    message::{Message, ToolMessage, add_missing_results, messages_field, messages_from_json},
    middleware::Middleware,
    model::ChatModel,
    state::MESSAGES,
    tool::Tool,
};

/// Which messages of an agent the supervisor sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OutputMode {
    /// The last message. If it is a tool result, all messages from the newest AI message on, so that every result
    /// follows its call. If the last message contains tool calls, an error for each of them is added.
    #[default]
    LastMessage,
    /// All messages.
    FullHistory,
}

/// Builder of a supervisor: an agent that hands tasks to other agents and gets their results back.
///
/// If the supervisor's model calls several handoff tools in one message, the first one wins. Tools that it calls in the
/// same message run before the handoff.
///
/// ```
/// use graph_agents::{Agent, AiMessage, ScriptedModel, ToolCall, multi::Supervisor};
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let poet = Agent::new(ScriptedModel::new([AiMessage::new("Autumn leaves fall.")]))
///     .name("poet")
///     .compile()?;
/// let model = ScriptedModel::new([
///     AiMessage::new("").tool_call(ToolCall::new("transfer_to_poet", json!({}), "call-1")),
///     AiMessage::new("Here it is: Autumn leaves fall."),
/// ]);
/// let team = Supervisor::new(model, [poet]).prompt("You lead a team.").compile()?;
/// let outcome = team.run("I need a haiku.").await?;
/// assert_eq!(outcome.text(), "Here it is: Autumn leaves fall.");
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Supervisor {
    /// The agent that leads the others, without its handoff tools.
    leader: Agent,
    agents: Vec<CompiledAgent>,
    name: String,
    output_mode: OutputMode,
    handoff_messages: bool,
    handoff_back_messages: Option<bool>,
    tool_prefix: Option<String>,
    inline_names: bool,
    checkpointer: Option<Arc<dyn Checkpointer>>,
    store: Option<Arc<dyn Store>>,
}

impl Supervisor {
    /// Creates a supervisor with a model and agents. The agents must have names.
    pub fn new(
        model: impl ChatModel + 'static,
        agents: impl IntoIterator<Item = CompiledAgent>,
    ) -> Self {
        Self {
            leader: Agent::new(model),
            agents: agents.into_iter().collect(),
            name: "supervisor".to_owned(),
            output_mode: OutputMode::LastMessage,
            handoff_messages: true,
            handoff_back_messages: None,
            tool_prefix: None,
            inline_names: false,
            checkpointer: None,
            store: None,
        }
    }

    /// Sets the supervisor's name.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets the supervisor's system prompt.
    pub fn prompt(self, prompt: impl Into<String>) -> Self {
        self.edit(|it| it.prompt(prompt.into()))
    }

    /// Adds tools that the supervisor itself can call.
    pub fn tools(self, tools: impl IntoIterator<Item = Tool>) -> Self {
        self.edit(|it| it.tools(tools))
    }

    /// Adds middleware to the supervisor itself, not to its agents. The first one added is the outermost.
    ///
    /// The fields that it adds to the state are reset each time an agent returns to the supervisor. Limits on calls
    /// per run or thread therefore apply to each turn of the supervisor.
    pub fn middleware(self, middleware: impl Middleware + 'static) -> Self {
        self.edit(|it| it.middleware(middleware))
    }

    /// Adds a value that the tools and middleware of the supervisor can use, but not those of its agents; see
    /// [`Agent::dependency`].
    pub fn dependency<T: Send + Sync + 'static>(self, value: T) -> Self {
        self.edit(|it| it.dependency(value))
    }

    /// Sets how many times in a row the supervisor's model is called again after a message in which all tool calls are
    /// malformed; see [`Agent::malformed_call_retries`].
    pub fn malformed_call_retries(self, retries: usize) -> Self {
        self.edit(|it| it.malformed_call_retries(retries))
    }

    /// Changes the agent that leads the others.
    fn edit(mut self, change: impl FnOnce(Agent) -> Agent) -> Self {
        self.leader = change(self.leader);
        self
    }

    /// Sets which messages of an agent the supervisor sees.
    pub fn output_mode(mut self, mode: OutputMode) -> Self {
        self.output_mode = mode;
        self
    }

    /// Sets whether the messages of a handoff are added to the conversation that the agent sees. Also applies to the
    /// return to the supervisor, unless [`handoff_back_messages`](Self::handoff_back_messages) is set.
    pub fn handoff_messages(mut self, add: bool) -> Self {
        self.handoff_messages = add;
        self
    }

    /// Sets whether the messages of an agent's return are added to the conversation that the supervisor sees. By
    /// default, the setting of [`handoff_messages`](Self::handoff_messages) applies.
    pub fn handoff_back_messages(mut self, add: bool) -> Self {
        self.handoff_back_messages = Some(add);
        self
    }

    /// Sets the prefix of the handoff tools' names. The default is `transfer_to_`.
    pub fn handoff_tool_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.tool_prefix = Some(prefix.into());
        self
    }

    /// Shows the supervisor's model which agent wrote a message, for providers that drop the names of messages.
    pub fn inline_agent_names(mut self) -> Self {
        self.inline_names = true;
        self
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

    /// Sets the long-term store: a value, an `Arc` of it, or an `Arc<dyn Store>`. Agents that have no store also use
    /// it.
    pub fn store<M>(mut self, store: impl IntoShared<dyn Store, M>) -> Self {
        self.store = Some(store.into_shared());
        self
    }

    /// Compiles the supervisor and its agents into one graph.
    pub fn compile(self) -> Result<CompiledAgent, AgentError> {
        let names = agent_name::names(&self.agents)?;
        let invalid = |error: &dyn std::fmt::Display| AgentError::value(error.to_string());
        let schema =
            JsonStateSchema::new([(MESSAGES, messages_field())]).map_err(|it| invalid(&it))?;
        let supervisor = self.supervisor_agent(&names)?;
        let mut graph: StateGraph<JsonState> = schema.graph();
        graph = graph
            .node(json_subgraph(&self.name, supervisor.graph(), Persistence::Invocation))
            .edge(START, self.name.clone());
        for (name, agent) in names.iter().zip(&self.agents) {
            let node = self.agent_node(name, agent, &schema);
            graph = graph.node(node).edge(name.clone(), self.name.clone());
        }
        if let Some(checkpointer) = self.checkpointer {
            graph = graph.shared_checkpointer(checkpointer);
        }
        if let Some(store) = self.store {
            graph = graph.store(store);
        }
        let graph = graph.compile().map_err(|it| invalid(&it))?;
        Ok(CompiledAgent::new(graph, schema, Some(self.name)))
    }

    fn supervisor_agent(&self, names: &[String]) -> Result<CompiledAgent, AgentError> {
        let prefix = self.tool_prefix.as_deref();
        let handoffs = names
            .iter()
            .map(|it| supervisor_handoff_tool(it.clone(), prefix, self.handoff_messages));
        let leader = self.leader.clone().name(self.name.clone()).tools(handoffs);
        match self.inline_names {
            true => leader.map_model(|it| Arc::new(InlineNames::new(it))).compile(),
            false => leader.compile(),
        }
    }

    /// Creates the node that runs an agent and shortens its output.
    fn agent_node(
        &self,
        name: &str,
        agent: &CompiledAgent,
        schema: &JsonStateSchema,
    ) -> SubgraphNode<JsonState, ()> {
        let (child, parent) = (agent.schema().clone(), schema.clone());
        let back = self.handoff_back_messages.unwrap_or(self.handoff_messages);
        let (mode, agent_name, supervisor) = (self.output_mode, name.to_owned(), self.name.clone());
        subgraph(
            name,
            agent.graph(),
            move |state: &JsonState| -> Input<JsonState> {
                let messages = state.get(MESSAGES).cloned().unwrap_or_else(|| json!([]));
                let input = child.input(json!({ MESSAGES: messages }));
                input.expect("messages of one agent are valid messages of another")
            },
            move |state: JsonState| -> JsonUpdate {
                let messages = state.get(MESSAGES).and_then(|it| messages_from_json(it).ok());
                let mut messages = shorten(&messages.unwrap_or_default(), mode);
                if back {
                    messages.extend(handoff_back_messages(&agent_name, &supervisor));
                }
                let messages = serde_json::to_value(messages).unwrap_or(Value::Null);
                let update = parent.update(json!({ MESSAGES: messages }));
                update.expect("messages are not nested too deeply, because they come from a state")
            },
        )
    }
}

/// Returns the messages of an agent that the supervisor sees. Calls that the agent did not execute, for example because
/// middleware ended it, are answered with an error.
fn shorten(messages: &[Message], mode: OutputMode) -> Vec<Message> {
    let start = match (mode, messages.last()) {
        (OutputMode::FullHistory, _) => 0,
        (OutputMode::LastMessage, Some(Message::Tool(_))) => {
            messages.iter().rposition(|it| it.as_ai().is_some()).unwrap_or_default()
        }
        (OutputMode::LastMessage, _) => messages.len().saturating_sub(1),
    };
    add_missing_results(&messages[start..], |it| {
        let text = "Not executed: the agent ended before this call.";
        it.tool_calls.iter().map(|call| ToolMessage::error(call, text)).collect()
    })
}
