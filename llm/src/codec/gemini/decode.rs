//! Decodes responses. The events of a stream have the same form as whole responses.

use serde_json::{Value, json};

use super::super::{
    builder::ResponseBuilder,
    call_error::CallError,
    json_util, provider_error,
    wire::{DecodedResponse, StreamDecoder},
};
use crate::{ErrorKind, Finish, Listener, Usage};

/// Decodes a response that is not streamed.
pub(crate) fn body(body: &Value) -> Result<DecodedResponse, CallError> {
    let mut chunks = ChunkDecoder::default();
    chunks.chunk(body, &mut Listener::null())?;
    if chunks.builder.finish.is_none() {
        return Err(json_util::lacks(body, "finished candidate"));
    }
    chunks.builder.finish()
}

/// Assembles a response from its chunks. The stream has no final event, so only the finish reason shows whether the
/// response is complete.
#[derive(Debug, Default)]
pub(crate) struct ChunkDecoder {
    builder: ResponseBuilder,
}

impl StreamDecoder for ChunkDecoder {
    fn event(&mut self, data: &str, listener: &mut Listener<'_>) -> Result<(), CallError> {
        self.chunk(&json_util::parse(data.as_bytes())?, listener)
    }

    fn is_done(&self) -> bool {
        false
    }

    fn has_finish_reason(&self) -> bool {
        self.builder.finish.is_some()
    }

    fn usage(&self) -> Usage {
        self.builder.usage
    }

    fn finish(self: Box<Self>) -> Result<DecodedResponse, CallError> {
        self.builder.finish()
    }
}

impl ChunkDecoder {
    fn chunk(&mut self, chunk: &Value, listener: &mut Listener<'_>) -> Result<(), CallError> {
        if !chunk["error"].is_null() || chunk.is_array() {
            return Err(provider_error::from_body(chunk));
        }
        if chunk["usageMetadata"].is_object() {
            self.builder.usage = usage(&chunk["usageMetadata"]);
        }
        if let Some(reason) = chunk["promptFeedback"]["blockReason"].as_str() {
            let message = format!("the request was blocked: {reason}");
            return Err(CallError::new(ErrorKind::Refused, message));
        }
        self.builder.set_model(&chunk["modelVersion"]);
        let Some(candidate) = json_util::list(chunk, "candidates").first() else { return Ok(()) };
        let parts = json_util::list(&candidate["content"], "parts");
        for part in parts {
            self.part(part, listener);
        }
        for token in logprobs(&candidate["logprobsResult"]) {
            self.builder.logprob(&token);
        }
        // A chunk that contains code for the provider to execute has a finish reason, although more chunks follow. Such
        // a finish reason is ignored.
        let is_running = parts.last().is_some_and(|it| it["executableCode"].is_object());
        let reason = candidate["finishReason"].as_str().filter(|_| !is_running);
        self.builder.finish = match reason {
            Some(reason) => Some(self.finish_reason(reason, candidate)?),
            None => None,
        };
        Ok(())
    }

    fn part(&mut self, part: &Value, listener: &mut Listener<'_>) {
        let opaque = part["thoughtSignature"].as_str().map(|it| json!({ "thoughtSignature": it }));
        let function = &part["functionCall"];
        if function.is_object() {
            let (id, name) = (json_util::text(function, "id"), json_util::text(function, "name"));
            self.builder.tool_call(id, name, &function["args"], opaque, listener);
        } else if part["thought"] == true {
            self.builder.reasoning(json_util::text(part, "text"), listener);
            if let Some(opaque) = opaque {
                self.builder.attach_opaque(opaque);
            }
        } else if let Some(text) = part["text"].as_str() {
            self.builder.text(text, listener);
            if let Some(opaque) = opaque {
                self.builder.push_opaque(opaque);
            }
        }
    }

    fn finish_reason(&mut self, reason: &str, candidate: &Value) -> Result<Finish, CallError> {
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
                self.builder.refuse(json_util::text(candidate, "finishMessage"));
                Ok(Finish::Other(reason.to_owned()))
            }
            "MALFORMED_FUNCTION_CALL" => {
                let finish_message = json_util::capped(json_util::text(candidate, "finishMessage"));
                Err(json_util::malformed(&format!(
                    "the model wrote a tool call that cannot be parsed: {finish_message}"
                )))
            }
            other => Ok(Finish::Other(other.to_owned())),
        }
    }
}

/// Converts the provider's token counts. The provider's count for the response excludes reasoning, and its count for
/// the request excludes the input of the provider's own tools.
fn usage(usage: &Value) -> Usage {
    let reasoning = json_util::count(usage, "/thoughtsTokenCount");
    let tools = json_util::count(usage, "/toolUsePromptTokenCount");
    Usage {
        input: json_util::count(usage, "/promptTokenCount").saturating_add(tools),
        output: json_util::count(usage, "/candidatesTokenCount").saturating_add(reasoning),
        cached: json_util::count(usage, "/cachedContentTokenCount"),
        cache_written: 0,
        reasoning,
    }
}

/// Converts log probabilities to OpenAI's format.
fn logprobs(result: &Value) -> Vec<Value> {
    let token = |it: &Value| json!({ "token": it["token"], "logprob": it["logProbability"] });
    let chosen = json_util::list(result, "chosenCandidates").iter().map(token);
    let top = json_util::list(result, "topCandidates");
    let with_alternatives = |(index, mut token_value): (usize, Value)| {
        let alternatives = top.get(index).map_or(&[][..], |it| json_util::list(it, "candidates"));
        token_value["top_logprobs"] = alternatives.iter().map(token).collect();
        token_value
    };
    chosen.enumerate().map(with_alternatives).collect()
}
