//! Limits: each ends what breaks it, and is named.

use std::time::Duration;

use super::{Bench, Check, Failure, check, ensure, programs::works};
use crate::{Cause, Error, ExecLimits, Output, Program, Sandbox, Spec, Status};

pub(super) const CHECKS: &[Check] = &[
    check!("limits: time", [Programs], wall),
    check!("limits: processor time", [Programs], cpu_time),
    check!(
        "limits: processor time of the whole sandbox",
        [Programs, OwnProcesses],
        cpu_time_of_all
    ),
    check!("limits: processor share", [Programs, CpuShare], cpu_share),
    check!("limits: output", [Programs], output),
    check!("limits: memory", [Programs], memory),
    check!("limits: memory that could be shared", [Programs], shared_memory),
    check!(
        "limits: memory of files that no process has mapped",
        [Programs, FilteredCalls],
        memory_files
    ),
    check!("limits: processes", [Programs, ProcessLimit], processes),
    check!("limits: disk", [Programs, DiskLimit], disk),
    check!("limits: a file that is longer than the disk", [Programs, DiskLimit], long_file),
    check!("limits: files", [Programs, DiskLimit], files),
];

fn spec(bench: &Bench) -> Spec {
    let mut spec = bench.spec().memory(96 << 20);
    spec.limits.disk = 16 << 20;
    spec.limits.files = 512;
    spec.limits.processes = 24;
    spec.limits.exec = ExecLimits { wall: Duration::from_secs(20), ..ExecLimits::default() };
    spec
}

fn program(bench: &Bench, name: &str) -> Program {
    Program::new(&*bench.program).arg(name)
}

#[expect(clippy::needless_pass_by_value, reason = "it is made for this")]
fn ended(outcome: Result<Output, Error>, cause: Cause) -> Result<(), Failure> {
    let right = match &outcome {
        Ok(output) => output.status == Status::Limit(cause),
        // The guest as a whole may have been what broke the limit.
        Err(error) => error.cause() == Some(cause),
    };
    ensure!(right, "it should have ended by {cause}: {}", shown(&outcome));
    Ok(())
}

fn shown(outcome: &Result<Output, Error>) -> String {
    match outcome {
        Ok(it) => {
            format!("{:?}, {:?}, {}", it.status, it.usage, String::from_utf8_lossy(&it.stderr))
        }
        Err(error) => error.to_string(),
    }
}

