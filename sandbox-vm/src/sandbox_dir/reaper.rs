//! The reaper: removes what owners that are no more have left behind.

use std::{
    collections::BTreeSet,
    fs::{self, DirEntry, File, TryLockError},
    io,
    os::{fd::OwnedFd, unix::fs::MetadataExt},
    path::Path,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, pidfd_send_signal},
};

use super::{
    CONTAINER_PREFIX, INCOMPLETE_PREFIX, KNOWN_CONTENTS, LEFTOVERS_FILE, LOCK_FILE, Leftover,
    check_private_dir, default_state_dir, has_sandbox_dir_name, registry::Registry,
};
use crate::cgroup;

/// How long a sandbox directory may take to be made.
const CREATION_GRACE: Duration = Duration::from_secs(60);

/// How long things have to be gone.
#[derive(Clone, Copy, Debug)]
pub(super) struct RemovalTimeouts {
    /// What the kernel has for processes and control groups.
    kernel: Duration,
    /// How long an engine that knows no such container may still be about to make it; `None` asks no engine.
    engine_grace: Option<Duration>,
}

impl RemovalTimeouts {
    /// For whoever drops a sandbox directory, and may be a task that others wait for.
    pub(super) const ON_DROP: Self = Self { kernel: Duration::from_millis(50), engine_grace: None };
    /// For a thread of its own, which comes right after whoever made things.
    pub(super) const IN_BACKGROUND: Self =
        Self { kernel: Duration::from_secs(5), engine_grace: Some(Duration::from_secs(2)) };
    /// For what a crash has left.
    const AFTER_CRASH: Self =
        Self { kernel: Duration::from_secs(5), engine_grace: Some(Duration::ZERO) };
}

/// Removes what crashed owners left in this folder, in the usual one, and wherever else this user has had sandbox directories; says
/// of how many sandboxes.
pub(crate) fn remove_all_orphans(state: &Path) -> usize {
    let registry = Registry::in_default_dir();
    let mut dirs = BTreeSet::from([state.to_owned(), default_state_dir()]);
    dirs.extend(registry.state_dirs());
    let reaped = dirs.iter().map(|it| remove_orphans(it)).sum();
    registry.remove_empty_entries();
    // A folder may be gone with all its lists; the groups that they named are not.
    cgroup::remove_unused(|id| dirs.iter().any(|it| it.join(id).exists()), CREATION_GRACE);
    reaped
}

/// Removes what crashed owners left behind below a folder, and says of how many sandboxes.
///
/// Nothing is looked at in a folder that somebody else could have put files in, and nothing but sandbox directories is removed. Where
/// something on a sandbox directory's list cannot be removed the sandbox directory stays, and whoever comes next tries again.
pub fn remove_orphans(state: &Path) -> usize {
    if let Err(error) = check_private_dir(state) {
        if error.kind() != io::ErrorKind::NotFound {
            tracing::warn!(dir = %state.display(), %error, "what crashed processes left here stays");
        }
        return 0;
    }
    let entries = fs::read_dir(state).into_iter().flatten().flatten();
    entries.filter(|it| has_sandbox_dir_name(&it.path()) && remove_if_orphaned(it)).count()
}

/// Removes a sandbox directory if it is an orphan, and says whether it did.
fn remove_if_orphaned(entry: &DirEntry) -> bool {
    let dir = entry.path();
    let Ok(lock) = File::open(dir.join(LOCK_FILE)) else {
        return is_past_creation_grace(entry) && remove_orphan_without_lock(&dir);
    };
    // Its owner is about to take the lock.
    if entry.file_name().to_string_lossy().starts_with(INCOMPLETE_PREFIX)
        && !is_past_creation_grace(entry)
    {
        return false;
    }
    match lock.try_lock() {
        // Somebody else has removed it, and let go of the lock before this one had it.
        Ok(()) if lock.metadata().is_ok_and(|it| it.nlink() == 0) => false,
        Ok(()) => remove_orphan(&dir),
        Err(TryLockError::WouldBlock) => false,
        Err(TryLockError::Error(error)) => {
            tracing::warn!(dir = %dir.display(), %error, "an orphan cannot be looked at");
            false
        }
    }
}

fn is_past_creation_grace(entry: &DirEntry) -> bool {
    let modified = entry.metadata().and_then(|it| it.modified()).ok();
    modified.and_then(|it| it.elapsed().ok()).is_some_and(|it| it > CREATION_GRACE)
}

/// Removes a sandbox directory that has no lock, for its owner was killed before it made one, or while it removed the rest. What it
/// holds tells it from a folder of somebody else's.
fn remove_orphan_without_lock(dir: &Path) -> bool {
    let Ok(entries) = fs::read_dir(dir) else { return false };
    let names: Vec<_> = entries.flatten().map(|it| it.file_name()).collect();
    if names.is_empty() {
        // Nobody has anything to lose by it, nor had anything in it.
        let _ = fs::remove_dir(dir);
        return false;
    }
    names.iter().all(|it| KNOWN_CONTENTS.iter().any(|known| it == known)) && remove_orphan(dir)
}

fn remove_orphan(dir: &Path) -> bool {
    let list = fs::read_to_string(dir.join(LEFTOVERS_FILE)).unwrap_or_default();
    // A line that was cut short by the crash names something that was never made.
    let leftovers: Vec<Leftover> =
        list.lines().filter_map(|it| serde_json::from_str(it).ok()).collect();
    tracing::info!(dir = %dir.display(), leftovers = leftovers.len(), "removing an orphan");
    let left = remove_leftovers(leftovers, RemovalTimeouts::AFTER_CRASH);
    if left.is_empty() {
        remove_dir(dir);
    } else {
        warn_incomplete_removal(dir, &left);
    }
    left.is_empty()
}

