//! Handle to a jailed guest.

use std::{
    io,
    os::fd::OwnedFd,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tokio::{
    io::BufReader,
    process::{Child, ChildStderr, ChildStdout},
    time::timeout,
};

use super::outer::GUEST_TAG;
use crate::{
    Error,
    backend::{diagnostics::Diagnostics, interface::Handle},
    cgroup::{Cgroup, FreezerState, LimitHits},
    limits::{ExceededLimit, Usage},
    meter::{self, ProcessSet, cpu_ledger::CpuLedger, proc_text},
    sandbox_dir,
    sync::lock,
};

/// How long the kernel may take to end a killed process.
const KILL_TIMEOUT: Duration = Duration::from_secs(30);

/// Interval at which the handle checks whether the kernel has stopped the processes of a guest that is paused.
const FREEZE_INTERVAL: Duration = Duration::from_millis(1);

/// How long the kernel may take to stop the processes of a guest that is paused.
const FREEZE_TIMEOUT: Duration = Duration::from_secs(30);

/// Resource usage of a guest, measured process by process.
#[derive(Debug, Default)]
struct Sampled {
    cpu: CpuLedger,
    /// Highest observed memory use in bytes.
    peak_memory: u64,
}

#[derive(Debug)]
pub(in crate::backend) struct JailHandle {
    backend: &'static str,
    /// The outer stage. It is killed on drop, and the guest dies with it.
    outer: tokio::sync::Mutex<Option<Child>>,
    guest: Option<OwnedFd>,
    /// The host's end of the lifeline, which is the outer stage's standard output. When this end closes, the outer
    /// stage ends the guest. The kernel also closes it if this process is killed.
    lifeline: Option<BufReader<ChildStdout>>,
    cgroup: Option<Cgroup>,
    // Std mutexes suffice, because they are held only briefly and never across an await.
    last_hits: Mutex<LimitHits>,
    /// Measurements of resources that no control group counts.
    sampled: Arc<Mutex<Sampled>>,
    diagnostics: Option<Diagnostics>,
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
            last_hits: Mutex::default(),
            sampled: Arc::default(),
            diagnostics: stderr.map(Diagnostics::capture),
            started: Instant::now(),
        }
    }

    pub(super) fn set_outer(&mut self, outer: Child) {
        *self.outer.get_mut() = Some(outer);
    }

    /// Opens the guest process whose id the outer stage has reported in `line`.
    pub(super) fn attach_guest(
        &mut self,
        line: &str,
        lifeline: BufReader<ChildStdout>,
    ) -> io::Result<()> {
        let pid = || match line.trim().split_once(' ')? {
            (GUEST_TAG, pid) => Pid::from_raw(pid.parse().ok()?),
            _ => None,
        };
        let pid = pid().ok_or(io::ErrorKind::InvalidData)?;
        let guest = pidfd_open(pid, PidfdFlags::empty())?;
        // Check the parent only after opening the pidfd, because the guest may have ended before the pidfd was opened,
        // and its id may have been reused.
        let stage = self.outer.get_mut().as_ref().and_then(Child::id);
        if parent_pid(pid).is_some_and(|it| Some(it) != stage) {
            return Err(io::ErrorKind::NotFound.into());
        }
        self.guest = Some(guest);
        self.lifeline = Some(lifeline);
        Ok(())
    }

    /// Sends a signal to process 1 of the guest. Only `KILL` affects the whole guest, because the kernel ends a process
    /// namespace when its process 1 dies.
    pub(in crate::backend) fn signal(&self, signal: Signal) -> io::Result<()> {
        let guest = self.guest.as_ref().ok_or(io::ErrorKind::NotFound)?;
        Ok(pidfd_send_signal(guest, signal)?)
    }

    /// Waits for the diagnostic output of a guest that failed to start, kills the guest, and returns the output.
    pub(in crate::backend) async fn collect_diagnostics_and_kill(&mut self) -> String {
        let diagnostics = self.diagnostic_output().await;
        self.kill().await;
        diagnostics
    }
}

