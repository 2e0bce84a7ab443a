//! Runs project checks in a sandbox, on a copy of the project.

use std::time::Duration;

use sandbox_vm::{
    ExceededLimit, ExecLimits, Image, Isolation, Output, Program, Sandbox, Sandboxes, Spec, Status,
    backend::Jail,
    guest::{self, Agent},
};

use crate::{
    checks::{CheckOutcome, ProjectChecks, ProjectFile},
    confine::random_hex,
    contract::Check,
    error::Error,
};

/// Runs each check in its own sandbox (a jail), on a copy of the project, without network access.
///
/// ```standalone_crate
/// use draft_gate::{Check, Gate, ProjectChecks, sandbox::{SandboxChecks, enter_guest}};
///
/// fn main() -> Result<(), Box<dyn std::error::Error>> {
///     // In a process that was started as a guest, this call does not return.
///     enter_guest();
/// #   let dir = tempfile::tempdir()?;
/// #   let workspace = dir.path();
///     let gate = Gate::open(workspace)?.with_checks(SandboxChecks::new());
/// #   let check = Check { name: "syntax".into(), program: "python3".into(), args: vec!["--version".into()], timeout_s: 60 };
/// #   assert!(SandboxChecks::new().run(&check, &[])?.passed);
/// #   let _ = gate;
///     Ok(())
/// }
/// ```
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct SandboxChecks;

/// Runs the guest and exits if this process was started as a sandbox guest; otherwise returns immediately. Call this
/// function at the start of `main`, before any OS thread is started.
pub fn enter_guest() {
    guest::enter(Agent::new);
}

impl SandboxChecks {
    /// Creates a runner that starts the current program again as the guest in each sandbox. `main` must call
    /// [`enter_guest`] first.
    pub fn new() -> Self {
        Self
    }
}

impl ProjectChecks for SandboxChecks {
    fn run(&self, check: &Check, files: &[ProjectFile]) -> Result<CheckOutcome, Error> {
        let failed = |why: String| Error::CheckNotRun { check: check.name.clone(), why };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|it| failed(it.to_string()))?;
        let output = runtime.block_on(run(check, files)).map_err(|it| failed(it.to_string()))?;
        match output.status {
            // Report a timeout as an error and not as a failed check, because it says nothing about the change itself.
            Status::Limit(ExceededLimit::Wall | ExceededLimit::CpuTime) => {
                Err(failed(format!("it exceeded the time limit of {} s", check.timeout_s)))
            }
            _ => Ok(outcome_of(&output)),
        }
    }
}

async fn run(check: &Check, files: &[ProjectFile]) -> Result<Output, sandbox_vm::Error> {
    let opening = Sandboxes::builder().backend(Jail::this_program()).isolation(Isolation::Process);
    let sandboxes = opening.open().await?;
    let spec = Spec::new(format!("check-{}", random_hex())).image(Image::Python);
    let sandbox = sandboxes.create_if_not_exists(spec).await?;
    let outcome = run_in(&sandbox, check, files).await;
    sandbox.delete().await;
    outcome
}

async fn run_in(
    sandbox: &Sandbox,
    check: &Check,
    files: &[ProjectFile],
) -> Result<Output, sandbox_vm::Error> {
    for file in files {
        sandbox.fs().write(file.path.as_str(), file.bytes.clone()).await?;
    }
    let executable: Vec<&str> =
        files.iter().filter(|it| it.is_executable).map(|it| it.path.as_str()).collect();
    if !executable.is_empty() {
        let chmod = sandbox.exec(Program::new("chmod").args(["+x", "--"]).args(executable)).await?;
        if !chmod.success() {
            return Ok(chmod);
        }
    }
    let time = Duration::from_secs(check.timeout_s.into());
    // The check's timeout is wall-clock time. The CPU time limit is higher, because CPU time is summed over all
    // processors.
    let limits =
        ExecLimits { wall: time, cpu_time: time.saturating_mul(64), ..ExecLimits::default() };
    let program = Program::new(&check.program).args(check.args.iter().cloned());
    sandbox.exec(program.limits(limits)).await
}

fn outcome_of(output: &Output) -> CheckOutcome {
    let printed = [output.stdout.as_slice(), output.stderr.as_slice()].concat();
    CheckOutcome {
        passed: output.success(),
        output: String::from_utf8_lossy(&printed).into_owned(),
    }
}
