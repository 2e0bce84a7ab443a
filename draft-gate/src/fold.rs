//! Joins string literals that a program concatenates, so that a secret in several parts is found.

use std::{borrow::Cow, sync::LazyLock};

use regex::Regex;

use crate::file_kind::FileKind;

/// The end of a literal, an operator that concatenates strings, and the start of the next literal.
static OPERATOR: LazyLock<Regex> = LazyLock::new(|| {
    let operator = r"(?:\+\+|\+|\.\.|\.|&|<>|\|\||~|\^|\\)";
    Regex::new(&format!(r#""\s*{operator}\s*"|'\s*{operator}\s*'|`\s*\+\s*`"#))
        .expect("a test compiles the pattern")
});

/// The end of a literal and the start of the next one, which some languages join without an operator.
static ADJACENT: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r#""\s+"|'\s+'"#).expect("a test compiles the pattern"));

/// Elements of a list that are joined without a separator: `"".join(["a", "b"])` and `["a", "b"].join("")`.
static JOINED: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"(?:""|'')\.join\(\[?|\]\.(?:join\((?:""|'')\)|concat\(\))|\bconcat!?\(|\bjoin\((?:""|''),"#)
        .expect("a test compiles the pattern")
});

/// The end of an element of a list and the start of the next one.
static ELEMENT: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r#""\s*,\s*"|'\s*,\s*'"#).expect("a test compiles the pattern"));

/// Returns the text with its concatenated literals joined, or `None` if there are none.
pub(crate) fn fold(text: &str, file: FileKind) -> Option<String> {
    let mut folded = OPERATOR.replace_all(text, "");
    if file == FileKind::Code {
        folded = replace(folded, &ADJACENT, "");
    }
    if JOINED.is_match(&folded) {
        folded = replace(folded, &ELEMENT, "");
        folded = replace(folded, &JOINED, "");
    }
    (folded.len() < text.len()).then(|| folded.into_owned())
}

fn replace<'a>(text: Cow<'a, str>, pattern: &Regex, with: &str) -> Cow<'a, str> {
    match pattern.replace_all(&text, with) {
        Cow::Borrowed(_) => text,
        Cow::Owned(text) => Cow::Owned(text),
    }
}

#[cfg(test)]
mod tests {
    use super::fold;
    use crate::file_kind::FileKind::{Code, Prose};

    #[test]
    fn concatenated_literals_are_joined() {
        for (text, expected) in [
            (r#"a = "x" + "y" + 'z'"#, r#"a = "xy" + 'z'"#),
            ("$a = 'x' . 'y';", "$a = 'xy';"),
            (r#"a = "x" "y""#, r#"a = "xy""#),
            (r#"a = "".join(["x", "y"])"#, r#"a = "xy"])"#),
            (r#"a = concat!("x", "y")"#, r#"a = "xy")"#),
            (r#"a = ["x", "y"].join("")"#, r#"a = ["xy""#),
        ] {
            assert_eq!(fold(text, Code).as_deref(), Some(expected));
        }
        assert_eq!(fold(r#"f("x", "y")"#, Code), None);
        assert_eq!(fold(r#"say "x" "y""#, Prose), None);
    }
}
