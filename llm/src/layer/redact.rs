//! Redaction: keeps API keys and other secrets out of recordings.

use std::fmt;

use serde_json::Value;

/// Replacement for a secret.
const PLACEHOLDER: &str = "[secret]";

/// Prefixes of providers' API keys, each with the minimum number of bytes that follow the prefix.
const KEY_PREFIXES: [(&str, usize); 3] = [("sk-", 16), ("AIza", 30), ("gsk_", 16)];

const BEARER: (&str, usize) = ("bearer ", 8);

/// Strings that have a meaning in the format of recordings: names of roles, parts, reasons and errors. They are never
/// redacted, because a recording must stay readable even if a secret occurs in one of them.
const FORMAT_NAMES: &str = "user assistant system text reasoning media tool_call invalid_tool_call tool_result image \
    document audio auto required none code_execution low medium high stop length tool_calls auth rate_limited overloaded \
    spent too_long refused not_found bad_request malformed cut exhausted too_large unreachable network connect \
    first_byte idle whole budget not_recorded file";

/// Redacts registered secrets and text that looks like an API key.
///
/// Redaction is idempotent. A request that quotes a response therefore has the same redacted form whether the response
/// was redacted or not, so a replay finds it.
#[derive(Clone, Default)]
pub(super) struct Redaction {
    /// Registered secrets, longest first, because a secret may contain a shorter one.
    secrets: Vec<String>,
}

impl Redaction {
    /// Registers a secret to redact.
    pub(super) fn add_secret(&mut self, secret: String) {
        if !secret.is_empty() {
            self.secrets.push(secret);
            self.secrets.sort_unstable_by_key(|it| std::cmp::Reverse(it.len()));
        }
    }

