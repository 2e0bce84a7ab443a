//! Reading answers.

use serde_json::Value;

use super::super::{Answer, Event, Fault, Reader, draft::Draft, fault, json as look};
use crate::{ErrorKind, Finish, Listener, Piece, Usage};

/// Reads a whole answer.
pub(super) fn whole(response: &Value) -> Result<Answer, Fault> {
    if !response["error"].is_null() {
        return Err(fault::from_answer(response));
    }
    if !response["output"].is_array() {
        let words = look::capped(&response.to_string());
        return Err(look::malformed(&format!("the answer has no output: {words}")));
    }
    let mut draft = Draft::default();
    draft.named(&response["model"]);
    for item in look::list(response, "output") {
        take_item(&mut draft, item, &mut Listener::deaf());
    }
    draft.usage = usage(&response["usage"]);
    draft.finish = finish(response, &mut draft);
    draft.finish()
}

/// Tells the pieces of an answer, and takes the whole of it from the event that ends it.
#[derive(Debug, Default)]
pub(super) struct Events {
    answer: Option<Result<Answer, Fault>>,
}

impl Reader for Events {
    fn event(&mut self, event: &Event, listener: &mut Listener<'_>) -> Result<(), Fault> {
        if event.data.trim() == "[DONE]" {
            return Ok(());
        }
        let event = look::parse(event.data.as_bytes())?;
        let delta = look::text(&event, "delta").to_owned();
        match look::text(&event, "type") {
            "response.output_text.delta" => listener.tell(Piece::Text(delta)),
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                listener.tell(Piece::Reasoning(delta));
            }
            "response.output_item.done" if event["item"]["type"] == "function_call" => {
                take_item(&mut Draft::default(), &event["item"], listener);
            }
            "response.completed" | "response.incomplete" | "response.failed" => {
                self.answer = Some(whole(&event["response"]));
            }
            "error" => return Err(fault::from_answer(&event)),
            // Beginnings and ends of parts, and what only this provider has.
            _ => {}
        }
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.answer.is_some()
    }

    fn finish(self: Box<Self>) -> Result<Answer, Fault> {
        let cut = || Fault::new(ErrorKind::Cut, "the stream ended before `response.completed`");
        self.answer.ok_or_else(cut)?
    }
}

fn take_item(draft: &mut Draft, item: &Value, listener: &mut Listener<'_>) {
    match look::text(item, "type") {
        "message" => {
            for part in look::list(item, "content") {
                match look::text(part, "type") {
                    "refusal" => draft.refuse(look::text(part, "refusal")),
                    _ => draft.text(look::text(part, "text"), listener),
                }
            }
        }
        "function_call" => {
            let (id, name) = (look::text(item, "call_id"), look::text(item, "name"));
            draft.written_call(id, name, look::text(item, "arguments"), listener);
        }
        "reasoning" => {
            for part in look::list(item, "summary").iter().chain(look::list(item, "content")) {
                draft.reasoning(look::text(part, "text"), listener);
            }
            draft.seal(item.clone());
        }
        _ => {}
    }
}

fn finish(response: &Value, draft: &mut Draft) -> Option<Finish> {
    match (look::text(response, "status"), look::text(&response["incomplete_details"], "reason")) {
        ("completed", _) => Some(Finish::Stop),
        ("incomplete", "max_output_tokens") => Some(Finish::Length),
        ("incomplete", "content_filter") => {
            draft.refuse("");
            None
        }
        ("incomplete", other) => Some(Finish::Other(other.to_owned())),
        // Still at work, or given up.
        _ => None,
    }
}

fn usage(usage: &Value) -> Usage {
    Usage {
        input: look::count(usage, "/input_tokens"),
        output: look::count(usage, "/output_tokens"),
        cached: look::count(usage, "/input_tokens_details/cached_tokens"),
        cache_written: look::count(usage, "/input_tokens_details/cache_write_tokens"),
        reasoning: look::count(usage, "/output_tokens_details/reasoning_tokens"),
    }
}
