//! Statements that assign a value on the next line, as formatters write long values.

use std::sync::LazyLock;

use regex::Regex;

use crate::{file_kind::FileKind, literal::literal};

/// Maximum length of each of the two lines that are joined, in bytes.
const MAX_LINE: usize = 1 << 10;

/// A line that contains only the name of a value: `- name: X`, `"key": "X",`, `<key>X</key>` and `variable "X" {`.
static NAME_LINE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r#"^\s*(?:-\s+)?(?:["']?(?i:name|key)["']?\s*[:=]\s*["']?([A-Za-z0-9_.-]{2,99})["']?,?|<key>([A-Za-z0-9_.-]{2,99})</key>|variable\s+"([A-Za-z0-9_-]{2,99})"\s*\{)\s*$"#,
    )
    .expect("a test uses the pattern")
});

/// The start of a line that contains the value: `value: `, `"value": ` and `default = `.
static VALUE_LINE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"^["']?(?i:value|default)["']?\s*[:=]\s*"#).expect("a test uses the pattern")
});

/// Joins two consecutive lines if the first one ends before the value that it assigns, as `password = (` and
/// `password: >-` do, or if the first line contains only the name of the value. Returns the joined text and the position
/// at which the second line starts in it.
pub(crate) fn join(previous: &str, line: &str, file: FileKind) -> Option<(String, usize)> {
    if let Some(joined) = join_named(previous, line) {
        return Some(joined);
    }
    let (start, is_text) = open_assignment(previous)?;
    let value = line.trim_start();
    let is_joined = match literal(value) {
        Some((inner, end)) => is_value(end.map_or("", |it| &inner[it + 1..]), file),
        None => is_text,
    };
    if !is_joined {
        return None;
    }
    let start = &start[start.ceil_char_boundary(start.len().saturating_sub(MAX_LINE))..];
    let value = &value[..value.floor_char_boundary(MAX_LINE)];
    Some((format!("{start} {value}"), start.len() + 1))
}

/// Joins the name in the first line with the value in the second one.
fn join_named(previous: &str, line: &str) -> Option<(String, usize)> {
    let name = NAME_LINE.captures(previous)?.iter().skip(1).flatten().next()?.as_str();
    let line = line.trim();
    let line = &line[..line.floor_char_boundary(MAX_LINE)];
    let value = match line.strip_prefix("<string>") {
        Some(text) => format!("\"{}\"", text.trim_end_matches("</string>")),
        None => line[VALUE_LINE.find(line)?.end()..].to_owned(),
    };
    Some((format!("{name}: {value}"), name.len() + 2))
}

/// Returns whether a string literal at the start of a line is a value. It may also be a key, as in `"type": "string"`, or
/// the first word of a sentence. `after` is the text after the literal.
fn is_value(after: &str, file: FileKind) -> bool {
    // The closing quote of a raw string is followed by `#`, and that of a literal inside another one is escaped with a
    // backslash.
    let after = after.trim_start_matches(['#', '"', '\'']).trim_start();
    // Two colons convert a value to a type in SQL.
    let is_key = after.starts_with([':', '=']) && !after.starts_with("::");
    let is_in_sentence = file == FileKind::Prose && after.starts_with(char::is_alphanumeric);
    !is_key && !is_in_sentence
}

/// Returns the part of a line before the value that the line does not contain, and whether the value may be unquoted.
fn open_assignment(line: &str) -> Option<(&str, bool)> {
    let line = line.trim_end();
    if let Some(start) = line.strip_suffix('\\') {
        return Some((start.trim_end(), true));
    }
    // The text of a YAML block value follows in separate lines.
    let block = line.trim_end_matches(['-', '+']).strip_suffix(['>', '|']).map(str::trim_end);
    if let Some(start) = block.filter(|it| it.ends_with(':')) {
        return Some((start, true));
    }
    let group = line.strip_suffix(['(', '[', '{']).map(str::trim_end);
    if let Some(start) = group.filter(|it| it.ends_with(['=', ':'])) {
        return Some((start, false));
    }
    // The second argument of a call is often a default value. The elements of a list do not belong together.
    let is_call = line.ends_with(',') && line.contains('(');
    (line.ends_with(['=', ':', '(']) || is_call).then_some((line, false))
}

#[cfg(test)]
mod tests {
    use super::join;
    use crate::file_kind::FileKind;

    #[test]
    fn lines_are_joined_only_before_a_value() {
        let joined =
            |previous: &str, line: &str| join(previous, line, FileKind::Code).map(|it| it.0);
        for (previous, line, expected) in [
            ("a = (", "    \"x\"", "a = \"x\""),
            ("a =", "    r#\"x\"#;", "a = r#\"x\"#;"),
            ("a =", "    &\"x\";", "a = &\"x\";"),
            ("a = \\", "    x", "a = x"),
            ("a =", "  b'x';", "a = b'x';"),
            ("a: >-  ", "  x y", "a: x y"),
            ("a: |", "  x", "a: x"),
            ("f(\"a\",", "  \"x\")", "f(\"a\", \"x\")"),
            ("a = (", "\"é\\\": é\"", "a = \"é\\\": é\""),
            ("a =", "'x'::text", "a = 'x'::text"),
            ("a = (", "\"x\" if b else c", "a = \"x\" if b else c"),
            ("  - name: a1", "    value: x", "a1: x"),
            ("\"Key\": \"a1\",", "\"Value\": \"x\"", "a1: \"x\""),
            ("<key>a1</key>", "  <string>x</string>", "a1: \"x\""),
            ("variable \"a1\" {", "  default = \"x\"", "a1: \"x\""),
        ] {
            assert_eq!(joined(previous, line).as_deref(), Some(expected));
        }
        for (previous, line) in [
            ("a = 1", "\"x\""),
            ("a:", "  b: c"),
            ("a = (", "  b"),
            ("\"a\",", "\"x\","),
            ("", "x"),
            ("\"a\": {", "\"é\": \"x\","),
            ("a = {", "  'b' => 'x',"),
            ("a = {", "  \"b\" = \"x\""),
            ("- name: a1", "  image: x"),
            ("- name: a b", "  value: x"),
        ] {
            assert_eq!(joined(previous, line), None, "{previous}");
        }
        let long = "é".repeat(5000);
        let (text, at) =
            join(&format!("{long} ="), &format!("\"{long}\""), FileKind::Code).unwrap();
        assert_eq!(join("Set the a:", "\"X\" stores it.", FileKind::Prose), None);
        assert!(text.len() < 2100 && text[at..].starts_with('"'), "{}", text.len());
    }
}
