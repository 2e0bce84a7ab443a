//! Text that readers overlook or misread: invisible and confusable characters, text behind blanks, and disguised hosts.

use crate::{
    escape::escape_non_ascii,
    finding::{Finding, Severity},
    unicode::{
        ascii_duplicate, ascii_lookalike_word, confusable_word, hides_characters, lookalike_word,
        looks_special_in_paths,
    },
};

/// Number of consecutive blanks after which the rest of a line is outside the window of most editors.
const MIN_BLANKS: usize = 100;

/// Number of leading blanks that is larger than any real indentation.
const MIN_INDENT: usize = 300;

/// Returns findings for text in a line that readers overlook or misread. If `is_prose` is true, allows the special
/// spaces and the Latin letters that occur in natural languages.
pub(crate) fn disguises(line: &str, is_prose: bool) -> Vec<Finding> {
    let mut findings = vec![];
    if hides_characters(line.strip_suffix('\r').unwrap_or(line), is_prose) {
        let text = "the line has control, invisible, blank or bidirectional formatting characters";
        findings.push(Finding::new("hidden-characters", Severity::Escalate, text));
    }
    if hides_behind_blanks(line) {
        let text = "the line has text after a long run of blanks, where a reader does not see it";
        findings.push(Finding::new("hidden-characters", Severity::Escalate, text));
    }
    if let Some(url) = disguised_url(line) {
        let start: String = url.chars().take(40).collect();
        let text = format!(
            "the host of the URL `{}` has a character that looks like a separator",
            escape_non_ascii(&start)
        );
        findings.push(Finding::new("confusable-characters", Severity::Escalate, text));
    }
    let word = confusable_word(line).or_else(|| lookalike_word(line));
    let word = word.or_else(|| ascii_duplicate(line));
    if let Some(word) = word.or_else(|| ascii_lookalike_word(line).filter(|_| !is_prose)) {
        let start: String = word.chars().take(20).collect();
        let text = format!(
            "the word `{}` mixes scripts or looks like ASCII text but is not",
            escape_non_ascii(&start)
        );
        findings.push(Finding::new("confusable-characters", Severity::Escalate, text));
    }
    findings
}

/// Returns whether a line has text after so many blanks that a reader does not see it.
fn hides_behind_blanks(line: &str) -> bool {
    let mut n_blanks = 0;
    let mut has_text = false;
    for byte in line.trim_end().bytes() {
        if byte == b' ' || byte == b'\t' {
            n_blanks += 1;
            continue;
        }
        if n_blanks >= if has_text { MIN_BLANKS } else { MIN_INDENT } {
            return true;
        }
        (n_blanks, has_text) = (0, true);
    }
    false
}

/// Returns the first URL whose host contains a character that looks like a separator, such as `U+2215`. The URL refers
/// to a different host than the one that a reader sees.
fn disguised_url(line: &str) -> Option<&str> {
    if line.is_ascii() {
        return None;
    }
    line.split_whitespace().find(|word| {
        let Some((_, rest)) = word.split_once("://") else { return false };
        let host = rest.split(['/', '"', '\'', '`', ')', '>']).next().unwrap_or(rest);
        let next = host.chars().skip(1);
        host.chars()
            .zip(next)
            .any(|(it, next)| looks_special_in_paths(it) && next.is_ascii_alphanumeric())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_behind_many_blanks_is_hidden() {
        let blanks = " ".repeat(MIN_BLANKS);
        assert!(hides_behind_blanks(&format!("x = 1;{blanks}run()")));
        assert!(hides_behind_blanks(&format!("x{}y", "\t".repeat(MIN_BLANKS))));
        assert!(hides_behind_blanks(&format!("{}y", " ".repeat(MIN_INDENT))));
        assert!(!hides_behind_blanks(&format!("{blanks}x = 1;{blanks}")));
        assert!(!hides_behind_blanks("| a          | b          |"));
    }

    #[test]
    fn hosts_with_characters_that_look_like_separators_are_reported() {
        for url in [
            "https://a.com\u{2215}x.org/y", "(https://a.com\u{2044}x@b.org)",
            "http://a\u{ff0e}com/",
        ] {
            assert!(disguised_url(&format!("see {url} here")).is_some(), "{url}");
        }
        for line in [
            "https://a.com/x\u{2215}y", "см. https://a.com\u{2026}", "网址：https://a.com，然后",
            "a\u{2215}b",
        ] {
            assert_eq!(disguised_url(line), None, "{line}");
        }
    }
}
