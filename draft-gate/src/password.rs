//! Recognizes passwords by their characters.

use crate::{
    literal::literal, random_text::is_generated, reference::is_literal, secret_words::is_ordinary,
};

/// Returns whether a value has letters together with digits or symbols, as passwords do.
pub(crate) fn is_strong(value: &str) -> bool {
    let has = |test: fn(char) -> bool| value.chars().any(test);
    let is_symbol = |it: char| "!@#^&*+~%=?$".contains(it);
    let inner = value.trim_end_matches(['!', '?', '*', ':', '=']);
    value.chars().count() >= 5
        && has(char::is_alphabetic)
        && (has(|it| it.is_ascii_digit()) || inner.chars().any(is_symbol))
        && !value.contains(char::is_whitespace)
}

/// Returns whether a value is a literal that has letters together with digits or symbols.
pub(crate) fn is_mixed_literal(value: &str) -> bool {
    is_literal(value) && is_strong(value)
}

/// Returns whether a value is almost certainly a password: it has lowercase letters and digits, together with uppercase
/// letters or symbols. Hyphens and underscores do not count, because they also separate the words of names.
pub(crate) fn is_strong_literal(value: &str) -> bool {
    let has = |test: fn(&char) -> bool| value.chars().any(|it| test(&it));
    let is_mixed = has(char::is_ascii_uppercase)
        && (has(|it| it.is_ascii_punctuation() && !matches!(it, '-' | '_')) || is_generated(value))
        || has(|it| "!@#^&*+~%".contains(*it));
    is_literal(value)
        && has(char::is_ascii_lowercase)
        && has(char::is_ascii_digit)
        && is_mixed
        && !is_link(value)
}

/// Returns whether a value is a URL or a link to a section of a page.
fn is_link(value: &str) -> bool {
    let is_section = |it: &str| it.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'-');
    value.contains("://")
        || value.split_once('#').is_some_and(|(page, section)| {
            (page.is_empty() || page.ends_with(".html") || page.ends_with(".md"))
                && section.contains('-')
                && is_section(section)
        })
}

/// Returns whether a value looks like a password that a person would choose: it has letters, and several digits or a
/// symbol.
pub(crate) fn is_likely_password(value: &str) -> bool {
    let n_digits = value.bytes().filter(u8::is_ascii_digit).count();
    let has_symbol = value.contains(['!', '@', '#', '^', '&', '*', '+', '~', '%']);
    (6..=64).contains(&value.len())
        && is_mixed_literal(value)
        && (n_digits >= 2 || has_symbol || is_strong_literal(value))
        && !value.contains(|it: char| "/.:\\,;()[]{}<>".contains(it))
}

/// Searches the arguments of a call for a probable password. The first string literal never counts, because it is a
/// host or a user.
pub(crate) fn password_argument(arguments: &str) -> Option<&str> {
    let mut rest = arguments;
    let mut n_literals = 0;
    while let Some(start) = rest.find(['"', '\'']) {
        let (inner, end) = literal(&rest[start..])?;
        let value = &inner[..end?];
        n_literals += 1;
        if n_literals > 1 && is_likely_password(value) && !value.contains('@') {
            return Some(value);
        }
        if n_literals > 1 && value.contains('@') && is_strong_literal(value) && !is_address(value) {
            return Some(value);
        }
        rest = &inner[end? + 1..];
    }
    None
}

/// Returns whether a value is an e-mail address.
fn is_address(value: &str) -> bool {
    let is_host = |it: char| it.is_ascii_alphanumeric() || it == '.' || it == '-';
    value.split_once('@').is_some_and(|(_, host)| {
        host.contains('.') && host.chars().all(is_host) && host.ends_with(char::is_alphabetic)
    })
}

/// Searches the cells of a table row for a value that is almost certainly a password. E-mail addresses and names of
/// algorithms, such as `Sha256+Salt`, do not count.
pub(crate) fn password_cell(row: &str) -> Option<&str> {
    let is_algorithm = |it: &str| it.split(|it: char| !it.is_alphanumeric()).any(is_ordinary);
    row.split('|').map(str::trim).find(|it| {
        (5..=120).contains(&it.len())
            && !it.contains(|it: char| it.is_whitespace() || "`'\"()[]<>$".contains(it))
            && !is_address(it)
            && !is_algorithm(it)
            && is_strong_literal(it)
    })
}

#[cfg(test)]
mod tests {
    use super::{is_likely_password, password_argument, password_cell};

    #[test]
    fn any_cell_of_a_row_may_be_a_password() {
        assert_eq!(password_cell("| db1 | admin | Fa1con!wing |"), Some("Fa1con!wing"));
        assert_eq!(password_cell("|Fa1con!wing|admin|"), Some("Fa1con!wing"));
        for row in [
            "| password | Sha256+Salt |", "| owner | Jane.Doe1@example.com |",
            "| password | My-Service_release2 |", "| see the section Fa1con!wing |", "|",
        ] {
            assert_eq!(password_cell(row), None, "{row}");
        }
    }

    #[test]
    fn likely_passwords_have_several_digits_or_a_symbol() {
        for value in ["m34dow85", "Fa1con!", "ribbon_12*x", "bZqgUtjHkmnX9a"] {
            assert!(is_likely_password(value), "{value}");
        }
        for value in ["database2", "meadow", "a/b12cd", "v1.22.333", "test1234", "sha256"] {
            assert!(!is_likely_password(value), "{value}");
        }
    }

    #[test]
    fn first_argument_is_never_a_password() {
        assert_eq!(password_argument("'app', 'm34dow85'"), Some("m34dow85"));
        assert_eq!(
            password_argument("c, \"host\", \"app\", \"Fa1con@wing\", 0"),
            Some("Fa1con@wing")
        );
        for arguments in ["'m34dow85'", "'app', 'x1@example.com'", "'app', user12, \"open", ""] {
            assert_eq!(password_argument(arguments), None, "{arguments}");
        }
    }
}
