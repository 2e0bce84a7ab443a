//! Reading answers.

use serde_json::{Value, json};

use super::super::{Answer, Event, Fault, Reader, draft::Draft, fault, json as look};
use crate::{ErrorKind, Finish, Listener, Usage};

/// Reads a whole answer.
pub(super) fn whole(body: &Value) -> Result<Answer, Fault> {
    if !body["error"].is_null() {
        return Err(fault::from_answer(body));
    }
    if !body["content"].is_array() {
        let words = look::capped(&body.to_string());
        return Err(look::malformed(&format!("the answer has no content: {words}")));
    }
    let mut draft = Draft::default();
    let deaf = &mut Listener::deaf();
    draft.named(&body["model"]);
    for block in look::list(body, "content") {
        let mut open = Open::new(block, &mut draft, deaf);
        if let Open::Call { input, .. } = &mut open {
            *input = block["input"].to_string();
        }
        open.close(&mut draft, deaf);
    }
    draft.usage = usage(&body["usage"]);
    stop(body, &mut draft);
    draft.finish()
}

/// Puts an answer together from its blocks, one of which is open at a time.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    draft: Draft,
    open: Option<Open>,
    /// The usage grows with the answer: later counts replace earlier ones, where they are said.
    usage: Value,
    is_done: bool,
}

/// A block that is not over yet, as far as it is not in the draft already.
#[derive(Debug)]
enum Open {
    Text,
    Thought {
        signature: String,
    },
    Redacted(Value),
    Call {
        id: String,
        name: String,
        input: String,
    },
    /// What only this provider has: a search of its own, and what it found.
    Foreign,
}

impl Reader for Blocks {
    fn event(&mut self, event: &Event, listener: &mut Listener<'_>) -> Result<(), Fault> {
        let event = look::parse(event.data.as_bytes())?;
        match look::text(&event, "type") {
            "message_start" => {
                self.draft.named(&event["message"]["model"]);
                self.count(&event["message"]["usage"]);
            }
            "content_block_start" => {
                self.close(listener);
                self.open = Some(Open::new(&event["content_block"], &mut self.draft, listener));
            }
            "content_block_delta" => self.delta(&event["delta"], listener),
            "content_block_stop" => self.close(listener),
            "message_delta" => {
                self.count(&event["usage"]);
                stop(&event["delta"], &mut self.draft);
            }
            "message_stop" => {
                self.close(listener);
                self.is_done = true;
            }
            "error" => return Err(fault::from_answer(&event)),
            // A sign of life, or something newer than this.
            _ => {}
        }
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.is_done
    }

    fn finish(mut self: Box<Self>) -> Result<Answer, Fault> {
        if !self.is_done {
            return Err(Fault::new(ErrorKind::Cut, "the stream ended before `message_stop`"));
        }
        self.draft.usage = usage(&self.usage);
        self.draft.finish()
    }
}

impl Blocks {
    fn delta(&mut self, delta: &Value, listener: &mut Listener<'_>) {
        match &mut self.open {
            Some(Open::Text) => self.draft.text(look::text(delta, "text"), listener),
            Some(Open::Thought { signature }) => {
                self.draft.reasoning(look::text(delta, "thinking"), listener);
                signature.push_str(look::text(delta, "signature"));
            }
            Some(Open::Call { input, .. }) => input.push_str(look::text(delta, "partial_json")),
            Some(Open::Redacted(_) | Open::Foreign) | None => {}
        }
    }

    fn close(&mut self, listener: &mut Listener<'_>) {
        if let Some(open) = self.open.take() {
            open.close(&mut self.draft, listener);
        }
    }

    fn count(&mut self, usage: &Value) {
        for (name, count) in usage.as_object().into_iter().flatten() {
            if !count.is_null() {
                self.usage[name] = count.clone();
            }
        }
    }
}

impl Open {
    fn new(block: &Value, draft: &mut Draft, listener: &mut Listener<'_>) -> Self {
        match look::text(block, "type") {
            "text" => {
                draft.text(look::text(block, "text"), listener);
                Self::Text
            }
            "thinking" => {
                draft.reasoning(look::text(block, "thinking"), listener);
                Self::Thought { signature: look::text(block, "signature").to_owned() }
            }
            "redacted_thinking" => Self::Redacted(block.clone()),
            "tool_use" => Self::Call {
                id: look::text(block, "id").to_owned(),
                name: look::text(block, "name").to_owned(),
                input: String::new(),
            },
            _ => Self::Foreign,
        }
    }

    fn close(self, draft: &mut Draft, listener: &mut Listener<'_>) {
        match self {
            Self::Thought { signature } if !signature.is_empty() => {
                draft.seal(json!({ "signature": signature }));
            }
            Self::Redacted(block) => draft.sealed(block),
            Self::Call { id, name, input } => draft.written_call(&id, &name, &input, listener),
            Self::Text | Self::Thought { .. } | Self::Foreign => {}
        }
    }
}

fn stop(message: &Value, draft: &mut Draft) {
    let Some(reason) = message["stop_reason"].as_str() else { return };
    draft.finish = Some(match reason {
        "end_turn" | "stop_sequence" => Finish::Stop,
        "max_tokens" | "model_context_window_exceeded" => Finish::Length,
        "tool_use" => Finish::ToolCalls,
        other => Finish::Other(other.to_owned()),
    });
    if reason == "refusal" {
        draft.refuse(look::text(&message["stop_details"], "explanation"));
    }
}

/// Counts of the request leave out what came from the cache or went there.
fn usage(usage: &Value) -> Usage {
    let cached = look::count(usage, "/cache_read_input_tokens");
    let cache_written = look::count(usage, "/cache_creation_input_tokens");
    Usage {
        input: look::count(usage, "/input_tokens")
            .saturating_add(cached)
            .saturating_add(cache_written),
        output: look::count(usage, "/output_tokens"),
        cached,
        cache_written,
        reasoning: look::count(usage, "/output_tokens_details/thinking_tokens"),
    }
}
