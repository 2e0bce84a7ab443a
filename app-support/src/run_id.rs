//! Ids of runs.

use std::time::SystemTime;

use chrono::{DateTime, Utc};

/// The error returned when the operating system provides no random bytes.
#[derive(Debug, thiserror::Error)]
#[error("cannot read random bytes from the operating system: {0}")]
pub struct RandomError(getrandom::Error);

/// Returns an id for a new run: `slug`, the time and random digits, as in `nvda-20261115-121630-4f1c09ab`.
pub fn run_id(slug: &str) -> Result<String, RandomError> {
    Ok(format!("{slug}-{}-{}", now().format("%Y%m%d-%H%M%S"), random_hex(4)?))
}

/// Returns `bytes` random bytes in hexadecimal.
pub fn random_hex(bytes: usize) -> Result<String, RandomError> {
    let mut filled = vec![0; bytes];
    getrandom::fill(&mut filled).map_err(RandomError)?;
    Ok(hex::encode(filled))
}

/// Returns the current time.
pub fn now() -> DateTime<Utc> {
    SystemTime::now().into()
}

#[cfg(test)]
mod tests {
    use super::run_id;

    #[test]
    fn ids_are_unique_and_start_with_the_slug() {
        let [one, other] = [0, 1].map(|_| run_id("nvda").unwrap());
        assert_ne!(one, other);
        let lengths: Vec<usize> = one.split('-').map(str::len).collect();
        assert_eq!(lengths, ["nvda".len(), 8, 6, 8]);
    }
}
