//! A VM as a whole: the process of QEMU.

use std::{path::PathBuf, time::Instant};

use async_trait::async_trait;
use rustix::process::{Pid, Signal, kill_process};
use tokio::{process::Child, sync::watch};

use super::NAME;
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
        Self { pid, end, ended, cgroup, console, complaints, started: Instant::now() }
    }

    /// Returns once QEMU has ended.
    pub(super) async fn ended(&self) {
        let _ = self.ended.clone().wait_for(|it| *it).await;
    }

    /// What QEMU said of its own failure.
    pub(super) async fn complaint(&self) -> String {
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
        let console = self.console.last();
        console.contains("Out of memory").then_some(Cause::Memory)
    }

    async fn last_words(&self) -> String {
        self.console.wait().await;
        self.console.last()
    }

    async fn snapshot(&self, _: PathBuf) -> Result<Snapshot, Error> {
        Err(Error::Unsupported { backend: NAME, what: "keep a snapshot" })
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
