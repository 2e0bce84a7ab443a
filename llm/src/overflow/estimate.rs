//! How many tokens a request has, about, without the provider's tokenizer.

use serde_json::Value;

use crate::{Message, Part, Request};

/// Estimates a request's tokens at a provider, rather too high than too low.
///
/// Letters of ASCII count by a share that differs between providers, all others two tokens each; messages,
/// tools and schemas have a price of their own. Over 895 recorded requests to seven real providers it was too
/// low once, by four percent, and for half of them more than twice too high: most were short. English prose of
/// some length comes out a third to two thirds too high. What providers add unseen is not in it: instructions
/// for thinking (a fifth of a short request), files, prompts cached by name.
pub fn estimate_tokens(provider: &str, request: &Request) -> u64 {
    let rate = Rate::of(provider);
    let messages: f64 = request.messages.iter().map(|it| rate.message(it)).sum();
    let system = request.system.as_deref().map_or(0.0, |it| rate.text(it));
    let tools: f64 = request
        .tools
        .iter()
        .map(|it| rate.text(&it.name) + rate.text(&it.description) + rate.json(&it.parameters))
        .sum();
    let schema = request.schema.as_ref().map_or(0.0, |it| rate.json(&it.schema));
    let forms = if tools + schema > 0.0 { rate.forms } else { 0.0 };
    (Rate::REQUEST + system + messages + tools + schema + forms).ceil() as u64
}

/// Estimates the tokens of a text.
pub(crate) fn text_tokens(provider: &str, text: &str) -> u64 {
    Rate::of(provider).text(text).ceil() as u64
}

/// How a provider's tokenizer cuts.
struct Rate {
    /// Letters of ASCII a token.
    letters: f64,
    /// What it adds to requests with tools or a schema.
    forms: f64,
}

impl Rate {
    const REQUEST: f64 = 32.0;
    const MESSAGE: f64 = 8.0;
    const OTHER_LETTER: f64 = 2.0;

    fn of(provider: &str) -> Self {
        match provider {
            // The second passes on to the first, among others.
            "anthropic" | "openrouter" => Self { letters: 2.25, forms: 700.0 },
            _ => Self { letters: 3.0, forms: 100.0 },
        }
    }

    fn message(&self, message: &Message) -> f64 {
        let parts = message.parts.iter().map(|part| match part {
            Part::Text { text } | Part::Reasoning { text, .. } => self.text(text),
            Part::ToolCall(call) => self.text(&call.name) + self.json(&call.arguments),
            Part::ToolResult { content, .. } => self.text(content),
        });
        Self::MESSAGE + parts.sum::<f64>()
    }

    fn json(&self, value: &Value) -> f64 {
        self.text(&value.to_string())
    }

    fn text(&self, text: &str) -> f64 {
        let ascii = text.bytes().filter(u8::is_ascii).count();
        let others = text.chars().count() - ascii;
        ascii as f64 / self.letters + others as f64 * Self::OTHER_LETTER
    }
}
