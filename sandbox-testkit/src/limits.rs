//! Checks that exceeding a limit ends the program or sandbox, and that the limit is reported.

use std::time::{Duration, Instant};

use sandbox_vm::{
    Error, ExceededLimit, ExecLimits, GraphRun, Output, PartialOutput, Program, Sandbox, Spec,
    Status, report::Guarantee,
};
use serde_json::{Map, json};

use crate::{
    check::{Check, Failure, TestContext, check, ensure, long_exec_limits},
    hostile::ATTEMPT_SUCCEEDED,
    kernel_memory::KINDS,
    programs::check_usable,
};

pub(crate) const CHECKS: &[Check] = &[
    check!("limits: wall-clock time", [Programs], wall).in_shared_guest(),
    check!("limits: CPU time", [Programs], cpu_time).in_shared_guest(),
    check!(
        "limits: CPU time of children that nobody waits for",
        [Programs],
        cpu_time_of_unwaited_children
    )
    .in_shared_guest(),
    check!("limits: output", [Programs], output).in_shared_guest(),
    check!("limits: open files of a graph", [DiskLimit], open_files_of_graph).in_shared_guest(),
    check!("limits: CPU time of the whole sandbox", [Programs, OwnProcesses], cpu_time_of_all),
    check!("limits: processes in other sessions count", [Programs], other_sessions)
        .in_shared_guest(),
    check!("limits: processor share", [Programs, CpuShare], cpu_share),
    check!("limits: memory", [Programs], memory),
    check!(
        "limits: a memory kill is not attributed to the next program",
        [Programs, MemoryLimit],
        survived_memory_kill
    )
    .in_shared_guest(),
    check!("limits: shared memory", [Programs], shared_memory),
    check!("limits: memory of unmapped in-memory files", [Programs, FilteredCalls], memory_files),
    check!(
        "limits: kernel memory of sockets, pipes, watches, locks and page tables",
        [Programs, FilteredCalls],
        kernel_memory
    ),
    check!("limits: processes", [Programs, ProcessLimit], processes),
    check!("limits: disk", [Programs, DiskLimit], disk).in_shared_guest(),
    check!("limits: a file longer than the disk", [Programs, DiskLimit], long_file)
        .in_shared_guest(),
    check!("limits: files", [Programs, DiskLimit], files).in_shared_guest(),
    check!("limits: open files", [Programs, DiskLimit], open_files).in_shared_guest(),
];

/// Memory limit of the sandboxes in bytes.
const MEMORY: u64 = 96 << 20;

fn spec(cx: &TestContext) -> Spec {
    let mut spec = cx.spec().memory(MEMORY);
    // Use a separate name, because checks of other groups share a guest with another spec.
    spec.name = "limits".to_owned();
    spec.limits.disk = 16 << 20;
    spec.limits.files = 512;
    spec.limits.processes = 24;
    spec
}

fn program(cx: &TestContext, name: &str) -> Program {
    Program::new(&*cx.program).arg(name)
}

#[expect(clippy::needless_pass_by_value, reason = "callers pass results that they no longer need")]
fn ended_by(outcome: Result<Output, Error>, limit: ExceededLimit) -> Result<(), Failure> {
    let matches = match &outcome {
        Ok(output) => output.status == Status::Limit(limit),
        // The sandbox as a whole may also have exceeded the limit.
        Err(error) => error.exceeded_limit() == Some(limit),
    };
    ensure!(matches, "expected the limit on {limit} to be exceeded: {}", describe(&outcome));
    Ok(())
}

fn describe(outcome: &Result<Output, Error>) -> String {
    match outcome {
        Ok(it) => {
            format!("{:?}, {:?}, {}", it.status, it.usage, String::from_utf8_lossy(&it.stderr))
        }
        Err(error) => error.to_string(),
    }
}

