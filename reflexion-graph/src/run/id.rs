//! Generates ids for new sessions.

use app_support::run_id::{self, RandomError};

/// Generates an id, for example `calculate-fibonacci-20261115-121630-4f1c22ab`.
pub fn run_id(task: &str) -> Result<String, RandomError> {
    run_id::run_id(&slug(task))
}

/// Converts the first three words of a task to a text that is safe in a directory name.
fn slug(task: &str) -> String {
    let words = task.split(|it: char| !it.is_ascii_alphanumeric()).filter(|it| !it.is_empty());
    let words: Vec<String> = words.take(3).map(|it| it.chars().take(16).collect()).collect();
    let slug = words.join("-").to_ascii_lowercase();
    if slug.is_empty() { "task".to_owned() } else { slug }
}

#[cfg(test)]
mod tests {
    use super::slug;

    #[test]
    fn ids_start_with_words_of_the_task() {
        assert_eq!(slug("Calculate fibonacci(10)"), "calculate-fibonacci-10");
        assert_eq!(slug("../../etc/passwd, now"), "etc-passwd-now");
        assert_eq!(slug("計算"), "task");
    }
}
