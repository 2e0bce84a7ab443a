//! Execution of single checks, and the report on all of them.

use std::{any::Any, fmt, time::Duration};

/// The results of the checks.
#[derive(Clone, Debug, Default)]
#[must_use = "failures are only reported by `assert`"]
pub struct Report {
    /// Names of the checks that passed.
    pub passed: Vec<&'static str>,
    /// The checks that failed, with reasons.
    pub failed: Vec<CheckFailure>,
}

impl Report {
    /// Panics with the list of failures, if there are any.
    #[track_caller]
    pub fn assert(&self) {
        assert!(self.failed.is_empty(), "{self}");
    }

    pub(crate) fn add(&mut self, check: &'static str, result: Result<(), CheckFailure>) {
        match result {
            Ok(()) => self.passed.push(check),
            Err(failure) => self.failed.push(failure),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (passed, failed) = (self.passed.len(), self.failed.len());
        write!(f, "{passed} of {} checks passed", passed + failed)?;
        for failure in &self.failed {
            write!(f, "\n- {failure}")?;
        }
        Ok(())
    }
}

/// The error returned when a check fails.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{check}\n  {problem}")]
pub struct CheckFailure {
    /// Name of the check.
    pub check: &'static str,
    /// Description of the failure.
    pub problem: String,
}

graph_core::readable_debug!(CheckFailure);

/// Time limit for a check. It allows thousands of writes over a network.
const CHECK_TIMEOUT: Duration = Duration::from_secs(300);

/// Runs the body of a check. A panic is a failure, and so is a body that exceeds the time limit.
pub(crate) async fn run_check<E: fmt::Display + Send + 'static>(
    check: &'static str,
    body: impl Future<Output = Result<(), E>> + Send + 'static,
) -> Result<(), CheckFailure> {
    let problem = match tokio::spawn(tokio::time::timeout(CHECK_TIMEOUT, body)).await {
        Ok(Ok(Ok(()))) => return Ok(()),
        Ok(Ok(Err(problem))) => problem.to_string(),
        Ok(Err(_)) => format!("timed out after {} s", CHECK_TIMEOUT.as_secs()),
        Err(error) => match error.try_into_panic() {
            Ok(panic) => format!("panicked: {}", panic_message(&*panic)),
            Err(error) => error.to_string(),
        },
    };
    Err(CheckFailure { check, problem })
}

fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&'static str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}
