//! Updates of an agent's state, and commands that also choose where the run continues.

use std::{collections::BTreeMap, sync::Arc};

use graph_core::{
    Goto, JsonFieldKind, JsonState, JsonStateSchema, NodeError,
    json::{JsonCommand, JsonUpdate},
    state::FieldError,
};
use serde::Serialize;
use serde_json::Value;

use crate::{
    message::{Message, WrittenMessages, messages_from_json},
    state::{JUMP_TO, MESSAGES},
};

/// An update of an agent's state: writes to some of its fields, in order.
///
/// ```
/// use graph_agents::{Message, Update};
///
/// let update = Update::new().messages([Message::human("note")]).set("count", 2);
/// # let _ = update;
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Update {
    fields: Vec<(String, Value)>,
    /// The messages in `fields`. `None` if they were written as JSON.
    messages: Option<Vec<Message>>,
}

impl PartialEq for Update {
    fn eq(&self, other: &Self) -> bool {
        self.fields == other.fields
    }
}

impl Update {
    /// Creates an empty update.
    pub fn new() -> Self {
        Self::default()
    }

    /// Writes a field, replacing an earlier write to that field. A value that cannot be serialised is written as null.
    pub fn set(mut self, field: impl Into<String>, value: impl Serialize) -> Self {
        let (field, value) = (field.into(), serde_json::to_value(value).unwrap_or_default());
        if field == MESSAGES {
            self.messages = None;
        }
        match self.fields.iter_mut().find(|it| it.0 == field) {
            Some(write) => write.1 = value,
            None => self.fields.push((field, value)),
        }
        self
    }

    /// Adds messages to the conversation. A message that has the id of an existing message replaces that message, or
    /// deletes it if the new message is a [`Message::Remove`].
    pub fn messages<M: Into<Message>>(self, messages: impl IntoIterator<Item = M>) -> Self {
        let mut messages: Vec<Message> = messages.into_iter().map(Into::into).collect();
        messages.iter_mut().for_each(Message::ensure_id);
        let update = self.set(MESSAGES, &messages);
        Self { messages: Some(messages), ..update }
    }

    /// Jumps to another point in the agent's loop. Takes effect only if the hook declares the target.
    pub fn jump(self, to: JumpTo) -> Self {
        self.set(JUMP_TO, to.as_str())
    }

    /// Returns the written value of a field.
    pub fn get(&self, field: &str) -> Option<&Value> {
        self.fields.iter().find(|it| it.0 == field).map(|it| &it.1)
    }

    /// Returns whether nothing is written.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// Returns the writes as a JSON object.
    pub fn to_json(&self) -> Value {
        self.fields.iter().cloned().collect()
    }

    /// Returns the writes by field.
    pub(crate) fn into_fields(self) -> BTreeMap<String, Value> {
        self.fields.into_iter().collect()
    }

    /// Returns the written messages. `None` if the update does not write messages.
    pub(crate) fn written_messages(&self) -> Option<Vec<Message>> {
        self.messages.clone().or_else(|| messages_from_json(self.get(MESSAGES)?).ok())
    }

    pub(crate) fn into_json(self, schema: &JsonStateSchema) -> Result<JsonUpdate, FieldError> {
        let mut messages = self.messages.map(WrittenMessages);
        self.fields.into_iter().try_fold(JsonUpdate::default(), |update, (field, value)| {
            match messages.take_if(|_| field == MESSAGES) {
                Some(messages) => update.write_decoded(schema, &field, value, Arc::new(messages)),
                None => update.write(schema, &field, value, false),
            }
        })
    }

    /// Returns a schema with the written fields, for an update of a graph whose schema is not known.
    fn own_schema(&self) -> Result<JsonStateSchema, FieldError> {
        JsonStateSchema::new(self.fields.iter().map(|it| (it.0.clone(), JsonFieldKind::Last)))
    }
}

/// A point in the agent's loop that a hook can jump to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JumpTo {
    /// The end of the run. After-agent hooks run first.
    End,
    /// The next model call. Before-model hooks run first.
    Model,
    /// The tools that the newest AI message calls.
    Tools,
}

