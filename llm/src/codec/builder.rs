//! Assembles responses from their parts.
//!
//! All codecs use this builder for both plain and streamed responses, so both give the same result, and failures are
//! detected in one place.

use serde_json::Value;

use super::{call_error::CallError, json_util, wire::DecodedResponse};
use crate::{ErrorKind, Finish, Listener, Money, Part, Piece, TokenLogprob, Usage, message};

/// Prefix of the ids that this crate generates for tool calls without an id.
const GENERATED_ID_PREFIX: &str = "nameless-";

/// Returns whether this crate generated the id of a tool call. Such ids are not sent to the provider.
pub(super) fn is_generated_id(id: &str) -> bool {
    id.starts_with(GENERATED_ID_PREFIX)
}

/// A response under construction.
#[derive(Debug, Default)]
pub(super) struct ResponseBuilder {
    content: Vec<Part>,
    pub(super) model: Option<String>,
    /// Why the response ended. `None` until the response is complete.
    pub(super) finish: Option<Finish>,
    pub(super) usage: Usage,
    pub(super) cost: Option<Money>,
    logprobs: Vec<TokenLogprob>,
    /// Text of a refusal by the model or the provider.
    refusal: Option<String>,
}

impl ResponseBuilder {
    /// Sets the name of the model if the provider states it.
    pub(super) fn set_model(&mut self, model: &Value) {
        if let Some(model) = model.as_str().filter(|it| !it.is_empty()) {
            self.model = Some(model.to_owned());
        }
    }

    /// Appends text to the response and sends it to the listener.
    pub(super) fn text(&mut self, more: &str, listener: &mut Listener<'_>) {
        if more.is_empty() {
            return;
        }
        match self.content.last_mut() {
            Some(Part::Text { text }) => text.push_str(more),
            _ => self.content.push(Part::text(more)),
        }
        listener.send(Piece::Text(more.to_owned()));
    }

    /// Appends reasoning to the response and sends it to the listener.
    pub(super) fn reasoning(&mut self, more: &str, listener: &mut Listener<'_>) {
        if more.is_empty() {
            return;
        }
        match self.content.last_mut() {
            Some(Part::Reasoning { text, opaque: None }) => text.push_str(more),
            _ => self.content.push(Part::Reasoning { text: more.to_owned(), opaque: None }),
        }
        listener.send(Piece::Reasoning(more.to_owned()));
    }

    /// Adds the log probability of a token, in the form that OpenAI, Ollama and compatible servers use.
    pub(super) fn logprob(&mut self, token: &Value) {
        let pair = |it: &Value| Some((it["token"].as_str()?.to_owned(), it["logprob"].as_f64()?));
        let alternatives = json_util::list(token, "top_logprobs").iter().filter_map(pair).collect();
        if let Some((token, logprob)) = pair(token) {
            self.logprobs.push(TokenLogprob { token, logprob, alternatives });
        }
    }

    /// Attaches opaque provider data to the last reasoning part.
    pub(super) fn attach_opaque(&mut self, opaque: Value) {
        match self.content.last_mut() {
            Some(Part::Reasoning { opaque: slot @ None, .. }) => *slot = Some(opaque),
            _ => self.push_opaque(opaque),
        }
    }

    /// Attaches opaque provider data to the first reasoning part. The data belongs to the whole reasoning.
    pub(super) fn attach_opaque_to_first(&mut self, opaque: Value) {
        let first = self.content.iter_mut().find_map(|it| match it {
            Part::Reasoning { opaque, .. } => Some(opaque),
            _ => None,
        });
        match first {
            Some(slot) => *slot = Some(opaque),
            None => self
                .content
                .insert(0, Part::Reasoning { text: String::new(), opaque: Some(opaque) }),
        }
    }

    /// Adds a reasoning part without visible text.
    pub(super) fn push_opaque(&mut self, opaque: Value) {
        self.content.push(Part::Reasoning { text: String::new(), opaque: Some(opaque) });
    }

    /// Adds a tool call whose arguments are JSON. An empty id is replaced with a generated one, because the result of a
    /// tool call refers to the call by its id.
    pub(super) fn tool_call(
        &mut self,
        id: &str,
        name: &str,
        arguments: &Value,
        opaque: Option<Value>,
        listener: &mut Listener<'_>,
    ) {
        let id = if id.is_empty() { self.generated_id() } else { id.to_owned() };
        self.push_call(Part::tool_call(id, name.to_owned(), arguments, opaque), listener);
    }

    /// Adds a tool call whose arguments are JSON text. If the text cannot be parsed, adds an invalid call instead.
    /// Invalid calls always have an id, because the caller answers them with an error.
    pub(super) fn tool_call_from_text(
        &mut self,
        id: &str,
        name: &str,
        arguments: &str,
        listener: &mut Listener<'_>,
    ) {
        let mut call = Part::tool_call(id.to_owned(), name.to_owned(), &arguments.into(), None);
        if let Part::InvalidToolCall(invalid) = &mut call
            && invalid.id.is_empty()
        {
            invalid.id = self.generated_id();
        }
        self.push_call(call, listener);
    }

    fn push_call(&mut self, call: Part, listener: &mut Listener<'_>) {
        listener.send_parts(std::slice::from_ref(&call));
        self.content.push(call);
    }

    fn generated_id(&self) -> String {
        let n_calls = self.content.iter().filter(|it| is_call(it)).count();
        format!("{GENERATED_ID_PREFIX}{n_calls}")
    }

    /// Appends to the text of a refusal. Marks the response as refused even if the text is empty.
    pub(super) fn refuse(&mut self, text: &str) {
        self.refusal.get_or_insert_default().push_str(text);
    }

