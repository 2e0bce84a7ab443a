//! Running a program for the host.

use std::{
    path::Path,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use rustix::process::Signal;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    sync::Notify,
    task::JoinSet,
};

use super::{
    children::{Children, Exit},
    line::Line,
};
use crate::{
    limits::{Cause, ExecLimits, Usage},
    meter::{self, Sample, Whose},
    protocol::{
        Kind,
        message::{Exec, Exited, Fault, FaultCode},
    },
};

/// How often it is looked at what a program uses.
const TICK: Duration = Duration::from_millis(50);

/// How long a program's output is waited for once the program has ended: who else holds its pipe may never close it.
const DRAIN: Duration = Duration::from_secs(1);

/// Runs a program to its end, or to a limit.
pub(super) async fn run(
    mut exec: Exec,
    id: u64,
    workspace: &Path,
    line: &Line,
    children: &Children,
) -> Result<Exited, Fault> {
    let started = Instant::now();
    let before = meter::reaped();
    // What was used up before is no fault of this program.
    let was_full = full(workspace);
    let mut child =
        children.spawn(command(&exec, workspace)).map_err(|error| not_started(&exec, &error))?;
    let whose = if children.own_all() { Whose::All } else { Whose::Group(child.group.pid) };
    let output = Arc::new(Output { left: AtomicU64::new(exec.limits.output), full: Notify::new() });

    let mut pumps = JoinSet::new();
    let (mut stdin, input) = (child.stdin, std::mem::take(&mut exec.input));
    let feeder = tokio::spawn(async move {
        // A program may end, or close its input, without having read all of it.
        let _ = stdin.write_all(&input).await;
    });
    pumps.spawn(pump(child.stdout, Kind::Stdout, id, line.clone(), output.clone()));
    pumps.spawn(pump(child.stderr, Kind::Stderr, id, line.clone(), output.clone()));

    let mut seen = Sample::default();
    let deadline = tokio::time::sleep(exec.limits.wall);
    tokio::pin!(deadline);
    let mut tick = tokio::time::interval(TICK);
    let (exit, mut cause) = loop {
        let cause = tokio::select! {
            biased;
            exit = &mut child.exited => break (exit.unwrap_or(Exit { code: None, signal: None }), None),
            () = output.full.notified() => Cause::Output,
            () = &mut deadline => Cause::Wall,
            _ = tick.tick() => {
                let mut now = meter::sample(whose);
                if exec.limits.memory.is_some_and(|it| now.memory > it) {
                    now.memory = now.memory.min(meter::exact_memory(whose));
                }
                seen.memory = seen.memory.max(now.memory);
                seen.threads = seen.threads.max(now.threads);
                let cpu = now.cpu + meter::reaped().cpu.saturating_sub(before.cpu);
                seen.cpu = seen.cpu.max(cpu.min(possible_cpu(started)));
                match broken(&exec.limits, &seen) {
                    Some(cause) => cause,
                    None => continue,
                }
            }
        };
        child.group.kill();
        let exit = tokio::time::timeout(DRAIN, &mut child.exited).await;
        let exit = exit.ok().and_then(Result::ok);
        break (exit.unwrap_or(Exit { code: None, signal: Some(9) }), Some(cause));
    };
    feeder.abort();
    // What the program left behind goes with it, and with that the other ends of its pipes.
    drop(child.group);
    let _ = tokio::time::timeout(DRAIN, async { while pumps.join_next().await.is_some() {} }).await;
    if cause.is_none() && output.left.load(Ordering::Relaxed) == 0 {
        cause = Some(Cause::Output);
    }
    let after = meter::reaped();
    seen.cpu = seen.cpu.max(after.cpu.saturating_sub(before.cpu).min(possible_cpu(started)));
    if after.memory > before.memory {
        seen.memory = seen.memory.max(after.memory);
    }
    if cause.is_none() && exit.signal == Some(Signal::XFSZ.as_raw()) {
        // It wanted one file to be larger than all of the workspace.
        cause = Some(Cause::Disk);
    }
    if cause.is_none() && exit.code != Some(0) {
        let filled = full(workspace).filter(|it| was_full != Some(*it));
        cause = filled.or_else(|| starved(&exec.limits, &seen));
    }
    let usage = Usage { wall: started.elapsed(), cpu: seen.cpu, memory: seen.memory };
    Ok(Exited { code: exit.code, signal: exit.signal, cause, usage })
}

