//! The conformance suite for back ends. A back end must pass all checks, except those for guarantees that its
//! capability report does not claim.
//!
//! The suite's guests run the program `sandbox-vm-hostile`. It contains the graphs from [`graphs`] and, as subcommands,
//! the programs from [`hostile`] that attempt to escape.
//!
//! ```no_run
//! use sandbox_vm::{backend::Jail, testkit};
//!
//! # async fn example() {
//! let hostile = "target/debug/sandbox-vm-hostile";
//! let report = testkit::run(hostile, || Jail::program(hostile)).await;
//! report.assert();
//! # }
//! ```

mod escapes;
mod files;
pub mod graphs;
mod host;
pub mod hostile;
mod lifetimes;
mod limits;
mod programs;
mod runs;
mod snapshots;

use std::{fmt, future::Future, path::PathBuf, pin::Pin, sync::Arc, time::Duration};

use graph_core::checkpoint::CheckpointId;

use crate::{
    Image, Isolation, Sandbox, Sandboxes, Spec,
    backend::Backend,
    guest::Agent,
    report::{Guarantee, Report},
};

/// Returns the agent that runs in the suite's guests.
pub fn agent() -> Agent {
    graphs::register(Agent::new())
}

/// Path of the suite's program inside a guest.
pub const PROGRAM: &str = "/agent";

/// Runs every check on a back end. `hostile` is the path of the suite's program on the host. A back end without
/// isolation runs the program at that path.
pub async fn run<B: Backend + 'static>(hostile: &str, make: impl Fn() -> B) -> SuiteReport {
    run_checks(hostile, make, checks()).await
}

/// Runs only the given checks, for example `checks().filter(|it| it.name().starts_with("graph"))`.
pub async fn run_checks<B: Backend + 'static>(
    hostile: &str,
    make: impl Fn() -> B,
    checks: impl Iterator<Item = Check>,
) -> SuiteReport {
    let mut report = SuiteReport::default();
    // The name is unique because several suites may run concurrently in one process.
    let state = std::env::temp_dir().join(format!("sandbox-vm-suite-{}", CheckpointId::next()));
    for check in checks {
        let dir = state.join(report.outcomes.len().to_string());
        let cx = TestContext::open(make(), dir, hostile).await;
        let outcome = match cx {
            Ok(cx) => check.run(cx).await,
            Err(problem) => Outcome::Failed(problem),
        };
        report.outcomes.push((check.name, outcome));
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

/// The back end under test and its sandboxes, as passed to a check.
#[derive(Clone, Debug)]
pub struct TestContext {
    /// Manager of the sandboxes. It knows only the back end under test.
    pub sandboxes: Sandboxes,
    /// Capability report of the back end under test.
    pub capabilities: Report,
    /// Path of the suite's program, as seen by the guest.
    pub program: Arc<str>,
}

impl TestContext {
    async fn open(
        backend: impl Backend + 'static,
        state: PathBuf,
        hostile: &str,
    ) -> Result<Self, String> {
        let builder = Sandboxes::builder().backend(backend).isolation(Isolation::Preferred);
        let sandboxes = builder.state_dir(state).open().await.map_err(|it| it.to_string())?;
        let capabilities = sandboxes.reports()[0].clone();
        let program = match capabilities.is_isolated() {
            true => Arc::from(PROGRAM),
            false => Arc::from(hostile),
        };
        Ok(Self { sandboxes, capabilities, program })
    }

    /// Returns a spec with default limits. If the back end can run programs, the spec's image can run the suite's
    /// program.
    pub fn spec(&self) -> Spec {
        match self.capabilities.has(Guarantee::Programs) {
            true => Spec::new("suite").image(Image::Python),
            false => Spec::new("suite"),
        }
    }

    /// Returns the sandbox named in the spec, or creates it.
    pub async fn sandbox(&self, spec: Spec) -> Result<Sandbox, Failure> {
        Ok(self.sandboxes.create_if_not_exists(spec).await?)
    }
}

/// A check of one requirement that back ends must meet.
#[derive(Clone, Copy)]
pub struct Check {
    name: &'static str,
    needs: &'static [Guarantee],
    body: fn(TestContext) -> Body,
}

type Body = Pin<Box<dyn Future<Output = Result<(), Failure>> + Send>>;

/// Time limit for a check. It is long because emulated guests are slow.
const CHECK_TIMEOUT: Duration = Duration::from_secs(300);

impl Check {
    /// Returns the check's name, which describes the required behaviour.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Runs the check, or skips it if the back end does not claim a guarantee that the check needs.
    pub async fn run(&self, cx: TestContext) -> Outcome {
        if let Some(missing) = self.needs.iter().find(|it| !cx.capabilities.has(**it)) {
            return Outcome::Skipped(*missing);
        }
        let sandboxes = cx.sandboxes.clone();
        let work = tokio::spawn(tokio::time::timeout(CHECK_TIMEOUT, (self.body)(cx)));
        let outcome = match work.await {
            Ok(Ok(Ok(()))) => Outcome::Passed,
            Ok(Ok(Err(failure))) => Outcome::Failed(failure.0),
            Ok(Err(_)) => {
                Outcome::Failed(format!("the check did not finish within {CHECK_TIMEOUT:?}"))
            }
            Err(error) => Outcome::Failed(error.to_string()),
        };
        sandboxes.delete_all().await;
        outcome
    }
}

impl fmt::Debug for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Check").field(&self.name).finish()
    }
}

/// Result of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The check passed.
    Passed,
    /// The check failed with this message.
    Failed(String),
    /// The check was skipped because the back end does not claim this guarantee.
    Skipped(Guarantee),
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

/// Message that describes why a check failed.
#[derive(Debug)]
pub struct Failure(String);

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

/// Makes the check fail unless the condition is true.
macro_rules! ensure {
    ($holds:expr, $($message:tt)+) => {
        if !$holds {
            return Err($crate::testkit::fail(format!($($message)+)));
        }
    };
}
use ensure;

fn fail(problem: impl Into<String>) -> Failure {
    Failure(problem.into())
}

/// Defines a check from its name, the guarantees that it needs, and the async function that performs it.
macro_rules! check {
    ($name:literal, $body:path) => {
        $crate::testkit::check!($name, [], $body)
    };
    ($name:literal, [$($needs:ident),*], $body:path) => {
        $crate::testkit::Check {
            name: $name,
            needs: &[$($crate::report::Guarantee::$needs),*],
            body: |cx| Box::pin($body(cx)),
        }
    };
}
use check;
