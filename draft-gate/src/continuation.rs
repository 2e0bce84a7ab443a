//! Statements that assign a value on the next line, as formatters write long values.

use std::sync::LazyLock;

use regex::Regex;

use crate::{file_kind::FileKind, literal::literal};

/// Maximum length of each of the two lines that are joined, in bytes.
const MAX_LINE: usize = 1 << 10;

/// A line that contains only the name of a value: `- name: X`, `{"key": "X",`, `<key>X</key>`, `variable "X" {`
/// and `<setting name="X">`.
static NAME_LINE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r#"^\s*(?:-\s+)?(?:\{?\s*["']?(?i:name|key)["']?\s*[:=]\s*["']?([A-Za-z0-9_.-]{2,99})["']?,?|<key>([A-Za-z0-9_.-]{2,99})</key>|variable\s+"([A-Za-z0-9_-]{2,99})"\s*\{|<(?i:setting|property|entry|param)\s[^<>]*?\b(?:name|key)="([A-Za-z0-9_.-]{2,99})"[^<>/]*>)\s*$"#,
    )
    .expect("a test compiles the pattern")
});

/// The start of a line that contains the value: `value: `, `"value": ` and `default = `.
static VALUE_LINE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"^["']?(?i:value|default)["']?\s*[:=]\s*"#).expect("a test compiles the pattern")
});

/// A line that consists of an XML element with the value: `<value>x</value>` and `<string>x</string>`.
static VALUE_ELEMENT: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^<(?i:string|value)>([^<]*)(?:</|$)").expect("a test compiles the pattern")
});

/// A line joined with the earlier lines to which it belongs.
#[derive(Debug, PartialEq)]
pub(crate) struct Joined {
    pub(crate) text: String,
    /// Position in the text at which the line starts.
    pub(crate) start: usize,
    /// Whether the text is one statement, so that all rules apply to it.
    pub(crate) is_statement: bool,
}

impl Joined {
    fn new(before: &str, line: &str, is_statement: bool) -> Self {
        Self { text: format!("{before}{line}"), start: before.len(), is_statement }
    }

    /// Returns whether the text ends with a string literal, which the next line may continue.
    pub(crate) fn ends_with_literal(&self) -> bool {
        self.text.trim_end().ends_with(['"', '\''])
    }

    /// Joins a name with a value that consists of one word. As in a comparison, the value may also be a name or a
    /// label.
    pub(crate) fn compared(name: &str, value: &str) -> Option<Self> {
        let is_word = !value.is_empty()
            && value.len() <= MAX_LINE
            && !value.contains(|it: char| it.is_whitespace() || "\"'`".contains(it));
        is_word.then(|| Self::new(&format!("{name} == "), &format!("\"{value}\""), false))
    }
}

/// Joins two consecutive lines if the first one ends before the value that it assigns, as `password = (` and
/// `password: >-` do, or if a literal or a command continues in the second line.
pub(crate) fn join(previous: &str, line: &str, file: FileKind) -> Option<Joined> {
    let value = line.trim_start();
    let value = &value[..value.floor_char_boundary(MAX_LINE)];
    let last_bytes = |it: &str| it.ceil_char_boundary(it.len().saturating_sub(MAX_LINE));
    let open = previous.trim_end();
    if let Some(command) = open.strip_suffix('\\') {
        return Some(Joined::new(&format!("{} ", command.trim_end()), value, true));
    }
    if continues_literal(open, value) {
        return Some(Joined::new(&format!("{} ", &open[last_bytes(open)..]), value, true));
    }
    let (start, is_text) = open_assignment(open)?;
    let is_word = !value.is_empty() && !value.trim_end().contains([' ', '\t', ':', '=']);
    let is_joined = match literal(value) {
        Some((inner, end)) => is_value(end.map_or("", |it| &inner[it + 1..]), file),
        None => is_text || (file == FileKind::Settings && start.ends_with(':') && is_word),
    };
    is_joined.then(|| Joined::new(&format!("{} ", &start[last_bytes(start)..]), value, false))
}

/// Returns whether a line starts with a literal that is appended to the literal at the end of the previous line.
fn continues_literal(previous: &str, line: &str) -> bool {
    const OPERATORS: [char; 5] = ['+', '.', '&', '<', '>'];
    let ends = previous.trim_end_matches(OPERATORS).trim_end();
    let starts = line.trim_start_matches(OPERATORS).trim_start();
    let has_operator = ends.len() < previous.len() || starts.len() < line.len();
    let is_after_value = has_operator || ends.contains(['=', '(', ':']);
    is_after_value
        && ['"', '\''].iter().any(|quote| ends.ends_with(*quote) && starts.starts_with(*quote))
}

