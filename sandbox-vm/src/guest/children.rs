//! The agent's child processes, and the processes that they leave behind.
//!
//! If the agent is process 1, it becomes the parent of every orphaned process and is the only process that can reap
//! them. It therefore waits for all children, but reports only the exit of those that it started itself. If the agent
//! is an ordinary process, it waits only for its own children.

use std::{
    collections::HashMap,
    io,
    os::unix::process::{CommandExt, ExitStatusExt},
    process::{Command, ExitStatus, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, pidfd_send_signal};
use tokio::{
    process::{ChildStderr, ChildStdin, ChildStdout},
    signal::unix::{SignalKind, signal},
    sync::oneshot,
    task::AbortHandle,
};

use crate::{
    meter::ProcessSet,
    sandbox_dir::{Leftover, LeftoverList},
    sync::lock,
};

/// Interval at which the agent checks whether killed processes have ended.
const REAP_INTERVAL: Duration = Duration::from_millis(1);
/// Maximum time for which a program waits until killed processes have ended.
const REAP_TIMEOUT: Duration = Duration::from_secs(10);

/// How a process exited: its exit code or the signal that killed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProcessExit {
    pub(super) code: Option<i32>,
    pub(super) signal: Option<i32>,
}

/// Starts and reaps the agent's child processes.
#[derive(Debug)]
pub(super) struct Children {
    is_init: bool,
    exit_senders: ExitSenders,
    active: Arc<AtomicUsize>,
    reaper: Option<AbortHandle>,
    /// If set, programs are recorded in this list because they would survive a crash of this process.
    leftovers: Option<Arc<LeftoverList>>,
}

// This is a std mutex. It is held while a process is started or reaped, but never across an await.
type ExitSenders = Arc<Mutex<HashMap<Pid, oneshot::Sender<ProcessExit>>>>;

impl Children {
    /// Creates the registry of child processes and, if this process is process 1, starts to reap orphaned processes.
    pub(super) fn start(leftovers: Option<Arc<LeftoverList>>) -> io::Result<Self> {
        let is_init = std::process::id() == 1;
        let exit_senders = ExitSenders::default();
        let reaper = if is_init { Some(spawn_reaper(exit_senders.clone())?) } else { None };
        Ok(Self { is_init, exit_senders, active: Arc::default(), reaper, leftovers })
    }

    /// Returns whether every other process that the agent can see was started by the agent or by its programs.
    pub(super) fn owns_all_processes(&self) -> bool {
        self.is_init
    }

    /// Returns whether no program is running.
    pub(super) fn is_idle(&self) -> bool {
        self.active.load(Ordering::Relaxed) == 0
    }

    /// Waits until the processes of earlier programs have ended, if no program is running. They have all been killed.
    /// Without the wait, the resources that they used would be attributed to the next program.
    pub(super) async fn wait_for_killed(&self) {
        if !self.is_init || !self.is_idle() {
            return;
        }
        let all_reaped = async {
            while reap_exited(&self.exit_senders) {
                tokio::time::sleep(REAP_INTERVAL).await;
            }
        };
        // A process that cannot be killed at the moment, because it waits for a device, must not block other programs.
        let _ = tokio::time::timeout(REAP_TIMEOUT, all_reaped).await;
    }

