//! Reading answers: a streamed one comes in pieces that have the form of whole ones.

use serde_json::{Value, json};

use super::super::{Answer, Event, Fault, Reader, draft::Draft, fault, json as look};
use crate::{ErrorKind, Finish, Listener, ToolCall, Usage};

/// Reads a whole answer.
pub(super) fn whole(body: &Value) -> Result<Answer, Fault> {
    let mut chunks = Chunks::default();
    chunks.chunk(body, &mut Listener::deaf())?;
    if chunks.draft.finish.is_none() {
        let words = look::capped(&body.to_string());
        return Err(look::malformed(&format!("the answer has no finished candidate: {words}")));
    }
    chunks.draft.finish()
}

/// Puts an answer together from its pieces. Nothing comes after the last one, so that the end is known only by
/// the reason to finish.
#[derive(Debug, Default)]
pub(super) struct Chunks {
    draft: Draft,
}

impl Reader for Chunks {
    fn event(&mut self, event: &Event, listener: &mut Listener<'_>) -> Result<(), Fault> {
        self.chunk(&look::parse(event.data.as_bytes())?, listener)
    }

    fn is_done(&self) -> bool {
        false
    }

    fn finish(self: Box<Self>) -> Result<Answer, Fault> {
        self.draft.finish()
    }
}

impl Chunks {
    fn chunk(&mut self, chunk: &Value, listener: &mut Listener<'_>) -> Result<(), Fault> {
        if !chunk["error"].is_null() || chunk.is_array() {
            return Err(fault::from_answer(chunk));
        }
        if let Some(reason) = chunk["promptFeedback"]["blockReason"].as_str() {
            let message = format!("the request was blocked: {reason}");
            return Err(Fault::new(ErrorKind::Refused, message));
        }
        self.draft.named(&chunk["modelVersion"]);
        if chunk["usageMetadata"].is_object() {
            self.draft.usage = usage(&chunk["usageMetadata"]);
        }
        let Some(candidate) = look::list(chunk, "candidates").first() else { return Ok(()) };
        let parts = look::list(&candidate["content"], "parts");
        for part in parts {
            self.part(part, listener);
        }
        // Code that the model has run there comes with a reason to finish too, but the answer goes on.
        let is_running = parts.last().is_some_and(|it| it["executableCode"].is_object());
        let reason = candidate["finishReason"].as_str().filter(|_| !is_running);
        self.draft.finish = match reason {
            Some(reason) => Some(self.finish_reason(reason, candidate)?),
            None => None,
        };
        Ok(())
    }

    fn part(&mut self, part: &Value, listener: &mut Listener<'_>) {
        let seal = part["thoughtSignature"].as_str().map(|it| json!({ "thoughtSignature": it }));
        let function = &part["functionCall"];
        if function.is_object() {
            let id = function["id"].as_str().filter(|it| !it.is_empty()).map(str::to_owned);
            let call = ToolCall {
                id: id.unwrap_or_else(|| self.draft.nameless_id()),
                name: look::text(function, "name").to_owned(),
                arguments: if function["args"].is_object() {
                    function["args"].clone()
                } else {
                    json!({})
                },
                opaque: seal,
            };
            self.draft.call(call, listener);
        } else if part["thought"] == true {
            self.draft.reasoning(look::text(part, "text"), listener);
            if let Some(seal) = seal {
                self.draft.seal(seal);
            }
        } else if let Some(text) = part["text"].as_str() {
            self.draft.text(text, listener);
            if let Some(seal) = seal {
                self.draft.sealed(seal);
            }
        }
    }

    fn finish_reason(&mut self, reason: &str, candidate: &Value) -> Result<Finish, Fault> {
        match reason {
            "STOP" => Ok(Finish::Stop),
            "MAX_TOKENS" => Ok(Finish::Length),
            "SAFETY"
            | "RECITATION"
            | "BLOCKLIST"
            | "PROHIBITED_CONTENT"
            | "SPII"
            | "IMAGE_SAFETY"
            | "IMAGE_PROHIBITED_CONTENT"
            | "IMAGE_RECITATION" => {
                self.draft.refuse(look::text(candidate, "finishMessage"));
                Ok(Finish::Other(reason.to_owned()))
            }
            "MALFORMED_FUNCTION_CALL" => {
                let words = look::capped(look::text(candidate, "finishMessage"));
                Err(look::malformed(&format!(
                    "the model wrote a tool call that cannot be read: {words}"
                )))
            }
            other => Ok(Finish::Other(other.to_owned())),
        }
    }
}

/// Thoughts are counted beside the answer, and what tools of its own read beside the request.
fn usage(usage: &Value) -> Usage {
    let reasoning = look::count(usage, "/thoughtsTokenCount");
    let tools = look::count(usage, "/toolUsePromptTokenCount");
    Usage {
        input: look::count(usage, "/promptTokenCount").saturating_add(tools),
        output: look::count(usage, "/candidatesTokenCount").saturating_add(reasoning),
        cached: look::count(usage, "/cachedContentTokenCount"),
        cache_written: 0,
        reasoning,
    }
}
