//! Runs a program for the host.

use std::{
    path::Path,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use rustix::process::Signal;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    sync::{Notify, watch},
    task::JoinSet,
};

use super::{
    children::{Children, ProcessExit},
    connection::Connection,
};
use crate::{
    limits::{ExceededLimit, ExecLimits, TOO_MANY_OPEN_FILES, Usage},
    meter::{
        self, ProcessSet, Sample, cpu_ledger::CpuLedger, kernel_memory::KernelMeter,
        oom_kills::OomKillCounter,
    },
    protocol::{
        Kind,
        message::{Exec, ExecResult, Fault, FaultCode},
    },
};

/// Interval at which a program's resource usage is sampled.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(50);

/// Maximum time to wait for remaining output after a program has ended. The program's own output is in the pipe by
/// then, but another process may keep the pipe open. The time in which output is sent to the host does not count.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// Maximum time that the kernel may take to end a killed program.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);

/// Counters of the guest's kernel that the agent reads in addition to `/proc`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Meters<'a> {
    pub(super) kernel: Option<&'a KernelMeter>,
    pub(super) oom_kills: Option<&'a OomKillCounter>,
}

impl Meters<'_> {
    fn oom_kills(self) -> u64 {
        self.oom_kills.map_or(0, OomKillCounter::count)
    }
}

/// Runs a program until it exits or exceeds a limit.
pub(super) async fn run(
    mut exec: Exec,
    id: u64,
    workspace: &Path,
    connection: &Connection,
    children: &Children,
    meters: Meters<'_>,
) -> Result<ExecResult, Fault> {
    children.wait_for_killed().await;
    let started = Instant::now();
    let oom_kills_before = meters.oom_kills();
    let input = std::mem::take(&mut exec.input);
    // An agent that is an ordinary process may have other children, whose usage must not be attributed to the program.
    let reaped_usage = || match children.owns_all_processes() {
        true => meter::reaped_usage(),
        false => meter::ReapedUsage::default(),
    };
    let before = reaped_usage();
    // Storage that was already exhausted before the program started is not attributed to the program.
    let exhausted_before = exhausted_storage(workspace);
    let kernel_memory =
        |processes| meters.kernel.map_or(0, |it| it.sample(processes, exec.limits.memory));
    // Processes of an earlier program may still hold kernel memory. It is subtracted from each sample, and the amount
    // decreases as the processes release it.
    let mut released_memory =
        if children.is_idle() { kernel_memory(ProcessSet::AllExceptAgent) } else { 0 };
    let mut child =
        children.spawn(command(&exec, workspace)).map_err(|error| start_fault(&exec, &error))?;
    let processes = if children.owns_all_processes() {
        ProcessSet::AllExceptAgent
    } else {
        ProcessSet::Group(child.group.pid)
    };
    let output =
        Arc::new(OutputBudget { left: AtomicU64::new(exec.limits.output), full: Notify::new() });

    let mut forwarders = JoinSet::new();
    let (end, ended) = watch::channel(false);
    let (mut stdin, input) = (child.stdin, input);
    let feeder = tokio::spawn(async move {
        // An error is expected here if the program exits or closes its input before it has read all input.
        let _ = stdin.write_all(&input).await;
    });
    forwarders.spawn(forward_output(
        child.stdout,
        (Kind::Stdout, id),
        connection.clone(),
        (output.clone(), ended.clone()),
        |_| {},
    ));
    let ran_out_of_descriptors = Arc::new(AtomicBool::new(false));
    forwarders.spawn(forward_output(
        child.stderr,
        (Kind::Stderr, id),
        connection.clone(),
        (output.clone(), ended),
        watch_for(TOO_MANY_OPEN_FILES.as_bytes(), ran_out_of_descriptors.clone()),
    ));

    let mut peak = Sample::default();
    let mut ledger = CpuLedger::default();
    let deadline = tokio::time::sleep(exec.limits.wall);
    tokio::pin!(deadline);
    let mut tick = tokio::time::interval(SAMPLE_INTERVAL);
    let (exit, mut limit) = loop {
        let limit = tokio::select! {
            biased;
            exit = &mut child.exited => break (exit.unwrap_or(ProcessExit { code: None, signal: None }), None),
            () = output.full.notified() => ExceededLimit::Output,
            () = &mut deadline => ExceededLimit::Wall,
            _ = tick.tick() => {
                let mut now = meter::sample(processes, &mut ledger);
                let kernel = kernel_memory(processes);
                released_memory = released_memory.min(kernel);
                let kernel = kernel - released_memory;
                if exec.limits.memory.is_some_and(|it| now.memory.saturating_add(kernel) > it) {
                    now.memory = now.memory.min(meter::exact_memory(processes));
                }
                now.memory = now.memory.saturating_add(kernel);
                peak.memory = peak.memory.max(now.memory);
                peak.threads = peak.threads.max(now.threads);
                let cpu = now.cpu + reaped_usage().cpu.saturating_sub(before.cpu);
                peak.cpu = peak.cpu.max(cpu.max(ledger.total()).min(max_possible_cpu(started)));
                match exceeded_limit(&exec.limits, &peak) {
                    Some(limit) => limit,
                    None => continue,
                }
            }
        };
        child.group.kill();
        let exit = tokio::time::timeout(KILL_TIMEOUT, &mut child.exited).await;
        let exit = exit.ok().and_then(Result::ok);
        break (exit.unwrap_or(ProcessExit { code: None, signal: Some(9) }), Some(limit));
    };
    feeder.abort();
    // Dropping the group kills the processes that the program left behind, which also closes their ends of the pipes.
    drop(child.group);
    end.send_replace(true);
    while forwarders.join_next().await.is_some() {}
    if limit.is_none() && output.left.load(Ordering::Relaxed) == 0 {
        limit = Some(ExceededLimit::Output);
    }
    let after = reaped_usage();
    peak.cpu = peak.cpu.max(after.cpu.saturating_sub(before.cpu).min(max_possible_cpu(started)));
    if after.memory > before.memory {
        peak.memory = peak.memory.max(after.memory);
    }
    if limit.is_none() && exit.signal == Some(Signal::XFSZ.as_raw()) {
        // SIGXFSZ means that the program tried to create a file larger than the workspace.
        limit = Some(ExceededLimit::Disk);
    }
    if limit.is_none() && exit.code != Some(0) {
        let exhausted = exhausted_storage(workspace).filter(|it| exhausted_before != Some(*it));
        let has_too_many_files = || ran_out_of_descriptors.load(Ordering::Relaxed);
        let was_oom_killed = || meters.oom_kills() > oom_kills_before;
        limit = exhausted
            .or_else(|| was_oom_killed().then_some(ExceededLimit::Memory))
            .or_else(|| likely_out_of_memory(&exec.limits, &peak))
            .or_else(|| has_too_many_files().then_some(ExceededLimit::OpenFiles));
    }
    let usage = Usage { wall: started.elapsed(), cpu: peak.cpu, memory: peak.memory };
    Ok(ExecResult { code: exit.code, signal: exit.signal, exceeded_limit: limit, usage })
}

