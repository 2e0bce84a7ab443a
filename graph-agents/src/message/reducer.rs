//! The reducer of message lists, for typed states and for JSON states.

use std::sync::Arc;

use graph_core::{
    JsonFieldKind, State,
    checkpoint::Change,
    json::{JsonReducer, ReducedField, ReducedWrite},
    reduce::Reducer,
    state::FieldError,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    like::{message_from_json, messages_from_json},
    merge::{Plan, apply, plan},
    types::{Message, REMOVE_ALL},
};
use crate::AgentError;

/// Reducer of message lists: `#[reduce(Messages)] messages: Vec<Message>`.
///
/// Follows the rules of [`add_messages`](super::add_messages), except that the removal of an unknown id is ignored.
/// Where possible, a checkpoint stores only the new and changed messages or the positions of removed messages, not the
/// whole list.
///
/// ```
/// use graph_agents::{Message, Messages};
/// use graph_core::{START, State, StateGraph};
///
/// #[derive(State, Clone, Debug, Default)]
/// struct Chat {
///     #[reduce(Messages)]
///     messages: Vec<Message>,
///     topic: String,
/// }
///
/// async fn answer(_: &Chat) -> ChatUpdate {
///     Chat::update().messages([Message::ai("About 15 million years.")]).topic("rivers")
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let graph = StateGraph::<Chat>::new().node(answer).edge(START, answer).compile()?;
/// let input = Chat { messages: vec![Message::human("How old is the Rhine?")], topic: String::new() };
/// let chat = graph.invoke(input, ()).await?;
/// assert_eq!(chat.messages[1].text(), "About 15 million years.");
/// assert!(chat.messages.iter().all(|it| it.id().is_some()));
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Messages;

/// An update of a message list. All its messages have ids.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NewMessages(Vec<Message>);

impl<M: Into<Message>> From<Vec<M>> for NewMessages {
    fn from(messages: Vec<M>) -> Self {
        let mut messages: Vec<Message> = messages.into_iter().map(Into::into).collect();
        messages.iter_mut().for_each(Message::ensure_id);
        Self(messages)
    }
}

impl<M: Into<Message>, const N: usize> From<[M; N]> for NewMessages {
    fn from(messages: [M; N]) -> Self {
        Vec::from(messages).into()
    }
}

impl From<Message> for NewMessages {
    fn from(message: Message) -> Self {
        vec![message].into()
    }
}

impl From<&str> for NewMessages {
    fn from(text: &str) -> Self {
        Message::human(text).into()
    }
}

impl Reducer<Vec<Message>> for Messages {
    type Update = NewMessages;

    fn fold(current: &mut Vec<Message>, update: NewMessages) {
        let update = without_unknown_removals(current, update.0);
        if let Ok(plan) = plan(current, &update) {
            apply(&plan, current, update);
        }
    }

    fn replace(current: &mut Vec<Message>, update: NewMessages) {
        *current = update.0;
    }

    fn delta(current: &Vec<Message>, update: &NewMessages) -> Option<Change> {
        let update = without_unknown_removals(current, update.0.clone());
        let plan = plan(current, &update).ok()?;
        change(&plan, current.len(), |index| serde_json::to_value(&update[index]).ok())
    }
}

/// Drops removals of ids that neither the list nor an earlier message of the update has.
fn without_unknown_removals(current: &[Message], update: Vec<Message>) -> Vec<Message> {
    let mut known: Vec<Message> = Vec::with_capacity(update.len());
    for message in update {
        let is_known = |id: &str| current.iter().chain(&known).any(|it| it.id() == Some(id));
        match &message {
            Message::Remove { id } if id != REMOVE_ALL && !is_known(id) => {}
            _ => known.push(message),
        }
    }
    known
}

/// A checkpoint stores a removal, instead of the whole list, only if the list has at least this many messages per
/// removed message.
///
/// Reading a list with a stored removal requires all earlier changes. Without this minimum, reading a short
/// conversation that keeps dropping its oldest messages would require every message that it ever contained.
const MESSAGES_PER_REMOVAL: usize = 16;

/// Returns the change that a checkpoint stores for an update of a list of `length` messages, or `None` if it must store
/// the whole list.
fn change(plan: &Plan, length: usize, item: impl Fn(usize) -> Option<Value>) -> Option<Change> {
    match plan {
        Plan::Merge { puts, removed } if removed.is_empty() => {
            let puts = puts.iter().map(|(position, index)| Some((*position, item(*index)?)));
            Some(Change::Put(puts.collect::<Option<_>>()?))
        }
        Plan::Merge { puts, removed }
            if puts.is_empty() && removed.len() * MESSAGES_PER_REMOVAL <= length =>
        {
            Some(Change::Remove(removed.clone()))
        }
        Plan::Merge { .. } | Plan::Replace(_) => None,
    }
}

