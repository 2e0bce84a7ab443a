//! A check of one requirement, and the context in which it runs.

use std::{future::Future, path::PathBuf, pin::Pin, sync::Arc, time::Duration};

use sandbox_vm::{
    ExecLimits, Image, Isolation, Sandbox, Sandboxes, Spec,
    backend::Backend,
    report::{Guarantee, Report},
};

use crate::templates::Templates;

/// Path of the suite's program inside a guest.
pub const PROGRAM: &str = "/agent";

/// The back end under test and its sandboxes, as passed to a check.
#[derive(Clone, Debug)]
pub struct TestContext {
    /// Manager that creates the sandboxes. Its only back end is the one under test.
    pub sandboxes: Sandboxes,
    /// Capability report of the back end under test.
    pub capabilities: Report,
    /// Path of the suite's program, as seen by the guest.
    pub program: Arc<str>,
    /// Snapshots from which guests are restored. `None` if every guest is booted.
    pub(crate) templates: Option<Arc<Templates>>,
}

impl TestContext {
    pub(crate) async fn open(
        backend: impl Backend + 'static,
        state: PathBuf,
        hostile: &str,
        templates: Option<Arc<Templates>>,
    ) -> Result<Self, String> {
        let builder = Sandboxes::builder().backend(backend).isolation(Isolation::Preferred);
        let builder = builder.state_dir(state).start_timeout(START_TIMEOUT);
        let sandboxes = builder.open().await.map_err(|it| it.to_string())?;
        let capabilities = sandboxes.reports()[0].clone();
        let program = match capabilities.is_isolated() {
            true => Arc::from(PROGRAM),
            false => Arc::from(hostile),
        };
        Ok(Self { sandboxes, capabilities, program, templates })
    }

    /// Returns a spec with default limits, except that programs may run for long. If the back end can run programs, the
    /// spec's image can run the suite's program.
    pub fn spec(&self) -> Spec {
        let mut spec = match self.capabilities.has(Guarantee::Programs) {
            true => Spec::new("suite").image(Image::Python),
            false => Spec::new("suite"),
        };
        spec.limits.exec = long_exec_limits();
        spec
    }

    /// Returns the live sandbox named in the spec, or starts it.
    pub async fn sandbox(&self, spec: Spec) -> Result<Sandbox, Failure> {
        match &self.templates {
            Some(templates) => Ok(templates.sandbox(&self.sandboxes, spec).await?),
            None => Ok(self.sandboxes.create_if_not_exists(spec).await?),
        }
    }
}

/// A check of one requirement that back ends must meet.
#[derive(Clone, Copy, Debug)]
pub struct Check {
    pub(crate) name: &'static str,
    pub(crate) needs: &'static [Guarantee],
    /// Whether the check may use a guest that other such checks have used. Starting a guest takes seconds in some back
    /// ends.
    pub(crate) shares_guest: bool,
    pub(crate) body: fn(TestContext) -> Body,
}

pub(crate) type Body = Pin<Box<dyn Future<Output = Result<(), Failure>> + Send>>;

/// Time limit for a check. It is long because emulated guests are slow, and only a check that hangs reaches it.
const CHECK_TIMEOUT: Duration = Duration::from_secs(3600);

/// Time limit for the handshake with a new guest. It is long, because a VM starts slowly on a busy machine.
pub const START_TIMEOUT: Duration = Duration::from_secs(300);

/// Returns time limits that are long enough for a program to exceed another limit first, even on a busy machine.
pub fn long_exec_limits() -> ExecLimits {
    let time = Duration::from_secs(900);
    ExecLimits { wall: time, cpu_time: time, ..ExecLimits::default() }
}

impl Check {
    /// Returns the check's name, which describes the required behaviour.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Lets the check share a guest with others. Unless the check fails, it must either leave the guest usable for the
    /// other checks or end the guest.
    pub(crate) const fn in_shared_guest(self) -> Self {
        Self { shares_guest: true, ..self }
    }

    /// Runs the check, or skips it if the back end does not claim a guarantee that the check needs. Does not delete the
    /// sandboxes.
    pub async fn run(&self, cx: TestContext) -> Outcome {
        if let Some(missing) = self.needs.iter().find(|it| !cx.capabilities.has(**it)) {
            return Outcome::Skipped(*missing);
        }
        let work = tokio::spawn(tokio::time::timeout(CHECK_TIMEOUT, (self.body)(cx)));
        match work.await {
            Ok(Ok(Ok(()))) => Outcome::Passed,
            Ok(Ok(Err(failure))) => Outcome::Failed(failure.0),
            Ok(Err(_)) => {
                Outcome::Failed(format!("the check did not finish within {CHECK_TIMEOUT:?}"))
            }
            Err(error) => Outcome::Failed(error.to_string()),
        }
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

/// Message that describes why a check failed.
#[derive(Debug)]
pub struct Failure(String);

impl Failure {
    /// Prefixes the message with a description of the failed operation.
    pub(crate) fn context(self, what: &str) -> Self {
        Self(format!("{what}: {}", self.0))
    }
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

/// Makes the check fail unless the condition is true.
macro_rules! ensure {
    ($holds:expr, $($message:tt)+) => {
        if !$holds {
            return Err($crate::check::fail(format!($($message)+)));
        }
    };
}
pub(crate) use ensure;

pub(crate) fn fail(problem: impl Into<String>) -> Failure {
    Failure(problem.into())
}

/// Defines a check from its name, the guarantees that it needs, and the async function that performs it.
macro_rules! check {
    ($name:literal, $body:path) => {
        $crate::check::check!($name, [], $body)
    };
    ($name:literal, [$($needs:ident),*], $body:path) => {
        $crate::check::Check {
            name: $name,
            needs: &[$(sandbox_vm::report::Guarantee::$needs),*],
            shares_guest: false,
            body: |cx| Box::pin($body(cx)),
        }
    };
}
pub(crate) use check;
