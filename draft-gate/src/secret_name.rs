//! Detects secrets in paths and task ids, which appear in the log, in messages and in names of drafts.

use crate::{
    error::Error, password::is_strong_literal, random_text::is_generated, scan::contains_secret,
    secret_words::is_name_for_secret,
};

/// Characters that separate the words of a name.
const SEPARATORS: [char; 6] = ['_', '-', '.', '/', '=', ' '];

/// Minimum length of a part of a name that counts as a secret after a word such as `password`.
const MIN_NAMED: usize = 8;

/// Minimum length of a part of a name that counts as a secret by itself.
const MIN_UNNAMED: usize = 24;

/// Fails if a path or task id contains what looks like a secret. The error does not contain the name.
pub(crate) fn ensure_no_secret(name: &str, what: &'static str) -> Result<(), Error> {
    if name_contains_secret(name) { Err(Error::SecretInName { what }) } else { Ok(()) }
}

/// Returns whether a name contains what looks like a secret.
pub(crate) fn name_contains_secret(name: &str) -> bool {
    // Patterns start at the boundary of a word, but an underscore is a part of a word.
    let starts = name.match_indices(SEPARATORS).map(|(at, it)| at + it.len());
    let mut parts = std::iter::once(0).chain(starts).map(|it| &name[it..]);
    parts.any(contains_secret) || name.split('/').any(has_secret_part)
}

fn has_secret_part(component: &str) -> bool {
    let mut at = 0;
    component.split(SEPARATORS).any(|part| {
        let before = component[..at].trim_end_matches(SEPARATORS);
        at += part.len() + 1;
        let is_random = is_generated(part) || is_strong_literal(part);
        let is_hash =
            part.bytes().all(|it| it.is_ascii_hexdigit()) && [32, 40, 64].contains(&part.len());
        let is_named = part.len() >= MIN_NAMED && is_name_for_secret(before);
        is_random && (is_named || (part.len() >= MIN_UNNAMED && !is_hash))
    })
}
