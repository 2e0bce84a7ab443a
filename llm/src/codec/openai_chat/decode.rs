//! Decodes responses.

use serde_json::{Value, json};

use super::super::{
    builder::ResponseBuilder,
    call_error::CallError,
    json_util, provider_error,
    wire::{DecodedResponse, StreamDecoder},
};
use crate::{ErrorKind, Finish, Listener, Money, Usage, tool_call::parse_arguments};

/// Decodes a response that is not streamed.
pub(crate) fn body(body: &Value) -> Result<DecodedResponse, CallError> {
    let mut chunks = ChunkDecoder::default();
    let listener = &mut Listener::null();
    chunks.chunk(body, "message", listener)?;
    if body["choices"][0]["message"].is_null() {
        return Err(json_util::lacks(body, "`message`"));
    }
    chunks.end_calls(listener);
    // A body that is valid JSON is complete, even if the server sends no finish reason.
    chunks.builder.finish.get_or_insert(Finish::Stop);
    chunks.builder.finish()
}

/// Assembles a response from its chunks.
#[derive(Debug, Default)]
pub(crate) struct ChunkDecoder {
    builder: ResponseBuilder,
    /// Tool calls so far. The text of their arguments arrives in pieces.
    calls: Vec<Call>,
    /// Opaque reasoning data from a router, which is a service such as OpenRouter that forwards requests to other
    /// providers.
    details: Vec<Value>,
    /// Whether a finish reason has arrived and no content has followed it.
    has_finish_reason: bool,
    is_done: bool,
}

#[derive(Debug, Default)]
struct Call {
    index: u64,
    id: String,
    name: String,
    arguments: String,
}

impl Call {
    /// Returns whether a piece with this id can belong to this call. The id is empty if the piece has none.
    ///
    /// Some servers send the same index, or no index, for all calls, so that only the ids distinguish them. Other
    /// servers generate a new id for every piece, so a new id starts another call only if the arguments of this call
    /// are complete.
    fn accepts_piece(&self, id: &str) -> bool {
        let is_same = id.is_empty() || self.id.is_empty() || self.id == id;
        is_same || parse_arguments(&self.arguments).is_err()
    }
}

impl StreamDecoder for ChunkDecoder {
    fn event(&mut self, data: &str, listener: &mut Listener<'_>) -> Result<(), CallError> {
        if data.trim() == "[DONE]" {
            self.is_done = true;
            return Ok(());
        }
        self.chunk(&json_util::parse(data.as_bytes())?, "delta", listener)
    }

    fn is_done(&self) -> bool {
        self.is_done
    }

    fn has_finish_reason(&self) -> bool {
        self.has_finish_reason
    }

    fn usage(&self) -> Usage {
        self.builder.usage
    }

    /// Some servers do not send `[DONE]`.
    fn finish(self: Box<Self>) -> Result<DecodedResponse, CallError> {
        if !self.is_done && !self.has_finish_reason {
            let message = "the stream ended before the finish reason";
            return Err(CallError::new(ErrorKind::Truncated, message));
        }
        self.builder.finish()
    }
}

impl ChunkDecoder {
    fn chunk(
        &mut self,
        chunk: &Value,
        message: &str,
        listener: &mut Listener<'_>,
    ) -> Result<(), CallError> {
        if !chunk["error"].is_null() {
            return Err(provider_error::from_body(chunk));
        }
        self.builder.set_model(&chunk["model"]);
        self.usage(&chunk["x_groq"]["usage"]);
        self.usage(&chunk["usage"]);
        // Requests ask for one choice. If the response has more, the one with index 0 is used.
        let Some(choice) =
            json_util::list(chunk, "choices").iter().find(|it| json_util::count(it, "/index") == 0)
        else {
            return Ok(());
        };
        if !choice["error"].is_null() || choice["finish_reason"] == "error" {
            return Err(provider_error::from_body(choice));
        }
        self.has_finish_reason &= !has_content(&choice[message]);
        self.message(&choice[message], listener);
        for token in json_util::list(&choice["logprobs"], "content") {
            self.builder.logprob(token);
        }
        // Some servers send an empty reason in each chunk before the last one.
        if let Some(reason) = choice["finish_reason"].as_str().filter(|it| !it.is_empty()) {
            // For a truncated tool call, OpenRouter reports `tool_calls`, although the upstream provider reports that
            // the token limit was reached.
            let native = json_util::text(choice, "native_finish_reason");
            let is_cut =
                matches!(native, "length" | "max_output_tokens" | "max_tokens" | "MAX_TOKENS");
            self.finish_reason(if is_cut { "length" } else { reason }, listener);
        }
        Ok(())
    }

