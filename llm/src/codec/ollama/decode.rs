//! Reading answers: a streamed one comes in lines that have the form of whole ones.

use serde_json::{Value, json};

use super::super::{Answer, Event, Fault, Reader, draft::Draft, fault, json as look};
use crate::{ErrorKind, Finish, Listener, ToolCall, Usage};

/// Reads a whole answer.
pub(super) fn whole(body: &Value) -> Result<Answer, Fault> {
    let mut lines = Lines::default();
    lines.line(body, &mut Listener::deaf())?;
    if !body["message"].is_object() {
        let words = look::capped(&body.to_string());
        return Err(look::malformed(&format!("the answer has no message: {words}")));
    }
    lines.draft.finish()
}

/// Puts an answer together from its lines.
#[derive(Debug, Default)]
pub(super) struct Lines {
    draft: Draft,
}

impl Reader for Lines {
    fn event(&mut self, event: &Event, listener: &mut Listener<'_>) -> Result<(), Fault> {
        self.line(&look::parse(event.data.as_bytes())?, listener)
    }

    fn is_done(&self) -> bool {
        self.draft.finish.is_some()
    }

    fn finish(self: Box<Self>) -> Result<Answer, Fault> {
        if !self.is_done() {
            return Err(Fault::new(ErrorKind::Cut, "the stream ended before its line with `done`"));
        }
        self.draft.finish()
    }
}

impl Lines {
    fn line(&mut self, line: &Value, listener: &mut Listener<'_>) -> Result<(), Fault> {
        if !line["error"].is_null() {
            return Err(fault::from_answer(line));
        }
        self.draft.named(&line["model"]);
        let message = &line["message"];
        self.draft.reasoning(look::text(message, "thinking"), listener);
        self.draft.text(look::text(message, "content"), listener);
        for call in look::list(message, "tool_calls") {
            self.call(call, listener);
        }
        if line["done"] == true {
            self.draft.usage = usage(line);
            self.draft.finish = Some(match look::text(line, "done_reason") {
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
            id: id.unwrap_or_else(|| self.draft.nameless_id()),
            name: look::text(function, "name").to_owned(),
            arguments: if function["arguments"].is_object() {
                function["arguments"].clone()
            } else {
                json!({})
            },
            opaque: None,
        };
        self.draft.call(call, listener);
    }
}

/// What was read counts what comes from the cache; servers that do not count that do not tell of it either.
fn usage(line: &Value) -> Usage {
    Usage {
        input: look::count(line, "/prompt_eval_count"),
        output: look::count(line, "/eval_count"),
        cached: look::count(line, "/prompt_eval_cached_count"),
        ..Usage::default()
    }
}
