//! Measures the overhead of a sandbox by running the same program in a warm sandbox, in a cold sandbox and as a plain
//! process.

use std::{
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use sandbox_vm::{Error, Image, Program, Spec};

use super::summary::percentile;
use crate::{
    execution::Status,
    executor::{Executor, ExecutorError},
    job::Job,
};

/// The program that is measured.
const PROGRAM: &str = "print(1)";

/// Measured durations of each variant, sorted.
#[derive(Clone, Debug)]
pub struct SandboxTimings {
    /// Time that `python3` takes as a plain process on the host.
    pub plain: Vec<Duration>,
    /// Time from requesting a sandbox to the result if a sandbox is ready.
    pub warm: Vec<Duration>,
    /// Time from requesting a sandbox to the result if a sandbox has to be started first.
    pub cold: Vec<Duration>,
}

/// Measures each variant `runs` times, sequentially.
pub async fn measure(executor: &Executor, runs: usize) -> Result<SandboxTimings, ExecutorError> {
    let mut timings = SandboxTimings { plain: Vec::new(), warm: Vec::new(), cold: Vec::new() };
    let job = Job::new("print 1");
    for number in 0..runs {
        let started = Instant::now();
        plain().await?;
        timings.plain.push(started.elapsed());
        // Wait until the pool is full, because refilling it would disturb the measurement.
        while executor.stats().pool.ready < executor.stats().size {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let started = Instant::now();
        let execution = executor.run(PROGRAM, &[], &job).await?;
        timings.warm.push(started.elapsed());
        if !execution.success() {
            return Err(ExecutorError::Unusable(execution.status, execution.stderr));
        }
        let started = Instant::now();
        cold(executor, number).await?;
        timings.cold.push(started.elapsed());
    }
    for times in [&mut timings.plain, &mut timings.warm, &mut timings.cold] {
        times.sort_unstable();
    }
    Ok(timings)
}

async fn plain() -> Result<(), Error> {
    let run = || {
        let mut command = Command::new("/usr/bin/python3");
        command.args(["-B", "-s", "-X", "utf8", "-c", PROGRAM]).env_clear();
        command.stdin(Stdio::null()).output()
    };
    let output = tokio::task::spawn_blocking(run).await.expect("running a process does not panic");
    let context = || "python3 as a plain process".to_owned();
    output.map(drop).map_err(|source| Error::Io { context: context(), source })
}

async fn cold(executor: &Executor, number: usize) -> Result<(), ExecutorError> {
    let spec = Spec::new(format!("measured-{}-{number}", std::process::id())).image(Image::Python);
    let sandbox = executor.sandboxes().create_if_not_exists(spec).await?;
    let program = Program::new("/usr/bin/python3").args(["-B", "-s", "-X", "utf8", "-c", PROGRAM]);
    let output = sandbox.exec(program).await?;
    sandbox.delete().await;
    if output.success() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(ExecutorError::Unusable(Status::Error, stderr))
}

impl SandboxTimings {
    /// Formats the timings as text, in milliseconds.
    pub fn text(&self) -> String {
        let at = |times: &[Duration], share: usize| percentile(times, share).as_secs_f64() * 1e3;
        let row = |name: &str, times: &[Duration]| {
            format!("{name:<28} p50 {:6.1} ms   p95 {:6.1} ms\n", at(times, 50), at(times, 95))
        };
        let overhead = at(&self.warm, 50) - at(&self.plain, 50);
        row("python3, plain process", &self.plain)
            + &row("warm sandbox", &self.warm)
            + &row("cold sandbox", &self.cold)
            + &format!("warm overhead p50: {overhead:.1} ms over {} runs\n", self.plain.len())
    }
}
