//! The reaper, which removes orphaned sandbox directories and their leftovers.

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
    leftover::{Leftover, current_boot_id, start_time},
    registry::Registry,
    state_dir::{
        CONTAINER_PREFIX, INCOMPLETE_PREFIX, KNOWN_CONTENTS, LEFTOVERS_FILE, LOCK_FILE,
        check_private_dir, default_state_dir, has_sandbox_dir_name,
    },
};
use crate::cgroup;

/// Maximum time that creating a sandbox directory may take. A directory that is younger and not locked may still be
/// under construction, so it is left alone.
const CREATION_GRACE: Duration = Duration::from_secs(60);

/// How long to wait for leftovers to disappear.
#[derive(Clone, Copy, Debug)]
pub(super) struct RemovalTimeouts {
    /// Time that the kernel gets to end processes and to release control groups.
    kernel: Duration,
    /// How long to wait for a container that its engine does not know, because the engine may still be creating it. If
    /// `None`, engines are not contacted, and containers are not removed.
    engine_grace: Option<Duration>,
}

impl RemovalTimeouts {
    /// Timeouts for dropping a sandbox directory. They are short, because the drop may block a task that others wait
    /// for.
    pub(super) const ON_DROP: Self = Self { kernel: Duration::from_millis(50), engine_grace: None };
    /// Timeouts for a dedicated OS thread that starts right after the sandbox directory is dropped.
    pub(super) const IN_BACKGROUND: Self =
        Self { kernel: Duration::from_secs(30), engine_grace: Some(Duration::from_secs(2)) };
    /// Timeouts for leftovers of a process that has crashed.
    const AFTER_CRASH: Self =
        Self { kernel: Duration::from_secs(30), engine_grace: Some(Duration::ZERO) };
}

/// Removes the orphaned sandbox directories and their leftovers in the state directory `state`, in the default state
/// directory, and in all other state directories that are registered for this user. Returns the number of sandboxes
/// removed.
pub(crate) fn remove_all_orphans(state: &Path) -> usize {
    let registry = Registry::in_default_dir();
    let mut dirs = BTreeSet::from([state.to_owned(), default_state_dir()]);
    dirs.extend(registry.state_dirs());
    let reaped = dirs.iter().map(|it| remove_orphans(it)).sum();
    registry.remove_empty_entries();
    // If a state directory was deleted together with its lists of leftovers, the control groups on these lists still
    // exist. Remove them here.
    cgroup::remove_unused(|id| dirs.iter().any(|it| it.join(id).exists()), CREATION_GRACE);
    reaped
}

/// Removes the orphaned sandbox directories and their leftovers in a state directory, and returns the number of
/// sandboxes removed.
///
/// A state directory in which another user could have placed files is not read at all. Only sandbox directories are
/// removed from a state directory. If something on the list of a sandbox directory cannot be removed, the directory
/// stays, and the next call tries again.
pub fn remove_orphans(state: &Path) -> usize {
    if let Err(error) = check_private_dir(state) {
        if error.kind() != io::ErrorKind::NotFound {
            tracing::warn!(dir = %state.display(), %error, "cannot remove leftovers from this state directory");
        }
        return 0;
    }
    let entries = fs::read_dir(state).into_iter().flatten().flatten();
    entries.filter(|it| has_sandbox_dir_name(&it.path()) && remove_if_orphaned(it)).count()
}

/// Removes a sandbox directory if it is orphaned, and returns whether it was removed.
fn remove_if_orphaned(entry: &DirEntry) -> bool {
    let dir = entry.path();
    let Ok(lock) = File::open(dir.join(LOCK_FILE)) else {
        return is_past_creation_grace(entry) && remove_orphan_without_lock(&dir);
    };
    // If the directory is young, its owner may be about to take the lock.
    if entry.file_name().to_string_lossy().starts_with(INCOMPLETE_PREFIX)
        && !is_past_creation_grace(entry)
    {
        return false;
    }
    match lock.try_lock() {
        // Another process removed the directory and released the lock before this process acquired it.
        Ok(()) if lock.metadata().is_ok_and(|it| it.nlink() == 0) => false,
        Ok(()) => remove_orphan(&dir),
        Err(TryLockError::WouldBlock) => false,
        Err(TryLockError::Error(error)) => {
            tracing::warn!(dir = %dir.display(), %error, "cannot lock an orphaned sandbox directory");
            false
        }
    }
}

fn is_past_creation_grace(entry: &DirEntry) -> bool {
    let modified = entry.metadata().and_then(|it| it.modified()).ok();
    modified.and_then(|it| it.elapsed().ok()).is_some_and(|it| it > CREATION_GRACE)
}

/// Removes a sandbox directory without a lock file. Its owner was killed before it created the lock, or while it
/// removed the directory. The directory is removed only if all its entries are known entries of a sandbox directory.
fn remove_orphan_without_lock(dir: &Path) -> bool {
    let Ok(entries) = fs::read_dir(dir) else { return false };
    let names: Vec<_> = entries.flatten().map(|it| it.file_name()).collect();
    if names.is_empty() {
        // Nothing is lost by removing an empty directory, and it does not count as a sandbox.
        let _ = fs::remove_dir(dir);
        return false;
    }
    names.iter().all(|it| KNOWN_CONTENTS.iter().any(|known| it == known)) && remove_orphan(dir)
}