    /// Returns the response, or the reason why it is unusable.
    pub(super) fn finish(self) -> Result<DecodedResponse, CallError> {
        let unusable =
            |kind, message: String| Err(CallError::new(kind, message).or_usage(self.usage));
        if let Some(refusal) = &self.refusal {
            let text = message::text(&self.content);
            let reason = match &self.finish {
                Some(Finish::Other(reason)) => reason,
                _ => "no reason given",
            };
            let refusal = [refusal, text.as_str()].into_iter().find(|it| !it.is_empty());
            return unusable(ErrorKind::Refused, json_util::capped(refusal.unwrap_or(reason)));
        }
        let has_only_reasoning = self.has_only_reasoning();
        let Some(finish) = self.finish else {
            return Err(CallError::new(ErrorKind::Truncated, "the response has no finish reason"));
        };
        if finish == Finish::Length && has_only_reasoning {
            let message =
                "no tokens were left for an answer; raise `max_tokens` or lower the effort";
            return unusable(ErrorKind::ReasoningOnly, message.to_owned());
        }
        let has_calls = self.content.iter().any(is_call);
        // Some providers report `stop` as the finish reason of responses with tool calls.
        let finish = if has_calls && finish == Finish::Stop { Finish::ToolCalls } else { finish };
        let Self { content, model, usage, cost, logprobs, .. } = self;
        // Every request and every non-empty response has tokens, so a count of zero means that the server does not
        // report counts.
        let is_counted = usage.input > 0 && (usage.output > 0 || content.is_empty());
        let usage = is_counted.then_some(usage);
        Ok(DecodedResponse { content, model, finish, usage, cost, logprobs })
    }

    fn has_only_reasoning(&self) -> bool {
        let is_thought = |it: &Part| matches!(it, Part::Reasoning { .. });
        let has_thought = self.usage.reasoning > 0 || !self.content.is_empty();
        has_thought && self.content.iter().all(is_thought)
    }
}

fn is_call(part: &Part) -> bool {
    matches!(part, Part::ToolCall(_) | Part::InvalidToolCall(_))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn builder(finish: Option<Finish>) -> ResponseBuilder {
        ResponseBuilder { finish, ..ResponseBuilder::default() }
    }

    #[test]
    fn refusal_is_an_error_with_its_text() {
        let mut refused = builder(Some(Finish::Stop));
        refused.text("I would rather", &mut Listener::null());
        refused.refuse("");
        assert_eq!(
            refused.finish().unwrap_err(),
            CallError::new(ErrorKind::Refused, "I would rather")
        );
        let mut refused = builder(Some(Finish::Stop));
        refused.refuse("not ");
        refused.refuse("this");
        assert_eq!(refused.finish().unwrap_err(), CallError::new(ErrorKind::Refused, "not this"));
    }

    #[test]
    fn reasoning_without_an_answer_is_an_error() {
        let mut thought = builder(Some(Finish::Length));
        thought.reasoning("hm", &mut Listener::null());
        assert_eq!(thought.finish().unwrap_err().kind, ErrorKind::ReasoningOnly);
        let mut counted = builder(Some(Finish::Length));
        counted.usage.reasoning = 9;
        counted.usage.input = 3;
        let error = counted.finish().unwrap_err();
        assert_eq!(error.kind, ErrorKind::ReasoningOnly);
        // The tokens are billed.
        assert_eq!(error.usage.map(|it| (it.input, it.reasoning)), Some((3, 9)));
        assert_eq!(builder(Some(Finish::Length)).finish().unwrap().finish, Finish::Length);
        let mut said = builder(Some(Finish::Length));
        said.reasoning("hm", &mut Listener::null());
        said.text("well", &mut Listener::null());
        assert_eq!(said.finish().unwrap().finish, Finish::Length);
    }

    #[test]
    fn invalid_calls_are_kept_with_unique_ids() {
        let ids = |finish| {
            let mut builder = builder(Some(finish));
            builder.tool_call_from_text("", "add", "{\"a\":", &mut Listener::null());
            builder.tool_call("", "add", &Value::from(3), None, &mut Listener::null());
            let answer = builder.finish().unwrap();
            let ids = answer.content.into_iter().map(|it| match it {
                Part::InvalidToolCall(call) => call.id,
                other => panic!("{other:?}"),
            });
            (ids.collect::<Vec<_>>(), answer.finish)
        };
        let expected = ["nameless-0", "nameless-1"].map(str::to_owned).to_vec();
        assert_eq!(ids(Finish::Stop), (expected.clone(), Finish::ToolCalls));
        // Arguments that were truncated at the token limit are also invalid.
        assert_eq!(ids(Finish::Length), (expected, Finish::Length));
    }

    #[test]
    fn missing_token_counts_are_not_zero() {
        let usage = |input, output| {
            let mut builder = builder(Some(Finish::Stop));
            builder.text("hm", &mut Listener::null());
            builder.usage = Usage { input, output, ..Usage::default() };
            builder.finish().unwrap().usage.map(|it| (it.input, it.output))
        };
        assert_eq!(usage(3, 2), Some((3, 2)));
        assert_eq!(usage(3, 0), None);
        assert_eq!(usage(0, 2), None);
        let mut silent = builder(Some(Finish::Stop));
        silent.usage.input = 3;
        assert!(silent.finish().unwrap().usage.is_some());
    }

    #[test]
    fn tool_calls_determine_the_finish_reason() {
        let mut called = builder(Some(Finish::Stop));
        called.tool_call_from_text("1", "add", "", &mut Listener::null());
        assert_eq!(called.finish().unwrap().finish, Finish::ToolCalls);
    }
}
