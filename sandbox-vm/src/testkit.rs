//! The suite that every back end passes, less what its capability report says it lacks.
//!
//! The guests of the suite are the program `sandbox-vm-hostile`: it holds the graphs of [`graphs`], and is at the same
//! time a set of programs that try to get out, each by a name of [`hostile`].
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

/// The agent of the suite's guests.
pub fn agent() -> Agent {
    graphs::register(Agent::new())
}

/// Where a guest finds the program that it is.
pub const PROGRAM: &str = "/agent";

/// Runs every check on a back end. `hostile` is where the suite's program is on the host: a back end that does not
/// isolate runs it from there.
pub async fn run<B: Backend + 'static>(hostile: &str, make: impl Fn() -> B) -> SuiteReport {
    run_checks(hostile, make, checks()).await
}

/// Runs some of the checks: `checks().filter(|it| it.name().starts_with("graph"))`.
pub async fn run_checks<B: Backend + 'static>(
    hostile: &str,
    make: impl Fn() -> B,
    checks: impl Iterator<Item = Check>,
) -> SuiteReport {
    let mut report = SuiteReport::default();
    // Several suites may run at once in one process.
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

/// All checks, in the order in which [`run`] runs them.
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

/// What a check works with: a back end, and its sandboxes.
#[derive(Clone, Debug)]
pub struct TestContext {
    /// The sandboxes, of this back end alone.
    pub sandboxes: Sandboxes,
    /// What the back end says it can do.
    pub capabilities: Report,
    /// Where a guest finds the suite's program.
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

    /// A sandbox of the usual size, whose image lets the guest's program be run where programs can be run at all.
    pub fn spec(&self) -> Spec {
        match self.capabilities.has(Guarantee::Programs) {
            true => Spec::new("suite").image(Image::Python),
            false => Spec::new("suite"),
        }
    }

    /// Makes a sandbox.
    pub async fn sandbox(&self, spec: Spec) -> Result<Sandbox, Failure> {
        Ok(self.sandboxes.create_if_not_exists(spec).await?)
    }
}

/// One thing that a back end must do.
#[derive(Clone, Copy)]
pub struct Check {
    name: &'static str,
    needs: &'static [Guarantee],
    body: fn(TestContext) -> Body,
}

type Body = Pin<Box<dyn Future<Output = Result<(), Failure>> + Send>>;

/// How long a check may take: guests that are emulated take their time.
const CHECK_TIMEOUT: Duration = Duration::from_secs(300);

impl Check {
    /// What is checked, in words.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Runs the check.
    pub async fn run(&self, cx: TestContext) -> Outcome {
        if let Some(missing) = self.needs.iter().find(|it| !cx.capabilities.has(**it)) {
            return Outcome::Skipped(*missing);
        }
        let sandboxes = cx.sandboxes.clone();
        let work = tokio::spawn(tokio::time::timeout(CHECK_TIMEOUT, (self.body)(cx)));
        let outcome = match work.await {
            Ok(Ok(Ok(()))) => Outcome::Passed,
            Ok(Ok(Err(failure))) => Outcome::Failed(failure.0),
            Ok(Err(_)) => Outcome::Failed(format!("it was not over after {CHECK_TIMEOUT:?}")),
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

/// What came of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It holds.
    Passed,
    /// It does not.
    Failed(String),
    /// The back end says itself that it lacks this.
    Skipped(Guarantee),
}

/// What came of the suite.
#[derive(Clone, Debug, Default)]
#[must_use = "a report says nothing unless it is looked at: call `assert`"]
pub struct SuiteReport {
    /// Each check's name, and what came of it.
    pub outcomes: Vec<(&'static str, Outcome)>,
}

impl SuiteReport {
    /// Panics with the list of failures, if there are any, and where nothing was checked.
    #[track_caller]
    pub fn assert(&self) {
        assert!(self.outcomes.iter().any(|it| it.1 == Outcome::Passed), "no check was run: {self}");
        assert!(!self.outcomes.iter().any(|it| matches!(it.1, Outcome::Failed(_))), "{self}");
    }

    /// How many checks passed.
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
                    write!(f, "\n  (left out: {name}; not: {})", missing.description())?
                }
            }
        }
        Ok(())
    }
}

/// Why a check does not hold.
#[derive(Debug)]
pub struct Failure(String);

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

/// Fails a check unless something holds.
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

/// Writes a check down: its name, what it needs, and the async function that makes it.
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
