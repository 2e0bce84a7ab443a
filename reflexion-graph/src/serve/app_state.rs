//! State shared by all routes.

use std::{sync::Arc, time::Instant};

use app_support::lock::DirLock;
use graph_server::{
    Service,
    http::{Metrics, StreamLimit},
};

use super::runner::Sessions;
use crate::{
    Limits,
    models::{ModelChoice, RunBudget},
    run::SandboxConfig,
};

#[derive(Clone, Debug)]
pub(super) struct AppState {
    pub(super) service: Service,
    pub(super) sessions: Sessions,
    pub(super) streams: StreamLimit,
    pub(super) metrics: Metrics,
    pub(super) choice: ModelChoice,
    pub(super) sandbox: Arc<SandboxConfig>,
    pub(super) limits: Limits,
    pub(super) max_attempts: u32,
    pub(super) budget: RunBudget,
    pub(super) since: Instant,
    /// Lock on the jobs directory, held as long as the server runs.
    pub(super) _lock: Arc<DirLock>,
}