async fn goes_on(bench: &Bench, sandbox: &Sandbox) -> Result<(), Failure> {
    match sandbox.gone() {
        Some(_) => Ok(()),
        None => {
            // A later failure has a reason of its own. What was killed may take a moment to be gone, and leaves no room
            // for another process until then.
            let mut tries = 0;
            let failed = loop {
                match sandbox.exec(program(bench, "exit").arg("3")).await {
                    Err(Error::Guest { .. }) if tries < 50 => tries += 1,
                    outcome => break outcome?,
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            };
            ensure!(failed.status == Status::Exited(3), "a failure is {:?}", failed.status);
            works(bench, sandbox).await
        }
    }
}

async fn wall(bench: Bench) -> Result<(), Failure> {
    let sandbox = bench.sandbox(spec(&bench)).await?;
    let limits = ExecLimits { wall: Duration::from_millis(300), ..ExecLimits::default() };
    ended(sandbox.exec(program(&bench, "sleep").limits(limits)).await, Cause::Wall)?;
    // Who says that it has all the time there is means it.
    let limits = ExecLimits { wall: Duration::MAX, ..ExecLimits::default() };
    let output = sandbox.exec(program(&bench, "exit").arg("0").limits(limits)).await?;
    ensure!(output.success(), "{output:?}");
    goes_on(&bench, &sandbox).await
}

async fn cpu_time(bench: Bench) -> Result<(), Failure> {
    let sandbox = bench.sandbox(spec(&bench)).await?;
    let limits = ExecLimits {
        cpu_time: Duration::from_millis(300),
        wall: Duration::from_secs(60),
        ..ExecLimits::default()
    };
    ended(sandbox.exec(program(&bench, "spin").limits(limits)).await, Cause::CpuTime)?;
    goes_on(&bench, &sandbox).await
}

async fn cpu_time_of_all(bench: Bench) -> Result<(), Failure> {
    let mut spec = spec(&bench);
    spec.limits.cpu_time = Some(Duration::from_millis(500));
    let sandbox = bench.sandbox(spec).await?;
    let limits = ExecLimits { wall: Duration::from_secs(60), ..ExecLimits::default() };
    let outcome = sandbox.exec(program(&bench, "spin").limits(limits)).await;
    ensure!(
        outcome.as_ref().is_err_and(|it| it.cause() == Some(Cause::CpuTime)),
        "{}",
        shown(&outcome)
    );
    Ok(())
}

async fn cpu_share(bench: Bench) -> Result<(), Failure> {
    let sandbox = bench.sandbox(spec(&bench).cpus(0.2)).await?;
    let limits = ExecLimits { wall: Duration::from_secs(2), ..ExecLimits::default() };
    // As the host counts it: a guest's kernel takes the time in which it was not let run for time that it ran.
    let before = sandbox.usage().await;
    let output = sandbox.exec(program(&bench, "spin").limits(limits)).await?;
    ensure!(output.status == Status::Limit(Cause::Wall), "{output:?}");
    let after = sandbox.usage().await;
    let counted = before.zip(after).map(|(before, after)| after.cpu.saturating_sub(before.cpu));
    let cpu = counted.unwrap_or(output.usage.cpu);
    ensure!(cpu < output.usage.wall.mul_f64(0.5), "{cpu:?} of {:?}", output.usage);
    Ok(())
}

async fn output(bench: Bench) -> Result<(), Failure> {
    let sandbox = bench.sandbox(spec(&bench)).await?;
    let limits = ExecLimits { output: 100_000, ..ExecLimits::default() };
    let outcome = sandbox.exec(program(&bench, "endless-output").limits(limits)).await;
    ensure!(outcome.as_ref().is_ok_and(|it| it.stdout.len() == 100_000), "{}", shown(&outcome));
    ended(outcome, Cause::Output)?;
    goes_on(&bench, &sandbox).await
}

async fn memory(bench: Bench) -> Result<(), Failure> {
    let sandbox = bench.sandbox(spec(&bench)).await?;
    ended(sandbox.exec(program(&bench, "eat-memory")).await, Cause::Memory)?;
    goes_on(&bench, &sandbox).await
}

async fn shared_memory(bench: Bench) -> Result<(), Failure> {
    let sandbox = bench.sandbox(spec(&bench)).await?;
    for of in ["nothing", "zero"] {
        let program = program(&bench, "try").args(["shared-memory", of]);
        refused_or_ended(sandbox.exec(program).await, Cause::Memory)?;
        if sandbox.gone().is_some() {
            return Ok(());
        }
    }
    goes_on(&bench, &sandbox).await
}

async fn memory_files(bench: Bench) -> Result<(), Failure> {
    let sandbox = bench.sandbox(spec(&bench)).await?;
    let outcome = sandbox.exec(program(&bench, "try").arg("memory-files")).await;
    refused_or_ended(outcome, Cause::Memory)?;
    goes_on(&bench, &sandbox).await
}

/// A program that is not given what it wants ends well; one that is given too much ends by the limit.
fn refused_or_ended(outcome: Result<Output, Error>, cause: Cause) -> Result<(), Failure> {
    match outcome {
        Ok(output) if output.success() => Ok(()),
        outcome => ended(outcome, cause),
    }
}

async fn processes(bench: Bench) -> Result<(), Failure> {
    // Many processes have much memory, which is not what is tried here.
    let sandbox = bench.sandbox(spec(&bench).memory(512 << 20)).await?;
    ended(sandbox.exec(program(&bench, "fork-bomb")).await, Cause::Processes)?;
    goes_on(&bench, &sandbox).await
}

async fn disk(bench: Bench) -> Result<(), Failure> {
    let sandbox = bench.sandbox(spec(&bench)).await?;
    ended(sandbox.exec(program(&bench, "fill-disk")).await, Cause::Disk)?;
    goes_on(&bench, &sandbox).await
}

async fn long_file(bench: Bench) -> Result<(), Failure> {
    let sandbox = bench.sandbox(spec(&bench)).await?;
    ended(sandbox.exec(program(&bench, "long-file")).await, Cause::Disk)?;
    goes_on(&bench, &sandbox).await
}

async fn files(bench: Bench) -> Result<(), Failure> {
    let sandbox = bench.sandbox(spec(&bench)).await?;
    ended(sandbox.exec(program(&bench, "fill-files")).await, Cause::Files)?;
    goes_on(&bench, &sandbox).await
}
