//! Tests that gVisor's guests are charged for the CPU time that they use, and not for time in which they wait for a
//! processor, with a control group and without one.

use std::{
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use sandbox_vm::{ExecLimits, Image, Program, Sandbox, Spec, Status};
use test_support::{is_nightly, report_nightly_only};

use crate::{
    HOSTILE, sandboxes,
    suite::{as_nobody, gvisor},
};

/// Approximate CPU time of the calculation on the host.
const WORK: Duration = Duration::from_millis(400);

/// Maximum number of measurements. A single correct measurement suffices: on a shared machine, the speed of the
/// processors may change during a measurement, but if waiting time were charged, every measurement would be wrong.
const ATTEMPTS: usize = 5;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_for_a_processor_is_not_charged() {
    if !is_nightly() {
        return report_nightly_only("it uses all processors, which slows down other tests");
    }
    let Some(gvisor) = gvisor().await else { return };
    let (sandboxes, _dir) = sandboxes(gvisor).await;
    let spec = Spec::new("cpu-time").image(Image::Python).cpus(4.0);
    let sandbox = sandboxes.create_if_not_exists(spec).await.unwrap();
    let sample = 10_000_000;
    let rounds = sample as f64 * WORK.as_secs_f64() / time_on_host(sample).as_secs_f64();
    let mut wrong = Vec::new();
    while wrong.len() < ATTEMPTS {
        match measure(&sandbox, rounds as u64).await {
            Ok(()) => return,
            Err(problem) => wrong.push(problem),
        }
    }
    panic!("{wrong:#?}");
}

/// Compares the CPU times of a calculation on the host and in the guest.
async fn measure(sandbox: &Sandbox, rounds: u64) -> Result<(), String> {
    // Everything is measured while other threads use all processors, so the guest waits most of the time.
    let load = Load::start();
    let before = time_on_host(rounds);
    // The first program takes longer to start, because the guest reads it from the disk.
    time_in_guest(sandbox, 0, Duration::MAX).await?;
    let start = time_in_guest(sandbox, 0, Duration::MAX).await?;
    let limit = start + 3 * before;
    let in_guest = time_in_guest(sandbox, rounds, limit).await?.saturating_sub(start);
    let after = time_on_host(rounds);
    drop(load);
    let [low, high] = [before.min(after) / 2, before.max(after).mul_f64(2.5)];
    let is_right = (low..=high).contains(&in_guest);
    is_right.then_some(()).ok_or_else(|| format!("{in_guest:?} instead of {before:?} or {after:?}"))
}

#[test]
fn waiting_for_a_processor_is_not_charged_without_a_control_group() {
    if !is_nightly() {
        return report_nightly_only("it uses all processors, which slows down other tests");
    }
    as_nobody("cpu_time::waiting_for_a_processor_is_not_charged");
}

/// Returns the CPU time of the calculation on the host.
fn time_on_host(rounds: u64) -> Duration {
    let output = Command::new(HOSTILE).args(["calculate", &rounds.to_string()]).output().unwrap();
    let seconds = String::from_utf8(output.stdout).unwrap();
    Duration::from_secs_f64(seconds.parse().unwrap())
}

/// Returns the CPU time of the calculation in a guest, which must not exceed `limit`.
async fn time_in_guest(
    sandbox: &Sandbox,
    rounds: u64,
    limit: Duration,
) -> Result<Duration, String> {
    let limits = ExecLimits { cpu_time: limit, ..sandbox_testkit::long_exec_limits() };
    let program = Program::new(sandbox_testkit::PROGRAM).args(["calculate", &rounds.to_string()]);
    let output = sandbox.exec(program.limits(limits)).await.unwrap();
    let ended = output.status == Status::Exited(0);
    ended.then_some(output.usage.cpu).ok_or_else(|| format!("{output:?}"))
}

/// Three threads per processor that keep all processors busy until the value is dropped.
struct Load(Arc<AtomicBool>);

impl Load {
    fn start() -> Self {
        let ended = Arc::new(AtomicBool::new(false));
        for _ in 0..3 * thread::available_parallelism().map_or(1, usize::from) {
            let ended = ended.clone();
            thread::spawn(move || {
                while !ended.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        Self(ended)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
