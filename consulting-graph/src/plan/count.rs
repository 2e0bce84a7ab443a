//! How many tokens calls read, and how many of these a provider has kept.

use llm::{Message, ModelId, Part, Request, Usage};

use super::prompts::Call;
use crate::config::Group;

/// Letters a token, as English prose has them. Estimates that must not be too low count fewer; a plan is to be right.
pub(super) const LETTERS: u64 = 4;

/// What each call of a thread reads and writes.
///
/// Providers keep a prompt as the model reads it, for one model and one form of answers: whoever asks for other JSON
/// than before, as scoring does, reads everything anew.
pub(super) fn usages<'a>(
    calls: &'a [Call],
    model: impl Fn(Group, &str) -> ModelId,
    shortest: u64,
) -> Vec<(&'a Call, Usage)> {
    let voice = |it: &Call| (model(it.group, &it.who), it.request.schema.clone());
    let usage = |(n, call): (usize, &'a Call)| {
        let before = calls[..n].iter().rfind(|it| voice(it) == voice(call));
        let cached = before.map_or(0, |it| common(&it.request, &call.request));
        let cached = if cached < shortest { 0 } else { cached };
        let kept = kept(&call.request, call.request.messages.len());
        let cache_written = if kept < shortest { 0 } else { kept - cached };
        let (input, output) = (whole(&call.request), call.output);
        (call, Usage { input, output, cached, cache_written, reasoning: 0 })
    };
    calls.iter().enumerate().map(usage).collect()
}

/// What a request begins with that an earlier one asked to keep.
fn common(earlier: &Request, later: &Request) -> u64 {
    if earlier.system != later.system {
        return 0;
    }
    let same = |(a, b): &(&Message, &Message)| a.role == b.role && a.parts == b.parts;
    kept(earlier, earlier.messages.iter().zip(&later.messages).take_while(same).count())
}

/// The tokens up to the last of the first `n` messages that is worth keeping.
fn kept(request: &Request, n: usize) -> u64 {
    match request.messages[..n].iter().rposition(|it| it.cache) {
        Some(last) => up_to(request, last + 1),
        None => 0,
    }
}

fn whole(request: &Request) -> u64 {
    let schema = request.schema.as_ref().map_or(0, |it| tokens(&it.schema.to_string()));
    up_to(request, request.messages.len()) + schema
}

fn up_to(request: &Request, n: usize) -> u64 {
    let system = request.system.as_deref().map_or(0, tokens);
    let parts = request.messages[..n].iter().flat_map(|it| &it.parts);
    let texts = parts.map(|it| match it {
        Part::Text { text } => tokens(text),
        _ => 0,
    });
    system + texts.sum::<u64>()
}

fn tokens(text: &str) -> u64 {
    (text.chars().count() as u64).div_ceil(LETTERS)
}