    fn message(&mut self, message: &Value, listener: &mut Listener<'_>) {
        // Servers use one of two names for this field, and some servers send both, so only one of them is read.
        let thoughts = ["reasoning", "reasoning_content"].map(|it| json_util::text(message, it));
        if let Some(thought) = thoughts.into_iter().find(|it| !it.is_empty()) {
            self.builder.reasoning(thought, listener);
        }
        for detail in json_util::list(message, "reasoning_details") {
            self.detail(detail);
        }
        self.builder.text(json_util::text(message, "content"), listener);
        for part in json_util::list(message, "content") {
            self.builder.text(json_util::text(part, "text"), listener);
        }
        let refusal = json_util::text(message, "refusal");
        if !refusal.is_empty() {
            self.builder.refuse(refusal);
        }
        for (place, piece) in json_util::list(message, "tool_calls").iter().enumerate() {
            let index = piece["index"].as_u64().unwrap_or(place as u64);
            self.call(index, json_util::text(piece, "id"), &piece["function"]);
        }
    }

    /// Adds a piece of a tool call. Some servers repeat the id and the name in every piece.
    fn call(&mut self, index: u64, id: &str, function: &Value) {
        let is_of = |it: &&mut Call| it.index == index && it.accepts_piece(id);
        let call = match self.calls.iter_mut().rfind(is_of) {
            Some(call) => call,
            None => self.calls.push_mut(Call { index, ..Call::default() }),
        };
        if call.id.is_empty() {
            call.id.push_str(id);
        }
        let name = json_util::text(function, "name");
        if call.name != name {
            call.name.push_str(name);
        }
        match &function["arguments"] {
            Value::Null => {}
            Value::String(text) => call.arguments.push_str(text),
            // Some servers send the arguments as JSON instead of JSON text.
            json => call.arguments.push_str(&json.to_string()),
        }
    }

    /// Adds a piece of opaque reasoning data. The texts of pieces with the same index and type are concatenated.
    fn detail(&mut self, piece: &Value) {
        let same = |it: &&mut Value| it["index"] == piece["index"] && it["type"] == piece["type"];
        let known =
            if piece["index"].is_null() { None } else { self.details.iter_mut().find(same) };
        let Some(known) = known else {
            self.details.push(piece.clone());
            return;
        };
        for (name, more) in piece.as_object().into_iter().flatten() {
            match (name.as_str(), known[name].as_str(), more.as_str()) {
                ("text" | "summary" | "data" | "signature", Some(text), Some(more)) => {
                    known[name] = format!("{text}{more}").into();
                }
                _ if !more.is_null() => known[name] = more.clone(),
                _ => {}
            }
        }
    }

    fn finish_reason(&mut self, reason: &str, listener: &mut Listener<'_>) {
        self.end_calls(listener);
        self.has_finish_reason = true;
        self.builder.finish = Some(match reason {
            "stop" => Finish::Stop,
            "length" => Finish::Length,
            "tool_calls" | "function_call" => Finish::ToolCalls,
            other => Finish::Other(other.to_owned()),
        });
        if reason == "content_filter" {
            self.builder.refuse("");
        }
    }

    /// Passes all tool calls to the builder. This happens at the end of the response, because the arguments may be
    /// incomplete before that.
    fn end_calls(&mut self, listener: &mut Listener<'_>) {
        let details = std::mem::take(&mut self.details);
        if !details.is_empty() {
            self.builder.attach_opaque_to_first(json!({ "reasoning_details": details }));
        }
        let mut calls = std::mem::take(&mut self.calls);
        calls.sort_by_key(|it| it.index);
        for Call { id, name, arguments, .. } in calls {
            self.builder.tool_call_from_text(&id, &name, &arguments, listener);
        }
    }