fn command(exec: &Exec, workspace: &Path) -> Command {
    let mut command = Command::new(&exec.program);
    command.args(&exec.args).current_dir(workspace).env_clear();
    command.env("PATH", "/usr/local/bin:/usr/bin:/bin").env("HOME", workspace);
    command.envs(&exec.env);
    command
}

fn start_fault(exec: &Exec, error: &std::io::Error) -> Fault {
    let code = match error.kind() {
        std::io::ErrorKind::NotFound => FaultCode::NotFound,
        _ => FaultCode::Failed,
    };
    Fault::new(code, format!("cannot start `{}`: {error}", exec.program))
}

/// Returns the CPU time that all processors together could have provided since `started`. This caps the measured value:
/// a guest's own kernel may also count time spent waiting for a processor, so several processes can appear to have used
/// more.
fn max_possible_cpu(started: Instant) -> Duration {
    let processors = std::thread::available_parallelism()
        .map_or(u32::MAX, |it| u32::try_from(it.get()).unwrap_or(u32::MAX));
    started.elapsed().saturating_mul(processors)
}

/// Returns the limit that the peak usage exceeds, if any.
fn exceeded_limit(limits: &ExecLimits, peak: &Sample) -> Option<ExceededLimit> {
    if peak.cpu > limits.cpu_time {
        Some(ExceededLimit::CpuTime)
    } else if limits.memory.is_some_and(|it| peak.memory > it) {
        Some(ExceededLimit::Memory)
    } else if limits.processes.is_some_and(|it| peak.threads > it) {
        Some(ExceededLimit::Processes)
    } else {
        None
    }
}

/// Returns which storage limit of the workspace is exhausted, if any.
fn exhausted_storage(workspace: &Path) -> Option<ExceededLimit> {
    let stat = rustix::fs::statvfs(workspace).ok()?;
    if stat.f_blocks > 0 && stat.f_bavail == 0 {
        Some(ExceededLimit::Disk)
    } else if stat.f_files > 0 && stat.f_ffree == 0 {
        Some(ExceededLimit::Files)
    } else {
        None
    }
}

