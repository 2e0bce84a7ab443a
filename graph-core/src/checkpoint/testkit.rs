//! A conformance suite for implementations of [`Checkpointer`].
//!
//! Each check needs its own empty saver, because checks list all threads, delete runs in all threads, and assume that
//! there is no other writer.
//!
//! ```
//! use std::sync::Arc;
//!
//! use graph_core::checkpoint::{Checkpointer, MemorySaver, testkit};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! // In a test: `#[tokio::test] async fn saver_conforms() { … }`
//! let report = testkit::run(|| async { Arc::new(MemorySaver::new()) as Arc<dyn Checkpointer> }).await;
//! report.assert();
//! # }
//! ```

#[macro_use]
mod support;

mod changes;
mod concurrency;
mod copy_thread;
mod delete_runs;
mod delete_thread;
mod forks;
mod get;
mod head;
mod hooked_saver;
mod lease;
mod list;
mod names;
mod prune;
mod put;
mod records;
mod slots;
#[cfg(test)]
mod tests;
mod values;

use std::{any::Any, fmt, pin::Pin, sync::Arc, time::Duration};

pub use self::hooked_saver::{HookedSaver, WriteHook};
use self::support::{CheckResult, Saver};
use super::Checkpointer;

/// Runs all checks, each on a new saver from `make`.
///
/// Needs a tokio runtime with time enabled, such as the one that `#[tokio::test]` creates.
pub async fn run<F, Fut>(make: F) -> Report
where
    F: Fn() -> Fut,
    Fut: Future<Output = Arc<dyn Checkpointer>>,
{
    let mut report = Report::default();
    for check in checks() {
        match check.run(make().await).await {
            Ok(()) => report.passed.push(check.name),
            Err(failure) => report.failed.push(failure),
        }
    }
    report
}

/// Returns all checks, in the order in which [`run`] runs them, so that a caller can run them one by one.
pub fn checks() -> impl Iterator<Item = Check> {
    ALL_CHECKS.iter().copied().flatten().copied()
}

/// A check that tests one requirement on a checkpointer.
#[derive(Clone, Copy)]
pub struct Check {
    name: &'static str,
    body: fn(Saver) -> CheckFuture,
}

impl Check {
    /// Returns the name, which states the requirement: `"put: a checkpoint reads back unchanged"`.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Runs the check on an empty saver.
    ///
    /// The check fails if it panics or does not finish within two minutes.
    pub async fn run(&self, saver: Arc<dyn Checkpointer>) -> Result<(), CheckFailure> {
        let work = tokio::spawn(tokio::time::timeout(CHECK_TIMEOUT, (self.body)(saver)));
        let problem = match work.await {
            Ok(Ok(Ok(()))) => return Ok(()),
            Ok(Ok(Err(problem))) => problem.to_string(),
            Ok(Err(_)) => format!("timed out after {} s", CHECK_TIMEOUT.as_secs()),
            Err(error) => match error.try_into_panic() {
                Ok(panic) => format!("panicked: {}", panic_message(&*panic)),
                Err(error) => error.to_string(),
            },
        };
        Err(CheckFailure { check: self.name, problem })
    }
}

impl fmt::Debug for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Check").field(&self.name).finish()
    }
}

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
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{check}\n  {problem}")]
pub struct CheckFailure {
    /// Name of the check.
    pub check: &'static str,
    /// Description of the failure.
    pub problem: String,
}

type CheckFuture = Pin<Box<dyn Future<Output = CheckResult> + Send>>;

/// Time limit for a check. It allows thousands of writes over a network.
const CHECK_TIMEOUT: Duration = Duration::from_secs(120);

const ALL_CHECKS: &[&[Check]] = &[
    put::CHECKS,
    head::CHECKS,
    changes::CHECKS,
    forks::CHECKS,
    values::CHECKS,
    records::CHECKS,
    slots::CHECKS,
    get::CHECKS,
    list::CHECKS,
    names::CHECKS,
    lease::CHECKS,
    delete_thread::CHECKS,
    delete_runs::CHECKS,
    copy_thread::CHECKS,
    prune::CHECKS,
    concurrency::CHECKS,
];

fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&'static str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}
