//! Glob patterns.

use regex::Regex;

use crate::AgentError;

/// Converts a glob pattern to a regular expression for whole paths: `*` and `?` do not match `/`, `**` matches any
/// number of directories, `[a-z]` matches one character, and `{a,b}` matches one of several parts.
pub(super) fn to_regex(glob: &str) -> Result<Regex, AgentError> {
    let mut regex = String::from("^");
    let mut rest = glob.trim_start_matches('/');
    let mut depth = 0;
    while let Some(first) = rest.chars().next() {
        let (part, length) = if rest.starts_with("**/") {
            ("(?:.*/)?".to_owned(), 3)
        } else if rest.starts_with("**") {
            (".*".to_owned(), 2)
        } else {
            match first {
                '*' => ("[^/]*".to_owned(), 1),
                '?' => ("[^/]".to_owned(), 1),
                '{' => {
                    depth += 1;
                    ("(?:".to_owned(), 1)
                }
                '}' if depth > 0 => {
                    depth -= 1;
                    (")".to_owned(), 1)
                }
                ',' if depth > 0 => ("|".to_owned(), 1),
                '[' => match rest[1..].find(']') {
                    Some(end) => {
                        let set = rest[1..=end].replacen(
                            '!',
                            "^",
                            usize::from(rest[1..].starts_with('!')),
                        );
                        (format!("[{}]", set.replace('\\', "\\\\").replace('[', "\\[")), end + 2)
                    }
                    None => ("\\[".to_owned(), 1),
                },
                other => (regex::escape(&other.to_string()), other.len_utf8()),
            }
        };
        regex += &part;
        rest = &rest[length..];
    }
    regex.push('$');
    Regex::new(&regex)
        .map_err(|_| AgentError::tool(format!("`{glob}` is not a valid glob pattern")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_paths() {
        for (glob, path, expected) in [
            ("*.rs", "main.rs", true),
            ("*.rs", "src/main.rs", false),
            ("**/*.rs", "src/main.rs", true),
            ("**/*.rs", "main.rs", true),
            ("src/**", "src/a/b.txt", true),
            ("/src/*.{ts,tsx}", "src/a.tsx", true),
            ("src/*.{ts,tsx}", "src/a.js", false),
            ("a?c", "abc", true),
            ("[!a]x", "ax", false),
            ("[ab]x", "bx", true),
            ("a+b", "a+b", true),
            ("a+b", "aab", false),
        ] {
            assert_eq!(to_regex(glob).unwrap().is_match(path), expected, "{glob} {path}");
        }
        assert!(to_regex("{a").is_err());
        assert!(to_regex("[").unwrap().is_match("["));
    }
}
