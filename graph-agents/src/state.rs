//! The state of an agent as its tools and middleware see it.

use std::sync::Arc;

use graph_core::{JsonFieldKind, NodeError, json::JsonInput};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::message::{Message, MessageList, messages_from_json};

/// Name of the field that holds the conversation.
pub const MESSAGES: &str = "messages";
/// Name of the field that holds the structured response.
pub const STRUCTURED_RESPONSE: &str = "structured_response";
/// Name of the field that holds the destination of a jump.
pub const JUMP_TO: &str = "jump_to";

/// Name of the field that counts the consecutive messages from the model with only malformed tool calls. The
/// underscores avoid collisions with the fields of programs.
pub(crate) const MALFORMED_CALLS: &str = "__malformed_calls__";

/// A snapshot of an agent's state. Cheap to clone.
///
/// ```
/// use graph_agents::{AgentState, Message};
///
/// // Tools and middleware receive the state as `&AgentState`.
/// let state = AgentState::from_messages(vec![Message::human("Hi"), Message::ai("Hello!")]);
/// assert_eq!(state.messages()[1].text(), "Hello!");
/// assert_eq!(state.get_as::<u32>("count"), None);
/// ```
#[derive(Clone, Debug)]
pub struct AgentState {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    messages: MessageList,
    fields: Source,
}

#[derive(Debug)]
enum Source {
    Input(JsonInput),
    Fields(Map<String, Value>),
}

impl AgentState {
    /// Reads the state from the input of a node or branch.
    pub fn from_input(input: &JsonInput) -> Result<Self, NodeError> {
        let messages = match input.decoded(MESSAGES) {
            Some(messages) => MessageList::shared(messages),
            None => parse(input.get(MESSAGES))?,
        };
        Ok(Self::new(messages, Source::Input(input.clone())))
    }

    /// Creates a state from its fields.
    pub fn from_fields(fields: Map<String, Value>) -> Result<Self, NodeError> {
        Ok(Self::new(parse(fields.get(MESSAGES))?, Source::Fields(fields)))
    }

    /// Creates a state that holds only messages.
    pub fn from_messages(messages: Vec<Message>) -> Self {
        Self::new(messages.into(), Source::Fields(Map::new()))
    }

    fn new(messages: MessageList, fields: Source) -> Self {
        Self { inner: Arc::new(Inner { messages, fields }) }
    }

    /// Returns the conversation.
    pub fn messages(&self) -> &MessageList {
        &self.inner.messages
    }

    /// Returns the value of a field, or `None` if the field has no value.
    pub fn get(&self, field: &str) -> Option<&Value> {
        match &self.inner.fields {
            Source::Input(input) => input.get(field),
            Source::Fields(fields) => fields.get(field),
        }
    }

    /// Returns the value of a field as `T`, or `None` if the field has no value or its value is not a `T`.
    pub fn get_as<T: DeserializeOwned>(&self, field: &str) -> Option<T> {
        T::deserialize(self.get(field)?).ok()
    }

    /// Returns all fields that have a value.
    pub fn to_fields(&self) -> Map<String, Value> {
        match &self.inner.fields {
            Source::Fields(fields) => fields.clone(),
            Source::Input(input) => match input.to_value() {
                Value::Object(fields) => fields,
                _ => Map::new(),
            },
        }
    }
}

fn parse(messages: Option<&Value>) -> Result<MessageList, NodeError> {
    match messages {
        None => Ok(MessageList::default()),
        Some(value) => Ok(messages_from_json(value).map_err(NodeError::terminal)?.into()),
    }
}

/// A field of an agent's state, in addition to the messages.
///
/// ```
/// use graph_agents::{Agent, AiMessage, ScriptedModel, StateField};
/// use graph_core::JsonFieldKind;
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let agent = Agent::new(ScriptedModel::new([AiMessage::new("Hello, Ann!")]))
///     .state_field(StateField::new("user", JsonFieldKind::Last))
///     .compile()?;
/// let input = agent.schema().input(json!({"messages": "Hi", "user": "Ann"}))?;
/// let state = agent.invoke(input, ()).await?;
/// assert_eq!(state.get("user"), Some(&json!("Ann")));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct StateField {
    pub(crate) name: String,
    pub(crate) kind: JsonFieldKind,
    pub(crate) input: bool,
    pub(crate) output: bool,
}

impl StateField {
    /// Creates a field that is part of a run's input and output.
    pub fn new(name: impl Into<String>, kind: JsonFieldKind) -> Self {
        Self { name: name.into(), kind, input: true, output: true }
    }

    /// Creates a field that is part of neither input nor output.
    pub fn private(name: impl Into<String>, kind: JsonFieldKind) -> Self {
        Self::new(name, kind).visible(false, false)
    }

    /// Sets whether the field is part of a run's input, and whether it is part of a run's output.
    #[must_use]
    pub fn visible(mut self, input: bool, output: bool) -> Self {
        self.input = input;
        self.output = output;
        self
    }
}
