//! A run in a folder: everything that is needed to go on with it, to repeat it, and to branch off from it.
//!
//! | file | what |
//! |---|---|
//! | `run.json`, `config.toml` | what the run was given: the [`Manifest`] |
//! | `state.db` | the threads: the pipeline's, and one for each move's debate |
//! | `calls.jsonl` | every call to a model with its answer: none is paid for twice |
//! | `events.jsonl` | what happened, in order |
//! | `reviewed.json` | what a person made of the moves |
//! | `lock` | held by the one process that is at work on the run |
//! | `report.*`, `F1.md`, `m1.md`, `logs/` and more | what it came to |

mod files;
mod fork;
mod go;
mod lock;
mod manifest;
pub mod new;
mod outcome;
mod parts;
mod problem;
mod reopen;
mod replay;
mod set;
mod threads;

use std::path::{Path, PathBuf};

pub use fork::Place;
pub use go::{Ended, Going};
pub use manifest::{Branch, Given, Manifest, Speaks};
pub use outcome::outcome;
pub use problem::RunProblem;
pub use replay::Replayed;

use crate::{config::Config, models::Limit, pipeline::Review};

/// The pipeline's thread.
pub(crate) const PIPELINE: &str = "pipeline";

/// The file of what a person made of the moves.
pub(crate) const REVIEWED: &str = "reviewed.json";

/// The file of the moves that a person is to look at.
const REVIEW: &str = "review.json";

/// The file of the calls.
pub(crate) const CALLS: &str = "calls.jsonl";

/// The file of the threads.
pub(crate) const THREADS: &str = "state.db";

/// A run in a folder.
#[derive(Debug, Clone)]
pub struct Run {
    folder: PathBuf,
    manifest: Manifest,
    config: Config,
}

impl Run {
    /// Makes a new run in a folder, which may be there already if it is empty.
    pub fn create(folder: impl Into<PathBuf>, given: Given) -> Result<Self, RunProblem> {
        let folder = folder.into();
        let config = Config::parse(&given.config)?;
        let manifest = Manifest::new(given, &config)?;
        Self::lay(folder, manifest, config)
    }

    /// Writes down what a new run is given.
    fn lay(folder: PathBuf, manifest: Manifest, config: Config) -> Result<Self, RunProblem> {
        if std::fs::read_dir(&folder).is_ok_and(|mut it| it.next().is_some()) {
            return Err(RunProblem::NotEmpty(folder));
        }
        files::make(&folder)?;
        files::write(&folder.join("config.toml"), &manifest.given.config)?;
        files::write(&folder.join("run.json"), &manifest.json())?;
        Ok(Self { folder, manifest, config })
    }

    /// Opens a run, if this program can go on with it: its version and the graphs are the same,
    /// and nobody changed what it was given.
    pub fn open(folder: impl Into<PathBuf>) -> Result<Self, RunProblem> {
        let run = Self::look(folder)?;
        let differences = run.manifest.differences(&run.folder)?;
        if differences.is_empty() { Ok(run) } else { Err(RunProblem::Differs(differences)) }
    }

    /// Opens a run to look at, whatever program it was made with.
    pub fn look(folder: impl Into<PathBuf>) -> Result<Self, RunProblem> {
        let folder = folder.into();
        let path = folder.join("run.json");
        if !path.is_file() {
            return Err(RunProblem::NoRun(folder));
        }
        let text = files::read(&path)?;
        let manifest: Manifest = serde_json::from_str(&text)
            .map_err(|error| RunProblem::Manifest { path, problem: error.to_string() })?;
        let config = Config::parse(&manifest.given.config)?;
        Ok(Self { folder, manifest, config })
    }

    /// Where it lies.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// What it was given.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Notes what the run may spend in all, for whoever goes on with it.
    pub fn limit_to(&mut self, limit: Limit) -> Result<(), RunProblem> {
        self.manifest.limit = limit;
        files::write(&self.folder.join("run.json"), &self.manifest.json())
    }

    /// Whether a person has looked at the moves.
    pub fn is_reviewed(&self) -> bool {
        self.folder.join(REVIEWED).exists()
    }

    /// Leaves the moves in a file, for a person to look at.
    pub fn leave_review(&self, review: &Review) -> Result<PathBuf, RunProblem> {
        let path = self.folder.join(REVIEW);
        let text = serde_json::to_string_pretty(review);
        files::write(&path, &(text.expect("moves hold nothing that JSON cannot") + "\n"))?;
        Ok(path)
    }

    /// The moves that a person is to look at, if any are.
    pub fn review(&self) -> Result<Option<Review>, RunProblem> {
        if !self.awaits_review() {
            return Ok(None);
        }
        let path = self.folder.join(REVIEW);
        let review = serde_json::from_str(&files::read(&path)?);
        review.map(Some).map_err(|error| RunProblem::Manifest { path, problem: error.to_string() })
    }

    /// Whether a person is to look at the moves.
    pub fn awaits_review(&self) -> bool {
        self.folder.join(REVIEW).exists() && !self.is_reviewed()
    }

    /// Who takes part.
    pub fn config(&self) -> &Config {
        &self.config
    }
}
