//! A compiled agent.

use std::ops::Deref;

use graph_core::{
    CompiledGraph, Input, Interrupt, JsonState, JsonStateSchema, RunError, RunOptions, RunOutcome,
    Thread, state::FieldError,
};
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    message::{Message, NewMessages, messages_from_json},
    state::{MESSAGES, STRUCTURED_RESPONSE},
};

/// Maximum number of steps of a run, unless the run's options set a different maximum.
const STEP_LIMIT: u32 = 9_999;

/// A compiled agent: a graph with a JSON state, and typed methods to run it. Cheap to clone.
///
/// It dereferences to its [`CompiledGraph`], for streaming, drawing and everything else that graphs can do.
///
/// ```
/// use graph_agents::{Agent, AiMessage, ScriptedModel};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let model = ScriptedModel::new([AiMessage::new("Hello!")]);
/// let agent = Agent::new(model).name("greeter").compile()?;
/// println!("{}", agent.mermaid());
/// let outcome = agent.run("Hi").await?;
/// assert_eq!(outcome.text(), "Hello!");
/// assert_eq!(outcome.messages.len(), 2);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct CompiledAgent {
    graph: CompiledGraph<JsonState>,
    schema: JsonStateSchema,
    name: Option<String>,
}

/// The result of an agent's run.
#[derive(Clone, Debug)]
pub struct AgentOutcome {
    /// The conversation.
    pub messages: Vec<Message>,
    /// Interrupts that the run waits for. Empty if the run is done.
    pub interrupts: Vec<Interrupt>,
    /// The state.
    pub state: JsonState,
}

impl CompiledAgent {
    pub(crate) fn new(
        graph: CompiledGraph<JsonState>,
        schema: JsonStateSchema,
        name: Option<String>,
    ) -> Self {
        Self { graph, schema, name }
    }

    /// Returns the agent's graph.
    pub fn graph(&self) -> &CompiledGraph<JsonState> {
        &self.graph
    }

    /// Returns the fields of the agent's state.
    pub fn schema(&self) -> &JsonStateSchema {
        &self.schema
    }

    /// Returns the agent's name.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Returns options with the step limit of agents.
    pub fn run_options() -> RunOptions {
        RunOptions::new().step_limit(STEP_LIMIT)
    }

    /// Creates the input of a run from messages.
    pub fn input(&self, messages: impl Into<NewMessages>) -> Result<Input<JsonState>, FieldError> {
        let input = serde_json::json!({ MESSAGES: messages.into() });
        self.schema.input(input)
    }

    /// Runs the agent once. An agent with a checkpointer needs a [`conversation`](Self::conversation) instead.
    pub async fn run(&self, messages: impl Into<NewMessages>) -> Result<AgentOutcome, RunError> {
        let input = self.input(messages)?;
        AgentOutcome::new(self.graph.with(Self::run_options()).run(input, ()).await?)
    }

    /// Opens the conversation with this name. The checkpointer stores it between runs.
    pub fn conversation(&self, name: impl Into<String>) -> Conversation {
        let thread = self.graph.thread(name, ()).with_options(Self::run_options());
        Conversation { agent: self.clone(), thread }
    }
}

impl Deref for CompiledAgent {
    type Target = CompiledGraph<JsonState>;

    fn deref(&self) -> &Self::Target {
        &self.graph
    }
}

/// A conversation with an agent, stored by the agent's checkpointer.
///
/// ```
/// use graph_agents::{Agent, AiMessage, ScriptedModel};
/// use graph_core::MemorySaver;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let model = ScriptedModel::new(["Hello, Ann!", "Your name is Ann."].map(AiMessage::new));
/// let agent = Agent::new(model).checkpointer(MemorySaver::new()).compile()?;
/// let conversation = agent.conversation("ann");
/// conversation.send("I am Ann.").await?;
/// let outcome = conversation.send("What is my name?").await?;
/// assert_eq!(outcome.messages.len(), 4);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Conversation {
    agent: CompiledAgent,
    thread: Thread<JsonState>,
}

impl Conversation {
    /// Sets the options for runs of this conversation. They replace the agent's options, so start with
    /// [`CompiledAgent::run_options`].
    ///
    /// With a [run id](RunOptions::run_id), a message can be sent again without being added twice, if the caller sets
    /// its id: `Message::human("Hi").with_id("message-1")`. Generated ids differ each time.
    #[must_use]
    pub fn with_options(self, options: RunOptions) -> Self {
        Self { thread: self.thread.with_options(options), ..self }
    }

    /// Sends messages, and returns when the agent has answered or the run is interrupted.
    pub async fn send(&self, messages: impl Into<NewMessages>) -> Result<AgentOutcome, RunError> {
        AgentOutcome::new(self.thread.run(self.agent.input(messages)?).await?)
    }

    /// Answers the pending interrupt and resumes the run. Fails if several interrupts are pending.
    pub async fn resume(&self, answer: impl Serialize) -> Result<AgentOutcome, RunError> {
        AgentOutcome::new(self.thread.resume(answer).await?)
    }

    /// Returns the thread, for its history and for edits.
    pub fn thread(&self) -> &Thread<JsonState> {
        &self.thread
    }
}

impl AgentOutcome {
    fn new(outcome: RunOutcome<JsonState>) -> Result<Self, RunError> {
        let interrupts = outcome.interrupts().to_vec();
        let state = outcome.into_state();
        let messages = state.get(MESSAGES).map(messages_from_json).transpose();
        let messages = messages.map_err(|error| FieldError::new(MESSAGES, error))?;
        let messages = messages.unwrap_or_default();
        Ok(Self { messages, interrupts, state })
    }

    /// Returns the text of the last message.
    pub fn text(&self) -> String {
        self.messages.last().map(Message::text).unwrap_or_default()
    }

    /// Returns the structured response, if there is one of type `T`.
    pub fn response<T: DeserializeOwned>(&self) -> Option<T> {
        T::deserialize(self.state.get(STRUCTURED_RESPONSE)?).ok()
    }
}
