//! A jailed guest as a whole.

use std::{
    io,
    os::fd::OwnedFd,
    path::PathBuf,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tokio::{
    io::BufReader,
    process::{Child, ChildStderr, ChildStdout},
    time::timeout,
};

use super::outer::GUEST;
use crate::{
    Error,
    backend::{Handle, Snapshot, words::Words},
    berth,
    cgroup::{Cgroup, Freeze, Hits},
    limits::{Cause, Usage},
    meter::{self, Whose},
};

/// How long the kernel has to end a process that was killed.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(in crate::backend) struct JailHandle {
    /// The back end whose guest it is.
    backend: &'static str,
    /// The outer stage. Killed when dropped, and the guest with it.
    outer: tokio::sync::Mutex<Option<Child>>,
    guest: Option<OwnedFd>,
    /// Closing it ends the guest too, though this process be killed.
    lifeline: Option<BufReader<ChildStdout>>,
    cgroup: Option<Cgroup>,
    // Std mutexes: held for a moment, never over an await.
    hits: Mutex<Hits>,
    /// The most memory that was seen, where no control group counts it.
    memory: Mutex<u64>,
    words: Option<Words>,
    started: Instant,
}

impl JailHandle {
    pub(super) fn new(
        backend: &'static str,
        cgroup: Option<Cgroup>,
        stderr: Option<ChildStderr>,
    ) -> Self {
        Self {
            backend,
            outer: tokio::sync::Mutex::new(None),
            guest: None,
            lifeline: None,
            cgroup,
            hits: Mutex::default(),
            memory: Mutex::default(),
            words: stderr.map(Words::of),
            started: Instant::now(),
        }
    }

    pub(super) fn keep(&mut self, outer: Child) {
        *self.outer.get_mut() = Some(outer);
    }

    /// Takes hold of the guest itself, whose process id the outer stage has said.
    pub(super) fn tie(&mut self, line: &str, lifeline: BufReader<ChildStdout>) -> io::Result<()> {
        let pid = || match line.trim().split_once(' ')? {
            (GUEST, pid) => Pid::from_raw(pid.parse().ok()?),
            _ => None,
        };
        let pid = pid().ok_or(io::ErrorKind::InvalidData)?;
        let guest = pidfd_open(pid, PidfdFlags::empty())?;
        // Looked at after it was opened: a guest that ended before may have left its number to somebody else.
        let stage = self.outer.get_mut().as_ref().and_then(Child::id);
        if parent(pid).is_some_and(|it| Some(it) != stage) {
            return Err(io::ErrorKind::NotFound.into());
        }
        self.guest = Some(guest);
        self.lifeline = Some(lifeline);
        Ok(())
    }

    /// Sends a signal to process 1 of the guest, which for the kernel stands for all of it only if it is to die.
    pub(in crate::backend) fn signal(&self, signal: Signal) -> io::Result<()> {
        let guest = self.guest.as_ref().ok_or(io::ErrorKind::NotFound)?;
        Ok(pidfd_send_signal(guest, signal)?)
    }

    /// What the guest says outside its channel.
    pub(in crate::backend) fn words(&self) -> Option<&Words> {
        self.words.as_ref()
    }

    /// Waits for the end of a guest that did not start, and for what it says of it.
    pub(in crate::backend) async fn gather_words(&mut self) -> String {
        let words = self.last_words().await;
        self.kill().await;
        words
    }
}

#[async_trait]
impl Handle for JailHandle {
    async fn kill(&self) {
        if let Some(cgroup) = &self.cgroup {
            // A process that is stopped does not die before it goes on.
            let _ = cgroup.freeze(Freeze::GoOn);
        }
        // When process 1 dies the kernel ends all of its namespace before anybody hears of it.
        if let Some(guest) = &self.guest
            && pidfd_send_signal(guest, Signal::KILL).is_ok()
            && let Ok(guest) = guest.try_clone()
        {
            let wait = move || berth::wait_for_end(&guest, PATIENCE);
            let _ = tokio::task::spawn_blocking(wait).await;
        }
        // The outer stage hears of it then, and ends in turn; one that is stopped does not.
        if let Some(outer) = self.outer.lock().await.as_mut() {
            let _ = outer.start_kill();
            let _ = timeout(PATIENCE, outer.wait()).await;
        }
        if let Some(cgroup) = self.cgroup.clone() {
            // A group that stays is on the berth's list.
            let _ = tokio::task::spawn_blocking(move || cgroup.remove()).await;
        }
    }

    async fn pause(&self) -> Result<(), Error> {
        self.freeze(Freeze::Stop)
    }

    async fn resume(&self) -> Result<(), Error> {
        self.freeze(Freeze::GoOn)
    }

    async fn usage(&self) -> Option<Usage> {
        let usage = match &self.cgroup {
            Some(cgroup) => cgroup.usage(),
            None => self.look().await?,
        };
        Some(Usage { wall: self.started.elapsed(), ..usage })
    }

    async fn cause(&self) -> Option<Cause> {
        let now = self.cgroup.as_ref()?.hits();
        let mut hits = self.hits.lock().unwrap_or_else(PoisonError::into_inner);
        now.since(std::mem::replace(&mut hits, now))
    }

    async fn last_words(&self) -> String {
        let Some(words) = &self.words else { return String::new() };
        words.wait().await;
        words.last()
    }

    async fn snapshot(&self, _: PathBuf) -> Result<Snapshot, Error> {
        Err(Error::Unsupported { backend: self.backend, what: "keep a snapshot" })
    }
}

impl JailHandle {
    /// Looks at the guest's processes themselves.
    async fn look(&self) -> Option<Usage> {
        let outer = self.outer.lock().await.as_ref()?.id()?;
        let outer = Pid::from_raw(i32::try_from(outer).ok()?)?;
        let sample = tokio::task::spawn_blocking(move || meter::sample(Whose::Below(outer)));
        let sample = sample.await.ok()?;
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        *memory = sample.memory.max(*memory);
        Some(Usage { cpu: sample.cpu, memory: *memory, ..Usage::default() })
    }

    fn freeze(&self, stop: Freeze) -> Result<(), Error> {
        let done = self.cgroup.as_ref().map(|it| it.freeze(stop));
        match done {
            Some(Ok(())) => Ok(()),
            _ => Err(Error::Unsupported { backend: self.backend, what: "pause a guest" }),
        }
    }
}

/// The process that started this one, where the kernel shows it to us.
fn parent(pid: Pid) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_ascii_whitespace().nth(1)?.parse().ok()
}

impl Drop for JailHandle {
    /// Its control group is on the list of its berth, and removed with that.
    fn drop(&mut self) {
        if let Some(guest) = &self.guest {
            let _ = pidfd_send_signal(guest, Signal::KILL);
        }
    }
}
