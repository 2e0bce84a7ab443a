//! The processes that the agent starts, and those that they leave behind.
//!
//! As process 1 the agent is the parent of every orphan, and nobody but it can take them off the process table. So it
//! waits for all children there are, tells whoever started one how it ended, and ignores the rest. Where it is an
//! ordinary process it waits for its own children alone.

use std::{
    collections::HashMap,
    io,
    os::unix::process::{CommandExt, ExitStatusExt},
    process::{Command, ExitStatus, Stdio},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use rustix::process::{Pid, Signal, WaitOptions, WaitStatus};
use tokio::{
    process::{ChildStderr, ChildStdin, ChildStdout},
    signal::unix::{SignalKind, signal},
    sync::oneshot,
    task::AbortHandle,
};

use crate::berth::{Leftover, Noted};

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Exit {
    pub(super) code: Option<i32>,
    pub(super) signal: Option<i32>,
}

/// The processes of the agent.
#[derive(Debug)]
pub(super) struct Children {
    is_first: bool,
    waiting: Waiting,
    active: Arc<AtomicUsize>,
    reaper: Option<AbortHandle>,
    /// The list that programs are noted in, where they would outlive a crash.
    noted: Option<Arc<Noted>>,
}

// A std mutex: held while a process is started, or while one is taken off the table; never over an await.
type Waiting = Arc<Mutex<HashMap<Pid, oneshot::Sender<Exit>>>>;

impl Children {
    /// Starts to wait for orphans, if this is process 1.
    pub(super) fn start(noted: Option<Arc<Noted>>) -> io::Result<Self> {
        let is_first = std::process::id() == 1;
        let waiting = Waiting::default();
        let reaper = if is_first { Some(reap(waiting.clone())?) } else { None };
        Ok(Self { is_first, waiting, active: Arc::default(), reaper, noted })
    }

    /// Whether all processes there are besides the agent belong to what it runs.
    pub(super) fn own_all(&self) -> bool {
        self.is_first
    }

    /// Starts a program in a process group of its own.
    pub(super) fn spawn(&self, mut command: Command) -> io::Result<Child> {
        command.process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let (exit, exited) = oneshot::channel();
        // Held over the start: the reaper may not take a child that nobody waits for yet.
        let mut waiting = lock(&self.waiting);
        let mut child = command.spawn()?;
        let leader = child.id();
        let pid = i32::try_from(leader).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| io::Error::other("a process without an id"))?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        if self.is_first {
            waiting.insert(pid, exit);
        } else {
            tokio::task::spawn_blocking(move || {
                let status = child.wait();
                let _ = exit.send(status.map_or(Exit { code: None, signal: None }, Exit::of));
            });
        }
        drop(waiting);
        self.active.fetch_add(1, Ordering::Relaxed);
        let active = self.active.clone();
        let group = Group { pid, is_first: self.is_first, active, noted: self.note(leader) };
        let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
            return Err(io::Error::other("a process without pipes"));
        };
        Ok(Child {
            stdin: ChildStdin::from_std(stdin)?,
            stdout: ChildStdout::from_std(stdout)?,
            stderr: ChildStderr::from_std(stderr)?,
            exited,
            group,
        })
    }
}

impl Children {
    /// Notes the group of a program that was just started, where that is needed.
    fn note(&self, leader: u32) -> Option<(Arc<Noted>, Leftover)> {
        let (list, leftover) = (self.noted.clone()?, Leftover::group(leader));
        if let Err(error) = list.note(leftover.clone()) {
            tracing::warn!(%error, "a program is not found again if this process is killed");
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

/// A program that runs.
#[derive(Debug)]
pub(super) struct Child {
    pub(super) stdin: ChildStdin,
    pub(super) stdout: ChildStdout,
    pub(super) stderr: ChildStderr,
    pub(super) exited: oneshot::Receiver<Exit>,
    pub(super) group: Group,
}

/// A program's process group. Dropping it ends the group; with the last program that runs in a guest all that any of
/// them left behind ends, whatever group it moved to.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) pid: Pid,
    is_first: bool,
    active: Arc<AtomicUsize>,
    noted: Option<(Arc<Noted>, Leftover)>,
}

impl Group {
    /// Ends the group, now.
    pub(super) fn kill(&self) {
        // A group that is gone already is no error.
        let _ = rustix::process::kill_process_group(self.pid, Signal::KILL);
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
        let is_last = self.active.fetch_sub(1, Ordering::Relaxed) == 1;
        if is_last && self.is_first {
            // From process 1, "all" is all of the guest but process 1 itself.
            let all = nix::unistd::Pid::from_raw(-1);
            let _ = nix::sys::signal::kill(all, nix::sys::signal::Signal::SIGKILL);
        }
        if let Some((list, leftover)) = &self.noted {
            list.settle(leftover);
        }
    }
}

impl Exit {
    fn of(status: ExitStatus) -> Self {
        Self { code: status.code(), signal: status.signal() }
    }

    fn of_wait(status: WaitStatus) -> Self {
        Self { code: status.exit_status(), signal: status.terminating_signal() }
    }
}

fn reap(waiting: Waiting) -> io::Result<AbortHandle> {
    let mut died = signal(SignalKind::child())?;
    let task = tokio::spawn(async move {
        loop {
            take_dead(&waiting);
            if died.recv().await.is_none() {
                return;
            }
        }
    });
    Ok(task.abort_handle())
}

fn take_dead(waiting: &Waiting) {
    let mut waiting = lock(waiting);
    while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
        if let Some(exit) = waiting.remove(&pid) {
            let _ = exit.send(Exit::of_wait(status));
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
