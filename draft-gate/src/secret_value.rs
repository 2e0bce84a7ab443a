//! Decides whether an assigned value is a secret, or a placeholder, a reference, a type or a label.

use crate::{
    assignment::Assignment,
    file_kind::FileKind,
    finding::Severity,
    literal::ValueForm,
    password::{is_strong, is_strong_literal},
    random_text::{MIN_KEY, entropy, is_generated, is_one_case_random, is_random},
    reference::is_literal,
    secret_words::{SecretKind, is_sentence},
};

/// Minimum length of a value of letters of one case that counts as a generated key.
const MIN_LETTERS: usize = 20;

/// Minimum number of words of a passphrase.
const MIN_WORDS: usize = 3;

/// Minimum number of words of a passphrase where a generated key is expected.
const MIN_KEY_WORDS: usize = 4;

/// Minimum length of a password where a generated key is expected.
const MIN_PASSWORD: usize = 8;

/// Minimum length of a value that counts as the key of a service.
const MIN_SERVICE_KEY: usize = 20;

/// Minimum length of a value of digits and letters of one case that counts as the key of a service.
const MIN_ONE_CASE_KEY: usize = 20;

/// The first characters of public keys, in the formats of OpenSSH and DER.
const PUBLIC_KEYS: [&str; 12] = [
    "pk.eyJ", "AAAAB3Nza", "AAAAC3Nza", "AAAAE2Vj", "MIIBIjAN", "MIICIjAN", "MFkwEwYH", "MHYwEAYH",
    "MCowBQYD", "MIGfMA0G", "ssh-", "public",
];

/// Returns how severe it is that a line assigns this value, or `None` if the value is not a secret.
pub(crate) fn severity_of(assignment: &Assignment<'_>, file: FileKind) -> Option<Severity> {
    let value = assignment.value.trim();
    if !is_literal(value) || (assignment.form == ValueForm::Unquoted && is_expression(value, file))
    {
        return None;
    }
    if is_recovery_phrase(value) {
        return Some(match assignment.form {
            ValueForm::Literal => Severity::Reject,
            ValueForm::Argument | ValueForm::Unquoted => Severity::Escalate,
        });
    }
    if assignment.kind != SecretKind::Password && PUBLIC_KEYS.iter().any(|it| value.starts_with(it))
    {
        return None;
    }
    let value = match assignment.kind {
        SecretKind::Password => value,
        SecretKind::Generated | SecretKind::Key | SecretKind::BareKey => without_scheme(value),
    };
    match (assignment.kind, assignment.form) {
        (SecretKind::Key, _) => {
            // The part after a prefix, as in `standard_x`.
            let text = value.rsplit('_').next().unwrap_or(value);
            let text = text.strip_prefix("0x").unwrap_or(text);
            let is_fingerprint = [16, 40].contains(&text.len())
                && text.bytes().all(|it| matches!(it, b'0'..=b'9' | b'A'..=b'F'));
            let is_one_case = text.len() >= MIN_ONE_CASE_KEY && is_one_case_random(text);
            let is_key = is_service_key(value) || (is_one_case && !is_fingerprint);
            is_key.then_some(Severity::Escalate)
        }
        (SecretKind::BareKey, _) => is_service_key(value).then_some(Severity::Escalate),
        (SecretKind::Password, ValueForm::Literal) => password_severity(value),
        (SecretKind::Password, form) => {
            let may_have_words = value.contains(char::is_whitespace)
                || (form == ValueForm::Argument
                    && file == FileKind::Settings
                    && is_hyphenated(value));
            let is_passphrase = may_have_words && password_severity(value).is_some();
            (is_strong(value) || is_passphrase).then_some(Severity::Escalate)
        }
        (SecretKind::Generated, ValueForm::Literal) if is_generated(value) => {
            Some(Severity::Reject)
        }
        (SecretKind::Generated, ValueForm::Literal) => {
            let is_one_word = !value.contains(['-', '_', '.', '/', ':', ',']);
            let is_long = value.chars().count() >= MIN_KEY;
            let is_password = value.chars().count() >= MIN_PASSWORD
                && is_strong_literal(value)
                && !value.contains(['.', '/', ':', ',']);
            let is_key = (is_long && is_strong(value)) || is_random_letters(value);
            (is_one_word && is_key || is_password || is_passphrase(value))
                .then_some(Severity::Escalate)
        }
        (SecretKind::Generated, _) => is_generated(value).then_some(Severity::Escalate),
    }
}

