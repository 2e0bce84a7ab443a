//! Finds values in XML. The name of a value is a tag, an attribute or the preceding element.

use std::sync::LazyLock;

use regex::Regex;

/// The rest of an XML tag, with its attributes, and the text after it.
static TAG: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"^(?:\s+[\w:.-]+\s*=\s*(?:"[^"]*"|'[^']*'))*\s*>(?:\s*<(?i:value)>)?([^<]*)<"#)
        .expect("a test compiles the pattern")
});

/// The value after the name in a property list: `<key>password</key><string>x</string>`.
static LIST_VALUE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^</(?:key|string|name)>\s*<(?:string|value)>([^<]+)</")
        .expect("a test compiles the pattern")
});

/// The value after the name in an HTML table or list: `<td>Password</td><td>x</td>`.
static CELL_VALUE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^:?</(?:td|th|dt|b|strong)>:?\s*<(?:td|dd|code)[^<>]*>(?:<code>)?([^<\s]+)</")
        .expect("a test compiles the pattern")
});

/// The text of the XML element that an attribute names: `<entry key="password">x</entry>`.
static ELEMENT_TEXT: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"^["'](?:\s+[\w:.-]+\s*=\s*"[^"]*")*\s*>(?:\s*<value>)?([^<]+)</"#)
        .expect("a test compiles the pattern")
});

/// The start of an XML element up to the name in its attribute. The elements in the capture group also contain
/// user-visible texts.
static NAMED_ELEMENT: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r#"(?i)^<(?:entry|property|setting|param|add|stringprop|attribute|field|item|arg|variable|env|(data|string))\s(?:[^>]*\s)?(?:key|name)\s*=\s*["'][^"'>]*$"#,
    )
    .expect("a test compiles the pattern")
});

/// Returns whether the text before a name is the start of an opening tag. The name may have a namespace, as in
/// `<ns:password>`.
pub(crate) fn is_tag(before: &str) -> bool {
    let namespace = before.strip_suffix(':').map(|it| it.trim_end_matches(char::is_alphanumeric));
    namespace.unwrap_or(before).ends_with('<')
}

/// Returns the text of the XML element whose tag name precedes `after`.
pub(crate) fn tag_text(after: &str) -> Option<&str> {
    TAG.captures(after)?.get(1).map(|it| it.as_str())
}

/// Returns the value of the property list key that precedes `after`.
pub(crate) fn list_value(after: &str) -> Option<&str> {
    LIST_VALUE.captures(after)?.get(1).map(|it| it.as_str())
}

/// Returns the text of the HTML cell that follows the cell with the name.
pub(crate) fn cell_value(after: &str) -> Option<&str> {
    CELL_VALUE.captures(after)?.get(1).map(|it| it.as_str())
}

/// Returns the text of the XML element that has the name in an attribute.
pub(crate) fn element_text<'a>(before: &str, after: &'a str) -> Option<&'a str> {
    let text = ELEMENT_TEXT.captures(after)?.get(1)?.as_str();
    let element = NAMED_ELEMENT.captures(&before[before.rfind('<')?..])?;
    let is_label = element.get(1).is_some() && text.trim().contains(char::is_whitespace);
    (!is_label).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::element_text;

    #[test]
    fn only_elements_that_hold_settings_have_values() {
        for (before, after, expected) in [
            ("<entry key=\"", "\">x y</entry>", Some("x y")),
            ("<a/><setting type=\"a\" name=\"db.", "\" scope=\"b\">x</setting>", Some("x")),
            ("<property name='", "'><value>x</value></property>", Some("x")),
            ("<string name=\"", "\">x</string>", Some("x")),
            ("<string name=\"", "\">x y</string>", None),
            ("<label for=\"", "\">x</label>", None),
            ("<testcase name=\"", "\">x</testcase>", None),
            ("<entry class=\"", "\">x</entry>", None),
            ("", "\">x</entry>", None),
        ] {
            assert_eq!(element_text(before, after), expected, "{before}");
        }
    }
}
