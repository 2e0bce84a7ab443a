//! The conformance suite for checkpointers: what every [`Checkpointer`] must do, as checks to run on yours.
//!
//! Each check gets a saver of its own, which must be empty: a check lists threads, deletes runs everywhere
//! and trusts that nobody else wrote.
//!
//! ```
//! use std::sync::Arc;
//!
//! use graph_core::checkpoint::{Checkpointer, MemorySaver, testkit};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! // In a test: `#[tokio::test] async fn the_saver_conforms() { … }`
//! let report = testkit::run(|| async { Arc::new(MemorySaver::new()) as Arc<dyn Checkpointer> }).await;
//! report.assert();
//! # }
//! ```

#[macro_use]
mod support;

mod around;
mod changes;
mod concurrency;
mod copy_thread;
mod delete_runs;
mod delete_thread;
mod forks;
mod get;
mod head;
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

pub use self::around::{Around, Way};
use self::support::{Outcome, Saver};
use super::Checkpointer;

/// Runs every check, each on a fresh saver from `make`.
///
/// Needs a tokio runtime with its clock enabled, as `#[tokio::test]` makes it.
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

/// All checks in the order in which [`run`] runs them, for running them one by one.
pub fn checks() -> impl Iterator<Item = Check> {
    SUBJECTS.iter().copied().flatten().copied()
}

/// One thing that a checkpointer must do.
#[derive(Clone, Copy)]
pub struct Check {
    name: &'static str,
    body: fn(Saver) -> Body,
}

impl Check {
    /// What is checked, in words: `"put: a checkpoint reads back as it was put"`.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Runs the check on an empty saver.
    ///
    /// A panic is a failure too, and so is a saver that does not answer within two minutes.
    pub async fn run(&self, saver: Arc<dyn Checkpointer>) -> Result<(), Failure> {
        let work = tokio::spawn(tokio::time::timeout(PATIENCE, (self.body)(saver)));
        let problem = match work.await {
            Ok(Ok(Ok(()))) => return Ok(()),
            Ok(Ok(Err(problem))) => problem.to_string(),
            Ok(Err(_)) => format!("it was not over after {} s", PATIENCE.as_secs()),
            Err(error) => match error.try_into_panic() {
                Ok(panic) => format!("it panicked: {}", words(&*panic)),
                Err(error) => error.to_string(),
            },
        };
        Err(Failure { check: self.name, problem })
    }
}

impl fmt::Debug for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Check").field(&self.name).finish()
    }
}

/// What came of the checks.
#[derive(Clone, Debug, Default)]
#[must_use = "a report says nothing unless it is looked at: call `assert`"]
pub struct Report {
    /// The names of the checks that passed.
    pub passed: Vec<&'static str>,
    /// The checks that failed, and why.
    pub failed: Vec<Failure>,
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

/// A check that failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{check}\n  {problem}")]
pub struct Failure {
    /// The check's name.
    pub check: &'static str,
    /// What was expected and what was found.
    pub problem: String,
}

type Body = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// How long a check may take: enough for thousands of writes over a network.
const PATIENCE: Duration = Duration::from_secs(120);

const SUBJECTS: &[&[Check]] = &[
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

fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&'static str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without words")
}
