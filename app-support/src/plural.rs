//! Formats numbers with singular or plural nouns.

use std::fmt::Display;

/// Returns a number followed by the singular or plural form of a noun.
///
/// ```
/// use app_support::plural::counted;
///
/// assert_eq!(counted(1, "call", "calls"), "1 call");
/// assert_eq!(counted(0_usize, "call", "calls"), "0 calls");
/// ```
pub fn counted<N: Copy + Display + PartialEq + From<u8>>(
    number: N,
    one: &str,
    many: &str,
) -> String {
    let noun = if number == N::from(1) { one } else { many };
    format!("{number} {noun}")
}
