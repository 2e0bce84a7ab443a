//! Result of one benchmarked session.

use std::time::Duration;

use crate::state::Session;

#[derive(Clone, Debug)]
pub struct SessionResult {
    pub problem: String,
    /// Final state of the session, or the error that aborted it.
    pub session: Result<Session, String>,
    pub elapsed: Duration,
}
