//! Classifies the names of variables and the words of values, by the lists in `data/secret_words.toml`.

use std::{collections::HashSet, sync::LazyLock};

use serde::Deserialize;

/// Kind of value that a variable or field holds, according to its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SecretKind {
    /// A password, which a person may have chosen.
    Password,
    /// A generated key or token.
    Generated,
    /// A value whose name ends with `key`. It may be a secret or the key of a record.
    Key,
    /// A value whose name is only `key`.
    BareKey,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Words {
    password: HashSet<String>,
    password_endings: Vec<String>,
    secret: HashSet<String>,
    descriptions: HashSet<String>,
    placeholders: HashSet<String>,
    ordinary: HashSet<String>,
    sentence: HashSet<String>,
    record_keys: HashSet<String>,
    identifiers: HashSet<String>,
    token_words: HashSet<String>,
    published_examples: HashSet<String>,
}

static WORDS: LazyLock<Words> = LazyLock::new(|| {
    toml::from_str(include_str!("../data/secret_words.toml")).expect("a test parses the lists")
});

/// Returns whether a text, such as a heading, is a name for a password or a generated secret.
pub(crate) fn is_name_for_secret(text: &str) -> bool {
    matches!(kind_of_name(text), Some(SecretKind::Password | SecretKind::Generated))
}

/// Returns the kind of secret that a variable or field of this name holds, if any.
pub(crate) fn kind_of_name(name: &str) -> Option<SecretKind> {
    let words = split_words(name);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    // A number at the end, as in `password2`, does not change the meaning.
    let words = match words.as_slice() {
        [start @ .., last] if !start.is_empty() && last.bytes().all(|it| it.is_ascii_digit()) => {
            start
        }
        all => all,
    };
    let last = words.last()?;
    if WORDS.descriptions.contains(*last)
        || words.contains(&"public")
        || words.contains(&"publishable")
    {
        return None;
    }
    let is_password = |it: &str| {
        WORDS.password.contains(it) || WORDS.password_endings.iter().any(|end| it.ends_with(end))
    };
    let ends_with_password =
        words.len() >= 2 && WORDS.password.contains(&words[words.len() - 2..].join(" "));
    if is_password(last) || ends_with_password {
        return Some(SecretKind::Password);
    }
    let ends_with_secret = (1..=3.min(words.len()))
        .any(|n| WORDS.secret.contains(&words[words.len() - n..].join(" ")));
    let has_secret = ends_with_secret
        || words.len() >= 2 && WORDS.secret.contains(words[0]) && *last == "key"
        || last.ends_with("apikey")
        || last.ends_with("secret")
        || (last.ends_with("token") && last.len() > 5);
    if has_secret {
        return Some(SecretKind::Generated);
    }
    match words {
        [.., before, "key"] if names_record_key(before) => return None,
        [_, .., "key"] => return Some(SecretKind::Key),
        ["key"] => return Some(SecretKind::BareKey),
        _ => (),
    }
    // `password_prod` and `SECRET_1` hold secrets too, but `token_bucket` and `auth_user` do not.
    words.iter().any(|it| is_password(it) && *it != "pass").then_some(SecretKind::Password)
}

/// Returns whether a text that starts with this word is the identifier of a record, a hash or a public key.
pub(crate) fn identifies_record(word: &str) -> bool {
    let word = word.to_lowercase();
    word.starts_with("public") || WORDS.identifiers.contains(&word)
}

/// Returns whether a name with this word before `key` is the key of a record, such as `cache_key`.
pub(crate) fn names_record_key(word: &str) -> bool {
    WORDS.record_keys.contains(&word.to_lowercase())
}

/// Returns whether a word occurs in the prefixes of tokens, such as `live` in `acme_live_`.
pub(crate) fn is_token_word(word: &str) -> bool {
    WORDS.token_words.contains(&word.to_lowercase())
}

/// Returns whether a value is an example that the issuer of a kind of key publishes in its documentation.
pub(crate) fn is_published_example(value: &str) -> bool {
    WORDS.published_examples.contains(value)
}

/// Returns whether a value consists of placeholder words and short numbers, or of a repeated character.
pub(crate) fn is_placeholder(value: &str) -> bool {
    let distinct: HashSet<char> = value.chars().filter(|it| it.is_alphanumeric()).collect();
    if distinct.len() <= 2 {
        return true;
    }
    let mut has_word = false;
    let is_known = split_words(value).iter().all(|word| {
        let is_number = word.bytes().all(|it| it.is_ascii_digit());
        has_word |= !is_number;
        if is_number { word.len() <= 4 } else { is_made_of_placeholders(word) }
    });
    is_known && has_word
}

