//! Finds values that a line assigns to names that indicate a secret, such as `password`: in programs, settings,
//! commands, SQL statements and prose.

use std::sync::LazyLock;

use regex::Regex;

use crate::{
    file_kind::FileKind,
    literal::{MAX_VALUE, OpenQuotes, ValueForm, quoted, until},
    markup::{cell_value, element_text, is_tag, list_value, tag_text},
    secret_words::{SecretKind, kind_of_name},
    sentence::{is_verb, value_in_sentence},
    work::Work,
};

/// A value that a line assigns to a name that indicates a secret.
#[derive(Debug, PartialEq)]
pub(crate) struct Assignment<'a> {
    pub(crate) kind: SecretKind,
    /// Position of the name in the line, in bytes.
    pub(crate) name_at: usize,
    pub(crate) value: &'a str,
    pub(crate) form: ValueForm,
}

/// Number of bytes before a name that are searched for the start of a list.
const MAX_LIST: usize = 200;

/// Work charged for each name that indicates a secret, in bytes. Several patterns are searched in its value.
const WORK_PER_NAME: usize = 1 << 10;

static NAME: LazyLock<Regex> = LazyLock::new(|| {
    // Latin, Cyrillic, Japanese, Chinese and Korean letters.
    let letters =
        r"A-Za-zÀ-ÖØ-öø-\u{24f}\u{400}-\u{4ff}\u{3040}-\u{30ff}\u{4e00}-\u{9fff}\u{ac00}-\u{d7a3}";
    Regex::new(&format!("[{letters}0-9_$][{letters}0-9_$.-]{{1,99}}"))
        .expect("a test compiles the pattern")
});

/// A type between a name and its value, as in `password: &str = "x"`.
static TYPE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^:\s*[&'\w<>\[\]., |?]{1,40}?=\s*").expect("a test compiles the pattern")
});

/// A type after a name in Basic, as in `PASSWORD As String = "x"`.
static DECLARED: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^\s+(?i:as)\s+[A-Za-z0-9_.]{1,40}\s*=\s*").expect("a test compiles the pattern")
});

/// An expression before an alternative value, as in `process.env.SECRET || "x"`.
static ALTERNATIVE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"^[^"'`;]{1,200}?(?:\|\||\?\?|\?:|\bor\b)\s*"#)
        .expect("a test compiles the pattern")
});

/// A function that decodes the literal in its argument, as in `bytes.fromhex("x")`.
static DECODER: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?i)^[\w.:]{0,60}?(?:from_?hex|unhexlify|hex(?:::|\.)\w*decode\w*|from_?base64|b64decode|base64(?:::|\.)\w*decode\w*|buffer\.from)\(\s*",
    )
    .expect("a test compiles the pattern")
});

/// A function that converts the literal in its argument to another type of string, as in `[]byte("x")`.
static CONSTRUCTOR: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"^(?:new\s+)?(?:\[\]byte|bytes|bytearray|(?:[\w:]+::)?(?:String|SecretString|SecretBox|SecretVec|Secret|SecureString|Zeroizing)(?:::(?:new|from))?|Some|str|Just|Optional\.of|(?:\w+\.)?(?:unsafePlainText|plainText|fromString))\(\s*",
    )
    .expect("a test compiles the pattern")
});

/// The start of an object with one value for each case, as in `apiKey: { mainnet: "x" }`.
static NESTED: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"^\{\s*["']?\w{1,40}["']?\s*[:=]\s*"#).expect("a test compiles the pattern")
});

/// The name of an argument with a default value, as in `default="x"`.
static DEFAULT: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^(?:default|fallback)\s*=\s*").expect("a test compiles the pattern")
});

/// Another attribute of the same XML element, or another field of the same object, that contains the value.
static VALUE_ATTRIBUTE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"(?i)^(?:\s+|\s*[,{]\s*)["']?(?:value|content|default)["']?\s*[=:]\s*"#)
        .expect("a test compiles the pattern")
});

