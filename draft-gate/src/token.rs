//! Finds tokens of services that have no rule, by their form: words, as in `acme_live_`, followed by random text.

use std::sync::LazyLock;

use regex::Regex;

use crate::{
    random_text::{is_one_case_random, is_random},
    secret_words::{identifies_record, is_token_word, names_record_key},
};

/// Minimum length of the random text. Identifiers of records, which are not secrets, are shorter.
const MIN_RANDOM: usize = 30;

/// Maximum length of the random text. Longer text is probably encoded data, such as a public key.
const MAX_RANDOM: usize = 200;

/// Minimum length of the random text after a word such as `secret` or `live`.
const MIN_AFTER_WORD: usize = 20;

/// Minimum length of random text with letters of one case after such a word.
const MIN_ONE_CASE: usize = 24;

/// Maximum number of words before the random text.
const MAX_WORDS: usize = 5;

/// Texts before a hash, as in the lists of files in Python packages.
const HASHES: [&str; 5] = ["md5=", "sha1=", "sha256=", "sha384=", "sha512="];

/// Text that may be a token.
static CANDIDATE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new("[A-Za-z0-9_.-]{20,}").expect("a test compiles the pattern"));

/// A string literal of letters and digits that is an argument or an element of a list. Longer ones are probably encoded
/// data.
static RANDOM_LITERAL: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"[(,\[]\s*["'`]([A-Za-z0-9]{32,64})["'`]"#).expect("a test compiles the pattern")
});

/// Returns the first token of an unknown service in a text.
pub(crate) fn unlisted_token(text: &str) -> Option<&str> {
    CANDIDATE.find_iter(text).find_map(|found| {
        // Parts of paths and URLs are not tokens.
        let before = &text[..found.start()];
        let is_part = before.ends_with(['/', '@', '#', '\\', '%', '&']);
        let is_hash = HASHES.iter().any(|it| before.ends_with(it));
        (!is_part && !is_hash && is_token(found.as_str())).then_some(found.as_str())
    })
}

/// Returns the first string literal of a program that consists of random letters and digits.
pub(crate) fn random_literal(text: &str) -> Option<&str> {
    RANDOM_LITERAL.captures_iter(text).find_map(|found| {
        let value = found.get(1)?.as_str();
        is_random(value).then_some(value)
    })
}

fn is_token(text: &str) -> bool {
    let (words, body) = split_prefix(text);
    let Some(first) = words.first() else { return false };
    if body.len() > MAX_RANDOM
        || identifies_record(first)
        || words.iter().any(|it| names_record_key(it))
    {
        return false;
    }
    let has_token_word = words.iter().any(|it| is_token_word(it));
    let min_length = if has_token_word { MIN_AFTER_WORD } else { MIN_RANDOM };
    (body.len() >= min_length && is_random(body))
        || (has_token_word && body.len() >= MIN_ONE_CASE && is_one_case_random(body))
}

/// Splits a text into the words at its start, each followed by a separator, and the rest.
fn split_prefix(text: &str) -> (Vec<&str>, &str) {
    let mut words = vec![];
    let mut rest = text;
    while words.len() < MAX_WORDS
        && let Some((word, after)) = rest.split_once(['_', '-', '.'])
        && is_word(word)
    {
        words.push(word);
        rest = after;
    }
    (words, rest)
}

/// Returns whether a text is a short word in letters of one case, possibly with digits, such as `v1`.
fn is_word(text: &str) -> bool {
    let is_digit_or = |is_letter: fn(&u8) -> bool| {
        text.bytes().all(|it| it.is_ascii_digit() || is_letter(&it))
            && text.bytes().next().is_some_and(|it| is_letter(&it))
    };
    (text.len() <= 12 && is_digit_or(u8::is_ascii_lowercase))
        || (text.len() <= 8 && is_digit_or(u8::is_ascii_uppercase))
}

#[cfg(test)]
mod tests {
    use super::{random_literal, unlisted_token};

    /// Concatenated, so that secret scanners do not report this file.
    const RANDOM: [&str; 2] = ["x7Kp2mQ9vR4tZ1", "bN8cW3yL6hD5sJ0f"];
    const HEX: [&str; 2] = ["3f9a8c7712de", "40b6a1e58f07c2d9"];

    #[test]
    fn random_arguments_are_reported() {
        let value = RANDOM.concat() + &RANDOM[0][..6];
        assert_eq!(random_literal(&format!("f(a, '{value}')")), Some(value.as_str()));
        for text in [format!("id = \"{value}\""), format!("f(\"{}\")", HEX.concat().repeat(2))] {
            assert_eq!(random_literal(&text), None, "{text}");
        }
    }

    #[test]
    fn words_followed_by_random_text_are_a_token() {
        let (random, hex) = (RANDOM.concat(), HEX.concat());
        for token in [
            format!("acme_{random}"),
            format!("ACME-v2-{random}"),
            format!("acme_live_{}", &random[..22]),
            format!("acme_secret_{hex}"),
            format!("acme_{random}-{random}"),
        ] {
            assert_eq!(unlisted_token(&format!("a = \"{token}\"")), Some(token.as_str()));
        }
        for text in [
            format!("sha512-{random}"),
            format!("pk_live_{random}"),
            format!("msg_{}", &random[..24]),
            format!("acme_{hex}"),
            format!("cache_key_{hex}"),
            format!("/acme_{random}"),
            format!("a.py,sha256=k5-{random}"),
            random,
            "acme_secret_configurationofthecluster".to_owned(),
            "acme_test_parseHttpHeaderOfFirstResponse".to_owned(),
        ] {
            assert_eq!(unlisted_token(&text), None, "{text}");
        }
    }
}
