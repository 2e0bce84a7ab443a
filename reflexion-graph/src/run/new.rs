//! A new session's id.

use std::time::SystemTime;

use chrono::{DateTime, Utc};

/// An id for a new session, like `calculate-fibonacci-20261115-121630-4f1c22`.
pub fn run_id(task: &str) -> Result<String, getrandom::Error> {
    let mut bytes = [0; 3];
    getrandom::fill(&mut bytes)?;
    let chance: String = bytes.iter().map(|it| format!("{it:02x}")).collect();
    let now: DateTime<Utc> = SystemTime::now().into();
    Ok(format!("{}-{}-{chance}", slug(task), now.format("%Y%m%d-%H%M%S")))
}

/// The first words of a task, as they may stand in a folder's name.
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
    fn folders_have_the_names_of_their_tasks() {
        assert_eq!(slug("Calculate fibonacci(10)"), "calculate-fibonacci-10");
        assert_eq!(slug("../../etc/passwd, now"), "etc-passwd-now");
        assert_eq!(slug("計算"), "task");
    }
}
