//! Decodes responses.

use serde_json::Value;

use super::super::{
    builder::ResponseBuilder,
    call_error::CallError,
    json_util, provider_error,
    wire::{DecodedResponse, StreamDecoder},
};
use crate::{ErrorKind, Finish, Listener, Piece, Usage};

/// Decodes a response that is not streamed.
pub(crate) fn body(response: &Value) -> Result<DecodedResponse, CallError> {
    if !response["error"].is_null() {
        return Err(provider_error::from_body(response).or_usage(usage(&response["usage"])));
    }
    if !response["output"].is_array() {
        return Err(json_util::lacks(response, "`output`"));
    }
    let mut builder = ResponseBuilder::default();
    builder.set_model(&response["model"]);
    for item in json_util::list(response, "output") {
        take_item(&mut builder, item, &mut Listener::null());
    }
    builder.usage = usage(&response["usage"]);
    builder.finish = finish(response, &mut builder);
    builder.finish()
}

/// Decodes a streamed response. Sends pieces from the events to the listener, and takes the whole response from the
/// final event.
#[derive(Debug, Default)]
pub(crate) struct EventDecoder {
    answer: Option<Result<DecodedResponse, CallError>>,
}

impl StreamDecoder for EventDecoder {
    fn event(&mut self, data: &str, listener: &mut Listener<'_>) -> Result<(), CallError> {
        if data.trim() == "[DONE]" {
            return Ok(());
        }
        let event = json_util::parse(data.as_bytes())?;
        let delta = json_util::text(&event, "delta").to_owned();
        match json_util::text(&event, "type") {
            "response.output_text.delta" => listener.send(Piece::Text(delta)),
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                listener.send(Piece::Reasoning(delta));
            }
            "response.output_item.done" if event["item"]["type"] == "function_call" => {
                take_item(&mut ResponseBuilder::default(), &event["item"], listener);
            }
            "response.completed" | "response.incomplete" | "response.failed" => {
                self.answer = Some(body(&event["response"]));
            }
            "error" => return Err(provider_error::from_body(&event)),
            // Events for the start or end of a part, and event types that this crate does not support.
            _ => {}
        }
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.answer.is_some()
    }

    fn has_finish_reason(&self) -> bool {
        self.is_done()
    }

    /// The token counts are in the final event only.
    fn usage(&self) -> Usage {
        Usage::default()
    }

    fn finish(self: Box<Self>) -> Result<DecodedResponse, CallError> {
        let cut =
            || CallError::new(ErrorKind::Truncated, "the stream ended before `response.completed`");
        self.answer.ok_or_else(cut)?
    }
}

fn take_item(builder: &mut ResponseBuilder, item: &Value, listener: &mut Listener<'_>) {
    match json_util::text(item, "type") {
        "message" => {
            for part in json_util::list(item, "content") {
                match json_util::text(part, "type") {
                    "refusal" => builder.refuse(json_util::text(part, "refusal")),
                    _ => builder.text(json_util::text(part, "text"), listener),
                }
                for token in json_util::list(part, "logprobs") {
                    builder.logprob(token);
                }
            }
        }
        "function_call" => {
            let (id, name) = (json_util::text(item, "call_id"), json_util::text(item, "name"));
            builder.tool_call_from_text(id, name, json_util::text(item, "arguments"), listener);
        }
        "reasoning" => {
            for part in
                json_util::list(item, "summary").iter().chain(json_util::list(item, "content"))
            {
                builder.reasoning(json_util::text(part, "text"), listener);
            }
            builder.attach_opaque(item.clone());
        }
        _ => {}
    }
}

fn finish(response: &Value, builder: &mut ResponseBuilder) -> Option<Finish> {
    match (
        json_util::text(response, "status"),
        json_util::text(&response["incomplete_details"], "reason"),
    ) {
        ("completed", _) => Some(Finish::Stop),
        ("incomplete", "max_output_tokens") => Some(Finish::Length),
        ("incomplete", "content_filter") => {
            builder.refuse("");
            None
        }
        ("incomplete", other) => Some(Finish::Other(other.to_owned())),
        // The response is still in progress or was cancelled.
        _ => None,
    }
}

fn usage(usage: &Value) -> Usage {
    Usage {
        input: json_util::count(usage, "/input_tokens"),
        output: json_util::count(usage, "/output_tokens"),
        cached: json_util::count(usage, "/input_tokens_details/cached_tokens"),
        cache_written: json_util::count(usage, "/input_tokens_details/cache_write_tokens"),
        reasoning: json_util::count(usage, "/output_tokens_details/reasoning_tokens"),
    }
}