#[async_trait]
impl Handle for JailHandle {
    fn backend(&self) -> &'static str {
        self.backend
    }

    async fn kill(&self) {
        if let Some(cgroup) = &self.cgroup {
            // A frozen process does not die before it is thawed.
            let _ = cgroup.set_freezer(FreezerState::Thawed);
        }
        // When process 1 dies, the kernel ends everything in its namespace before it reports that process 1 has ended.
        if let Some(guest) = &self.guest
            && pidfd_send_signal(guest, Signal::KILL).is_ok()
            && let Ok(guest) = guest.try_clone()
        {
            let wait = move || sandbox_dir::wait_for_exit(&guest, KILL_TIMEOUT);
            let _ = tokio::task::spawn_blocking(wait).await;
        }
        // The outer stage usually exits by itself when the guest ends. Kill it anyway, because it may be stopped by a
        // signal.
        if let Some(outer) = self.outer.lock().await.as_mut() {
            let _ = outer.start_kill();
            let _ = timeout(KILL_TIMEOUT, outer.wait()).await;
        }
        if let Some(cgroup) = self.cgroup.clone() {
            // If the group cannot be removed now, it is removed later, because the sandbox directory still lists it.
            let _ = tokio::task::spawn_blocking(move || cgroup.remove()).await;
        }
    }

    async fn pause(&self) -> Result<(), Error> {
        self.set_freezer(FreezerState::Frozen)?;
        let Some(cgroup) = &self.cgroup else { return Ok(()) };
        let mut undo = ThawOnDrop(Some(cgroup));
        let is_frozen = async {
            while !cgroup.is_frozen() {
                tokio::time::sleep(FREEZE_INTERVAL).await;
            }
        };
        if timeout(FREEZE_TIMEOUT, is_frozen).await.is_err() {
            return Err(Error::io("cannot pause the guest")(io::ErrorKind::TimedOut.into()));
        }
        undo.0 = None;
        Ok(())
    }

    async fn resume(&self) -> Result<(), Error> {
        self.set_freezer(FreezerState::Thawed)
    }

    async fn usage(&self) -> Option<Usage> {
        let cgroup = self.cgroup.as_ref();
        let cpu = cgroup.and_then(Cgroup::cpu_time);
        let memory = cgroup.and_then(Cgroup::peak_memory);
        let usage = match (cpu, memory) {
            (Some(cpu), Some(memory)) => Usage { cpu, memory, ..Usage::default() },
            // The kernel does not count everything, so the guest's processes are measured one by one.
            _ => match self.sample_usage().await {
                Some(sampled) => Usage {
                    cpu: cpu.unwrap_or(sampled.cpu),
                    memory: memory.unwrap_or(sampled.memory),
                    ..sampled
                },
                // The guest has ended.
                None if cgroup.is_some() => Usage {
                    cpu: cpu.unwrap_or_default(),
                    memory: memory.unwrap_or_default(),
                    ..Usage::default()
                },
                None => return None,
            },
        };
        Some(Usage { wall: self.started.elapsed(), ..usage })
    }

    async fn exceeded_limit(&self) -> Option<ExceededLimit> {
        let now = self.cgroup.as_ref()?.hits();
        let mut hits = lock(&self.last_hits);
        now.since(std::mem::replace(&mut hits, now))
    }

    async fn diagnostic_output(&self) -> String {
        let Some(diagnostics) = &self.diagnostics else { return String::new() };
        diagnostics.wait_for_end().await;
        diagnostics.tail()
    }
}

impl JailHandle {
    /// Measures the guest's processes one by one, for guests without a control group or with one that does not count
    /// everything.
    async fn sample_usage(&self) -> Option<Usage> {
        let outer = self.outer.lock().await.as_ref()?.id()?;
        let outer = Pid::from_raw(i32::try_from(outer).ok()?)?;
        let sampled = self.sampled.clone();
        let sample = tokio::task::spawn_blocking(move || {
            let mut sampled = lock(&sampled);
            let sample = meter::sample(ProcessSet::Tree(outer), &mut sampled.cpu);
            sampled.peak_memory = sample.memory.max(sampled.peak_memory);
            let cpu = sample.cpu.max(sampled.cpu.total());
            Usage { cpu, memory: sampled.peak_memory, ..Usage::default() }
        });
        sample.await.ok()
    }

    fn set_freezer(&self, state: FreezerState) -> Result<(), Error> {
        let result = self.cgroup.as_ref().map(|it| it.set_freezer(state));
        match result {
            Some(Ok(())) => Ok(()),
            _ => Err(Error::Unsupported { backend: self.backend, operation: "pause a guest" }),
        }
    }
}

/// Returns the parent of a process, or `None` if `/proc` does not show it.
fn parent_pid(pid: Pid) -> Option<u32> {
    proc_text::stat_field(pid, 1)
}

/// Thaws a group when it is dropped, so that a pause that fails or whose caller is dropped has no effect.
struct ThawOnDrop<'a>(Option<&'a Cgroup>);

impl Drop for ThawOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(cgroup) = self.0 {
            let _ = cgroup.set_freezer(FreezerState::Thawed);
        }
    }
}

impl Drop for JailHandle {
    /// Kills the guest. The sandbox directory lists its control group, which is removed together with that directory.
    fn drop(&mut self) {
        if let Some(guest) = &self.guest {
            let _ = pidfd_send_signal(guest, Signal::KILL);
        }
    }
}