/// State of a graph that holds a conversation and nothing else.
///
/// ```
/// use graph_agents::{Message, MessagesState, MessagesStateUpdate};
/// use graph_core::{START, StateGraph};
///
/// async fn answer(state: &MessagesState) -> MessagesStateUpdate {
///     let text = format!("You wrote {} message.", state.messages.len());
///     MessagesState::update().messages([Message::ai(text)])
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let graph = StateGraph::<MessagesState>::new().node(answer).edge(START, answer).compile()?;
/// let input = MessagesState { messages: vec![Message::human("Hi")] };
/// let state = graph.invoke(input, ()).await?;
/// assert_eq!(state.messages[1].text(), "You wrote 1 message.");
/// # Ok(()) }
/// ```
#[derive(State, Clone, Debug, Default)]
pub struct MessagesState {
    /// The conversation.
    #[reduce(Messages)]
    pub messages: Vec<Message>,
}

/// Returns the kind of a field of a JSON state that holds a list of messages.
///
/// A write is a list of messages in any form that [`messages_from_json`] accepts.
///
/// ```
/// use graph_agents::messages_field;
/// use graph_core::{JsonStateSchema, START, json_node};
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let schema = JsonStateSchema::new([("messages", messages_field())])?;
/// let answer = json!({ "messages": [{ "role": "assistant", "content": "Hello!" }] });
/// let graph = schema
///     .graph()
///     .node(json_node("answer", move |_, _| {
///         let answer = answer.clone();
///         async move { Ok(answer) }
///     }))
///     .edge(START, "answer")
///     .compile()?;
/// let state = graph.invoke(schema.input(json!({ "messages": ["Hi"] }))?, ()).await?;
/// assert_eq!(state.to_value()["messages"][1]["content"], "Hello!");
/// # Ok(()) }
/// ```
pub fn messages_field() -> JsonFieldKind {
    JsonFieldKind::Custom(Arc::new(JsonMessages))
}

/// The messages of a write in typed form, all with ids. Passed to the reducer together with their JSON form: see
/// [`JsonUpdate::write_decoded`](graph_core::json::JsonUpdate::write_decoded).
#[derive(Clone, Debug)]
pub(crate) struct WrittenMessages(pub(crate) Vec<Message>);

#[derive(Debug)]
struct JsonMessages;

/// Returns the messages of a write, all with ids, and their JSON form.
fn parse(write: ReducedWrite) -> Result<(Vec<Message>, Vec<Value>), AgentError> {
    let typed = write.decoded.and_then(|it| it.downcast::<WrittenMessages>().ok());
    match (typed, write.value) {
        (Some(messages), Value::Array(json)) => Ok((Arc::unwrap_or_clone(messages).0, json)),
        (_, value) => {
            let mut messages = messages_from_json(&value)?;
            messages.iter_mut().for_each(Message::ensure_id);
            let json = messages.iter().map(serde_json::to_value).collect::<Result<_, _>>();
            Ok((messages, json.map_err(|it| AgentError::value(it.to_string()))?))
        }
    }
}

impl JsonReducer for JsonMessages {
    fn initial_value(&self) -> Value {
        Value::Array(Vec::new())
    }

    fn fold(
        &self,
        field: ReducedField<'_>,
        write: ReducedWrite,
    ) -> Result<Option<Change>, FieldError> {
        let ReducedField { name, value, decoded, records_change } = field;
        let invalid = |problem: &dyn std::fmt::Display| FieldError::new(name, problem);
        let (update, json) = parse(write).map_err(|it| invalid(&it))?;
        let Value::Array(list) = value else {
            return Err(invalid(&"the stored value is not a list of messages"));
        };
        let current = decoded.clone().and_then(|it| it.downcast::<Vec<Message>>().ok());
        let mut current = match current {
            Some(current) => current,
            None => {
                let current = list.iter().map(message_from_json).collect::<Result<_, _>>();
                Arc::new(current.map_err(|it| invalid(&it))?)
            }
        };
        let plan = plan(&current, &update).map_err(|it| invalid(&it))?;
        let change =
            records_change.then(|| change(&plan, current.len(), |index| Some(json[index].clone())));
        // Drops the field's own reference, so that the list can be changed in place.
        *decoded = None;
        apply(&plan, Arc::make_mut(&mut current), update);
        apply(&plan, list, json);
        *decoded = Some(current);
        Ok(change.flatten())
    }
}
