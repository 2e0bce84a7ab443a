//! Result of one benchmarked session.

use std::time::Duration;

use crate::state::Session;

/// Result of one session.
#[derive(Clone, Debug)]
pub struct SessionResult {
    /// Id of the problem.
    pub problem: String,
    /// Final state of the session, or the error that aborted it.
    pub session: Result<Session, String>,
    /// Duration of the session.
    pub elapsed: Duration,
}
