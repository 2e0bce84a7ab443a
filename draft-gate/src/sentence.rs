//! Finds values that follow a name without a separator: in sentences, SQL statements, commands and settings.

use std::sync::LazyLock;

use regex::Regex;

use crate::{
    file_kind::FileKind,
    literal::{ValueForm, until},
};

/// Words between a name and its value in a sentence.
static SENTENCE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r#"(?i)^(?:["'*]{0,2})\s+(?:(?:is|was|to|[-–—→]|->|for \w+ is|for [^\s:]{1,40}:)\s*:?\s+)?(["'`*]{0,2})"#,
    )
    .expect("a test compiles the pattern")
});

/// First words of settings in which a password follows a host or user name.
const OWNERS: [&str; 8] = [
    "machine", "default", "login", "user", "username", "userlist", "proxy_set_header", "add_header",
];

/// nginx directives that name an upstream server.
const SERVER_DIRECTIVES: [&str; 6] =
    ["proxy_pass", "fastcgi_pass", "uwsgi_pass", "scgi_pass", "grpc_pass", "memcached_pass"];

/// Returns the value in texts such as `PASSWORD 'x'` (SQL), ``the password `x` `` and `the password is x`.
pub(crate) fn value_in_sentence<'a>(
    before: &str,
    name: &str,
    after: &'a str,
    file: FileKind,
    is_in_string: bool,
) -> Option<(&'a str, ValueForm)> {
    let found = SENTENCE.captures(after)?;
    let whole = found.get(0)?;
    let quote = found.get(1)?.as_str();
    let value = &after[whole.end()..];
    let says_is = !whole.as_str().trim_matches([' ', '\t', '"', '\'', '`', '*']).is_empty();
    if is_verb(name) && !says_is && matches!(file, FileKind::Code | FileKind::Prose) {
        return None;
    }
    if let Some(quote) = quote.chars().next() {
        let (value, _) = value.split_once(quote)?;
        return Some((value, ValueForm::Argument));
    }
    let value = until(value, &[' ', '\t', ',', ')', '"', '\'']).trim_end_matches(['.', ';']);
    if takes_argument(before, name, file) && !value.starts_with('[') {
        return Some((value, ValueForm::Argument));
    }
    // A string literal in a program may be a sentence.
    if file == FileKind::Code {
        return (says_is && is_in_string).then_some((value, ValueForm::Argument));
    }
    // Without a verb, the next word is a value only if it has digits or symbols, as in `user a, password x12`.
    let has_symbol = value.contains(['!', '@', '#', '^', '*', '+', '~', '%']);
    let is_value = has_symbol || value.bytes().filter(u8::is_ascii_digit).count() >= 2;
    (says_is || (is_value && file == FileKind::Prose)).then_some((value, ValueForm::Unquoted))
}

/// Returns whether a name is also a common verb.
pub(crate) fn is_verb(name: &str) -> bool {
    name.eq_ignore_ascii_case("pass")
}

/// Returns whether the word after a name is its value: commands such as `ENV PASSWORD x` and settings such as `bindpw
/// x` have arguments without a separator.
fn takes_argument(before: &str, name: &str, file: FileKind) -> bool {
    match file {
        FileKind::Shell => !before.trim_start().starts_with('#') && !before.contains(" #"),
        FileKind::Settings => {
            before.split_whitespace().next().is_none_or(|it| OWNERS.contains(&it))
                && !SERVER_DIRECTIVES.contains(&name)
        }
        FileKind::Code | FileKind::Prose => false,
    }
}
