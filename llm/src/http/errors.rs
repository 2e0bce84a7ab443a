//! Errors of the HTTP transport. Also makes error messages from providers safe to display.

use std::{error::Error as _, time::Duration};

use reqwest::header::HeaderMap;
use secrecy::{ExposeSecret, SecretString};

use crate::{ErrorKind, Phase, codec::CallError, excerpt};

/// Maximum number of characters to keep of a provider's message.
const MAX_CHARS: usize = 1000;

/// Removes control characters and secrets from a text and limits its length.
pub(super) fn sanitize(text: String, secrets: &[SecretString]) -> String {
    // Secrets are redacted before the text is truncated; otherwise part of a secret could remain.
    excerpt::printable(&without_secrets(text, secrets), MAX_CHARS)
}

/// Redacts secrets, because some providers quote the whole request in their error messages.
fn without_secrets(text: String, secrets: &[SecretString]) -> String {
    secrets.iter().map(|it| it.expose_secret()).fold(text, |text, secret| {
        if text.contains(secret) { text.replace(secret, "[key]") } else { text }
    })
}

/// Returns the error for a phase that timed out.
pub(super) fn timed_out(phase: Phase, limit: Duration) -> CallError {
    let message = format!("no data within {limit:?}");
    let message =
        if phase == Phase::Total { format!("not complete within {limit:?}") } else { message };
    CallError::new(ErrorKind::Timeout(phase), message)
}

/// Returns the error for a request that could not be sent or got no response.
pub(super) fn connect_failed(error: &reqwest::Error, host: &str) -> CallError {
    let kind = if error.is_connect() { ErrorKind::Unreachable } else { ErrorKind::Network };
    let mut cause = root_cause(error);
    // The TLS library receives a response in plain HTTP and reports an unknown type of message.
    if cause.contains("InvalidContentType") {
        cause += "; the server does not use TLS: write http:// instead of https:// in the base URL";
    }
    CallError::new(kind, format!("{host}: {cause}"))
}

/// Returns the error for a connection that broke during the response.
pub(super) fn connection_lost(error: &reqwest::Error, n_bytes: usize) -> CallError {
    let message = format!("the connection broke after {n_bytes} bytes: {}", root_cause(error));
    CallError::new(ErrorKind::Truncated, message)
}

/// Returns the error for a redirect. Redirects are not followed, because the API key and the prompt would be sent to
/// the target.
pub(super) fn redirected(headers: &HeaderMap) -> CallError {
    let location =
        headers.get("location").and_then(|it| it.to_str().ok()).unwrap_or("an unknown URL");
    let location = location.split(['?', '#']).next().unwrap_or_default();
    let message = format!(
        "the server redirects to {location}; the redirect is not followed because it would send the API key there; \
         if that is the right server, make it the base URL"
    );
    CallError::new(ErrorKind::NotFound, message)
}

/// Returns the innermost cause of an error. The outer errors only add the URL, whose query may contain secrets.
fn root_cause(error: &reqwest::Error) -> String {
    let mut cause = error.source();
    while let Some(inner) = cause.and_then(|it| it.source()) {
        cause = Some(inner);
    }
    cause.map_or_else(|| "the request cannot be sent".to_owned(), ToString::to_string)
}
