//! Tests that a sandbox terminates independently of other sandboxes and of its callers.

use std::{fs, future::pending, path::Path, time::Duration};

use async_trait::async_trait;
use rustix::process::{Pid, Signal, kill_process};
use sandbox_vm::{
    Error, ExceededLimit, ExecLimits, GraphRun, Image, PartialOutput, Program, Sandbox, Spec,
    Status, TerminationReason,
    backend::{Backend, Guest, Handle, InProcess, Jail},
    report::Report,
    sandbox_dir::{Leftover, SandboxDir},
};
use tokio::time::{Instant, timeout};

use crate::{
    HOSTILE,
    handle_override::{self, HandleOverride},
    microvm::{leftovers, micro_vm},
    pool::until,
    sandboxes,
    suite::gvisor,
};

/// A back end whose guests cannot be killed if they are named `stuck`.
#[derive(Debug)]
struct UnkillableBackend(InProcess);

#[async_trait]
impl Backend for UnkillableBackend {
    fn name(&self) -> &'static str {
        "stuck"
    }

    async fn probe(&self) -> Report {
        self.0.probe().await
    }

    async fn start(&self, spec: &Spec, sandbox_dir: &SandboxDir) -> Result<Guest, Error> {
        let guest = self.0.start(spec, sandbox_dir).await?;
        Ok(if spec.name == "stuck" { handle_override::with(NeverKilled, guest) } else { guest })
    }
}

#[derive(Debug)]
struct NeverKilled;

#[async_trait]
impl HandleOverride for NeverKilled {
    async fn kill(&self, _: &dyn Handle) {
        pending().await
    }
}

async fn until_terminated(sandbox: &Sandbox) -> TerminationReason {
    until(|| sandbox.termination_reason().is_some()).await;
    sandbox.termination_reason().unwrap().clone()
}

/// The clock advances only while all tasks wait, so the result does not depend on the speed of the machine.
#[tokio::test(start_paused = true)]
async fn unkillable_guest_does_not_block_expiry_of_others() {
    let (sandboxes, _dir) =
        sandboxes(UnkillableBackend(InProcess::new(sandbox_testkit::agent))).await;
    let (started, soon) = (Instant::now(), Duration::from_millis(300));
    for name in ["stuck", "healthy"] {
        sandboxes.create_if_not_exists(Spec::new(name).lifetime(soon)).await.unwrap();
    }
    let healthy = sandboxes.get("healthy").unwrap();
    assert_eq!(until_terminated(&healthy).await, TerminationReason::Limit(ExceededLimit::Lifetime));
    until(|| sandboxes.list().is_empty()).await;
    // The host waits up to a minute for the guest that cannot be killed.
    assert!(started.elapsed() < Duration::from_secs(30));
}

#[tokio::test(start_paused = true)]
async fn deleting_an_unkillable_guest_takes_at_most_a_minute() {
    let (sandboxes, dir) =
        sandboxes(UnkillableBackend(InProcess::new(sandbox_testkit::agent))).await;
    let sandbox = sandboxes.create_if_not_exists(Spec::new("stuck")).await.unwrap();
    timeout(Duration::from_secs(90), sandbox.delete()).await.unwrap();
    assert_eq!(std::fs::read_dir(dir.path().join("state")).unwrap().count(), 0);
}

#[tokio::test(start_paused = true)]
async fn sandbox_expires_after_its_manager_is_dropped() {
    let (sandboxes, dir) = sandboxes(InProcess::new(sandbox_testkit::agent)).await;
    // Shorter than the default idle time, and much longer than the removal of the sandbox below takes.
    let lifetime = Duration::from_secs(600);
    let spec = |name: &str| Spec::new(name).lifetime(lifetime);
    let sandbox = sandboxes.create_if_not_exists(spec("referenced")).await.unwrap();
    sandboxes.create_if_not_exists(spec("unreferenced").lifetime(Duration::MAX)).await.unwrap();
    drop(sandboxes);
    let state = dir.path().join("state");
    let sandbox_dirs = || std::fs::read_dir(&state).unwrap().count();
    until(|| sandbox_dirs() == 1).await;
    sandbox.ping().await.unwrap();
    tokio::time::sleep(lifetime).await;
    assert_eq!(until_terminated(&sandbox).await, TerminationReason::Limit(ExceededLimit::Lifetime));
    until(|| sandbox_dirs() == 0).await;
}

#[tokio::test]
async fn output_of_a_program_survives_the_end_of_its_sandbox() {
    let (sandboxes, _dir) = sandboxes(Jail::program(HOSTILE)).await;
    let spec = Spec::new("killed").image(Image::Python);
    let sandbox = sandboxes.create_if_not_exists(spec).await.unwrap();
    let mut partial = PartialOutput::default();
    let script = "echo out; echo error >&2; touch printed; exec sleep 1000";
    let program = Program::new("sh").args(["-c", script]);
    let delete = async {
        until_printed(&sandbox).await;
        sandbox.delete().await;
    };
    let (outcome, ()) =
        tokio::join!(sandbox.exec_with_partial_output(program, &mut partial), delete);
    assert!(matches!(outcome, Err(Error::Terminated { .. })), "{outcome:?}");
    assert_eq!((&*partial.stdout, &*partial.stderr), (&b"out\n"[..], &b"error\n"[..]));
    // The output of an earlier program is not reported for a later one.
    let program = Program::new("true");
    sandbox.exec_with_partial_output(program, &mut partial).await.unwrap_err();
    assert_eq!(partial, PartialOutput::default());
}

