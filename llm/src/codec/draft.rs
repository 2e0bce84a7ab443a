//! Drafts: an answer while it is put together.
//!
//! All codecs write into a draft, whether the answer comes whole or in pieces, so that both give the same
//! answer, and what makes an answer a fault is decided once.

use serde_json::Value;

use super::{Answer, Fault, json};
use crate::{ErrorKind, Finish, Listener, Money, Part, Piece, ToolCall, Usage, message};

/// How the ids of tool calls begin that the provider gave no id.
const NAMELESS: &str = "nameless-";

/// Whether an id is not the provider's, so that it does not go back there.
pub(super) fn is_nameless(id: &str) -> bool {
    id.starts_with(NAMELESS)
}

/// An answer while it is put together.
#[derive(Debug, Default)]
pub(super) struct Draft {
    content: Vec<Part>,
    pub(super) model: Option<String>,
    /// Why the answer ends; set when it came to its end.
    pub(super) finish: Option<Finish>,
    pub(super) usage: Usage,
    pub(super) cost: Option<Money>,
    /// The words with which the model or the provider refuses to answer.
    refusal: Option<String>,
    /// A tool call whose arguments cannot be read.
    unreadable: Option<Fault>,
}

impl Draft {
    /// Takes the model's name, where the provider says it.
    pub(super) fn named(&mut self, model: &Value) {
        if let Some(model) = model.as_str().filter(|it| !it.is_empty()) {
            self.model = Some(model.to_owned());
        }
    }

    /// Adds words.
    pub(super) fn text(&mut self, more: &str, listener: &mut Listener<'_>) {
        if more.is_empty() {
            return;
        }
        match self.content.last_mut() {
            Some(Part::Text { text }) => text.push_str(more),
            _ => self.content.push(Part::text(more)),
        }
        listener.tell(Piece::Text(more.to_owned()));
    }

    /// Adds to what the model thinks first.
    pub(super) fn reasoning(&mut self, more: &str, listener: &mut Listener<'_>) {
        if more.is_empty() {
            return;
        }
        match self.content.last_mut() {
            Some(Part::Reasoning { text, opaque: None }) => text.push_str(more),
            _ => self.content.push(Part::Reasoning { text: more.to_owned(), opaque: None }),
        }
        listener.tell(Piece::Reasoning(more.to_owned()));
    }

    /// Ends a thought with what the provider wants back with it.
    pub(super) fn seal(&mut self, seal: Value) {
        match self.content.last_mut() {
            Some(Part::Reasoning { opaque: opaque @ None, .. }) => *opaque = Some(seal),
            _ => self.sealed(seal),
        }
    }

    /// Puts what the provider wants back with all its thoughts to the first of them.
    pub(super) fn seal_first(&mut self, seal: Value) {
        let first = self.content.iter_mut().find_map(|it| match it {
            Part::Reasoning { opaque, .. } => Some(opaque),
            Part::Text { .. } | Part::ToolCall(_) | Part::ToolResult { .. } => None,
        });
        match first {
            Some(opaque) => *opaque = Some(seal),
            None => {
                self.content.insert(0, Part::Reasoning { text: String::new(), opaque: Some(seal) })
            }
        }
    }

    /// Adds a thought of which the provider shows nothing.
    pub(super) fn sealed(&mut self, seal: Value) {
        self.content.push(Part::Reasoning { text: String::new(), opaque: Some(seal) });
    }

    /// Adds a tool call.
    pub(super) fn call(&mut self, call: ToolCall, listener: &mut Listener<'_>) {
        self.content.push(Part::ToolCall(call.clone()));
        listener.tell(Piece::ToolCall(call));
    }

    /// Adds a tool call whose arguments came as text.
    pub(super) fn written_call(
        &mut self,
        id: &str,
        name: &str,
        arguments: &str,
        listener: &mut Listener<'_>,
    ) {
        match json::arguments(arguments) {
            Ok(arguments) => {
                let (id, name) = (id.to_owned(), name.to_owned());
                self.call(ToolCall { id, name, arguments, opaque: None }, listener);
            }
            Err(fault) => self.unreadable = Some(fault),
        }
    }

    /// An id for the next tool call, where the provider gives it none: its result has to name it.
    pub(super) fn nameless_id(&self) -> String {
        let n_calls = self.content.iter().filter(|it| matches!(it, Part::ToolCall(_))).count();
        format!("{NAMELESS}{n_calls}")
    }

    /// Adds to the words of a refusal; without words it is one all the same.
    pub(super) fn refuse(&mut self, words: &str) {
        self.refusal.get_or_insert_default().push_str(words);
    }

