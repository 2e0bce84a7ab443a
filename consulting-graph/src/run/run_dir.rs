//! The directory of a run: creating it, opening it, and the small files in it.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use app_support::files::{self, redact_dir};
use sandbox_vm::report::IsolationLevel;

use super::{
    error::RunError,
    manifest::{Manifest, RunConfig},
};
use crate::{config::Config, models::Limit, pipeline::ReviewRequest};

pub(crate) const PIPELINE_THREAD: &str = "pipeline";

/// File with the reviewer's decision.
pub(crate) const REVIEWED_FILE: &str = "reviewed.json";

/// File with the moves to review.
const REVIEW_FILE: &str = "review.json";

/// File with the recorded model calls.
pub(crate) const CALLS_FILE: &str = "calls.jsonl";

/// File that exists if a cluster executes the run.
pub(crate) const CLUSTER_FILE: &str = "cluster";

/// Database with the threads of the pipeline and of the debates.
pub(crate) const THREADS_FILE: &str = "state.db";

#[derive(Debug, Clone)]
pub struct Run {
    pub(super) dir: PathBuf,
    pub(super) manifest: Manifest,
    pub(super) config: Config,
}

impl Run {
    /// Creates a run in a directory, which must be empty or not exist yet.
    pub fn create(dir: impl Into<PathBuf>, run_config: RunConfig) -> Result<Self, RunError> {
        let dir = dir.into();
        let config = Config::parse(&run_config.config_toml)?;
        let manifest = Manifest::new(run_config, &config)?;
        Self::write_new(dir, manifest, config)
    }

    /// Writes the files of a new run.
    pub(super) fn write_new(
        dir: PathBuf,
        manifest: Manifest,
        config: Config,
    ) -> Result<Self, RunError> {
        if !files::is_empty_dir(&dir) {
            return Err(RunError::DirNotEmpty(dir));
        }
        files::create_dir(&dir)?;
        files::write_synced(&dir.join("config.toml"), &manifest.run_config.config_toml)?;
        files::write_synced(&dir.join("run.json"), &manifest.to_json())?;
        Ok(Self { dir, manifest, config })
    }

    /// Opens a run and checks that this program can resume it: the versions and the graphs must be the same, and the
    /// run's configuration must be unchanged.
    pub fn open(dir: impl Into<PathBuf>) -> Result<Self, RunError> {
        let run = Self::open_unchecked(dir)?;
        let incompatibilities = run.manifest.incompatibilities(&run.dir)?;
        if incompatibilities.is_empty() {
            Ok(run)
        } else {
            Err(RunError::Incompatible(incompatibilities))
        }
    }

    /// Opens a run for reading, without checking that this program can resume it.
    pub fn open_unchecked(dir: impl Into<PathBuf>) -> Result<Self, RunError> {
        let dir = dir.into();
        let path = dir.join("run.json");
        if !path.is_file() {
            return Err(RunError::NotARun(dir));
        }
        let text = files::read(&path)?;
        let manifest: Manifest = serde_json::from_str(&text)
            .map_err(|error| RunError::InvalidFile { path, problem: error.to_string() })?;
        let config = Config::parse(&manifest.run_config.config_toml)?;
        Ok(Self { dir, manifest, config })
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Stores a new spending limit for the whole run.
    pub(crate) fn store_limit(&mut self, limit: Limit) -> Result<(), RunError> {
        self.manifest.limit = limit;
        Ok(files::write_synced(&self.dir.join("run.json"), &self.manifest.to_json())?)
    }

    /// Returns an error if a cluster executed the run, because clusters do not record the model calls.
    pub(super) fn check_recorded(&self) -> Result<(), RunError> {
        if !self.dir.join(CLUSTER_FILE).exists() {
            return Ok(());
        }
        let problem = "cannot replay or fork the run: a cluster executed it and recorded no model calls; start a new run \
                       without --cluster";
        Err(RunError::InvalidRequest(problem.to_owned()))
    }

    /// Stores the weakest isolation of a debate.
    pub(super) fn store_used_isolation(&self, level: IsolationLevel) -> Result<(), RunError> {
        // The execution may have changed the manifest after this run was opened.
        let mut manifest = Self::open_unchecked(&self.dir)?.manifest;
        if manifest.used_isolation == Some(level) {
            return Ok(());
        }
        manifest.used_isolation = Some(level);
        Ok(files::write_synced(&self.dir.join("run.json"), &manifest.to_json())?)
    }

    /// Returns whether the moves have been reviewed.
    pub(crate) fn is_reviewed(&self) -> bool {
        self.dir.join(REVIEWED_FILE).exists()
    }

    /// Writes the moves to review to a file and returns its path.
    pub fn write_review_request(&self, review: &ReviewRequest) -> Result<PathBuf, RunError> {
        let path = self.dir.join(REVIEW_FILE);
        let text = serde_json::to_string_pretty(review);
        files::write_synced(&path, &(text.expect("moves serialize to JSON") + "\n"))?;
        Ok(path)
    }

    /// Returns the moves to review, if the run is waiting for a review.
    pub(crate) fn review_request(&self) -> Result<Option<ReviewRequest>, RunError> {
        if !self.awaits_review() {
            return Ok(None);
        }
        let path = self.dir.join(REVIEW_FILE);
        let review = serde_json::from_str(&files::read(&path)?);
        review.map(Some).map_err(|error| RunError::InvalidFile { path, problem: error.to_string() })
    }

    /// Returns whether the run is waiting for a review.
    pub fn awaits_review(&self) -> bool {
        self.dir.join(REVIEW_FILE).exists() && !self.is_reviewed()
    }

    /// Returns the configuration: agents, metrics and debate settings.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Formats an error for clients that must not see the paths of this host. Replaces the paths of the run directory
    /// and the data directory with descriptions.
    pub(crate) fn redact_paths(&self, error: &impl fmt::Display) -> String {
        let data = self.manifest.run_config.data.origin.dir();
        let dirs = [(Some(self.dir()), "the run directory"), (data, "the data directory")];
        let dirs = dirs.into_iter().filter_map(|(dir, name)| Some((dir?, name)));
        dirs.fold(error.to_string(), |text, (dir, name)| redact_dir(&text, dir, name))
    }
}
