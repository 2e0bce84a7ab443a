//! Redaction: keys and other secrets do not go into recordings.

use std::fmt;

use serde_json::Value;

/// What stands in place of a secret.
const SHOWN: &str = "[secret]";

/// How the keys of providers begin, and how long they are at least after that.
const KEYS: [(&str, usize); 3] = [("sk-", 16), ("AIza", 30), ("gsk_", 16)];

const BEARER: (&str, usize) = ("bearer ", 8);

/// Hides what looks like a key, and the secrets that it was told.
///
/// To hide twice changes nothing: what is sent again with a hidden secret in it is the same request.
#[derive(Clone, Default)]
pub(super) struct Redaction {
    /// The longest first, since one may be part of another.
    secrets: Vec<String>,
}

impl Redaction {
    /// Hides this too, wherever it stands.
    pub(super) fn hide(&mut self, secret: String) {
        if !secret.is_empty() {
            self.secrets.push(secret);
            self.secrets.sort_unstable_by_key(|it| std::cmp::Reverse(it.len()));
        }
    }

    /// Hides secrets in all texts of a value.
    pub(super) fn apply(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Some(hidden) = self.hidden(text) {
                    *text = hidden;
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|it| self.apply(it)),
            Value::Object(fields) => fields.values_mut().for_each(|it| self.apply(it)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// The text with its secrets hidden; `None` where it has none.
    pub(super) fn hidden(&self, text: &str) -> Option<String> {
        if !self.may_hold_secrets(text) {
            return None;
        }
        let mut out = String::with_capacity(text.len());
        let (mut rest, mut before) = (text, None);
        while let Some(first) = rest.chars().next() {
            let (length, shown) = match self.secret(rest, before) {
                Some((kept, length)) => (length, Some(kept)),
                None if rest.starts_with(SHOWN) => (SHOWN.len(), None),
                None => (first.len_utf8(), None),
            };
            let (taken, after) = rest.split_at(length);
            match shown {
                Some(kept) => {
                    out.push_str(&taken[..kept]);
                    out.push_str(SHOWN);
                }
                None => out.push_str(taken),
            }
            before = taken.chars().next_back();
            rest = after;
        }
        Some(out)
    }

    /// A quick look, since most texts hold none.
    fn may_hold_secrets(&self, text: &str) -> bool {
        KEYS.iter().any(|(start, _)| text.contains(start))
            || text.contains("earer ")
            || text.contains("EARER ")
            || self.secrets.iter().any(|it| text.contains(it.as_str()))
    }

    /// How much of a secret at the start of the text stays, and how long it is.
    fn secret(&self, text: &str, before: Option<char>) -> Option<(usize, usize)> {
        if text.starts_with(SHOWN) {
            return None;
        }
        if let Some(secret) = self.secrets.iter().find(|it| text.starts_with(it.as_str())) {
            return Some((0, secret.len()));
        }
        // In the middle of a word, as of base64, it is no key.
        if before.is_some_and(|it| it.is_alphanumeric() || matches!(it, '-' | '_' | '+' | '/')) {
            return None;
        }
        let key = KEYS.into_iter().find_map(|(start, least)| {
            let length = length_of(text.strip_prefix(start)?, |it| matches!(it, b'-' | b'_'));
            (length >= least).then_some((0, start.len() + length))
        });
        key.or_else(|| {
            let (start, least) = BEARER;
            let (word, token) = text.split_at_checked(start.len())?;
            let length = length_of(token, |it| b"-._~+/=".contains(&it));
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

/// How many bytes at the start are letters, digits, or of the marks that are allowed.
fn length_of(text: &str, is_mark: impl Fn(u8) -> bool) -> usize {
    text.bytes().take_while(|it| it.is_ascii_alphanumeric() || is_mark(*it)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expect: &str) {
        let mut redaction = Redaction::default();
        redaction.hide("open sesame".to_owned());
        redaction.hide("sesame".to_owned());
        let mut value = serde_json::json!({ "texts": [text] });
        redaction.apply(&mut value);
        assert_eq!(value["texts"][0], expect);
        redaction.apply(&mut value);
        assert_eq!(value["texts"][0], expect, "to hide twice changes nothing");
    }

    #[test]
    fn keys_are_hidden() {
        check("with sk-ant-api03-AbCdEf_0123456789.", "with [secret].");
        check("key=AIzaSyA0123456789abcdefghijklmnopqrstuv", "key=[secret]");
        check("\"gsk_0123456789abcdefghij\"", "\"[secret]\"");
        check("Authorization: Bearer abc.def-123==", "Authorization: Bearer [secret]");
        check("BEARER abcdefgh and bearer abcdefgh", "BEARER [secret] and bearer [secret]");
        check("sk-0123456789abcdef sk-0123456789abcdef", "[secret] [secret]");
    }

    #[test]
    fn what_it_was_told_is_hidden_everywhere() {
        check("say open sesame, or sesame", "say [secret], or [secret]");
        check("xsesamex", "x[secret]x");
    }

    #[test]
    fn other_words_stay() {
        check(
            "a risk-averse task-force; sk-ill; bearer of news",
            "a risk-averse task-force; sk-ill; bearer of news",
        );
        check("YWJj+sk-0123456789abcdefABCDEF", "YWJj+sk-0123456789abcdefABCDEF");
        check("größe: sk- и Bearer ünter", "größe: sk- и Bearer ünter");
    }

    #[test]
    fn secrets_are_not_shown() {
        let mut redaction = Redaction::default();
        redaction.hide("sesame".to_owned());
        assert_eq!(format!("{redaction:?}"), "Redaction { secrets: 1 }");
    }
}
