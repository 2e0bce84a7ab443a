//! Paths of files in an agent's state.

use crate::AgentError;

/// Maximum length of a path, in bytes.
const MAX_PATH: usize = 256;

/// Normalises a path that a model wrote: relative to the root of the files, with `/` between its parts.
pub(crate) fn file_path(text: &str) -> Result<String, AgentError> {
    let parts: Vec<&str> = text.split('/').filter(|it| !it.is_empty() && *it != ".").collect();
    let is_valid = !parts.is_empty()
        && text.len() <= MAX_PATH
        && !text.chars().any(char::is_control)
        && !parts.contains(&"..");
    match is_valid {
        true => Ok(parts.join("/")),
        false => Err(AgentError::tool(format!(
            "invalid path {text:?}; use a path such as `notes/plan.md`, without `..`, of at most {MAX_PATH} bytes"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::file_path;

    #[test]
    fn paths_stay_inside_the_root() {
        assert_eq!(file_path("/a/./b//c.md").unwrap(), "a/b/c.md");
        for bad in ["", "/", "..", "a/../../b", "a\0b", &"x".repeat(300)] {
            assert!(file_path(bad).is_err(), "{bad:?}");
        }
    }
}
