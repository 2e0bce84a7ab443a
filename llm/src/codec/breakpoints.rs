//! Breakpoints of Anthropic's prompt cache: which of the wanted ones are sent, there and through a router.

use crate::{Message, Request};

/// How many breakpoints a request may have; one with more is refused.
const MAX_BREAKPOINTS: usize = 4;

/// The messages, and whether each has a breakpoint: of too many the last ones serve the most.
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
