//! The words of errors: what went wrong on the way, and what a provider said, fit to be shown.

use std::{error::Error as _, time::Duration};

use reqwest::header::HeaderMap;
use secrecy::{ExposeSecret, SecretString};

use crate::{ErrorKind, Phase, codec::Fault};

/// So many characters of a provider's words are kept.
const MAX_CHARS: usize = 1000;

/// A text without control characters and secrets, of bounded length.
pub(super) fn clean(text: String, secrets: &[SecretString]) -> String {
    // Before anything is cut off: half a key is too much already.
    let text = without_secrets(text, secrets);
    let mut chars = text.chars().map(|it| if it.is_control() { ' ' } else { it });
    let mut clean: String = chars.by_ref().take(MAX_CHARS).collect();
    if chars.next().is_some() {
        clean.push('…');
    }
    clean
}

/// Providers quote what they were sent, and some quote all of it.
fn without_secrets(text: String, secrets: &[SecretString]) -> String {
    secrets.iter().map(|it| it.expose_secret()).fold(text, |text, secret| {
        if text.contains(secret) { text.replace(secret, "[key]") } else { text }
    })
}

/// The time of a phase ran out.
pub(super) fn late(phase: Phase, limit: Duration) -> Fault {
    let message = format!("nothing came within {limit:?}");
    let message =
        if phase == Phase::Whole { format!("not done within {limit:?}") } else { message };
    Fault::new(ErrorKind::Timeout(phase), message)
}

/// The request did not get there, or no answer came back.
pub(super) fn unreachable(error: &reqwest::Error, host: &str) -> Fault {
    let kind = if error.is_connect() { ErrorKind::Unreachable } else { ErrorKind::Network };
    Fault::new(kind, format!("{host}: {}", cause(error)))
}

/// The connection broke in the middle of an answer.
pub(super) fn broken(error: &reqwest::Error, n_bytes: usize) -> Fault {
    let message = format!("the connection broke after {n_bytes} bytes: {}", cause(error));
    Fault::new(ErrorKind::Cut, message)
}

/// A redirect is not followed: the key and the prompt would go wherever it points.
pub(super) fn redirected(headers: &HeaderMap) -> Fault {
    let location = headers.get("location").and_then(|it| it.to_str().ok()).unwrap_or("nowhere");
    let location = location.split(['?', '#']).next().unwrap_or_default();
    let message = format!(
        "the address redirects to {location}, which is not followed because the key would go along; \
         if that is the right place, make it the base URL"
    );
    Fault::new(ErrorKind::NotFound, message)
}

/// The innermost cause. The outer layers name the address with its query, and say nothing else.
fn cause(error: &reqwest::Error) -> String {
    let mut cause = error.source();
    while let Some(inner) = cause.and_then(|it| it.source()) {
        cause = Some(inner);
    }
    cause.map_or_else(|| "it cannot be sent".to_owned(), ToString::to_string)
}
