//! The stored form of a tool's answer.

use std::collections::BTreeMap;

use graph_core::{Goto, NodeError};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    command::{Command, CommandUpdate, Update},
    message::{Message, ToolMessage},
    tool::{ToolAnswer, ToolRequest},
};

/// The answer to a tool call, with the ids to which it refers.
#[derive(Serialize, Deserialize)]
pub(super) struct RecordedCall {
    answer: RecordedAnswer,
    ids: Ids,
}

/// The ids of a tool call and of the messages in the state. They differ in each run.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Ids {
    call: String,
    messages: Vec<Option<String>>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum RecordedAnswer {
    Message(ToolMessage),
    Command {
        /// Values of the written fields. `None` if the command has no update.
        update: Option<BTreeMap<String, Value>>,
        goto: Vec<RecordedGoto>,
        parent: bool,
    },
    Many(Vec<Self>),
}

#[derive(Serialize, Deserialize)]
struct RecordedGoto {
    to: String,
    /// The payload in a list, because it may be null. Empty if none is sent.
    payload: Vec<Value>,
}

impl Ids {
    pub(super) fn of(request: &ToolRequest) -> Self {
        let messages = request.state.messages().iter();
        Self {
            call: request.call.id().to_owned(),
            messages: messages.map(|it| it.id().map(str::to_owned)).collect(),
        }
    }
}

impl RecordedCall {
    pub(super) fn new(answer: ToolAnswer, mut ids: Ids) -> Result<Self, NodeError> {
        if matches!(answer, ToolAnswer::Message(_)) {
            // Only commands can refer to messages in the state.
            ids.messages.clear();
        }
        Ok(Self { answer: RecordedAnswer::new(answer).map_err(NodeError::terminal)?, ids })
    }

    /// Returns the answer for a call in a run with other ids.
    pub(super) fn into_answer(self, current: &Ids) -> ToolAnswer {
        let Self { answer, ids } = self;
        let pairs = ids.messages.into_iter().zip(&current.messages);
        let pairs = pairs.filter_map(|(old, new)| Some((old?, new.clone()?)));
        let translation = Translation {
            old_call: ids.call,
            new_call: current.call.clone(),
            messages: pairs.collect(),
        };
        answer.into_answer(&translation)
    }
}

impl RecordedAnswer {
    fn new(answer: ToolAnswer) -> Result<Self, serde_json::Error> {
        Ok(match answer {
            ToolAnswer::Message(message) => Self::Message(message),
            ToolAnswer::Command(Command { update, goto, parent }) => {
                let update = update.map(|it| match it {
                    CommandUpdate::Fields(update) => update.into_fields(),
                    CommandUpdate::Messages(messages) => {
                        Update::new().messages(messages).into_fields()
                    }
                });
                let goto = goto.iter().map(RecordedGoto::new).collect::<Result<_, _>>()?;
                Self::Command { update, goto, parent }
            }
            ToolAnswer::Many(answers) => {
                Self::Many(answers.into_iter().map(Self::new).collect::<Result<_, _>>()?)
            }
        })
    }

    fn into_answer(self, ids: &Translation) -> ToolAnswer {
        match self {
            Self::Message(message) => ids.translate_result(message).into(),
            Self::Command { update, goto, parent } => {
                let goto = goto.into_iter().map(RecordedGoto::into_goto).collect();
                let command = Command { update: None, goto, parent };
                match update {
                    None => command.into(),
                    Some(fields) => command.update(ids.translate_update(fields)).into(),
                }
            }
            Self::Many(answers) => {
                ToolAnswer::Many(answers.into_iter().map(|it| it.into_answer(ids)).collect())
            }
        }
    }
}

impl RecordedGoto {
    fn new(goto: &Goto) -> Result<Self, serde_json::Error> {
        let payload = goto.payload()?.into_iter().collect();
        Ok(Self { to: goto.target().to_owned(), payload })
    }

    fn into_goto(mut self) -> Goto {
        match self.payload.pop() {
            Some(payload) => Goto::send(self.to, payload),
            None => Goto::node(self.to),
        }
    }
}

/// Replaces the ids of the recorded run with those of the current run.
struct Translation {
    old_call: String,
    new_call: String,
    /// Current ids of messages by recorded ids.
    messages: BTreeMap<String, String>,
}

impl Translation {
    fn translate_update(&self, fields: BTreeMap<String, Value>) -> Update {
        let fields = fields.into_iter();
        let update = fields.fold(Update::new(), |update, (name, value)| update.set(name, value));
        match update.written_messages() {
            Some(messages) => update.messages(messages.into_iter().map(|it| self.translate(it))),
            None => update,
        }
    }

    fn translate(&self, message: Message) -> Message {
        let known = message.id().and_then(|it| self.messages.get(it));
        match (known, message) {
            (Some(id), message) => message.with_id(id),
            (None, Message::Tool(result)) => self.translate_result(result).into(),
            (None, message) => message,
        }
    }

    fn translate_result(&self, mut result: ToolMessage) -> ToolMessage {
        if result.tool_call_id == self.old_call {
            result.tool_call_id.clone_from(&self.new_call);
        }
        result
    }
}