impl JumpTo {
    /// Returns the value of the state field `jump_to` for this target.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::End => "end",
            Self::Model => "model",
            Self::Tools => "tools",
        }
    }

    /// Parses a value of the state field `jump_to`.
    pub fn from_value(value: &Value) -> Option<Self> {
        [Self::End, Self::Model, Self::Tools].into_iter().find(|it| value == it.as_str())
    }
}

/// A command from a tool or from middleware: an update, and nodes to run next.
///
/// ```
/// use graph_agents::{
///     Agent, AiMessage, Command, ScriptedModel, StateField, ToolCall, ToolMessage, ToolRuntime, Update,
///     tool,
/// };
/// use graph_core::JsonFieldKind;
/// use serde_json::json;
///
/// /// Remembers the user's name.
/// #[tool]
/// async fn remember_name(name: String, runtime: &ToolRuntime) -> Command {
///     let answer = ToolMessage::success(runtime.call(), "Done.");
///     Command::new().update(Update::new().set("user", name).messages([answer]))
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let call = ToolCall::new("remember_name", json!({"name": "Ann"}), "call-1");
/// let model = ScriptedModel::new([AiMessage::new("").tool_call(call), AiMessage::new("Hello, Ann!")]);
/// let agent = Agent::new(model)
///     .tools([remember_name()])
///     .state_field(StateField::new("user", JsonFieldKind::Last))
///     .compile()?;
/// let outcome = agent.run("I am Ann.").await?;
/// assert_eq!(outcome.state.get("user"), Some(&json!("Ann")));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Command {
    pub(crate) update: Option<CommandUpdate>,
    pub(crate) goto: Vec<Goto>,
    pub(crate) parent: bool,
}

/// The update of a command.
#[derive(Clone, Debug)]
pub enum CommandUpdate {
    /// Writes to fields.
    Fields(Update),
    /// Messages, for a tool node that runs on a list of messages instead of a state.
    Messages(Vec<Message>),
}

impl Command {
    /// Creates a command that does nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the update.
    pub fn update(mut self, update: Update) -> Self {
        self.update = Some(CommandUpdate::Fields(update));
        self
    }

    /// Adds a node to run next.
    pub fn goto(mut self, goto: Goto) -> Self {
        self.goto.push(goto);
        self
    }

    /// Addresses the command to the graph that contains the agent.
    pub fn to_parent(mut self) -> Self {
        self.parent = true;
        self
    }

    /// Returns the messages that the command writes.
    pub(crate) fn written_messages(&self) -> Vec<Message> {
        match &self.update {
            None => Vec::new(),
            Some(CommandUpdate::Fields(update)) => update.written_messages().unwrap_or_default(),
            Some(CommandUpdate::Messages(messages)) => messages.clone(),
        }
    }

    /// Replaces the messages that the command writes.
    pub(crate) fn with_messages(self, messages: Vec<Message>) -> Self {
        let update = self.update.map(|update| match update {
            CommandUpdate::Fields(update) => CommandUpdate::Fields(update.messages(messages)),
            CommandUpdate::Messages(_) => CommandUpdate::Messages(messages),
        });
        Self { update, ..self }
    }

    pub(crate) fn into_graph_command(
        self,
        schema: &JsonStateSchema,
    ) -> Result<JsonCommand, NodeError> {
        let update = match self.update {
            None => Update::new(),
            Some(CommandUpdate::Fields(update)) => update,
            Some(CommandUpdate::Messages(messages)) => Update::new().messages(messages),
        };
        if self.parent {
            let own = update.own_schema().map_err(NodeError::terminal)?;
            let update = update.into_json(&own).map_err(NodeError::terminal)?;
            return Ok(JsonCommand::parent::<JsonState>(update, self.goto));
        }
        let update = update.into_json(schema).map_err(NodeError::terminal)?;
        Ok(JsonCommand::new(update, self.goto))
    }
}
