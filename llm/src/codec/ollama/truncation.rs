//! Detects prompts that the server truncated.
//!
//! Requests ask for a sufficient context window, but the server uses a smaller one if the model or the server's
//! configuration limits it. The server then silently drops the oldest messages.

use serde_json::Value;

use super::super::{call_error::CallError, json_util};
use crate::{ErrorKind, Usage};

/// Returns an error if the server read fewer tokens than the prompt has words.
///
/// No tokenizer in use merges two words into one token, so there are no false positives. Ordinary text has about four
/// tokens per three words, so the check detects a truncation if more than a quarter of the prompt is missing.
pub(crate) fn check(body: &Value, usage: &Usage) -> Result<(), CallError> {
    let n_read = usage.input;
    let messages = json_util::list(body, "messages");
    let n_words: u64 = messages.iter().map(|it| n_words(json_util::text(it, "content"))).sum();
    // A count of zero does not indicate a truncation, because old servers report it for cached prompts.
    if n_read == 0 || n_read >= n_words {
        return Ok(());
    }
    let message = format!(
        "the server read {n_read} tokens of a prompt of {n_words} words, so it truncated the prompt; shorten it, or \
         use a model with a larger context window and raise OLLAMA_CONTEXT_LENGTH at the server"
    );
    Err(CallError::new(ErrorKind::RequestTooLong, message))
}

fn n_words(text: &str) -> u64 {
    text.split_whitespace().count() as u64
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check_read(n_read: u64, cached: u64, expect: Option<ErrorKind>) {
        let body = json!({ "messages": [
            { "role": "system", "content": "Be brief." },
            { "role": "user", "content": "one two three ".repeat(1000) },
        ] });
        let usage = Usage { input: n_read, cached, ..Usage::default() };
        assert_eq!(check(&body, &usage).err().map(|it| it.kind), expect);
    }

    #[test]
    fn fewer_tokens_than_words_is_an_error() {
        check_read(4000, 0, None);
        check_read(3002, 0, None);
        check_read(3001, 0, Some(ErrorKind::RequestTooLong));
        check_read(2050, 0, Some(ErrorKind::RequestTooLong));
        // The number of tokens read includes cached tokens.
        check_read(3500, 3450, None);
        check_read(2050, 2000, Some(ErrorKind::RequestTooLong));
        check_read(0, 0, None);
    }
}
