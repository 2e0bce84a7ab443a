//! What a sandbox costs: the same program in a warm one, in a cold one, and in a plain process.

use std::{
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use sandbox_vm::{Error, Image, Program, Spec};

use super::summary::percentile;
use crate::{
    execution::Status,
    job::Job,
    workshop::{Workshop, WorkshopError},
};

/// The program that is run.
const PROGRAM: &str = "print(1)";

/// Times, sorted.
#[derive(Clone, Debug)]
pub struct Measured {
    /// `python3` as a plain process of the host.
    pub plain: Vec<Duration>,
    /// From the wish for a sandbox to the result, where one is ready.
    pub warm: Vec<Duration>,
    /// The same, where one has to be made first.
    pub cold: Vec<Duration>,
}

/// Runs the same small program so many times in each way, one after another.
pub async fn measure(workshop: &Workshop, runs: usize) -> Result<Measured, WorkshopError> {
    let mut measured = Measured { plain: Vec::new(), warm: Vec::new(), cold: Vec::new() };
    let job = Job::new("print 1");
    for number in 0..runs {
        let started = Instant::now();
        plain().await?;
        measured.plain.push(started.elapsed());
        // What fills the pool must not run at the same time.
        while workshop.stats().pool.ready < workshop.stats().size {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let started = Instant::now();
        let execution = workshop.run(PROGRAM, &[], &job).await?;
        measured.warm.push(started.elapsed());
        if !execution.success() {
            return Err(WorkshopError::Unusable(execution.status, execution.stderr));
        }
        let started = Instant::now();
        cold(workshop, number).await?;
        measured.cold.push(started.elapsed());
    }
    for times in [&mut measured.plain, &mut measured.warm, &mut measured.cold] {
        times.sort_unstable();
    }
    Ok(measured)
}

async fn plain() -> Result<(), Error> {
    let run = || {
        let mut command = Command::new("/usr/bin/python3");
        command.args(["-B", "-s", "-X", "utf8", "-c", PROGRAM]).env_clear();
        command.stdin(Stdio::null()).output()
    };
    let output = tokio::task::spawn_blocking(run).await.expect("it does not panic");
    let what = || "python3 as a plain process".to_owned();
    output.map(drop).map_err(|source| Error::Io { what: what(), source })
}

async fn cold(workshop: &Workshop, number: usize) -> Result<(), WorkshopError> {
    let spec = Spec::new(format!("measured-{}-{number}", std::process::id())).image(Image::Python);
    let sandbox = workshop.sandboxes().create_if_not_exists(spec).await?;
    let program = Program::new("/usr/bin/python3").args(["-B", "-s", "-X", "utf8", "-c", PROGRAM]);
    let output = sandbox.exec(program).await?;
    sandbox.delete().await;
    if output.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(WorkshopError::Unusable(Status::Error, said))
}

impl Measured {
    /// The times for people, in milliseconds.
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
