//! What a new run is given that nobody says: an id, a time, a secret.

use std::time::SystemTime;

use chrono::{DateTime, Utc};
use llm::{RecordMode, Recording};
use sha2::{Digest, Sha256};

use super::RunProblem;
use crate::{
    config::Config,
    data::Ticker,
    models::{Choice, Limit, Models},
};

/// The operating system has no chance to give.
#[derive(Debug, thiserror::Error)]
#[error("no chance can be had from the operating system: {0}")]
pub struct NoChance(getrandom::Error);

/// An id for a new run, like `nvda-20261115-121630-4f1c09ab`.
pub fn run_id(ticker: &Ticker) -> Result<String, NoChance> {
    Ok(format!("{}-{}-{}", ticker.slug(), now().format("%Y%m%d-%H%M%S"), chance(4)?))
}

/// Sees that everybody can speak in a new run within its limit, before anything of it is left behind. A model from a
/// file is not loaded for that.
pub fn check(config: &str, choice: &Choice, limit: Limit) -> Result<(), RunProblem> {
    let config = Config::parse(config)?;
    choice.check_files(&config)?;
    if limit.money.is_some() {
        choice.check_prices(&config)?;
    }
    if choice.provider != "local" {
        let nowhere = Recording::open("", RecordMode::Live)?;
        Models::new(&config, choice.clone(), None, Limit::default(), &nowhere, 0)?;
    }
    Ok(())
}

/// The time.
pub fn now() -> DateTime<Utc> {
    SystemTime::now().into()
}

/// The configuration with so many rounds, everything else to the letter as it was.
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

/// What untrusted text stands between. Who writes such text for real must not know it; a scripted model's runs are to
/// repeat.
pub fn nonce(choice: &Choice) -> Result<String, NoChance> {
    if !choice.is_scripted() {
        return chance(8);
    }
    let digest = Sha256::digest(format!("scripted run {}", choice.seed).as_bytes());
    Ok(hex(&digest[..8]))
}

/// So many bytes nobody can guess, as text.
pub fn chance(bytes: usize) -> Result<String, NoChance> {
    let mut filled = vec![0; bytes];
    getrandom::fill(&mut filled).map_err(NoChance)?;
    Ok(hex(&filled))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|it| format!("{it:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::{Choice, nonce, with_rounds};
    use crate::config::{Config, DEFAULT};

    #[test]
    fn only_the_rounds_change() {
        let text = with_rounds(DEFAULT, 3);
        assert_eq!(text, DEFAULT.replace("\nrounds = 10\n", "\nrounds = 3\n"));
        assert_eq!(Config::parse(&text).unwrap().rounds, 3);
        assert_eq!(with_rounds("rounds=9 # long\r\nx", 2), "rounds = 2 # long\r\nx");
        let missing = "top_k = 3\n[a]\nrounds = 1\n";
        assert_eq!(with_rounds(missing, 2), format!("rounds = 2\n{missing}"));
    }

    #[test]
    fn scripted_runs_repeat_and_real_ones_cannot_be_guessed() {
        let of = |provider, seed| nonce(&Choice { seed, ..Choice::of(provider) }).unwrap();
        assert_eq!(of("scripted", 1), of("scripted", 1));
        assert_ne!(of("scripted", 1), of("scripted", 2));
        assert_ne!(of("anthropic", 1), of("anthropic", 1));
    }
}