/// Returns whether a word is a concatenation of placeholder words, such as `yourpassword`.
fn is_made_of_placeholders(word: &str) -> bool {
    if word.len() > 64 || !word.is_ascii() {
        return false;
    }
    if WORDS.placeholders.contains(word) {
        return true;
    }
    // Whether the word up to this position is made of placeholder words of at least three letters. Shorter ones could
    // occur in any word.
    let mut is_reached = vec![true];
    for end in 1..=word.len() {
        let is_end = |start: usize| {
            end - start >= 3 && is_reached[start] && WORDS.placeholders.contains(&word[start..end])
        };
        let reached = (0..end).any(is_end);
        is_reached.push(reached);
    }
    is_reached[word.len()]
}

/// Returns whether a value is a type, a keyword, an algorithm or a word for `password`.
pub(crate) fn is_ordinary(value: &str) -> bool {
    let value = value.to_lowercase();
    let word = value.trim_end_matches(['?', ';', ',', '[', ']']);
    let is_about_passwords = !word.bytes().any(|it| it.is_ascii_digit())
        && !word.contains(['!', '@', '#', '^', '&', '*', '+', '~'])
        && WORDS.password_endings.iter().any(|it| word.contains(it));
    WORDS.ordinary.contains(word) || is_about_passwords
}

/// Returns whether a text with spaces is a sentence about passwords, such as a label or an error message.
pub(crate) fn is_sentence(value: &str) -> bool {
    let lower = value.to_lowercase();
    let mut words = lower.split(|it: char| !it.is_alphanumeric());
    words.any(|it| WORDS.sentence.contains(it))
}

/// Splits a name into lower-case words, at characters other than letters and digits, at changes of case, and between
/// letters and digits.
fn split_words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = vec![];
    let mut previous: Option<char> = None;
    let mut chars = name.chars().peekable();
    while let Some(char) = chars.next() {
        if char.is_alphanumeric() {
            let starts_word = previous.is_none_or(|it| {
                !it.is_alphanumeric()
                    || it.is_ascii_digit() != char.is_ascii_digit()
                    || (it.is_lowercase() && char.is_uppercase())
                    || (it.is_uppercase()
                        && char.is_uppercase()
                        && chars.peek().is_some_and(|it| it.is_lowercase()))
            });
            if starts_word {
                words.push(String::new());
            }
            if let Some(word) = words.last_mut() {
                word.extend(char.to_lowercase());
            }
        }
        previous = Some(char);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_classified_by_their_words() {
        use SecretKind::{BareKey, Generated, Key, Password};
        for (name, expect) in [
            ("password", Some(Password)),
            ("DB_PASSWORD", Some(Password)),
            ("PGPASSWORD", Some(Password)),
            ("smtp_pass", Some(Password)),
            ("pass_phrase", Some(Password)),
            ("password2", Some(Password)),
            ("spring.datasource.password", Some(Password)),
            ("apiKey", Some(Generated)),
            ("X-Auth-Token", Some(Generated)),
            ("SECRET_KEY", Some(Generated)),
            ("PrivateKey", Some(Generated)),
            ("client-key-data", Some(Generated)),
            ("MAPS_KEY", Some(Key)),
            ("key", Some(BareKey)),
            ("cache_key", None),
            ("пароль", Some(Password)),
            ("PublicKey", None),
            ("PASSWORD_MIN_LENGTH", None),
            ("TOKEN_TTL", None),
            ("tokenizer", None),
            ("max_tokens", None),
            ("primary_key", None),
            ("secretName", None),
            ("bypass", None),
        ] {
            assert_eq!(kind_of_name(name), expect, "{name}");
        }
    }

    #[test]
    fn only_values_made_of_placeholder_words_are_placeholders() {
        for value in [
            "changeme", "your-api-key-here", "test1234", "dummy_token", "xxxxxxxx",
            "testPassword1", "****",
        ] {
            assert!(is_placeholder(value), "{value}");
        }
        for value in
            ["test9fK2mQx", "mockingbird", "latest-7Hq2", "hunter2", "test-3f9a8c77", "Pa55w0rd"]
        {
            assert!(!is_placeholder(value), "{value}");
        }
    }
}
