//! Options for executing a run.

use llm::{Llm, RecordMode};
use sandbox_vm::Isolation;

use crate::{
    debate_host::SandboxReuse,
    models::{CallLimits, Limit},
    pipeline::ReviewDecision,
};

/// Options for resuming a run. Apart from a review decision and a replaced model, only `limit` can change the result of
/// the run. `limit` and `isolation` are stored with the run and apply to later executions unless overridden.
#[derive(Debug, Clone)]
pub struct ResumeOptions {
    /// Maximum number of concurrent debates.
    pub concurrency: usize,
    /// Weakest isolation that the debates may have. `None` keeps the requirement of the stored run; a run without a
    /// requirement uses the strongest available isolation.
    pub isolation: Option<Isolation>,
    /// Name of the sandbox back end to use. `None` selects the strongest available one.
    pub backend: Option<String>,
    /// How the debates share sandboxes.
    pub sandbox_reuse: SandboxReuse,
    /// Spending limit of the whole run, if it should differ from the stored one.
    pub limit: Limit,
    /// Whether recorded calls are replayed, and whether unrecorded calls are made.
    pub calls: RecordMode,
    /// Decision of the reviewer, if the run is waiting for a review.
    pub review: Option<ReviewDecision>,
    /// Model that replaces all configured models. Used by embedders and tests.
    pub model_override: Option<Llm>,
    /// Whether to trace every step.
    pub trace: bool,
    /// Time limits and retries of calls.
    pub call_limits: CallLimits,
}

impl Default for ResumeOptions {
    fn default() -> Self {
        Self {
            concurrency: 1,
            isolation: None,
            backend: None,
            sandbox_reuse: SandboxReuse::None,
            limit: Limit::default(),
            calls: RecordMode::ReplayOrRecord,
            review: None,
            model_override: None,
            trace: false,
            call_limits: CallLimits::default(),
        }
    }
}