/// The length of an array, as in `char password[32] = "x"`.
static ARRAY: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^\[\d*\]").expect("a test compiles the pattern"));

/// The start of the next assignment or field in the same line.
static NEXT_FIELD: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?:\s[\w.-]+=\S|,\s|\s[}\]])").expect("a test compiles the pattern")
});

/// Returns the values that a line assigns to names that indicate a secret.
pub(crate) fn assignments<'a>(
    line: &'a str,
    file: FileKind,
    work: &mut Work,
) -> Vec<Assignment<'a>> {
    let mut found = vec![];
    let mut quotes = OpenQuotes::default();
    for name in NAME.find_iter(line) {
        // A name may end with the hyphen or dot of the following text.
        let text = name.as_str().trim_end_matches(['.', '-']);
        let Some(kind) = kind_of_name(text) else { continue };
        work.add(WORK_PER_NAME);
        let end = name.start() + text.len();
        let after = &line[end..line.floor_char_boundary(end + MAX_VALUE)];
        quotes.advance(line, name.start());
        let before = &line[..name.start()];
        // Kubernetes annotations such as `checksum/secret` contain a hash of the secret.
        if before.ends_with("checksum/") {
            continue;
        }
        let is_in_string = quotes.is_in_string();
        if let Some((value, form)) = value_after(before, text, after, file, is_in_string) {
            found.push(Assignment { kind, name_at: name.start(), value, form });
        }
    }
    found
}

/// Returns the value that follows a name.
fn value_after<'a>(
    before: &str,
    name: &str,
    after: &'a str,
    file: FileKind,
    is_in_string: bool,
) -> Option<(&'a str, ValueForm)> {
    if is_tag(before) {
        return Some((tag_text(after)?, ValueForm::Literal));
    }
    if let Some(value) = list_value(after) {
        return Some((value, ValueForm::Literal));
    }
    if let Some(value) = cell_value(after).or_else(|| element_text(before, after)) {
        return Some((value, ValueForm::Argument));
    }
    let after = &after[ARRAY.find(after).map_or(0, |it| it.end())..];
    let closers: &[char] = &['"', '\'', '`', ']', '\\'];
    let rest = after.trim_start_matches(closers);
    let is_quoted_name = rest.len() < after.len();
    // A quote directly before a quoted name does not open a string that contains the name.
    let is_in_string = is_in_string && !(is_quoted_name && before.ends_with(['"', '\'', '`']));
    if let Some(found) = VALUE_ATTRIBUTE.find(rest)
        && (is_quoted_name || file == FileKind::Settings)
    {
        return assigned_value(&rest[found.end()..], file, false);
    }
    let is_option = before.ends_with('-');
    if is_option && rest.starts_with([' ', '=']) {
        let value = rest[1..].trim_start();
        let value =
            quoted(value).unwrap_or_else(|| until(value, &[' ', '\t', '"', '\'', '`', ';']));
        let form = match file {
            FileKind::Shell | FileKind::Settings => ValueForm::Literal,
            FileKind::Code | FileKind::Prose => ValueForm::Argument,
        };
        return (!value.starts_with('-')).then_some((value, form));
    }
    let trimmed = rest.trim_start();
    let separator = [
        "===", "!==", "==", "!=", ":=", "=>", "?=", "||=", "||", "??", "::", "=~", "<-", "=", ":",
        ",", "(", "{",
    ]
    .into_iter()
    .find(|it| trimmed.starts_with(it));
    let Some(separator) = separator else {
        return declared_value(rest)
            .or_else(|| value_in_sentence(before, name, after, file, is_in_string));
    };
    // In `**Password:** x`, the name is in bold type.
    let value = trimmed[separator.len()..].trim_start_matches('*').trim_start();
    match separator {
        "::" | "=~" => None,
        // A function that does something else with a secret, as in `password.encode("x")`.
        "(" if kind_of_name(last_part(name)).is_none() => None,
        // The name is also a verb, as in `pass("logged in")`, which marks a test step as passed.
        "(" if is_verb(name) => None,
        "===" | "!==" | "==" | "!=" | "(" | "{" => {
            quoted(value).map(|value| (value, ValueForm::Argument))
        }
        "||" | "??" => quoted(value).map(|value| (value, ValueForm::Literal)),
        // Tuples of Erlang and Elixir: `{password, "x"}`.
        "," if !is_quoted_name && !before.ends_with('{') => None,
        "," => {
            let start = DEFAULT.find(value).map_or(0, |it| it.end());
            // The name and the value are the first arguments of a call, or elements of a list.
            let opener = before.trim_end_matches(closers).trim_end();
            let value = quoted(&value[start..])?;
            match opener.ends_with(['(', '{', '[']) && !is_verb(name) {
                true => Some((value, ValueForm::Literal)),
                false => (!is_in_list(opener)).then_some((value, ValueForm::Argument)),
            }
        }
        ":" => match TYPE.find(trimmed) {
            Some(found) if quoted(&trimmed[found.end()..]).is_some() => {
                quoted(&trimmed[found.end()..]).map(|value| (value, ValueForm::Literal))
            }
            _ => assigned_value(value, file, is_in_string),
        },
        _ => assigned_value(value, file, is_in_string),
    }
}

