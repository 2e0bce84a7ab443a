//! The directory of an ablation.
//!
//! | file | content |
//! |---|---|
//! | `settings.json`, `config.toml` | the [`AblationSettings`], and the configuration in them |
//! | `moves.json` | the generated moves with their ground truth |
//! | `state.db` | one thread for each trial |
//! | `calls.jsonl` | every model call with its answer, compressed |
//! | `lock` | lock file, locked by the process that executes the ablation |
//! | `ablation.json`, `report.md`, `report.html` | the results |

use std::path::{Path, PathBuf};

use app_support::files;
use serde::{Serialize, de::DeserializeOwned};

use super::{
    cases::{Case, generate},
    error::AblationError,
    settings::AblationSettings,
};
use crate::{config::Config, data::Ticker, models::Limit};

const SETTINGS_FILE: &str = "settings.json";
const MOVES_FILE: &str = "moves.json";
pub(super) const THREADS_FILE: &str = "state.db";
pub(super) const CALLS_FILE: &str = "calls.jsonl";

/// An ablation in a directory.
#[derive(Debug, Clone)]
pub struct AblationDir {
    pub(super) dir: PathBuf,
    pub(super) settings: AblationSettings,
    pub(super) config: Config,
    pub(super) cases: Vec<Case>,
}

impl AblationDir {
    /// Creates an ablation in a directory, which must be empty or not exist yet. Reads the company's data and generates
    /// the moves.
    pub async fn create(
        dir: impl Into<PathBuf>,
        settings: AblationSettings,
    ) -> Result<Self, AblationError> {
        let dir = dir.into();
        if !files::is_empty_dir(&dir) {
            return Err(AblationError::DirNotEmpty(dir));
        }
        let ticker = Ticker::parse(&settings.ticker).map_err(|error| {
            AblationError::InvalidFile { path: dir.join(SETTINGS_FILE), problem: error.to_string() }
        })?;
        let company = settings.data.read(&ticker).await?;
        let cases = generate(&company, settings.pairs, settings.choice.seed)?;
        let config = Config::parse(&settings.config_toml)?;
        files::create_dir(&dir)?;
        write_json(&dir.join(MOVES_FILE), &cases)?;
        files::write_synced(&dir.join("config.toml"), &settings.config_toml)?;
        // Written last, because a directory without this file is not an ablation.
        write_json(&dir.join(SETTINGS_FILE), &settings)?;
        Ok(Self { dir, settings, config, cases })
    }

    /// Opens an ablation to resume it. Fails if another version of the program created it, whose prompts may differ.
    pub fn open(dir: impl Into<PathBuf>) -> Result<Self, AblationError> {
        let dir = dir.into();
        if !dir.join(SETTINGS_FILE).is_file() {
            return Err(AblationError::NotAnAblation(dir));
        }
        let settings: AblationSettings = read_json(&dir.join(SETTINGS_FILE))?;
        let after = env!("CARGO_PKG_VERSION");
        if settings.version != after {
            return Err(AblationError::OtherVersion { before: settings.version, after });
        }
        let config = Config::parse(&settings.config_toml)?;
        let cases: Vec<Case> = read_json(&dir.join(MOVES_FILE))?;
        let is_in_order = |(index, it): (usize, &Case)| {
            it.pair == index / 2 && it.flaw.is_some() == (index % 2 == 1)
        };
        if cases.len() != 2 * settings.pairs || !cases.iter().enumerate().all(is_in_order) {
            let pairs = settings.pairs;
            return Err(AblationError::InvalidFile {
                path: dir.join(MOVES_FILE),
                problem: format!(
                    "it must contain the {pairs} pairs of moves that were generated, in order"
                ),
            });
        }
        Ok(Self { dir, settings, config, cases })
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    pub fn settings(&self) -> &AblationSettings {
        &self.settings
    }

    /// Returns the spending limit of this execution: the given one, or else the stored one. Stores it for later
    /// executions.
    pub(super) fn store_limit(&self, limit: Limit) -> Result<Limit, AblationError> {
        let path = self.dir.join(SETTINGS_FILE);
        let mut settings: AblationSettings = read_json(&path)?;
        let limit = limit.or(settings.limit);
        if limit != settings.limit {
            settings.limit = limit;
            write_json(&path, &settings)?;
        }
        Ok(limit)
    }
}

/// Writes indented JSON.
pub(super) fn write_json(path: &Path, value: &impl Serialize) -> Result<(), AblationError> {
    let text =
        serde_json::to_string_pretty(value).expect("the files of an ablation serialize to JSON");
    Ok(files::write_synced(path, &(text + "\n"))?)
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, AblationError> {
    let invalid = |error: serde_json::Error| AblationError::InvalidFile {
        path: path.to_owned(),
        problem: error.to_string(),
    };
    serde_json::from_str(&files::read(path)?).map_err(invalid)
}
