//! Programs: what they read, write and are given.

use super::{Bench, Check, Failure, check, ensure};
use crate::{Program, Sandbox, Status, report::Guarantee};

pub(super) const CHECKS: &[Check] = &[
    check!("exec: output and error come back apart, with the exit code", [Programs], apart),
    check!("exec: a program reads its input", [Programs], input),
    check!(
        "exec: a program's environment is what it is given, and nothing is inherited",
        [Programs],
        scrubbed
    ),
    check!("exec: a program that does not exist is an error that says so", [Programs], missing),
    check!("exec: what a program leaves behind ends with it", [Programs], left_behind),
    check!("exec: orphans leave no trace", [Programs, OwnProcesses], orphans),
    check!("exec: programs run at once", [Programs], at_once),
];

async fn apart(bench: Bench) -> Result<(), Failure> {
    let sandbox = bench.sandbox(bench.spec()).await?;
    let output = sandbox.exec(Program::new(&*bench.program).args(["say", "out", "error"])).await?;
    ensure!(output.success(), "{output:?}");
    ensure!(output.stdout == b"out" && output.stderr == b"error", "{output:?}");
    ensure!(output.isolated == bench.capabilities.is_isolated(), "{output:?}");
    let output = sandbox.exec(Program::new(&*bench.program).args(["exit", "3"])).await?;
    ensure!(output.status == Status::Exited(3), "{output:?}");
    Ok(())
}

async fn input(bench: Bench) -> Result<(), Failure> {
    let sandbox = bench.sandbox(bench.spec()).await?;
    let input = vec![b'z'; 700_000];
    let output =
        sandbox.exec(Program::new(&*bench.program).arg("cat").input(input.clone())).await?;
    ensure!(output.stdout == input, "{} bytes came back: {:?}", output.stdout.len(), output.status);
    Ok(())
}

async fn scrubbed(bench: Bench) -> Result<(), Failure> {
    let sandbox = bench.sandbox(bench.spec()).await?;
    let program = Program::new(&*bench.program).arg("environment").env("GIVEN", "1");
    let output = sandbox.exec(program).await?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (descriptors, variables): (Vec<_>, Vec<_>) =
        text.lines().partition(|it| it.starts_with("fd "));
    let mut names: Vec<_> = variables.iter().filter_map(|it| it.split('=').next()).collect();
    names.sort_unstable();
    ensure!(names == ["GIVEN", "HOME", "PATH"], "the environment is {names:?}; {output:?}");
    if bench.capabilities.is_isolated() {
        ensure!(variables.contains(&"HOME=/workspace"), "{variables:?}");
        // Besides its three pipes it has the folder that it reads to find this out.
        ensure!(descriptors.len() == 4, "{descriptors:?}");
    }
    Ok(())
}

async fn missing(bench: Bench) -> Result<(), Failure> {
    let sandbox = bench.sandbox(bench.spec()).await?;
    let error = sandbox.exec(Program::new("no-such-program")).await;
    ensure!(error.as_ref().is_err_and(|it| it.is_not_found()), "{error:?}");
    works(&bench, &sandbox).await
}

async fn left_behind(bench: Bench) -> Result<(), Failure> {
    let sandbox = bench.sandbox(bench.spec()).await?;
    let started = std::time::Instant::now();
    let output = sandbox.exec(Program::new(&*bench.program).arg("leave-a-child")).await?;
    ensure!(output.success(), "{output:?}");
    ensure!(started.elapsed().as_secs() < 30, "it waited for what was left behind");
    works(&bench, &sandbox).await
}

async fn orphans(bench: Bench) -> Result<(), Failure> {
    let mut spec = bench.spec();
    spec.limits.processes = 32;
    let sandbox = bench.sandbox(spec).await?;
    // More in all than may be there at once: those that were not taken off the table would be in the way.
    for _ in 0..6 {
        let output = sandbox.exec(Program::new(&*bench.program).args(["orphans", "12"])).await?;
        ensure!(output.success(), "{output:?}");
    }
    Ok(())
}

async fn at_once(bench: Bench) -> Result<(), Failure> {
    let sandbox = bench.sandbox(bench.spec()).await?;
    let mut running = tokio::task::JoinSet::new();
    for number in 0..8 {
        let (sandbox, program) = (sandbox.clone(), bench.program.to_string());
        running.spawn(async move {
            let word = number.to_string();
            let output = sandbox.exec(Program::new(program).args(["say", &word, ""])).await;
            output.is_ok_and(|it| it.stdout == word.as_bytes())
        });
    }
    let all = running.join_all().await;
    ensure!(all.iter().all(|it| *it), "{all:?}");
    Ok(())
}

/// Whether a sandbox can still be used.
pub(super) async fn works(bench: &Bench, sandbox: &Sandbox) -> Result<(), Failure> {
    if !bench.capabilities.has(Guarantee::Programs) {
        return Ok(sandbox.ping().await?);
    }
    let output =
        sandbox.exec(Program::new(&*bench.program).args(["say", "still here", ""])).await?;
    ensure!(output.stdout == b"still here", "{output:?}");
    Ok(())
}