    /// The answer, or what is wrong with it.
    pub(super) fn finish(self) -> Result<Answer, Fault> {
        if let Some(words) = &self.refusal {
            let said = message::text(&self.content);
            let reason = match &self.finish {
                Some(Finish::Other(reason)) => reason,
                _ => "no reason is given",
            };
            let words = [words, said.as_str()].into_iter().find(|it| !it.is_empty());
            return Err(Fault::new(ErrorKind::Refused, json::capped(words.unwrap_or(reason))));
        }
        let is_mere_thought = self.is_mere_thought();
        let Some(finish) = self.finish else {
            return Err(Fault::new(ErrorKind::Cut, "the answer does not say that it is over"));
        };
        let has_calls = self.content.iter().any(|it| matches!(it, Part::ToolCall(_)));
        match self.unreadable {
            // Of a call that is cut, the arguments are cut too.
            Some(fault) if finish != Finish::Length => return Err(fault),
            None if finish == Finish::Length && is_mere_thought => {
                let message = "no tokens were left for an answer: allow more, or less effort";
                return Err(Fault::new(ErrorKind::Exhausted, message));
            }
            _ => {}
        }
        // Some providers say of an answer with calls that it simply stops.
        let finish = if has_calls && finish == Finish::Stop { Finish::ToolCalls } else { finish };
        let Self { content, model, usage, cost, .. } = self;
        // Every request has tokens, and so has an answer that says anything: a server that counts none of them
        // does not count.
        let is_counted = usage.input > 0 && (usage.output > 0 || content.is_empty());
        let usage = is_counted.then_some(usage);
        Ok(Answer { content, model, finish, usage, cost })
    }

    fn is_mere_thought(&self) -> bool {
        let is_thought = |it: &Part| matches!(it, Part::Reasoning { .. });
        let has_thought = self.usage.reasoning > 0 || !self.content.is_empty();
        has_thought && self.content.iter().all(is_thought)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draft(finish: Option<Finish>) -> Draft {
        Draft { finish, ..Draft::default() }
    }

    fn kind(draft: Draft) -> ErrorKind {
        draft.finish().unwrap_err().kind
    }

    #[test]
    fn without_an_end_it_is_cut() {
        assert_eq!(kind(draft(None)), ErrorKind::Cut);
    }

    #[test]
    fn a_refusal_is_a_fault_with_its_words() {
        let mut refused = draft(Some(Finish::Stop));
        refused.text("I would rather", &mut Listener::deaf());
        refused.refuse("");
        assert_eq!(refused.finish().unwrap_err(), Fault::new(ErrorKind::Refused, "I would rather"));
        let mut refused = draft(Some(Finish::Stop));
        refused.refuse("not ");
        refused.refuse("this");
        assert_eq!(refused.finish().unwrap_err(), Fault::new(ErrorKind::Refused, "not this"));
    }

    #[test]
    fn tokens_that_all_went_into_reasoning() {
        let mut thought = draft(Some(Finish::Length));
        thought.reasoning("hm", &mut Listener::deaf());
        assert_eq!(kind(thought), ErrorKind::Exhausted);
        let mut counted = draft(Some(Finish::Length));
        counted.usage.reasoning = 9;
        assert_eq!(kind(counted), ErrorKind::Exhausted);
        assert_eq!(draft(Some(Finish::Length)).finish().unwrap().finish, Finish::Length);
        let mut said = draft(Some(Finish::Length));
        said.reasoning("hm", &mut Listener::deaf());
        said.text("well", &mut Listener::deaf());
        assert_eq!(said.finish().unwrap().finish, Finish::Length);
    }

    #[test]
    fn a_call_that_cannot_be_read() {
        let broken = |finish| {
            let mut draft = draft(Some(finish));
            draft.written_call("1", "add", "{\"a\":", &mut Listener::deaf());
            draft
        };
        assert_eq!(kind(broken(Finish::ToolCalls)), ErrorKind::Malformed);
        assert_eq!(broken(Finish::Length).finish().unwrap().content, []);
    }

    #[test]
    fn tokens_that_nobody_counted_are_not_zero() {
        let usage = |input, output| {
            let mut draft = draft(Some(Finish::Stop));
            draft.text("hm", &mut Listener::deaf());
            draft.usage = Usage { input, output, ..Usage::default() };
            draft.finish().unwrap().usage.map(|it| (it.input, it.output))
        };
        assert_eq!(usage(3, 2), Some((3, 2)));
        assert_eq!(usage(3, 0), None);
        assert_eq!(usage(0, 2), None);
        let mut silent = draft(Some(Finish::Stop));
        silent.usage.input = 3;
        assert!(silent.finish().unwrap().usage.is_some());
    }

    #[test]
    fn calls_make_the_finish() {
        let mut called = draft(Some(Finish::Stop));
        called.written_call("1", "add", "", &mut Listener::deaf());
        assert_eq!(called.finish().unwrap().finish, Finish::ToolCalls);
    }
}
