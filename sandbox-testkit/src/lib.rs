//! The conformance suite for back ends of `sandbox-vm`. A back end must pass all checks, except those for guarantees
//! that its capability report does not claim.
//!
//! The suite's guests run the program `sandbox-vm-hostile`. It contains the graphs from [`graphs`] and, as subcommands,
//! the programs from [`hostile`] that attempt to escape.
//!
//! ```no_run
//! use sandbox_vm::backend::Jail;
//!
//! # async fn example() {
//! let hostile = "target/debug/sandbox-vm-hostile";
//! let report = sandbox_testkit::run(hostile, || Jail::program(hostile)).await;
//! report.assert();
//! # }
//! ```
//!
//! The book's chapter [Sandboxes](../book/sandboxes.html) describes the back ends, and the [threat
//! model](../book/threat-model.html) the guarantees; `cargo xtask book` renders them.

mod attempts;
mod check;
mod escapes;
mod files;
pub mod graphs;
mod host;
pub mod hostile;
pub mod inquiry;
mod kernel_memory;
mod lifetimes;
mod limits;
mod programs;
mod raw_calls;
mod runs;
mod shared_memory;
mod snapshots;
mod templates;

use std::{fmt, sync::Arc};

use graph_core::checkpoint::CheckpointId;
use sandbox_vm::backend::Backend;

pub use check::{Check, Failure, Outcome, PROGRAM, START_TIMEOUT, TestContext, long_exec_limits};
pub use graphs::agent;
pub use templates::GuestStart;

use self::templates::Templates;

/// Runs every check on a back end. `hostile` is the path of the suite's program on the host. A back end without
/// isolation runs the program at that path.
pub async fn run<B: Backend + 'static>(hostile: &str, make: impl Fn() -> B) -> SuiteReport {
    run_checks(hostile, make, checks(), GuestStart::Boot).await
}

/// Runs only the given checks, for example `checks().filter(|it| it.name().starts_with("graph"))`.
pub async fn run_checks<B: Backend + 'static>(
    hostile: &str,
    make: impl Fn() -> B,
    checks: impl Iterator<Item = Check>,
    start: GuestStart,
) -> SuiteReport {
    let mut report = SuiteReport::default();
    // The name is unique because several suites may run concurrently in one process.
    let state = std::env::temp_dir().join(format!("sandbox-vm-suite-{}", CheckpointId::next()));
    let templates =
        (start == GuestStart::Snapshot).then(|| Arc::new(Templates::new(state.join("templates"))));
    // Kept while other checks run in separate guests.
    let mut shared: Option<TestContext> = None;
    for check in checks {
        let dir = state.join(report.outcomes.len().to_string());
        let cx = match shared.take_if(|_| check.shares_guest) {
            Some(cx) => Ok(cx),
            None => TestContext::open(make(), dir, hostile, templates.clone()).await,
        };
        let outcome = match cx {
            Ok(cx) => {
                let outcome = check.run(cx.clone()).await;
                if check.shares_guest && !matches!(outcome, Outcome::Failed(_)) {
                    shared = Some(cx);
                } else {
                    cx.sandboxes.delete_all().await;
                }
                outcome
            }
            Err(problem) => Outcome::Failed(problem),
        };
        report.outcomes.push((check.name(), outcome));
    }
    if let Some(cx) = shared {
        cx.sandboxes.delete_all().await;
    }
    let _ = std::fs::remove_dir_all(&state);
    report
}

/// Returns all checks, in the order in which [`run`] runs them.
pub fn checks() -> impl Iterator<Item = Check> {
    let groups = [
        programs::CHECKS,
        files::CHECKS,
        runs::CHECKS,
        limits::CHECKS,
        escapes::CHECKS,
        lifetimes::CHECKS,
        snapshots::CHECKS,
    ];
    groups.into_iter().flatten().copied()
}

/// Results of the suite.
#[derive(Clone, Debug, Default)]
#[must_use = "a report has no effect unless it is inspected: call `assert`"]
pub struct SuiteReport {
    /// Name and result of each check, in the order in which the checks ran.
    pub outcomes: Vec<(&'static str, Outcome)>,
}

impl SuiteReport {
    /// Panics with the list of failures if a check failed, or if no check passed.
    #[track_caller]
    pub fn assert(&self) {
        assert!(self.outcomes.iter().any(|it| it.1 == Outcome::Passed), "no check passed: {self}");
        assert!(!self.outcomes.iter().any(|it| matches!(it.1, Outcome::Failed(_))), "{self}");
    }

    /// Returns the number of checks that passed.
    pub fn passed(&self) -> usize {
        self.outcomes.iter().filter(|it| it.1 == Outcome::Passed).count()
    }
}

impl fmt::Display for SuiteReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} checks passed", self.passed(), self.outcomes.len())?;
        for (name, outcome) in &self.outcomes {
            match outcome {
                Outcome::Passed => {}
                Outcome::Failed(problem) => write!(f, "\n- {name}\n  {problem}")?,
                Outcome::Skipped(missing) => {
                    write!(f, "\n  (skipped: {name}; not guaranteed: {})", missing.description())?
                }
            }
        }
        Ok(())
    }
}
