//! Limits of calls to providers.

use llm::{Backoff, Limits, Timeouts};

/// Size limits of responses, which are far above the token limits of the agents.
pub const RESPONSE_LIMITS: Limits = Limits { body_bytes: 4 << 20, event_bytes: 1 << 20 };

/// Minimum length of API keys that are redacted, in bytes.
const MIN_REDACTED_KEY: usize = 8;

/// Maximum length of API keys that count as words, in bytes. Longer ones, such as a passphrase, do not occur in
/// ordinary text.
const MAX_WORD: usize = 24;

/// Returns whether an API key is redacted in the files of a run. A short key and a word such as `findings` are not,
/// because they occur in ordinary text and in the format of the answers.
pub(super) fn is_redacted(key: &str) -> bool {
    let is_word = key.bytes().all(|it| it.is_ascii_lowercase() || it == b'_');
    key.len() >= MIN_REDACTED_KEY && !(is_word && key.len() <= MAX_WORD)
}

/// Time limits and retries of calls. They do not change the result of a run that completes.
#[derive(Debug, Clone, Default)]
pub struct CallLimits {
    /// Time limits of calls to providers.
    pub timeouts: Timeouts,
    /// Number of retries of failed calls, and the waits before them.
    pub backoff: Backoff,
}

#[cfg(test)]
mod tests {
    use super::is_redacted;

    #[test]
    fn short_keys_and_words_are_not_redacted() {
        for (key, expected) in [
            ("sk-0123456789", true),
            ("Zm9vYmFyYmF6", true),
            ("correct horse 7", true),
            ("correct-horse", true),
            ("correcthorsebatterystaple", true),
            ("e", false),
            ("sk-1234", false),
            ("findings", false),
            ("risk_adjusted_return", false),
        ] {
            assert_eq!(is_redacted(key), expected, "{key}");
        }
    }
}
