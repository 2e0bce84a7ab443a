//! Reading answers: a streamed one comes in lines that have the form of whole ones.

use serde_json::{Value, json};

use super::super::{DecodedResponse, Event, CallError, StreamDecoder, builder::ResponseBuilder, call_error, json_util};
use crate::{ErrorKind, Finish, Listener, ToolCall, Usage};

/// Reads a whole answer.
pub(super) fn whole(body: &Value) -> Result<DecodedResponse, CallError> {
    let mut lines = LineDecoder::default();
    lines.line(body, &mut Listener::null())?;
    if !body["message"].is_object() {
        let words = json_util::capped(&body.to_string());
        return Err(json_util::malformed(&format!("the answer has no message: {words}")));
    }
    lines.builder.finish()
}

/// Puts an answer together from its lines.
#[derive(Debug, Default)]
pub(super) struct LineDecoder {
    builder: ResponseBuilder,
}

impl StreamDecoder for LineDecoder {
    fn event(&mut self, event: &Event, listener: &mut Listener<'_>) -> Result<(), CallError> {
        self.line(&json_util::parse(event.data.as_bytes())?, listener)
    }

    fn is_done(&self) -> bool {
        self.builder.finish.is_some()
    }

    fn finish(self: Box<Self>) -> Result<DecodedResponse, CallError> {
        if !self.is_done() {
            return Err(CallError::new(ErrorKind::Truncated, "the stream ended before its line with `done`"));
        }
        self.builder.finish()
    }
}

impl LineDecoder {
    fn line(&mut self, line: &Value, listener: &mut Listener<'_>) -> Result<(), CallError> {
        if !line["error"].is_null() {
            return Err(call_error::from_body(line));
        }
        self.builder.set_model(&line["model"]);
        let message = &line["message"];
        self.builder.reasoning(json_util::text(message, "thinking"), listener);
        self.builder.text(json_util::text(message, "content"), listener);
        for call in json_util::list(message, "tool_calls") {
            self.call(call, listener);
        }
        if line["done"] == true {
            self.builder.usage = usage(line);
            self.builder.finish = Some(match json_util::text(line, "done_reason") {
                "" | "stop" => Finish::Stop,
                "length" => Finish::Length,
                other => Finish::Other(other.to_owned()),
            });
        }
        Ok(())
    }

    fn call(&mut self, call: &Value, listener: &mut Listener<'_>) {
        let function = &call["function"];
        let id = call["id"].as_str().filter(|it| !it.is_empty()).map(str::to_owned);
        let call = ToolCall {
            id: id.unwrap_or_else(|| self.builder.generated_id()),
            name: json_util::text(function, "name").to_owned(),
            arguments: if function["arguments"].is_object() {
                function["arguments"].clone()
            } else {
                json!({})
            },
            opaque: None,
        };
        self.builder.tool_call(call, listener);
    }
}

/// What was read counts what comes from the cache; servers that do not count that do not tell of it either.
fn usage(line: &Value) -> Usage {
    Usage {
        input: json_util::count(line, "/prompt_eval_count"),
        output: json_util::count(line, "/eval_count"),
        cached: json_util::count(line, "/prompt_eval_cached_count"),
        ..Usage::default()
    }
}
