//! Checks how programs run: their input, output, environment and leftover processes.

use sandbox_vm::{Program, Sandbox, Status, report::Guarantee};

use crate::check::{Check, Failure, TestContext, check, ensure};

pub(crate) const CHECKS: &[Check] = &[
    check!(
        "exec: standard output, standard error and exit code are returned",
        [Programs],
        separate_streams
    )
    .in_shared_guest(),
    check!("exec: a program reads its standard input", [Programs], input).in_shared_guest(),
    check!(
        "exec: a program's environment is as specified, and nothing is inherited",
        [Programs],
        clean_environment
    )
    .in_shared_guest(),
    check!("exec: a missing program is reported as not found", [Programs], missing)
        .in_shared_guest(),
    check!("exec: processes that a program leaves behind are killed", [Programs], left_behind)
        .in_shared_guest(),
    check!(
        "escape: processes that leave their session are killed with their program",
        [Programs, OwnProcesses],
        left_session
    )
    .in_shared_guest(),
    check!("exec: orphaned processes are reaped", [Programs, OwnProcesses], orphans),
    check!("exec: programs run concurrently", [Programs], concurrent),
];

async fn separate_streams(cx: TestContext) -> Result<(), Failure> {
    let sandbox = cx.sandbox(cx.spec()).await?;
    let output = sandbox.exec(Program::new(&*cx.program).args(["say", "out", "error"])).await?;
    ensure!(output.success(), "{output:?}");
    ensure!(output.stdout == b"out" && output.stderr == b"error", "{output:?}");
    ensure!(output.isolated == cx.capabilities.is_isolated(), "{output:?}");
    let output = sandbox.exec(Program::new(&*cx.program).args(["exit", "3"])).await?;
    ensure!(output.status == Status::Exited(3), "{output:?}");
    Ok(())
}

async fn input(cx: TestContext) -> Result<(), Failure> {
    let sandbox = cx.sandbox(cx.spec()).await?;
    let input = vec![b'z'; 700_000];
    let output = sandbox.exec(Program::new(&*cx.program).arg("cat").input(input.clone())).await?;
    ensure!(
        output.stdout == input,
        "{} bytes were returned: {:?}",
        output.stdout.len(),
        output.status
    );
    Ok(())
}

async fn clean_environment(cx: TestContext) -> Result<(), Failure> {
    let sandbox = cx.sandbox(cx.spec()).await?;
    let program = Program::new(&*cx.program).arg("environment").env("GIVEN", "1");
    let output = sandbox.exec(program).await?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (descriptors, variables): (Vec<_>, Vec<_>) =
        text.lines().partition(|it| it.starts_with("fd "));
    let mut names: Vec<_> = variables.iter().filter_map(|it| it.split('=').next()).collect();
    names.sort_unstable();
    ensure!(names == ["GIVEN", "HOME", "PATH"], "the environment is {names:?}; {output:?}");
    if cx.capabilities.is_isolated() {
        ensure!(variables.contains(&"HOME=/workspace"), "{variables:?}");
        // Expect three pipes, and the directory that the program reads to list its file descriptors.
        ensure!(descriptors.len() == 4, "{descriptors:?}");
    }
    Ok(())
}

async fn missing(cx: TestContext) -> Result<(), Failure> {
    let sandbox = cx.sandbox(cx.spec()).await?;
    let error = sandbox.exec(Program::new("no-such-program")).await;
    ensure!(error.as_ref().is_err_and(|it| it.is_not_found()), "{error:?}");
    check_usable(&cx, &sandbox).await
}

async fn left_behind(cx: TestContext) -> Result<(), Failure> {
    let sandbox = cx.sandbox(cx.spec()).await?;
    // The process that is left behind sleeps longer than the host waits for the result of the program.
    let output = sandbox.exec(Program::new(&*cx.program).arg("leave-a-child")).await?;
    ensure!(output.success(), "{output:?}");
    check_usable(&cx, &sandbox).await
}

async fn left_session(cx: TestContext) -> Result<(), Failure> {
    let sandbox = cx.sandbox(cx.spec()).await?;
    let program = Program::new(&*cx.program);
    let output = sandbox.exec(program.clone().args(["leave-a-session", "sleep"])).await?;
    ensure!(output.success(), "{output:?}");
    // The program waits until there are no other processes.
    let output = sandbox.exec(program.arg("other-processes")).await?;
    ensure!(output.success(), "processes are left: {output:?}");
    Ok(())
}

async fn orphans(cx: TestContext) -> Result<(), Failure> {
    let mut spec = cx.spec();
    spec.limits.processes = 32;
    let sandbox = cx.sandbox(spec).await?;
    // In total, start more processes than may exist at once. If they were not reaped, the limit would be reached.
    for _ in 0..3 {
        let output = sandbox.exec(Program::new(&*cx.program).args(["orphans", "12"])).await?;
        ensure!(output.success(), "{output:?}");
    }
    Ok(())
}

async fn concurrent(cx: TestContext) -> Result<(), Failure> {
    let sandbox = cx.sandbox(cx.spec()).await?;
    let mut running = tokio::task::JoinSet::new();
    for number in 0..8 {
        let (sandbox, program) = (sandbox.clone(), cx.program.to_string());
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

/// Checks that a sandbox can still be used.
pub(crate) async fn check_usable(cx: &TestContext, sandbox: &Sandbox) -> Result<(), Failure> {
    if !cx.capabilities.has(Guarantee::Programs) {
        return Ok(sandbox.ping().await?);
    }
    let output = sandbox.exec(Program::new(&*cx.program).args(["say", "still here", ""])).await?;
    ensure!(output.stdout == b"still here", "{output:?}");
    Ok(())
}
