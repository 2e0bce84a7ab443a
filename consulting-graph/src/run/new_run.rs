//! Helpers for creating runs: they validate the configuration, change its number of rounds and create the nonce.

use app_support::run_id::{RandomError, random_hex};
use llm::{RecordMode, Recording};
use sha2::{Digest, Sha256};

use super::error::RunError;
use crate::{
    config::Config,
    models::{CallLimits, Limit, ModelChoice, Models},
};

/// Checks, before any file is created, that a new run can start with this configuration, and returns the parsed
/// configuration. Does not load local model files.
pub fn validate(config: &str, choice: &ModelChoice, limit: Limit) -> Result<Config, RunError> {
    let config = Config::parse(config)?;
    choice.check_not_contradictory(&config)?;
    choice.check_files(&config)?;
    if limit.money.is_some() {
        choice.check_prices(&config)?;
    }
    if choice.provider != "local" {
        let recording = Recording::open("", RecordMode::Live)?;
        let (limit, call_limits) = (Limit::default(), CallLimits::default());
        Models::new(&config, choice.clone(), None, limit, &recording, 0, &call_limits)?;
    }
    Ok(config)
}

/// Returns the configuration text with the number of rounds set to `rounds`. All other text is unchanged.
pub fn with_rounds(text: &str, rounds: u32) -> String {
    let is_rounds = |line: &str| {
        let rest = line.trim_start().strip_prefix("rounds");
        rest.is_some_and(|it| it.trim_start().starts_with('='))
    };
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if line.trim_start().starts_with('[') {
            break;
        }
        if is_rounds(line) {
            let comment = line.find('#').map_or("\n", |it| &line[it..]);
            let blank = if comment.starts_with('#') { " " } else { "" };
            let end = at + line.len();
            return format!("{}rounds = {rounds}{blank}{comment}{}", &text[..at], &text[end..]);
        }
        at += line.len();
    }
    format!("rounds = {rounds}\n{text}")
}

/// Returns the random part of the delimiters around untrusted text. For the scripted model, it depends only on the
/// seed, so that runs are reproducible.
pub fn nonce(choice: &ModelChoice) -> Result<String, RandomError> {
    if !choice.is_scripted() {
        return random_hex(8);
    }
    let digest = Sha256::digest(format!("scripted run {}", choice.seed).as_bytes());
    Ok(hex::encode(&digest[..8]))
}

#[cfg(test)]
mod tests {
    use super::{ModelChoice, nonce, with_rounds};
    use crate::config::{Config, DEFAULT};

    #[test]
    fn with_rounds_changes_nothing_else() {
        let text = with_rounds(DEFAULT, 3);
        assert_eq!(text, DEFAULT.replace("\nrounds = 10\n", "\nrounds = 3\n"));
        assert_eq!(Config::parse(&text).unwrap().rounds, 3);
        assert_eq!(with_rounds("rounds=9 # long\r\nx", 2), "rounds = 2 # long\r\nx");
        let without_rounds = "top_k = 3\n[a]\nrounds = 1\n";
        assert_eq!(with_rounds(without_rounds, 2), format!("rounds = 2\n{without_rounds}"));
    }

    #[test]
    fn nonces_are_reproducible_for_scripted_runs_and_random_otherwise() {
        let nonce_of = |provider, seed| {
            nonce(&ModelChoice { seed, ..ModelChoice::for_provider(provider) }).unwrap()
        };
        assert_eq!(nonce_of("scripted", 1), nonce_of("scripted", 1));
        assert_ne!(nonce_of("scripted", 1), nonce_of("scripted", 2));
        assert_ne!(nonce_of("anthropic", 1), nonce_of("anthropic", 1));
    }
}