/// Returns the memory limit as the likely cause of a failure if the program used at least 90 % of it.
fn likely_out_of_memory(limits: &ExecLimits, peak: &Sample) -> Option<ExceededLimit> {
    let memory = limits.memory?;
    (peak.memory >= memory / 10 * 9).then_some(ExceededLimit::Memory)
}

/// Number of output bytes that a program may still write.
struct OutputBudget {
    left: AtomicU64,
    full: Notify,
}

/// Returns a function that searches for `text` in an output that it receives piece by piece, and sets `found` once the
/// text occurs.
fn watch_for(text: &'static [u8], found: Arc<AtomicBool>) -> impl FnMut(&[u8]) {
    let mut recent = Vec::new();
    move |piece| {
        recent.extend_from_slice(piece);
        if recent.windows(text.len()).any(|it| it == text) {
            found.store(true, Ordering::Relaxed);
        }
        // Keep the end, because the text may continue in the next piece.
        recent.drain(..recent.len().saturating_sub(text.len() - 1));
    }
}

/// Forwards a program's output to the host, up to its output limit. Calls `inspect` with each piece of the output.
/// Returns when the pipe is closed, or when it has waited for [`DRAIN_TIMEOUT`] after `ended` has become true.
async fn forward_output(
    mut from: impl AsyncRead + Unpin,
    (kind, id): (Kind, u64),
    connection: Connection,
    (output, mut ended): (Arc<OutputBudget>, watch::Receiver<bool>),
    mut inspect: impl FnMut(&[u8]),
) {
    let mut buffer = vec![0; 64 << 10];
    let mut deadline = None;
    loop {
        let read = tokio::select! {
            // Output that has arrived is forwarded even if the deadline has passed meanwhile.
            biased;
            read = from.read(&mut buffer) => read,
            () = drain_deadline(&mut ended, &mut deadline) => return,
        };
        let Ok(count @ 1..) = read else { return };
        inspect(&buffer[..count]);
        let count = count as u64;
        let take = |left: u64| Some(left.saturating_sub(count));
        let left = output.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        let allowed = left.unwrap_or(0).min(count);
        if allowed > 0 {
            let sending = Instant::now();
            connection.send(kind, id, &buffer[..allowed as usize]).await;
            deadline = deadline.map(|it| it + sending.elapsed());
        }
        if allowed < count {
            output.full.notify_one();
            return;
        }
    }
}

/// Waits until the program has ended, sets the deadline unless it is already set, and returns when the deadline has
/// passed.
async fn drain_deadline(
    ended: &mut watch::Receiver<bool>,
    deadline: &mut Option<tokio::time::Instant>,
) {
    // An error means that the sender was dropped, because the program was cancelled.
    let _ = ended.wait_for(|it| *it).await;
    let deadline = deadline.get_or_insert_with(|| tokio::time::Instant::now() + DRAIN_TIMEOUT);
    tokio::time::sleep_until(*deadline).await;
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    };

    use super::{exceeded_limit, watch_for};
    use crate::{
        limits::{ExceededLimit, ExecLimits, TOO_MANY_OPEN_FILES},
        meter::Sample,
    };

    #[test]
    fn text_is_found_across_pieces() {
        for (pieces, expected) in [
            (&["no such file"][..], false),
            (&["error: Too many open files (os error 24)"], true),
            (&["Too many ", "open f", "iles"], true),
            (&["Too many ", "other ", "open files"], false),
        ] {
            let found = Arc::new(AtomicBool::new(false));
            let mut watch = watch_for(TOO_MANY_OPEN_FILES.as_bytes(), found.clone());
            pieces.iter().for_each(|it| watch(it.as_bytes()));
            assert_eq!(found.load(Ordering::Relaxed), expected, "{pieces:?}");
        }
    }

    #[test]
    fn usage_equal_to_the_limit_is_allowed() {
        let limits = ExecLimits { memory: Some(100), processes: Some(8), ..ExecLimits::default() };
        let all = Sample { threads: 8, memory: 100, cpu: limits.cpu_time };
        assert_eq!(exceeded_limit(&limits, &all), None);
        assert_eq!(
            exceeded_limit(&limits, &Sample { threads: 9, ..all }),
            Some(ExceededLimit::Processes)
        );
        assert_eq!(
            exceeded_limit(&limits, &Sample { memory: 101, ..all }),
            Some(ExceededLimit::Memory)
        );
    }
}