/// Returns whether a text ends inside square brackets or braces. Consecutive elements of such a list are not name-value
/// pairs.
fn is_in_list(text: &str) -> bool {
    let mut depth = 0_u32;
    for byte in text.bytes().rev().take(MAX_LIST) {
        match byte {
            b')' | b']' | b'}' => depth += 1,
            b'(' | b'[' | b'{' if depth > 0 => depth -= 1,
            b'(' => return false,
            b'[' | b'{' => return true,
            _ => (),
        }
    }
    false
}

/// Returns the part of a name after its last separator.
fn last_part(name: &str) -> &str {
    name.rsplit(['_', '.', '-']).next().unwrap_or(name)
}

/// Returns the value after a type, as in `Const PASSWORD As String = "x"`.
fn declared_value(after: &str) -> Option<(&str, ValueForm)> {
    let start = DECLARED.find(after)?.end();
    quoted(&after[start..]).map(|value| (value, ValueForm::Literal))
}

/// Returns the value after a `=`, `:` or similar separator.
fn assigned_value(value: &str, file: FileKind, is_in_string: bool) -> Option<(&str, ValueForm)> {
    if let Some(value) = quoted(value) {
        return Some((value, ValueForm::Literal));
    }
    for (opening, form) in [
        (&ALTERNATIVE, ValueForm::Literal),
        (&CONSTRUCTOR, ValueForm::Literal),
        (&DECODER, ValueForm::Argument),
        (&NESTED, ValueForm::Argument),
    ] {
        if let Some(found) = opening.find(value)
            && let Some(value) = quoted(&value[found.end()..])
        {
            return Some((value, form));
        }
    }
    // Inside a string literal, such as a connection string, an unquoted value is literal text, not an expression.
    let (value, form) = match file {
        _ if is_in_string => {
            (until(value, &[' ', '\t', ';', '&', '"', '\'', '`', ',']), ValueForm::Literal)
        }
        FileKind::Settings => (settings_value(value), ValueForm::Literal),
        FileKind::Shell => {
            (until(value, &[' ', '\t', ';', '&', '|', '"', '\'', '`']), ValueForm::Literal)
        }
        FileKind::Code | FileKind::Prose => {
            (until(value, &[' ', '\t', ';', ',', '"', '\'', '`', '<', ')']), ValueForm::Unquoted)
        }
    };
    (!value.is_empty()).then_some((value, form))
}

/// Returns an unquoted value, which ends at the end of the line, at a comment or before the next field.
fn settings_value(value: &str) -> &str {
    let end = value.find(" #").or_else(|| value.find(" ;")).unwrap_or(value.len());
    let value = &value[..end];
    value[..NEXT_FIELD.find(value).map_or(value.len(), |it| it.start())].trim()
}