    /// Sets the usage. If the server sends it several times, the last one covers the whole response.
    fn usage(&mut self, usage: &Value) {
        if !usage.is_object() {
            return;
        }
        self.builder.usage = Usage {
            input: json_util::count(usage, "/prompt_tokens"),
            output: json_util::count(usage, "/completion_tokens"),
            cached: json_util::count(usage, "/prompt_tokens_details/cached_tokens"),
            cache_written: json_util::count(usage, "/prompt_tokens_details/cache_write_tokens"),
            reasoning: json_util::count(usage, "/completion_tokens_details/reasoning_tokens"),
        };
        self.builder.cost = usage["cost"].as_f64().map(Money::from_dollars);
    }
}

/// Returns whether a message, or a piece of one, adds something to the response.
fn has_content(message: &Value) -> bool {
    let is_empty = |it: &Value| match it {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    };
    let fields = ["content", "reasoning", "reasoning_content", "refusal", "tool_calls"];
    fields.iter().any(|it| !is_empty(&message[*it]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Part, Piece};

    /// Checks which tool calls are assembled from a stream of these pieces. The calls are shown as `id name arguments`.
    #[track_caller]
    fn check(pieces: &[Value], expect: &[&str]) {
        let mut sent = Vec::new();
        let mut on_piece = |piece| sent.push(piece);
        let mut chunks = Box::new(ChunkDecoder::default());
        for piece in pieces {
            let chunk = json!({ "choices": [{ "delta": { "tool_calls": [piece] } }] });
            chunks.chunk(&chunk, "delta", &mut Listener::new(&mut on_piece)).unwrap();
        }
        chunks.finish_reason("tool_calls", &mut Listener::new(&mut on_piece));
        chunks.is_done = true;
        let answer = chunks.finish().unwrap();
        let calls = answer.content.iter().map(|it| match it {
            Part::ToolCall(call) => call,
            other => panic!("{other:?}"),
        });
        let shown: Vec<_> =
            calls.clone().map(|it| format!("{} {} {}", it.id, it.name, it.arguments)).collect();
        assert_eq!(shown, expect);
        assert_eq!(sent, calls.cloned().map(Piece::ToolCall).collect::<Vec<_>>());
    }

    fn piece(index: Option<u64>, id: &str, name: &str, arguments: &str) -> Value {
        let function = json!({ "name": name, "arguments": arguments });
        let mut piece = json!({ "function": function });
        if let Some(index) = index {
            piece["index"] = index.into();
        }
        if !id.is_empty() {
            piece["id"] = id.into();
        }
        piece
    }

    #[test]
    fn duplicate_reasoning_fields_are_merged() {
        let delta = json!({ "reasoning": "hm", "reasoning_content": "hm" });
        let mut chunks = ChunkDecoder::default();
        chunks.message(&delta, &mut Listener::null());
        chunks.builder.text("yes", &mut Listener::null());
        chunks.builder.finish = Some(Finish::Stop);
        let thought = Part::Reasoning { text: "hm".to_owned(), opaque: None };
        assert_eq!(chunks.builder.finish().unwrap().content, [thought, Part::text("yes")]);
    }

    #[test]
    fn tool_calls_are_matched_by_index() {
        let pieces = [
            piece(Some(1), "b", "g", "{\"y\":"),
            piece(Some(0), "a", "f", "{"),
            piece(Some(1), "", "", "2}"),
            piece(Some(0), "", "", "}"),
        ];
        check(&pieces, &["a f {}", "b g {\"y\":2}"]);
    }

    #[test]
    fn tool_calls_are_matched_by_id_if_indices_are_equal() {
        for index in [None, Some(0)] {
            let pieces = [
                piece(index, "a", "f", "{\"x\":"),
                piece(index, "", "", "1}"),
                piece(index, "b", "g", ""),
                piece(index, "c", "f", "{}"),
            ];
            check(&pieces, &["a f {\"x\":1}", "b g {}", "c f {}"]);
        }
    }

    #[test]
    fn repeated_ids_and_names_belong_to_one_call() {
        let pieces = [
            piece(Some(0), "a", "f", "{\"x\":"),
            piece(Some(0), "a", "f", "1"),
            piece(Some(0), "a", "f", "}"),
        ];
        check(&pieces, &["a f {\"x\":1}"]);
        let new_ids = [
            piece(Some(0), "a", "f", "{\"x\":"),
            piece(Some(0), "b", "f", "1"),
            piece(Some(0), "c", "f", "}"),
        ];
        check(&new_ids, &["a f {\"x\":1}"]);
    }
}