    /// Redacts all strings of a value, except for [`FORMAT_NAMES`].
    pub(super) fn apply(&self, value: &mut Value) {
        match value {
            Value::String(text) if FORMAT_NAMES.split(' ').any(|it| it == text.as_str()) => {}
            Value::String(text) => {
                if let Some(redacted) = self.redact(text) {
                    *text = redacted;
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|it| self.apply(it)),
            Value::Object(fields) => fields.values_mut().for_each(|it| self.apply(it)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Returns the redacted text; `None` if there is nothing to redact.
    pub(super) fn redact(&self, text: &str) -> Option<String> {
        if !self.may_contain_secrets(text) {
            return None;
        }
        let mut out = String::with_capacity(text.len());
        let (mut rest, mut before) = (text, None);
        while let Some(first) = rest.chars().next() {
            let (length, shown) = match self.secret_at_start(rest, before) {
                Some((kept, length)) => (length, Some(kept)),
                None if rest.starts_with(PLACEHOLDER) => (PLACEHOLDER.len(), None),
                None => (first.len_utf8(), None),
            };
            let (taken, after) = rest.split_at(length);
            match shown {
                Some(kept) => {
                    out.push_str(&taken[..kept]);
                    out.push_str(PLACEHOLDER);
                }
                None => out.push_str(taken),
            }
            before = taken.chars().next_back();
            rest = after;
        }
        Some(out)
    }

    /// Returns whether the text may contain secrets. If this returns false, the text contains none. The check is fast
    /// and rules out most texts.
    fn may_contain_secrets(&self, text: &str) -> bool {
        KEY_PREFIXES.iter().any(|(start, _)| text.contains(start))
            || text.contains("earer ")
            || text.contains("EARER ")
            || self.secrets.iter().any(|it| text.contains(it.as_str()))
    }

    /// If the text starts with a secret, returns the number of leading bytes to keep, such as those of `Bearer `, and
    /// the length of the secret.
    fn secret_at_start(&self, text: &str, before: Option<char>) -> Option<(usize, usize)> {
        if text.starts_with(PLACEHOLDER) {
            return None;
        }
        if let Some(secret) = self.secrets.iter().find(|it| text.starts_with(it.as_str())) {
            return Some((0, secret.len()));
        }
        // A key prefix inside a longer word, for example in base64 text, does not start an API key.
        if before.is_some_and(|it| it.is_alphanumeric() || matches!(it, '-' | '_' | '+' | '/')) {
            return None;
        }
        let key = KEY_PREFIXES.into_iter().find_map(|(start, least)| {
            let length = token_length(text.strip_prefix(start)?, |it| matches!(it, b'-' | b'_'));
            (length >= least).then_some((0, start.len() + length))
        });
        key.or_else(|| {
            let (start, least) = BEARER;
            let (word, token) = text.split_at_checked(start.len())?;
            let length = token_length(token, |it| b"-._~+/=".contains(&it));
            (word.eq_ignore_ascii_case(start) && length >= least)
                .then_some((start.len(), start.len() + length))
        })
    }
}

impl fmt::Debug for Redaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redaction").field("secrets", &self.secrets.len()).finish()
    }
}

/// Returns the number of leading bytes that are ASCII letters or digits, or for which `is_mark` returns true.
fn token_length(text: &str, is_mark: impl Fn(u8) -> bool) -> usize {
    text.bytes().take_while(|it| it.is_ascii_alphanumeric() || is_mark(*it)).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ErrorKind, Message, Part, Role};

    #[track_caller]
    fn check(text: &str, expect: &str) {
        let mut redaction = Redaction::default();
        redaction.add_secret("open sesame".to_owned());
        redaction.add_secret("sesame".to_owned());
        let mut value = serde_json::json!({ "texts": [text] });
        redaction.apply(&mut value);
        assert_eq!(value["texts"][0], expect);
        redaction.apply(&mut value);
        assert_eq!(value["texts"][0], expect, "redaction is not idempotent");
    }

    #[test]
    fn api_keys_are_redacted() {
        check("with sk-ant-api03-AbCdEf_0123456789.", "with [secret].");
        check("key=AIzaSyA0123456789abcdefghijklmnopqrstuv", "key=[secret]");
        check("\"gsk_0123456789abcdefghij\"", "\"[secret]\"");
        check("Authorization: Bearer abc.def-123==", "Authorization: Bearer [secret]");
        check("BEARER abcdefgh and bearer abcdefgh", "BEARER [secret] and bearer [secret]");
        check("sk-0123456789abcdef sk-0123456789abcdef", "[secret] [secret]");
    }

    #[test]
    fn registered_secrets_are_redacted_everywhere() {
        check("say open sesame, or sesame", "say [secret], or [secret]");
        check("xsesamex", "x[secret]x");
    }

    #[test]
    fn names_of_roles_and_parts_are_not_redacted() {
        let mut redaction = Redaction::default();
        for secret in ["assist", "reasoning", "overloaded"] {
            redaction.add_secret(secret.to_owned());
        }
        let reasoning = Part::Reasoning { text: "overloaded?".to_owned(), opaque: None };
        let parts = vec![Part::text("I assist with reasoning."), reasoning];
        let message = Message::new(Role::Assistant, parts);
        let mut value = serde_json::to_value(&message).unwrap();
        redaction.apply(&mut value);
        let read: Message = serde_json::from_value(value).unwrap();
        assert_eq!(read.role, Role::Assistant);
        assert_eq!(read.parts[0], Part::text("I [secret] with [secret]."));
        let hidden = Part::Reasoning { text: "[secret]?".to_owned(), opaque: None };
        assert_eq!(read.parts[1], hidden);
        let mut value = serde_json::json!(ErrorKind::Overloaded);
        redaction.apply(&mut value);
        assert_eq!(serde_json::from_value::<ErrorKind>(value).unwrap(), ErrorKind::Overloaded);
    }

    #[test]
    fn other_text_is_unchanged() {
        check(
            "a risk-averse task-force; sk-ill; bearer of news",
            "a risk-averse task-force; sk-ill; bearer of news",
        );
        check("YWJj+sk-0123456789abcdefABCDEF", "YWJj+sk-0123456789abcdefABCDEF");
        check("größe: sk- и Bearer ünter", "größe: sk- и Bearer ünter");
    }

    #[test]
    fn debug_output_contains_no_secrets() {
        let mut redaction = Redaction::default();
        redaction.add_secret("sesame".to_owned());
        assert_eq!(format!("{redaction:?}"), "Redaction { secrets: 1 }");
    }
}
