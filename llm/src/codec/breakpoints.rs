//! Breakpoints of Anthropic's prompt cache. They are used for Anthropic's own API and for OpenRouter.

use crate::{Message, Request};

/// Maximum number of breakpoints per request. The provider rejects requests with more.
const MAX_BREAKPOINTS: usize = 4;

/// Returns each message, and whether a breakpoint is set after it. If too many messages request a breakpoint,
/// breakpoints are set only after the last of them, because late breakpoints cover the longest prefixes.
pub(super) fn messages(request: &Request) -> impl Iterator<Item = (&Message, bool)> {
    let n_wanted = request.messages.iter().filter(|it| it.cache).count();
    let n_allowed = MAX_BREAKPOINTS - usize::from(request.cache_system);
    let mut n_left_out = n_wanted.saturating_sub(n_allowed);
    request.messages.iter().map(move |message| {
        let is_left_out = message.cache && n_left_out > 0;
        n_left_out -= usize::from(is_left_out);
        (message, message.cache && !is_left_out)
    })
}
