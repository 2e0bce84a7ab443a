//! The actions of a task's body or of its error handler.

use serde_json::Value;

use crate::trace::{EffectTrace, FailedAttempt};

/// The actions of a task's body or of its error handler.
#[derive(Clone, Debug, Default)]
pub(super) struct Activity {
    pub(super) retries: Vec<FailedAttempt>,
    pub(super) effects: Vec<EffectTrace>,
    pub(super) custom: Vec<Value>,
    pub(super) messages: Vec<Value>,
}

impl Activity {
    /// Moves the stream output of a failed attempt from the task to that attempt.
    pub(super) fn retry(&mut self, attempt: u32, error: &str) {
        self.retries.push(FailedAttempt {
            attempt,
            error: error.to_owned(),
            custom: std::mem::take(&mut self.custom),
            messages: std::mem::take(&mut self.messages),
        });
    }

    /// Adds a message. Successive pieces of one text, such as `{"text": "a"}` and `{"text": "b"}`, become one message,
    /// because providers split the same response differently each time, and a replay does not split it at all.
    pub(super) fn message(&mut self, message: &Value) {
        let is_joined = self.messages.last_mut().is_some_and(|it| join_pieces(it, message));
        if !is_joined {
            self.messages.push(message.clone());
        }
    }

    /// Adds an effect unless it is already present, because a node that is executed again receives the same
    /// results.
    pub(super) fn effect(&mut self, key: &str, result: &Value) {
        if !self.effects.iter().any(|it| it.key == key) {
            self.effects.push(EffectTrace { key: key.to_owned(), result: result.clone() });
        }
    }

    /// Sorts effects by key, because concurrent calls complete in an arbitrary order.
    pub(super) fn sorted(mut self) -> Self {
        self.effects.sort_by(|a, b| a.key.cmp(&b.key));
        self
    }
}

/// Appends the text of `piece` to `message` if both are objects with the same single key and a text.
fn join_pieces(message: &mut Value, piece: &Value) -> bool {
    let (Some(message), Some(piece)) = (message.as_object_mut(), piece.as_object()) else {
        return false;
    };
    if message.len() != 1 || piece.len() != 1 {
        return false;
    }
    let (Some((key, Value::String(text))), Some((other, Value::String(more)))) =
        (message.iter_mut().next(), piece.iter().next())
    else {
        return false;
    };
    let is_same = key == other;
    if is_same {
        text.push_str(more);
    }
    is_same
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::Activity;

    #[test]
    fn successive_pieces_of_a_text_are_one_message() {
        let mut activity = Activity::default();
        let whole = json!({ "text": "e", "id": 1 });
        for message in [
            json!({ "reasoning": "a" }),
            json!({ "text": "b" }),
            json!({ "text": "c" }),
            json!("d"),
            json!("d"),
            whole.clone(),
            whole.clone(),
        ] {
            activity.message(&message);
        }
        let expected: [Value; 6] = [
            json!({ "reasoning": "a" }),
            json!({ "text": "bc" }),
            json!("d"),
            json!("d"),
            whole.clone(),
            whole,
        ];
        assert_eq!(activity.messages, expected);
    }
}
