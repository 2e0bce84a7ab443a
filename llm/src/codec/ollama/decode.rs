//! Decodes responses. The lines of a stream have the same form as whole responses.

use serde_json::Value;

use super::super::{
    builder::ResponseBuilder,
    call_error::CallError,
    json_util, provider_error,
    wire::{DecodedResponse, StreamDecoder},
};
use crate::{ErrorKind, Finish, Listener, Usage};

/// Decodes a response that is not streamed.
pub(crate) fn body(body: &Value) -> Result<DecodedResponse, CallError> {
    let mut lines = LineDecoder::default();
    lines.line(body, &mut Listener::null())?;
    if !body["message"].is_object() {
        return Err(json_util::lacks(body, "`message`"));
    }
    lines.builder.finish()
}

/// Assembles a response from its lines.
#[derive(Debug, Default)]
pub(crate) struct LineDecoder {
    builder: ResponseBuilder,
}

impl StreamDecoder for LineDecoder {
    fn event(&mut self, data: &str, listener: &mut Listener<'_>) -> Result<(), CallError> {
        self.line(&json_util::parse(data.as_bytes())?, listener)
    }

    fn is_done(&self) -> bool {
        self.has_finish_reason()
    }

    fn has_finish_reason(&self) -> bool {
        self.builder.finish.is_some()
    }

    fn usage(&self) -> Usage {
        self.builder.usage
    }

    fn finish(self: Box<Self>) -> Result<DecodedResponse, CallError> {
        if !self.is_done() {
            return Err(CallError::new(
                ErrorKind::Truncated,
                "the stream ended before the line with `done`",
            ));
        }
        self.builder.finish()
    }
}

impl LineDecoder {
    fn line(&mut self, line: &Value, listener: &mut Listener<'_>) -> Result<(), CallError> {
        if !line["error"].is_null() {
            return Err(provider_error::from_body(line));
        }
        self.builder.set_model(&line["model"]);
        let message = &line["message"];
        self.builder.reasoning(json_util::text(message, "thinking"), listener);
        self.builder.text(json_util::text(message, "content"), listener);
        for call in json_util::list(message, "tool_calls") {
            let function = &call["function"];
            let (id, name) = (json_util::text(call, "id"), json_util::text(function, "name"));
            self.builder.tool_call(id, name, &function["arguments"], None, listener);
        }
        for token in json_util::list(line, "logprobs") {
            self.builder.logprob(token);
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
}

/// Converts the server's token counts. The input count includes cached tokens; older servers do not report the number
/// of cached tokens.
fn usage(line: &Value) -> Usage {
    Usage {
        input: json_util::count(line, "/prompt_eval_count"),
        output: json_util::count(line, "/eval_count"),
        cached: json_util::count(line, "/prompt_eval_cached_count"),
        ..Usage::default()
    }
}
