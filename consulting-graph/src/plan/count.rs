//! Counts the tokens of calls, and how many of these tokens a provider has cached.

use llm::{Message, ModelId, Part, Request, Usage};

use super::prompts::{CHARS_PER_TOKEN, Call};
use crate::config::Group;

/// Returns the token usage of each call of a conversation.
///
/// Providers cache prompts separately for each model and answer schema. The schema of a scoring call differs from that
/// of the turns before it, so it does not benefit from their cached prompts. `shortest` is the length in tokens of the
/// shortest prefix that is cached.
pub(super) fn usages<'a>(
    calls: &'a [Call],
    model: impl Fn(Group, &str) -> ModelId,
    shortest: u64,
) -> Vec<(&'a Call, Usage)> {
    let cache_key = |it: &Call| (model(it.group, &it.who), it.request.schema.clone());
    let usage = |(n, call): (usize, &'a Call)| {
        let before = calls[..n].iter().rfind(|it| cache_key(it) == cache_key(call));
        let cached = before.map_or(0, |it| cached_prefix(&it.request, &call.request));
        let cached = if cached < shortest { 0 } else { cached };
        let kept = cacheable_prefix(&call.request, call.request.messages.len());
        let cache_written = if kept < shortest { 0 } else { kept - cached };
        let (input, output) = (total_tokens(&call.request), call.output);
        (call, Usage { input, output, cached, cache_written, reasoning: 0 })
    };
    calls.iter().enumerate().map(usage).collect()
}

/// Returns the length in tokens of the prefix that the earlier request marked as cacheable and that the later request
/// repeats.
fn cached_prefix(earlier: &Request, later: &Request) -> u64 {
    if earlier.system != later.system {
        return 0;
    }
    let same = |(a, b): &(&Message, &Message)| a.role == b.role && a.parts == b.parts;
    cacheable_prefix(earlier, earlier.messages.iter().zip(&later.messages).take_while(same).count())
}

/// Returns the number of tokens up to and including the last cacheable message among the first `n` messages.
fn cacheable_prefix(request: &Request, n: usize) -> u64 {
    match request.messages[..n].iter().rposition(|it| it.cache) {
        Some(last) => tokens_up_to(request, last + 1),
        None => 0,
    }
}

fn total_tokens(request: &Request) -> u64 {
    let schema = request.schema.as_ref().map_or(0, |it| tokens(&it.schema.to_string()));
    tokens_up_to(request, request.messages.len()) + schema
}

fn tokens_up_to(request: &Request, n: usize) -> u64 {
    let system = request.system.as_deref().map_or(0, tokens);
    let parts = request.messages[..n].iter().flat_map(|it| &it.parts);
    let texts = parts.map(|it| match it {
        Part::Text { text } => tokens(text),
        _ => 0,
    });
    system + texts.sum::<u64>()
}

fn tokens(text: &str) -> u64 {
    (text.chars().count() as u64).div_ceil(CHARS_PER_TOKEN)
}