/// Returns how severe a password on a command line or in a statement is.
pub(crate) fn password_severity(value: &str) -> Option<Severity> {
    if !is_literal(value) || value.chars().count() < 3 {
        return None;
    }
    let words: Vec<&str> = value.split_whitespace().collect();
    let is_word = |it: &str| it.len() >= 2 && it.chars().all(|it| it.is_alphabetic());
    if words.len() > 1 {
        let is_passphrase = words.len() >= MIN_WORDS
            && words.iter().all(|it| it.chars().all(|it| it.is_alphanumeric() || it == '-'))
            && !is_sentence(value);
        return is_passphrase.then_some(Severity::Escalate);
    }
    let n_parts = value.split(['-', '_', '.', ' ']).filter(|it| is_word(it)).count();
    if is_strong(value) || n_parts >= MIN_WORDS {
        return Some(Severity::Reject);
    }
    // The value may also be encoded in base64.
    let word = value.trim_end_matches('=');
    let is_base64 = word.len() < value.len();
    let is_plain = |it: char| {
        it.is_alphanumeric() || matches!(it, '-' | '_') || (is_base64 && matches!(it, '+' | '/'))
    };
    let is_guessable = word.chars().count() >= 4 && word.chars().all(is_plain);
    is_guessable.then_some(Severity::Escalate)
}

/// Returns whether a value consists of as many words as the recovery phrase of a wallet, each with a permitted length.
fn is_recovery_phrase(value: &str) -> bool {
    let is_word =
        |it: &str| (3..=8).contains(&it.len()) && it.bytes().all(|it| it.is_ascii_lowercase());
    [12, 15, 18, 21, 24].contains(&value.split_whitespace().count())
        && value.split_whitespace().all(is_word)
}

/// Returns whether a value consists of lower-case words that are not a sentence.
fn is_passphrase(value: &str) -> bool {
    let is_word = |it: &str| it.len() >= 2 && it.bytes().all(|it| it.is_ascii_lowercase());
    (MIN_KEY_WORDS..=24).contains(&value.split_whitespace().count())
        && value.split_whitespace().all(is_word)
        && !is_sentence(value)
}

/// Returns whether a value consists of many different letters of one case.
fn is_random_letters(value: &str) -> bool {
    let is_one_case = value.bytes().all(|it| it.is_ascii_lowercase())
        || value.bytes().all(|it| it.is_ascii_uppercase());
    value.len() >= MIN_LETTERS && is_one_case && entropy(value) >= 3.5
}

/// Returns whether an unquoted value is an expression of a program: a name, a member, a call or a number.
fn is_expression(value: &str, file: FileKind) -> bool {
    // Names switch between upper-case letters, lower-case letters and digits less often than random text does.
    if value.len() >= MIN_SERVICE_KEY && is_random(value) && !value.contains(['(', '[', '{', '<']) {
        return false;
    }
    let is_name = value.bytes().all(|it| it.is_ascii_alphanumeric() || b"_.:&*?!".contains(&it));
    match file {
        FileKind::Code => is_name || value.contains(['(', '[', '{', '<', '>']),
        _ => {
            let has = |test: fn(&char) -> bool| value.chars().any(|it| test(&it));
            let has_both = has(|it| it.is_alphabetic()) && has(char::is_ascii_digit);
            value.contains(['(', ')', '[', '{', '<', '.', '/']) || !has_both
        }
    }
}

/// Returns a credential without the name of its scheme, as in `Bearer x`.
fn without_scheme(value: &str) -> &str {
    const SCHEMES: [&str; 5] = ["bearer", "basic", "token", "apikey", "bot"];
    value
        .split_once(' ')
        .filter(|(scheme, _)| SCHEMES.contains(&scheme.to_lowercase().as_str()))
        .map_or(value, |(_, credential)| credential)
}

/// Returns whether a value consists of several words with hyphens between them.
fn is_hyphenated(value: &str) -> bool {
    value.split('-').count() > MIN_WORDS
}

fn is_service_key(value: &str) -> bool {
    value.len() >= MIN_SERVICE_KEY && !value.contains(char::is_whitespace) && is_random(value)
}