/// Waits until a program has created the file `printed`, and its output has arrived.
async fn until_printed(sandbox: &Sandbox) {
    while sandbox.fs().read("printed").await.is_err() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // The guest reads the output from its pipe and sends it before it has answered all these requests.
    for _ in 0..100 {
        sandbox.ping().await.unwrap();
    }
}

#[tokio::test]
async fn output_of_a_program_survives_the_end_of_its_agent() {
    check_agent_death(Jail::program(HOSTILE)).await;
    if let Some(gvisor) = gvisor().await {
        check_agent_death(gvisor).await;
    }
    if !test_support::is_nightly() {
        test_support::report_nightly_only("the end of an agent in a micro VM");
    } else if let Some(vm) = micro_vm() {
        check_agent_death(vm).await;
    }
}

/// Runs a program that tries to kill its agent. If the guest's kernel protects the agent, because it is process 1,
/// kills the guest from outside.
async fn check_agent_death(backend: impl Backend + 'static) {
    let (sandboxes, dir) = sandboxes(backend).await;
    let spec = Spec::new("crashed").image(Image::Python);
    let sandbox = sandboxes.create_if_not_exists(spec).await.unwrap();
    let script = "echo out; echo error >&2; touch printed; until [ -e kill ]; do sleep 0.1; done; \
                  kill -KILL 1 2>/dev/null; touch survived; exec sleep 1000";
    let time = test_support::DEADLINE;
    let limits = ExecLimits { wall: time, cpu_time: time, ..ExecLimits::default() };
    let program = Program::new("sh").args(["-c", script]).limits(limits);
    let kill = async {
        until_printed(&sandbox).await;
        sandbox.fs().write("kill", "").await.unwrap();
        while sandbox.termination_reason().is_none() {
            if sandbox.fs().read("survived").await.is_ok() {
                return kill_guests(&dir.path().join("state"));
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let mut partial = PartialOutput::default();
    let (outcome, ()) = tokio::join!(sandbox.exec_with_partial_output(program, &mut partial), kill);
    let backend = sandboxes.backend();
    let error = outcome.unwrap_err();
    assert!(matches!(error, Error::Terminated { .. }), "{backend}: {error:?}");
    assert_eq!(error.exceeded_limit(), None, "{backend}: {error}");
    let printed = (&*partial.stdout, &*partial.stderr);
    assert_eq!(printed, (&b"out\n"[..], &b"error\n"[..]), "{backend}");
}

/// Kills the guests whose sandbox directories are in the state directory, without going through their sandboxes.
fn kill_guests(state: &Path) {
    for leftover in leftovers(state) {
        let Leftover::Process { pid, .. } = leftover else { continue };
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
        let children = children.split_whitespace().filter_map(|it| Pid::from_raw(it.parse().ok()?));
        children.for_each(|it| kill_process(it, Signal::KILL).unwrap());
    }
}

#[tokio::test]
async fn run_timeout_terminates_the_sandbox_of_an_unfinished_run() {
    let (sandboxes, _dir) = sandboxes(Jail::program(HOSTILE)).await;
    let sandbox = sandboxes.create_if_not_exists(Spec::new("job")).await.unwrap();
    let run =
        GraphRun::new("hang").input(serde_json::Map::new()).timeout(Duration::from_millis(300));
    let mut running = sandbox.run_graph(run).await.unwrap();
    while running.next().await.is_some() {}
    drop(running);
    assert_eq!(sandbox.termination_reason(), Some(&TerminationReason::Limit(ExceededLimit::Wall)));
}

/// A process with much memory takes a moment to end. The next program can start before that, because no program waits
/// for an orphan, and this orphan does not keep the pipes of its program open.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_of_a_killed_orphan_is_not_attributed_to_the_next_program() {
    let (sandboxes, _dir) = sandboxes(Jail::program(HOSTILE)).await;
    let spec = Spec::new("orphan").image(Image::Python).memory(256 << 20);
    let sandbox = sandboxes.create_if_not_exists(spec).await.unwrap();
    let orphan =
        "import os, time; it = bytearray(b'1') * (236 << 20); os.close(1); time.sleep(900)";
    let parent = format!(
        "import sys; from subprocess import *; \
         child = Popen([sys.executable, '-c', \"{orphan}\"], stdout=PIPE, stderr=DEVNULL); \
         child.stdout.read()"
    );
    let output = sandbox.exec(Program::new("python3").args(["-c", &*parent])).await.unwrap();
    assert!(output.success(), "{output:?}");
    let next = Program::new("sh").args(["-c", "sleep 0.5; exit 3"]);
    let output = sandbox.exec(next).await.unwrap();
    assert_eq!(output.status, Status::Exited(3), "{:?}", output.usage);
}