    /// Starts a program in its own process group.
    pub(super) fn spawn(&self, mut command: Command) -> io::Result<Child> {
        command.process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let (exit, exited) = oneshot::channel();
        // Hold the lock during the spawn, so that the reaper cannot reap the child before its sender is registered.
        let mut exit_senders = lock(&self.exit_senders);
        let mut child = command.spawn()?;
        let leader = child.id();
        let pid = i32::try_from(leader).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| io::Error::other("the process has no valid process id"))?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        if self.is_init {
            exit_senders.insert(pid, exit);
        } else {
            tokio::task::spawn_blocking(move || {
                let status = child.wait();
                let _ = exit
                    .send(status.map_or(ProcessExit { code: None, signal: None }, ProcessExit::of));
            });
        }
        drop(exit_senders);
        self.active.fetch_add(1, Ordering::Relaxed);
        let active = self.active.clone();
        let group = ProcessGroup {
            pid,
            is_init: self.is_init,
            active,
            leftover: self.record_leftover(leader),
        };
        let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
            return Err(io::Error::other("the process has no pipes"));
        };
        Ok(Child {
            stdin: ChildStdin::from_std(stdin)?,
            stdout: ChildStdout::from_std(stdout)?,
            stderr: ChildStderr::from_std(stderr)?,
            exited,
            group,
        })
    }

    /// Records the process group of a program that was just started, if the agent keeps a list of leftovers.
    fn record_leftover(&self, leader: u32) -> Option<(Arc<LeftoverList>, Leftover)> {
        let (list, leftover) = (self.leftovers.clone()?, Leftover::process_group(leader));
        if let Err(error) = list.record(leftover.clone()) {
            tracing::warn!(%error, "cannot record a program; it will not be cleaned up if this process is killed");
        }
        Some((list, leftover))
    }
}

impl Drop for Children {
    fn drop(&mut self) {
        if let Some(reaper) = &self.reaper {
            reaper.abort();
        }
    }
}

/// A running program.
#[derive(Debug)]
pub(super) struct Child {
    pub(super) stdin: ChildStdin,
    pub(super) stdout: ChildStdout,
    pub(super) stderr: ChildStderr,
    pub(super) exited: oneshot::Receiver<ProcessExit>,
    pub(super) group: ProcessGroup,
}

/// A program's process group. Dropping this value kills the group. If the agent is process 1, dropping the last
/// `ProcessGroup` kills all other processes in the guest, including those that moved to another group.
#[derive(Debug)]
pub(super) struct ProcessGroup {
    pub(super) pid: Pid,
    is_init: bool,
    active: Arc<AtomicUsize>,
    leftover: Option<(Arc<LeftoverList>, Leftover)>,
}

impl ProcessGroup {
    /// Kills the group. If the agent is not process 1, also kills the descendants of the group's processes that have
    /// moved to another group.
    pub(super) fn kill(&self) {
        let descendants =
            if self.is_init { Vec::new() } else { ProcessSet::Group(self.pid).open() };
        // It is not an error if the group or a process no longer exists.
        let _ = rustix::process::kill_process_group(self.pid, Signal::KILL);
        for process in descendants {
            let _ = pidfd_send_signal(&process, Signal::KILL);
        }
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.kill();
        let is_last = self.active.fetch_sub(1, Ordering::Relaxed) == 1;
        if is_last && self.is_init {
            // When process 1 sends a signal to -1, the signal goes to every process in the guest except process 1
            // itself.
            let all = nix::unistd::Pid::from_raw(-1);
            let _ = nix::sys::signal::kill(all, nix::sys::signal::Signal::SIGKILL);
        }
        if let Some((list, leftover)) = &self.leftover {
            list.mark_removed(leftover);
        }
    }
}

impl ProcessExit {
    fn of(status: ExitStatus) -> Self {
        Self { code: status.code(), signal: status.signal() }
    }

    fn of_wait(status: WaitStatus) -> Self {
        Self { code: status.exit_status(), signal: status.terminating_signal() }
    }
}

fn spawn_reaper(exit_senders: ExitSenders) -> io::Result<AbortHandle> {
    let mut child_signals = signal(SignalKind::child())?;
    let task = tokio::spawn(async move {
        loop {
            reap_exited(&exit_senders);
            if child_signals.recv().await.is_none() {
                return;
            }
        }
    });
    Ok(task.abort_handle())
}

/// Reaps the children that have exited, including the orphans that this process has become the parent of. Returns
/// whether other children remain.
fn reap_exited(exit_senders: &ExitSenders) -> bool {
    let mut exit_senders = lock(exit_senders);
    loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) => {
                if let Some(exit) = exit_senders.remove(&pid) {
                    let _ = exit.send(ProcessExit::of_wait(status));
                }
            }
            Ok(None) => return true,
            Err(_) => return false,
        }
    }
}