fn remove_orphan(dir: &Path) -> bool {
    let list = fs::read_to_string(dir.join(LEFTOVERS_FILE)).unwrap_or_default();
    // Ignore a line that was cut short by a crash, because its leftover was never created.
    let leftovers: Vec<Leftover> =
        list.lines().filter_map(|it| serde_json::from_str(it).ok()).collect();
    tracing::info!(dir = %dir.display(), leftovers = leftovers.len(), "removing an orphaned sandbox");
    let left = remove_leftovers(leftovers, RemovalTimeouts::AFTER_CRASH);
    if left.is_empty() {
        remove_dir(dir);
    } else {
        warn_incomplete_removal(dir, &left);
    }
    left.is_empty()
}

/// Removes a sandbox directory. Its lock file is removed last, so that the next start still recognises the directory as
/// an orphan if this process ends halfway.
pub(super) fn remove_dir(dir: &Path) {
    let remove = || {
        // Read all entries before removing any, because the listing of a directory that changes meanwhile may be
        // incomplete.
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
        tracing::warn!(dir = %dir.display(), %error, "cannot remove the directory of a sandbox");
    }
}

pub(super) fn warn_incomplete_removal(dir: &Path, left: &[Leftover]) {
    tracing::warn!(
        dir = %dir.display(),
        ?left,
        "cannot remove all leftovers of a sandbox; the next start tries again"
    );
}

/// Removes leftovers and returns those that still exist.
pub(super) fn remove_leftovers(
    leftovers: Vec<Leftover>,
    timeouts: RemovalTimeouts,
) -> Vec<Leftover> {
    let deadline = Instant::now() + timeouts.kernel;
    for leftover in &leftovers {
        // Thaw the processes first, because a frozen process cannot die.
        if let Leftover::Cgroup(dir) = leftover
            && cgroup::is_ours(dir)
        {
            cgroup::thaw(dir);
        }
    }
    // Start with the processes, because a control group can be removed only after its processes have ended.
    let (processes, others): (Vec<_>, Vec<_>) = leftovers
        .into_iter()
        .partition(|it| matches!(it, Leftover::Process { .. } | Leftover::ProcessGroup { .. }));
    let all = processes.into_iter().chain(others);
    all.filter(|it| !remove_leftover(it, deadline, timeouts.engine_grace)).collect()
}

/// Removes one leftover and returns whether it is gone.
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
        // The name shows that this crate did not create the group or container, so do not remove it.
        Leftover::Cgroup(_) | Leftover::Container { .. } => {
            tracing::warn!(?leftover, "ignoring a leftover that does not belong to a sandbox");
            true
        }
    }
}

#[cfg(feature = "docker")]
fn remove_container(host: &str, name: &str, grace: Duration) -> bool {
    crate::backend::docker::engine::remove_leftover(host, name, grace)
}

#[cfg(not(feature = "docker"))]
fn remove_container(host: &str, name: &str, _: Duration) -> bool {
    tracing::warn!(
        host,
        name,
        "cannot remove a container: this program was built without the back end `docker`"
    );
    false
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KillScope {
    Process,
    /// The process and the group that it leads.
    Group,
}

/// Kills a process if it is still the recorded one, waits for it to end until the deadline, and returns whether the
/// recorded process is gone.
fn kill_process(pid: u32, started: u64, deadline: Instant, scope: KillScope) -> bool {
    let Some(raw) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return true };
    // Open the pidfd before reading the start time. From here on, the pidfd refers to the same process even if the id
    // is reused.
    let process = match pidfd_open(raw, PidfdFlags::empty()) {
        Ok(process) => process,
        Err(error) => return error == Errno::SRCH,
    };
    if start_time(pid) != Some(started) {
        return true;
    }
    if scope == KillScope::Group {
        // While the leader exists, no other process can have its id, so the group is the recorded one.
        let _ = kill_process_group(raw, Signal::KILL);
    }
    match pidfd_send_signal(&process, Signal::KILL) {
        Ok(()) => {}
        Err(error) => return error == Errno::SRCH,
    }
    wait_for_exit(&process, deadline.saturating_duration_since(Instant::now()))
}

/// Waits for a killed process to end, at most for `timeout`, and returns whether it has ended.
pub(crate) fn wait_for_exit(process: &OwnedFd, timeout: Duration) -> bool {
    let timeout = Timespec::try_from(timeout).ok();
    let mut watched = [PollFd::new(process, PollFlags::IN)];
    poll(&mut watched, timeout.as_ref()).is_ok_and(|it| it > 0)
}

/// Returns whether `boot` is the id of an earlier boot of the machine. Processes of an earlier boot no longer exist.
fn is_from_earlier_boot(boot: &str) -> bool {
    !boot.is_empty() && boot != current_boot_id()
}