/// Returns the name that a line contains without its value.
pub(crate) fn named_value(line: &str) -> Option<String> {
    let line = &line[..line.floor_char_boundary(MAX_LINE)];
    Some(NAME_LINE.captures(line)?.iter().skip(1).flatten().next()?.as_str().to_owned())
}

/// Joins a name with the value in a later line.
pub(crate) fn join_value(name: &str, line: &str) -> Option<Joined> {
    let line = line.trim();
    let line = &line[..line.floor_char_boundary(MAX_LINE)];
    let name = format!("{name}: ");
    if let Some(element) = VALUE_ELEMENT.captures(line) {
        return Some(Joined::new(&name, &format!("\"{}\"", element.get(1)?.as_str()), false));
    }
    if let Some(found) = VALUE_LINE.find(line) {
        return Some(Joined::new(&name, &line[found.end()..], false));
    }
    None
}

/// Returns whether a string literal at the start of a line is a value. It may also be a key, as in `"type": "string"`,
/// or the first word of a sentence. `after` is the text after the literal.
fn is_value(after: &str, file: FileKind) -> bool {
    // The closing quote of a raw string is followed by `#`, and that of a literal inside another one is escaped with a
    // backslash.
    let after = after.trim_start_matches(['#', '"', '\'']).trim_start();
    // Two colons convert a value to a type in SQL.
    let is_key = after.starts_with([':', '=']) && !after.starts_with("::");
    let is_in_sentence = file == FileKind::Prose && after.starts_with(char::is_alphanumeric);
    !is_key && !is_in_sentence
}

/// If a line ends with an assignment whose value is on the next line, returns the part of the line up to the value, and
/// whether the value may be unquoted.
fn open_assignment(line: &str) -> Option<(&str, bool)> {
    // The text of a YAML block value follows in separate lines.
    let block = line.trim_end_matches(['-', '+']).strip_suffix(['>', '|']).map(str::trim_end);
    if let Some(start) = block.filter(|it| it.ends_with(':')) {
        return Some((start, true));
    }
    let group = line.strip_suffix(['(', '[', '{']).map(str::trim_end);
    if let Some(start) = group.filter(|it| it.ends_with(['=', ':'])) {
        return Some((start, false));
    }
    // In a call, the next argument is often a default value. In a list, consecutive elements are unrelated.
    let is_call = line.ends_with(',') && line.contains('(');
    (line.ends_with(['=', ':', '(']) || is_call).then_some((line, false))
}

#[cfg(test)]
mod tests {
    use super::{Joined, join, join_value, named_value};
    use crate::file_kind::FileKind;

    #[test]
    fn lines_are_joined_only_before_a_value() {
        let joined =
            |previous: &str, line: &str| join(previous, line, FileKind::Code).map(|it| it.text);
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
            ("a = \"x\" +", "  \"y\";", "a = \"x\" + \"y\";"),
            ("a = 'x'", "  . 'y';", "a = 'x' . 'y';"),
            ("f \\", "  -u x", "f -u x"),
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
            ("\"a\"", "\"x\""),
        ] {
            assert_eq!(joined(previous, line), None, "{previous}");
        }
        let long = "é".repeat(5000);
        let Joined { text, start, .. } =
            join(&format!("{long} ="), &format!("\"{long}\""), FileKind::Code).unwrap();
        assert_eq!(join("Set the a:", "\"X\" stores it.", FileKind::Prose), None);
        assert!(text.len() < 2100 && text[start..].starts_with('"'), "{}", text.len());
        let word = |line: &str| join("a:", line, FileKind::Settings).map(|it| it.text);
        assert_eq!(word("  x1").as_deref(), Some("a: x1"));
        assert_eq!(word("  type: string"), None);
    }

    #[test]
    fn names_are_joined_with_values_in_other_lines() {
        for (name_line, value_line, expected) in [
            ("  - name: a1", "    value: x", "a1: x"),
            ("{\"Key\": \"a1\",", "\"Value\": \"x\"", "a1: \"x\""),
            ("<key>a1</key>", "  <string>x</string>", "a1: \"x\""),
            ("<setting name=\"a1\" type=\"b\">", "  <value>x</value>", "a1: \"x\""),
            ("variable \"a1\" {", "  default = \"x\"", "a1: \"x\""),
        ] {
            let name = named_value(name_line).unwrap();
            assert_eq!(join_value(&name, value_line).unwrap().text, expected);
        }
        assert_eq!(named_value("- name: a b"), None);
        assert_eq!(join_value("a1", "  image: x"), None);
    }
}