fn command(exec: &Exec, workspace: &Path) -> Command {
    let mut command = Command::new(&exec.program);
    command.args(&exec.args).current_dir(workspace).env_clear();
    command.env("PATH", "/usr/local/bin:/usr/bin:/bin").env("HOME", workspace);
    command.envs(&exec.env);
    command
}

fn not_started(exec: &Exec, error: &std::io::Error) -> Fault {
    let code = match error.kind() {
        std::io::ErrorKind::NotFound => FaultCode::NotFound,
        _ => FaultCode::Failed,
    };
    Fault::new(code, format!("`{}` cannot be started: {error}", exec.program))
}

/// The most that all processors together can have given since then. gVisor's kernel counts the time in which a process
/// waits for a processor, so that many of them seem to use more.
fn possible_cpu(started: Instant) -> Duration {
    let processors = std::thread::available_parallelism()
        .map_or(u32::MAX, |it| u32::try_from(it.get()).unwrap_or(u32::MAX));
    started.elapsed().saturating_mul(processors)
}

/// The limit that what was seen breaks, if it breaks one.
fn broken(limits: &ExecLimits, seen: &Sample) -> Option<Cause> {
    if seen.cpu > limits.cpu_time {
        Some(Cause::CpuTime)
    } else if limits.memory.is_some_and(|it| seen.memory > it) {
        Some(Cause::Memory)
    } else if limits.processes.is_some_and(|it| seen.threads > it) {
        Some(Cause::Processes)
    } else {
        None
    }
}

/// What of the workspace is used up, for a program that failed.
fn full(workspace: &Path) -> Option<Cause> {
    let stat = rustix::fs::statvfs(workspace).ok()?;
    if stat.f_blocks > 0 && stat.f_bavail == 0 {
        Some(Cause::Disk)
    } else if stat.f_files > 0 && stat.f_ffree == 0 {
        Some(Cause::Files)
    } else {
        None
    }
}

/// A program that failed with nearly all the memory it may have was refused the rest.
fn starved(limits: &ExecLimits, seen: &Sample) -> Option<Cause> {
    let memory = limits.memory?;
    (seen.memory >= memory / 10 * 9).then_some(Cause::Memory)
}

/// How much a program may still write.
struct Output {
    left: AtomicU64,
    full: Notify,
}

/// Sends what a program writes to the host, as far as it may write.
async fn pump(
    mut from: impl AsyncRead + Unpin,
    kind: Kind,
    id: u64,
    line: Line,
    output: Arc<Output>,
) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        let count = count as u64;
        let take = |left: u64| Some(left.saturating_sub(count));
        let left = output.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        let allowed = left.unwrap_or(0).min(count);
        if allowed > 0 {
            line.send(kind, id, &buffer[..allowed as usize]).await;
        }
        if allowed < count {
            output.full.notify_one();
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::broken;
    use crate::{
        limits::{Cause, ExecLimits},
        meter::Sample,
    };

    #[test]
    fn what_a_program_may_have_it_may_have_in_full() {
        let limits = ExecLimits { memory: Some(100), processes: Some(8), ..ExecLimits::default() };
        let all = Sample { threads: 8, memory: 100, cpu: limits.cpu_time };
        assert_eq!(broken(&limits, &all), None);
        assert_eq!(broken(&limits, &Sample { threads: 9, ..all }), Some(Cause::Processes));
        assert_eq!(broken(&limits, &Sample { memory: 101, ..all }), Some(Cause::Memory));
    }
}
