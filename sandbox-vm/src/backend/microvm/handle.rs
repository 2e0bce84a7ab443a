//! A VM as a whole: the process of QEMU.

use std::{io, path::PathBuf, time::Instant};

use async_trait::async_trait;
use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    process::Child,
    sync::{Mutex, watch},
};

use super::{
    NAME, PATIENCE,
    monitor::Monitor,
    snapshot::{self, Made},
};
use crate::{
    Error,
    backend::{Handle, Snapshot, words::Words},
    cgroup::Cgroup,
    limits::{Cause, Usage},
};

#[derive(Debug)]
pub(super) struct VmHandle {
    pid: Option<Pid>,
    /// Dropped to end QEMU.
    end: watch::Sender<bool>,
    ended: watch::Receiver<bool>,
    cgroup: Option<Cgroup>,
    console: Words,
    complaints: Words,
    started: Instant,
    /// The way to QEMU, and what a snapshot of the machine is bound to; from when it runs.
    machine: Option<(Mutex<Monitor>, Made)>,
}

impl VmHandle {
    /// Takes care of QEMU until it ends, or until the handle is dropped.
    pub(super) fn new(
        mut qemu: Child,
        cgroup: Option<Cgroup>,
        console: Words,
        complaints: Words,
    ) -> Self {
        let pid = qemu.id().and_then(|it| i32::try_from(it).ok()).and_then(Pid::from_raw);
        let (end, mut to_end) = watch::channel(false);
        let (has_ended, ended) = watch::channel(false);
        tokio::spawn(async move {
            tokio::select! {
                _ = qemu.wait() => {}
                // Asked to end, or nobody is there to ask any more.
                _ = to_end.changed() => {
                    let _ = qemu.kill().await;
                }
            }
            let _ = has_ended.send(true);
        });
        let started = Instant::now();
        Self { pid, end, ended, cgroup, console, complaints, started, machine: None }
    }

    /// Takes hold of QEMU's monitor.
    pub(super) fn tie(&mut self, monitor: Monitor, made: Made) {
        self.machine = Some((Mutex::new(monitor), made));
    }

    /// Returns once QEMU has ended.
    async fn ended(&self) {
        let _ = self.ended.clone().wait_for(|it| *it).await;
    }

    /// Waits for something that QEMU does, unless it ends before; says what went wrong.
    pub(super) async fn unless_it_ends<T>(
        &self,
        work: impl Future<Output = io::Result<T>>,
    ) -> Result<T, String> {
        let timely = tokio::time::timeout(PATIENCE, work);
        tokio::select! {
            done = timely => match done {
                Ok(Ok(done)) => Ok(done),
                // It ended in the middle: what it says of that is more than that the connection is gone.
                Ok(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    Err(self.complaint().await)
                }
                Ok(Err(error)) => Err(error.to_string()),
                Err(_) => Err(format!("QEMU was not ready within {PATIENCE:?}")),
            },
            () = self.ended() => Err(self.complaint().await),
        }
    }

    /// What QEMU said of its own failure.
    async fn complaint(&self) -> String {
        self.complaints.wait().await;
        match self.complaints.last() {
            empty if empty.is_empty() => "QEMU ended at once".to_owned(),
            words => words,
        }
    }

    fn signal(&self, signal: Signal, what: &'static str) -> Result<(), Error> {
        let unable = Error::Unsupported { backend: NAME, what };
        if *self.ended.borrow() {
            return Err(unable);
        }
        let sent = self.pid.map(|it| kill_process(it, signal).is_ok());
        if sent == Some(true) { Ok(()) } else { Err(unable) }
    }
}

#[async_trait]
impl Handle for VmHandle {
    async fn kill(&self) {
        let _ = self.end.send(true);
        self.ended().await;
        if let Some(cgroup) = self.cgroup.clone() {
            let _ = tokio::task::spawn_blocking(move || cgroup.remove()).await;
        }
    }

    async fn pause(&self) -> Result<(), Error> {
        self.signal(Signal::STOP, "pause a guest that has ended")
    }

    async fn resume(&self) -> Result<(), Error> {
        self.signal(Signal::CONT, "let a guest go on that has ended")
    }

    async fn usage(&self) -> Option<Usage> {
        let usage = self.cgroup.as_ref()?.usage();
        Some(Usage { wall: self.started.elapsed(), ..usage })
    }

    async fn cause(&self) -> Option<Cause> {
        // The kernel says so on its console, when nothing but the agent is left to end.
        self.console.news().contains("Out of memory").then_some(Cause::Memory)
    }

    async fn last_words(&self) -> String {
        self.console.wait().await;
        self.console.last()
    }

    async fn snapshot(&self, folder: PathBuf) -> Result<Snapshot, Error> {
        let Some((monitor, made)) = &self.machine else {
            let what = "keep a snapshot of a guest that has not started";
            return Err(Error::Unsupported { backend: NAME, what });
        };
        snapshot::keep(&mut *monitor.lock().await, made, &folder).await?;
        Ok(Snapshot { backend: NAME, folder })
    }
}

impl Drop for VmHandle {
    fn drop(&mut self) {
        if let Some(cgroup) = &self.cgroup {
            let _ = self.end.send(true);
            cgroup.remove();
        }
    }
}
