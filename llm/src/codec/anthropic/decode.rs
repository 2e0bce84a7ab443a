//! Decodes responses.

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
    if !body["error"].is_null() {
        return Err(provider_error::from_body(body));
    }
    if !body["content"].is_array() {
        return Err(json_util::lacks(body, "`content`"));
    }
    let mut builder = ResponseBuilder::default();
    let listener = &mut Listener::null();
    builder.set_model(&body["model"]);
    for block in json_util::list(body, "content") {
        let mut open = OpenBlock::new(block, &mut builder, listener);
        if let OpenBlock::Call { input, .. } = &mut open {
            *input = block["input"].to_string();
        }
        open.close(&mut builder, listener);
    }
    builder.usage = usage(&body["usage"]);
    stop(body, &mut builder);
    builder.finish()
}

/// Assembles a streamed response from its content blocks. Only one block is open at a time.
#[derive(Debug, Default)]
pub(crate) struct BlockDecoder {
    builder: ResponseBuilder,
    open: Option<OpenBlock>,
    /// Usage so far. Later events repeat the usage with higher counts and may omit fields.
    usage: Value,
    is_done: bool,
}

/// A content block that has not ended yet. Contains the data that has not yet been passed to the builder.
#[derive(Debug)]
enum OpenBlock {
    Text,
    Thinking {
        signature: String,
    },
    Redacted(Value),
    Call {
        id: String,
        name: String,
        input: String,
    },
    /// A block type that this crate does not support, such as a server-side search.
    Unsupported,
}

impl StreamDecoder for BlockDecoder {
    fn event(&mut self, data: &str, listener: &mut Listener<'_>) -> Result<(), CallError> {
        let event = json_util::parse(data.as_bytes())?;
        match json_util::text(&event, "type") {
            "message_start" => {
                self.builder.set_model(&event["message"]["model"]);
                self.count(&event["message"]["usage"]);
            }
            "content_block_start" => {
                self.close(listener);
                self.open =
                    Some(OpenBlock::new(&event["content_block"], &mut self.builder, listener));
            }
            "content_block_delta" => self.delta(&event["delta"], listener),
            "content_block_stop" => self.close(listener),
            "message_delta" => {
                self.count(&event["usage"]);
                stop(&event["delta"], &mut self.builder);
            }
            "message_stop" => {
                self.close(listener);
                self.is_done = true;
            }
            "error" => return Err(provider_error::from_body(&event)),
            // Keep-alive events, and event types that this crate does not know.
            _ => {}
        }
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.is_done
    }

    fn has_finish_reason(&self) -> bool {
        self.builder.finish.is_some()
    }

    fn usage(&self) -> Usage {
        usage(&self.usage)
    }

    fn finish(mut self: Box<Self>) -> Result<DecodedResponse, CallError> {
        if !self.has_finish_reason() {
            let message = "the stream ended before the stop reason";
            return Err(CallError::new(ErrorKind::Truncated, message));
        }
        self.close(&mut Listener::null());
        self.builder.usage = usage(&self.usage);
        self.builder.finish()
    }
}

impl BlockDecoder {
    fn delta(&mut self, delta: &Value, listener: &mut Listener<'_>) {
        match &mut self.open {
            Some(OpenBlock::Text) => self.builder.text(json_util::text(delta, "text"), listener),
            Some(OpenBlock::Thinking { signature }) => {
                self.builder.reasoning(json_util::text(delta, "thinking"), listener);
                signature.push_str(json_util::text(delta, "signature"));
            }
            Some(OpenBlock::Call { input, .. }) => {
                input.push_str(json_util::text(delta, "partial_json"))
            }
            Some(OpenBlock::Redacted(_) | OpenBlock::Unsupported) | None => {}
        }
    }

    fn close(&mut self, listener: &mut Listener<'_>) {
        if let Some(open) = self.open.take() {
            open.close(&mut self.builder, listener);
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

impl OpenBlock {
    fn new(block: &Value, builder: &mut ResponseBuilder, listener: &mut Listener<'_>) -> Self {
        match json_util::text(block, "type") {
            "text" => {
                builder.text(json_util::text(block, "text"), listener);
                Self::Text
            }
            "thinking" => {
                builder.reasoning(json_util::text(block, "thinking"), listener);
                Self::Thinking { signature: json_util::text(block, "signature").to_owned() }
            }
            "redacted_thinking" => Self::Redacted(block.clone()),
            "tool_use" => Self::Call {
                id: json_util::text(block, "id").to_owned(),
                name: json_util::text(block, "name").to_owned(),
                input: String::new(),
            },
            _ => Self::Unsupported,
        }
    }

    fn close(self, builder: &mut ResponseBuilder, listener: &mut Listener<'_>) {
        match self {
            Self::Thinking { signature } if !signature.is_empty() => {
                builder.attach_opaque(json!({ "signature": signature }));
            }
            Self::Redacted(block) => builder.push_opaque(block),
            Self::Call { id, name, input } => {
                builder.tool_call_from_text(&id, &name, &input, listener)
            }
            Self::Text | Self::Thinking { .. } | Self::Unsupported => {}
        }
    }
}

fn stop(message: &Value, builder: &mut ResponseBuilder) {
    let Some(reason) = message["stop_reason"].as_str() else { return };
    builder.finish = Some(match reason {
        "end_turn" | "stop_sequence" => Finish::Stop,
        "max_tokens" | "model_context_window_exceeded" => Finish::Length,
        "tool_use" => Finish::ToolCalls,
        other => Finish::Other(other.to_owned()),
    });
    if reason == "refusal" {
        builder.refuse(json_util::text(&message["stop_details"], "explanation"));
    }
}

/// Converts the provider's token counts. Its `input_tokens` do not include tokens read from or written to the cache.
fn usage(usage: &Value) -> Usage {
    let cached = json_util::count(usage, "/cache_read_input_tokens");
    let cache_written = json_util::count(usage, "/cache_creation_input_tokens");
    Usage {
        input: json_util::count(usage, "/input_tokens")
            .saturating_add(cached)
            .saturating_add(cache_written),
        output: json_util::count(usage, "/output_tokens"),
        cached,
        cache_written,
        reasoning: json_util::count(usage, "/output_tokens_details/thinking_tokens"),
    }
}