/// Removes a sandbox directory's folder. Its lock goes last: if this process ends in the middle, the next start finds an orphan.
pub(super) fn remove_dir(dir: &Path) {
    let remove = || {
        // Read before anything is removed: what a folder says of itself while it changes may not be all.
        let entries = fs::read_dir(dir)?.collect::<io::Result<Vec<_>>>()?;
        for entry in entries {
            match entry.file_type()?.is_dir() {
                true => fs::remove_dir_all(entry.path())?,
                false if entry.file_name() == LOCK_FILE => {}
                false => fs::remove_file(entry.path())?,
            }
        }
        match fs::remove_file(dir.join(LOCK_FILE)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => fs::remove_dir(dir),
        }
    };
    if let Err(error) = remove() {
        tracing::warn!(dir = %dir.display(), %error, "a sandbox's folder stays behind");
    }
}

pub(super) fn warn_incomplete_removal(dir: &Path, left: &[Leftover]) {
    tracing::warn!(
        dir = %dir.display(),
        ?left,
        "a sandbox is not removed altogether; the next start tries again"
    );
}

/// Removes things, and gives back those that are still there.
pub(super) fn remove_leftovers(
    leftovers: Vec<Leftover>,
    timeouts: RemovalTimeouts,
) -> Vec<Leftover> {
    let deadline = Instant::now() + timeouts.kernel;
    for leftover in &leftovers {
        // A process that is stopped by its group cannot die.
        if let Leftover::Cgroup(dir) = leftover
            && cgroup::is_ours(dir)
        {
            cgroup::thaw(dir);
        }
    }
    // Groups can be removed only after their processes.
    let (processes, others): (Vec<_>, Vec<_>) = leftovers
        .into_iter()
        .partition(|it| matches!(it, Leftover::Process { .. } | Leftover::ProcessGroup { .. }));
    let all = processes.into_iter().chain(others);
    all.filter(|it| !remove_leftover(it, deadline, timeouts.engine_grace)).collect()
}

/// Removes one thing, and says whether it is gone.
fn remove_leftover(leftover: &Leftover, deadline: Instant, engine_grace: Option<Duration>) -> bool {
    match leftover {
        Leftover::Process { boot, .. } | Leftover::ProcessGroup { boot, .. }
            if is_from_earlier_boot(boot) =>
        {
            true
        }
        Leftover::Process { pid, started, .. } => {
            kill_process(*pid, *started, deadline, KillScope::Process)
        }
        Leftover::ProcessGroup { pid, started, .. } => {
            kill_process(*pid, *started, deadline, KillScope::Group)
        }
        Leftover::Cgroup(dir) if cgroup::is_ours(dir) => cgroup::remove_dir(dir, deadline),
        Leftover::Container { host, name } if name.starts_with(CONTAINER_PREFIX) => {
            engine_grace.is_some_and(|grace| remove_container(host, name, grace))
        }
        // A list of ours has no such thing: nothing is done to it.
        Leftover::Cgroup(_) | Leftover::Container { .. } => {
            tracing::warn!(?leftover, "this does not belong to a sandbox");
            true
        }
    }
}

#[cfg(feature = "docker")]
fn remove_container(host: &str, name: &str, grace: Duration) -> bool {
    crate::backend::docker::remove_leftover(host, name, grace)
}

#[cfg(not(feature = "docker"))]
fn remove_container(host: &str, name: &str, _: Duration) -> bool {
    tracing::warn!(host, name, "a container stays behind: this program has no back end `docker`");
    false
}

/// ProcessSet end is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KillScope {
    Process,
    /// The process and the group that it leads.
    Group,
}

/// Ends a process, if it is still the one that was noted, and waits deadline it is gone.
fn kill_process(pid: u32, started: u64, deadline: Instant, scope: KillScope) -> bool {
    let Some(raw) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return true };
    // Opened before the look at its start: from here on the descriptor means this process and no later one.
    let process = match pidfd_open(raw, PidfdFlags::empty()) {
        Ok(process) => process,
        Err(error) => return error == Errno::SRCH,
    };
    if start_time(pid) != Some(started) {
        return true;
    }
    if scope == KillScope::Group {
        // While its leader is there, and no other has its number, the group is the one that was noted.
        let _ = kill_process_group(raw, Signal::KILL);
    }
    match pidfd_send_signal(&process, Signal::KILL) {
        Ok(()) => {}
        Err(error) => return error == Errno::SRCH,
    }
    wait_for_exit(&process, deadline.saturating_duration_since(Instant::now()))
}

/// Waits for a process that was killed, and says whether it has ended.
pub(crate) fn wait_for_exit(process: &OwnedFd, timeout: Duration) -> bool {
    let timeout = Timespec::try_from(timeout).ok();
    let mut watched = [PollFd::new(process, PollFlags::IN)];
    poll(&mut watched, timeout.as_ref()).is_ok_and(|it| it > 0)
}

/// When a process was started, in the kernel's own count.
pub(super) fn start_time(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_ascii_whitespace().nth(19)?.parse().ok()
}

/// What the kernel calls this start of the machine; empty where it does not say.
pub(super) fn current_boot_id() -> String {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.trim().to_owned()
}

/// Whether something is of an earlier start of the machine, and so is gone.
fn is_from_earlier_boot(boot: &str) -> bool {
    !boot.is_empty() && boot != current_boot_id()
}
