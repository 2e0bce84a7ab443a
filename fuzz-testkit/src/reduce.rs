//! Reduces an input that fails.

use std::panic;

/// Maximum number of attempts. It bounds the time, because each attempt runs the target.
const MAX_ATTEMPTS: usize = 2_000;

/// Removes pieces of an input that fails, the longest first. Keeps a removal only if the shorter input still fails.
pub(crate) fn reduce(mut input: Vec<u8>, fails: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    // Without an empty hook, each attempt that fails would print the message of its panic.
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let mut attempts = 0;
    let mut len = input.len().div_ceil(2);
    while len > 0 {
        let mut at = 0;
        let mut has_changed = false;
        while at < input.len() && attempts < MAX_ATTEMPTS {
            let mut shorter = input.clone();
            shorter.drain(at..(at + len).min(input.len()));
            attempts += 1;
            if fails(&shorter) {
                input = shorter;
                has_changed = true;
            } else {
                at += len;
            }
        }
        if !has_changed || attempts == MAX_ATTEMPTS {
            len /= 2;
        }
    }
    panic::set_hook(hook);
    input
}
