//! A shared list of messages.

use std::{
    ops::{Deref, DerefMut},
    sync::Arc,
};

use serde::{Serialize, Serializer};

use super::types::Message;

/// A list of messages. Cheap to clone: clones share the messages until one of them is changed.
///
/// It can be used like a `Vec<Message>`.
///
/// ```
/// use graph_agents::{MessageList, Message};
///
/// let messages = MessageList::from(vec![Message::human("Hi")]);
/// let mut longer = messages.clone();
/// longer.push(Message::ai("Hello!"));
/// assert_eq!((messages.len(), longer.len()), (1, 2));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MessageList {
    messages: Arc<Vec<Message>>,
}

impl MessageList {
    pub(crate) fn shared(messages: Arc<Vec<Message>>) -> Self {
        Self { messages }
    }

    /// Returns the messages. Copies them only if they are shared.
    pub fn into_vec(self) -> Vec<Message> {
        Arc::unwrap_or_clone(self.messages)
    }
}

impl Deref for MessageList {
    type Target = Vec<Message>;

    fn deref(&self) -> &Vec<Message> {
        &self.messages
    }
}

impl DerefMut for MessageList {
    fn deref_mut(&mut self) -> &mut Vec<Message> {
        Arc::make_mut(&mut self.messages)
    }
}

impl From<Vec<Message>> for MessageList {
    fn from(messages: Vec<Message>) -> Self {
        Self { messages: Arc::new(messages) }
    }
}

impl FromIterator<Message> for MessageList {
    fn from_iter<I: IntoIterator<Item = Message>>(messages: I) -> Self {
        Vec::from_iter(messages).into()
    }
}

impl IntoIterator for MessageList {
    type Item = Message;
    type IntoIter = std::vec::IntoIter<Message>;

    fn into_iter(self) -> Self::IntoIter {
        self.into_vec().into_iter()
    }
}

impl<'a> IntoIterator for &'a MessageList {
    type Item = &'a Message;
    type IntoIter = std::slice::Iter<'a, Message>;

    fn into_iter(self) -> Self::IntoIter {
        self.messages.iter()
    }
}

impl Serialize for MessageList {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.messages.as_slice().serialize(serializer)
    }
}
