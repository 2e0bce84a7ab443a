//! Options of the service.

use std::{path::PathBuf, time::Duration};

use chrono::NaiveDate;
use graph_server::{Capacity, http::Guard};
use sandbox_vm::Isolation;

use crate::{
    data::DataOrigin,
    debate_host::SandboxReuse,
    models::{CallLimits, Limit, ModelChoice},
};

#[derive(Debug, Clone)]
pub struct ServeOptions {
    pub runs_dir: PathBuf,
    /// Text of the configuration file for new runs.
    pub config: String,
    /// Provider and model for new runs.
    pub choice: ModelChoice,
    /// Source of company data.
    pub data: DataOrigin,
    /// Data published after this date is ignored. `None` selects the day on which each run is created.
    pub as_of: Option<NaiveDate>,
    /// Default number of concurrent debates per run.
    pub concurrency: usize,
    /// Isolation requirement of the debates.
    pub isolation: Isolation,
    /// Name of the sandbox back end to use. `None` selects the strongest available one.
    pub backend: Option<String>,
    /// How the debates of a run share sandboxes.
    pub sandbox_reuse: SandboxReuse,
    /// Maximum number of executing and of queued runs.
    pub capacity: Capacity,
    /// Maximum number of concurrent event streams.
    pub max_streams: usize,
    /// Age at which ended runs are deleted. `None` keeps all runs.
    pub max_age: Option<Duration>,
    /// Time limits and retries of model calls.
    pub call_limits: CallLimits,
    /// Upper bound for the spending limit of every run.
    pub max_limit: Limit,
    /// Authentication and rate limits.
    pub guard: Guard,
}

impl ServeOptions {
    pub(super) fn run_dir(&self, id: &str) -> PathBuf {
        self.runs_dir.join(id)
    }
}