async fn still_works(cx: &TestContext, sandbox: &Sandbox) -> Result<(), Failure> {
    match sandbox.termination_reason() {
        Some(_) => Ok(()),
        None => {
            // Run a program that fails by itself. Its failure must not be attributed to the limit that was exceeded
            // earlier. Retry, because killed processes may take a moment to disappear and count against the process
            // limit until then.
            let mut tries = 0;
            let output = loop {
                match sandbox.exec(program(cx, "exit").arg("3")).await {
                    Err(Error::Guest { .. }) if tries < 600 => tries += 1,
                    outcome => break outcome?,
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            };
            ensure!(
                output.status == Status::Exited(3),
                "a later failure is reported as {:?}: {:?}",
                output.status,
                output.usage
            );
            check_usable(cx, sandbox).await
        }
    }
}

/// Runs a program that exceeds a limit, and checks that the limit is reported and that the sandbox still works.
async fn exceed(
    cx: &TestContext,
    spec: Spec,
    name: &str,
    limit: ExceededLimit,
) -> Result<(), Failure> {
    let sandbox = cx.sandbox(spec).await?;
    ended_by(sandbox.exec(program(cx, name)).await, limit)?;
    still_works(cx, &sandbox).await
}

async fn wall(cx: TestContext) -> Result<(), Failure> {
    let sandbox = cx.sandbox(spec(&cx)).await?;
    let limits = ExecLimits { wall: Duration::from_millis(300), ..ExecLimits::default() };
    ended_by(sandbox.exec(program(&cx, "sleep").limits(limits)).await, ExceededLimit::Wall)?;
    // The maximum duration must not cause an overflow.
    let limits = ExecLimits { wall: Duration::MAX, ..ExecLimits::default() };
    let output = sandbox.exec(program(&cx, "exit").arg("0").limits(limits)).await?;
    ensure!(output.success(), "{output:?}");
    still_works(&cx, &sandbox).await
}

async fn cpu_time(cx: TestContext) -> Result<(), Failure> {
    let sandbox = cx.sandbox(spec(&cx)).await?;
    let limits = ExecLimits { cpu_time: Duration::from_millis(300), ..long_exec_limits() };
    let spin = program(&cx, "spin").limits(limits.clone());
    ended_by(sandbox.exec(spin).await, ExceededLimit::CpuTime)?;
    still_works(&cx, &sandbox).await?;
    let spin = program(&cx, "under-odd-name").arg("spin").limits(limits);
    ended_by(sandbox.exec(spin).await, ExceededLimit::CpuTime)?;
    still_works(&cx, &sandbox).await
}

async fn cpu_time_of_all(cx: TestContext) -> Result<(), Failure> {
    let mut spec = spec(&cx);
    spec.limits.cpu_time = Some(Duration::from_millis(500));
    let sandbox = cx.sandbox(spec).await?;
    let outcome = sandbox.exec(program(&cx, "spin")).await;
    ensure!(
        outcome.as_ref().is_err_and(|it| it.exceeded_limit() == Some(ExceededLimit::CpuTime)),
        "{}",
        describe(&outcome)
    );
    Ok(())
}

/// Each child ends long before the limit, and the kernel adds its time to no other process.
async fn cpu_time_of_unwaited_children(cx: TestContext) -> Result<(), Failure> {
    let sandbox = cx.sandbox(spec(&cx)).await?;
    let limits = ExecLimits { cpu_time: Duration::from_millis(500), ..long_exec_limits() };
    let program = program(&cx, "spin-in-unwaited-children").limits(limits);
    ended_by(sandbox.exec(program).await, ExceededLimit::CpuTime)?;
    still_works(&cx, &sandbox).await
}

/// A process that has left the session of its program must not evade the limits of the program.
async fn other_sessions(cx: TestContext) -> Result<(), Failure> {
    let sandbox = cx.sandbox(spec(&cx)).await?;
    let limits = ExecLimits { cpu_time: Duration::from_millis(300), ..long_exec_limits() };
    let spin = program(&cx, "in-other-session").arg("spin").limits(limits);
    ended_by(sandbox.exec(spin).await, ExceededLimit::CpuTime)?;
    still_works(&cx, &sandbox).await?;
    let eat = program(&cx, "in-other-session").arg("eat-memory");
    let outcome = sandbox.exec(eat).await;
    ensure!(!outcome.as_ref().is_ok_and(Output::success), "{}", describe(&outcome));
    match sandbox.termination_reason() {
        Some(_) => Ok(()),
        None => check_usable(&cx, &sandbox).await,
    }
}

async fn cpu_share(cx: TestContext) -> Result<(), Failure> {
    let sandbox = cx.sandbox(spec(&cx).cpus(0.2)).await?;
    let limits = ExecLimits { wall: Duration::from_secs(2), ..ExecLimits::default() };
    let (started, before) = (Instant::now(), sandbox.usage().await);
    let output = sandbox.exec(program(&cx, "spin").limits(limits)).await?;
    ensure!(output.status == Status::Limit(ExceededLimit::Wall), "{output:?}");
    let (after, elapsed) = (sandbox.usage().await, started.elapsed());
    let counted = before.zip(after).map(|(before, after)| after.cpu.saturating_sub(before.cpu));
    // In a VM, use the host's measurement, because the guest's kernel also counts time in which the VM did not run.
    let (cpu, wall) = match counted {
        Some(counted) if cx.capabilities.has(Guarantee::VirtualMachine) => (counted, elapsed),
        _ => (output.usage.cpu, output.usage.wall),
    };
    ensure!(cpu < wall.mul_f64(0.5), "{cpu:?} of {wall:?}");
    Ok(())
}

async fn output(cx: TestContext) -> Result<(), Failure> {
    let sandbox = cx.sandbox(spec(&cx)).await?;
    let limits = ExecLimits { output: 100_000, ..long_exec_limits() };
    let outcome = sandbox.exec(program(&cx, "endless-output").limits(limits)).await;
    ensure!(outcome.as_ref().is_ok_and(|it| it.stdout.len() == 100_000), "{}", describe(&outcome));
    ended_by(outcome, ExceededLimit::Output)?;
    still_works(&cx, &sandbox).await
}

async fn memory(cx: TestContext) -> Result<(), Failure> {
    let sandbox = cx.sandbox(spec(&cx)).await?;
    for eat in [program(&cx, "eat-memory"), program(&cx, "under-odd-name").arg("eat-memory")] {
        let mut partial = PartialOutput::default();
        let outcome = sandbox.exec_with_partial_output(eat, &mut partial).await;
        let usage = outcome.as_ref().map_or(partial.usage, |it| it.usage);
        ensure!(usage.memory >= MEMORY, "{usage:?} is less than the limit: {}", describe(&outcome));
        ended_by(outcome, ExceededLimit::Memory)?;
        still_works(&cx, &sandbox).await?;
        if sandbox.termination_reason().is_some() {
            break;
        }
    }
    Ok(())
}

/// A process is killed because of the memory limit, and its program survives that. The caller then drops the program
/// before it ends.
async fn survived_memory_kill(cx: TestContext) -> Result<(), Failure> {
    let sandbox = cx.sandbox(spec(&cx)).await?;
    let mut surviving = Box::pin(sandbox.exec(program(&cx, "survive-a-memory-kill")));
    let outcome = loop {
        match tokio::time::timeout(Duration::from_millis(100), &mut surviving).await {
            Ok(outcome) => break Some(outcome),
            Err(_) if sandbox.fs().read("killed").await.is_ok() => break None,
            Err(_) => {}
        }
    };
    drop(surviving);
    // The agent may have noticed the memory use before the kernel did. It then ends the program as a whole.
    outcome.map_or(Ok(()), |it| ended_by(it, ExceededLimit::Memory))?;
    still_works(&cx, &sandbox).await
}

async fn shared_memory(cx: TestContext) -> Result<(), Failure> {
    let sandbox = cx.sandbox(spec(&cx)).await?;
    for of in ["nothing", "zero"] {
        let program = program(&cx, "try").args(["shared-memory", of]);
        refused_or_ended_by(sandbox.exec(program).await, ExceededLimit::Memory)?;
        if sandbox.termination_reason().is_some() {
            return Ok(());
        }
    }
    still_works(&cx, &sandbox).await
}

async fn memory_files(cx: TestContext) -> Result<(), Failure> {
    let sandbox = cx.sandbox(spec(&cx)).await?;
    let outcome = sandbox.exec(program(&cx, "try").arg("memory-files")).await;
    refused_or_ended_by(outcome, ExceededLimit::Memory)?;
    still_works(&cx, &sandbox).await
}

async fn kernel_memory(cx: TestContext) -> Result<(), Failure> {
    // A VM has no memory beyond its limit, so only one kind is tested; VMs can be slow. The guest's kernel may kill
    // any of the guest's processes, even the agent.
    let is_vm = cx.capabilities.has(Guarantee::VirtualMachine);
    // A user-space kernel holds mappings in its own memory. Without a control group, only the agent counts them, by
    // reading lists that this kernel generates slowly, within seconds or, on a busy machine, even longer. The agent
    // also cannot find the memory of a process whose main thread has ended.
    let has_slow_lists =
        cx.capabilities.has(Guarantee::OwnKernel) && !cx.capabilities.has(Guarantee::MemoryLimit);
    let is_tested =
        |kind: &&&str| !(has_slow_lists && ["mappings", "no-main-thread"].contains(*kind));
    let kinds = if is_vm { &KINDS[..1] } else { &KINDS[..] };
    let spec = spec(&cx);
    for kind in kinds.iter().filter(is_tested) {
        let sandbox = cx.sandbox(spec.clone()).await?;
        let outcome = sandbox.exec(program(&cx, "try").args(["kernel-memory", kind])).await;
        if is_vm {
            let succeeded = Status::Exited(i32::from(ATTEMPT_SUCCEEDED));
            ensure!(!outcome.is_ok_and(|it| it.status == succeeded), "{kind} are not limited");
        } else {
            refused_or_ended_by(outcome, ExceededLimit::Memory).map_err(|it| it.context(kind))?;
        }
        // In a VM, the guest's kernel kills single processes, so the guest may have survived.
        still_works(&cx, &sandbox).await.map_err(|it| it.context(kind))?;
        sandbox.delete().await;
    }
    Ok(())
}

/// Accepts a program that exits successfully after it was refused the resource, or one that exceeded the limit.
fn refused_or_ended_by(
    outcome: Result<Output, Error>,
    limit: ExceededLimit,
) -> Result<(), Failure> {
    match outcome {
        Ok(output) if output.success() => Ok(()),
        outcome => ended_by(outcome, limit),
    }
}

async fn processes(cx: TestContext) -> Result<(), Failure> {
    // Allow enough memory for many processes, so that the process limit is exceeded first.
    exceed(&cx, spec(&cx).memory(512 << 20), "fork-bomb", ExceededLimit::Processes).await
}

/// Like [`exceed`], for a program that leaves files behind. Deletes them, because other checks use the same guest.
async fn exceed_with_files(
    cx: &TestContext,
    name: &str,
    limit: ExceededLimit,
) -> Result<(), Failure> {
    exceed(cx, spec(cx), name, limit).await?;
    let sandbox = cx.sandbox(spec(cx)).await?;
    let output = sandbox.exec(Program::new("sh").args(["-c", "rm -rf ./*"])).await?;
    ensure!(output.success(), "{output:?}");
    Ok(())
}

async fn disk(cx: TestContext) -> Result<(), Failure> {
    exceed_with_files(&cx, "fill-disk", ExceededLimit::Disk).await
}

async fn long_file(cx: TestContext) -> Result<(), Failure> {
    exceed_with_files(&cx, "long-file", ExceededLimit::Disk).await
}

async fn files(cx: TestContext) -> Result<(), Failure> {
    exceed_with_files(&cx, "fill-files", ExceededLimit::Files).await
}

async fn open_files(cx: TestContext) -> Result<(), Failure> {
    exceed(&cx, spec(&cx), "open-files", ExceededLimit::OpenFiles).await
}

async fn open_files_of_graph(cx: TestContext) -> Result<(), Failure> {
    let sandbox = cx.sandbox(spec(&cx)).await?;
    let input = Map::from_iter([("item".to_owned(), json!("open-files"))]);
    let run = sandbox.run_graph(GraphRun::new("exhaust").input(input)).await?;
    let outcome = run.finish().await;
    let limit = outcome.as_ref().err().and_then(Error::exceeded_limit);
    ensure!(limit == Some(ExceededLimit::OpenFiles), "{outcome:?}");
    check_usable(&cx, &sandbox).await
}
