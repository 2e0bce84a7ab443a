//! Splits a command line into words.

/// Splits a command line into words, with the quotes of a POSIX shell. Returns `None` if it contains anything that a
/// shell would interpret differently: operators, redirections, variables, substitutions, patterns, or an open quote.
pub(super) fn words(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = line.chars();
    while let Some(char) = chars.next() {
        match char {
            '\'' | '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next()? {
                        end if end == char => break,
                        '$' | '`' | '\\' if char == '"' => return None,
                        other => word.push(other),
                    }
                }
            }
            ' ' | '\t' => words.extend(word.take()),
            '|' | '&' | ';' | '<' | '>' | '(' | ')' | '$' | '`' | '\\' | '*' | '?' | '[' | ']'
            | '#' | '~' | '{' | '}' | '!' | '\n' | '\r' | '\0' => return None,
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_words_are_kept_together() {
        let words = words("grep -n  'a | b' \"c d\"e ''").unwrap();
        assert_eq!(words, ["grep", "-n", "a | b", "c de", ""]);
    }

    #[test]
    fn shell_syntax_is_refused() {
        for line in
            ["ls; rm x", "ls | sh", "echo $HOME", "echo `id`", "ls > f", "'a", "\"$(id)\"", "a\nb"]
        {
            assert_eq!(words(line), None, "{line}");
        }
    }
}
