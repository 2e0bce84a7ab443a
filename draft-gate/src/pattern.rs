//! Path patterns in contracts and rules. Only `*` and `**` are special.
//!
//! In a general glob, a file name such as `[id].tsx` would be a pattern that does not match the file itself.

/// Returns whether a pattern matches a path. `*` matches any text within a name, and `**` matches any number of
/// directories. A pattern that matches a directory also matches everything in it.
pub(crate) fn matches_path(pattern: &str, path: &str) -> bool {
    let pattern: Vec<&str> = pattern.split('/').filter(|it| !it.is_empty() && *it != ".").collect();
    let path: Vec<&str> = path.split('/').collect();
    matches_components(&pattern, &path)
}

fn matches_components(pattern: &[&str], path: &[&str]) -> bool {
    match (pattern.split_first(), path.split_first()) {
        (None, _) => true,
        (Some((&"**", rest)), _) => {
            (0..=path.len()).any(|it| matches_components(rest, &path[it..]))
        }
        (Some(_), None) => false,
        (Some((first, pattern)), Some((name, path))) => {
            matches_name(first, name) && matches_components(pattern, path)
        }
    }
}

/// Returns whether a pattern, which may contain `*`, matches a single name.
pub(crate) fn matches_name(pattern: &str, name: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut name) = name.strip_prefix(start) else { return false };
    let mut parts = rest.split('*').peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return name.ends_with(part);
        }
        let Some(at) = name.find(part) else { return false };
        name = &name[at + part.len()..];
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_names_and_directories() {
        for (pattern, path, expect) in [
            ("src", "src/a.py", true),
            ("src/", "src/a.py", true),
            ("src", "src-evil/a.py", false),
            ("src/*.py", "src/a.py", true),
            ("src/*.py", "src/b/a.py", false),
            ("src/**/*.py", "src/b/c/a.py", true),
            ("src/**/*.py", "src/a.py", true),
            ("**/*.lock", "a/Cargo.lock", true),
            ("a*b*c", "aXbYc", true),
            ("a*b*c", "aXc", false),
            ("*", "anything/at/all", true),
        ] {
            assert_eq!(matches_path(pattern, path), expect, "{pattern} {path}");
        }
    }
}
