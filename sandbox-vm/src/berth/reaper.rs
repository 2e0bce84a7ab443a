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
    BEING_MADE, CONTAINER, CONTENTS, LIST, LOCK, Leftover, check_private, default_state_folder,
    is_berth, registry::Registry,
};
use crate::cgroup;

/// How long a berth may take to be made.
const MAKING: Duration = Duration::from_secs(60);

/// How long things have to be gone.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// What the kernel has for processes and control groups.
    kernel: Duration,
    /// How long an engine that knows no such container may still be about to make it; `None` asks no engine.
    engine: Option<Duration>,
}

impl Patience {
    /// For whoever drops a berth, and may be a task that others wait for.
    pub(super) const AT_ONCE: Self = Self { kernel: Duration::from_millis(50), engine: None };
    /// For a thread of its own, which comes right after whoever made things.
    pub(super) const IN_THE_BACKGROUND: Self =
        Self { kernel: Duration::from_secs(5), engine: Some(Duration::from_secs(2)) };
    /// For what a crash has left.
    const AFTER_A_CRASH: Self =
        Self { kernel: Duration::from_secs(5), engine: Some(Duration::ZERO) };
}

/// Removes what crashed owners left in this folder, in the usual one, and wherever else this user has had berths; says
/// of how many sandboxes.
pub(crate) fn reap_all(state: &Path) -> usize {
    let registry = Registry::usual();
    let mut folders = BTreeSet::from([state.to_owned(), default_state_folder()]);
    folders.extend(registry.states());
    let reaped = folders.iter().map(|it| reap(it)).sum();
    registry.forget_empty();
    // A folder may be gone with all its lists; the groups that they named are not.
    cgroup::remove_unused(|id| folders.iter().any(|it| it.join(id).exists()), MAKING);
    reaped
}

/// Removes what crashed owners left behind below a folder, and says of how many sandboxes.
///
/// Nothing is looked at in a folder that somebody else could have put files in, and nothing but berths is removed. Where
/// something on a berth's list cannot be removed the berth stays, and whoever comes next tries again.
pub fn reap(state: &Path) -> usize {
    if let Err(error) = check_private(state) {
        if error.kind() != io::ErrorKind::NotFound {
            tracing::warn!(folder = %state.display(), %error, "what crashed processes left here stays");
        }
        return 0;
    }
    let entries = fs::read_dir(state).into_iter().flatten().flatten();
    entries.filter(|it| is_berth(&it.path()) && reap_one(it)).count()
}

/// Removes a berth if it is an orphan, and says whether it did.
fn reap_one(entry: &DirEntry) -> bool {
    let folder = entry.path();
    let Ok(lock) = File::open(folder.join(LOCK)) else {
        return is_old(entry) && clean_without_lock(&folder);
    };
    // Its owner is about to take the lock.
    if entry.file_name().to_string_lossy().starts_with(BEING_MADE) && !is_old(entry) {
        return false;
    }
    match lock.try_lock() {
        // Somebody else has removed it, and let go of the lock before this one had it.
        Ok(()) if lock.metadata().is_ok_and(|it| it.nlink() == 0) => false,
        Ok(()) => clean(&folder),
        Err(TryLockError::WouldBlock) => false,
        Err(TryLockError::Error(error)) => {
            tracing::warn!(folder = %folder.display(), %error, "an orphan cannot be looked at");
            false
        }
    }
}

fn is_old(entry: &DirEntry) -> bool {
    let modified = entry.metadata().and_then(|it| it.modified()).ok();
    modified.and_then(|it| it.elapsed().ok()).is_some_and(|it| it > MAKING)
}

/// Removes a berth that has no lock, for its owner was killed before it made one, or while it removed the rest. What it
/// holds tells it from a folder of somebody else's.
fn clean_without_lock(folder: &Path) -> bool {
    let Ok(entries) = fs::read_dir(folder) else { return false };
    let names: Vec<_> = entries.flatten().map(|it| it.file_name()).collect();
    if names.is_empty() {
        // Nobody has anything to lose by it, nor had anything in it.
        let _ = fs::remove_dir(folder);
        return false;
    }
    names.iter().all(|it| CONTENTS.iter().any(|known| it == known)) && clean(folder)
}

fn clean(folder: &Path) -> bool {
    let list = fs::read_to_string(folder.join(LIST)).unwrap_or_default();
    // A line that was cut short by the crash names something that was never made.
    let leftovers: Vec<Leftover> =
        list.lines().filter_map(|it| serde_json::from_str(it).ok()).collect();
    tracing::info!(folder = %folder.display(), leftovers = leftovers.len(), "removing an orphan");
    let left = remove(leftovers, Patience::AFTER_A_CRASH);
    if left.is_empty() {
        remove_folder(folder);
    } else {
        complain(folder, &left);
    }
    left.is_empty()
}

/// Removes a berth's folder. Its lock goes last: if this process ends in the middle, the next start finds an orphan.
pub(super) fn remove_folder(folder: &Path) {
    let remove = || {
        // Read before anything is removed: what a folder says of itself while it changes may not be all.
        let entries = fs::read_dir(folder)?.collect::<io::Result<Vec<_>>>()?;
        for entry in entries {
            match entry.file_type()?.is_dir() {
                true => fs::remove_dir_all(entry.path())?,
                false if entry.file_name() == LOCK => {}
                false => fs::remove_file(entry.path())?,
            }
        }
        match fs::remove_file(folder.join(LOCK)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => fs::remove_dir(folder),
        }
    };
    if let Err(error) = remove() {
        tracing::warn!(folder = %folder.display(), %error, "a sandbox's folder stays behind");
    }
}

pub(super) fn complain(folder: &Path, left: &[Leftover]) {
    tracing::warn!(
        folder = %folder.display(),
        ?left,
        "a sandbox is not removed altogether; the next start tries again"
    );
}

/// Removes things, and gives back those that are still there.
pub(super) fn remove(leftovers: Vec<Leftover>, patience: Patience) -> Vec<Leftover> {
    let until = Instant::now() + patience.kernel;
    for leftover in &leftovers {
        // A process that is stopped by its group cannot die.
        if let Leftover::Cgroup(folder) = leftover
            && cgroup::is_ours(folder)
        {
            cgroup::thaw(folder);
        }
    }
    // Groups can be removed only after their processes.
    let (processes, others): (Vec<_>, Vec<_>) = leftovers
        .into_iter()
        .partition(|it| matches!(it, Leftover::Process { .. } | Leftover::Group { .. }));
    let all = processes.into_iter().chain(others);
    all.filter(|it| !remove_one(it, until, patience.engine)).collect()
}

/// Removes one thing, and says whether it is gone.
fn remove_one(leftover: &Leftover, until: Instant, engine: Option<Duration>) -> bool {
    match leftover {
        Leftover::Process { boot, .. } | Leftover::Group { boot, .. } if is_of_earlier(boot) => {
            true
        }
        Leftover::Process { pid, started, .. } => end(*pid, *started, until, Reach::Itself),
        Leftover::Group { pid, started, .. } => end(*pid, *started, until, Reach::Group),
        Leftover::Cgroup(folder) if cgroup::is_ours(folder) => cgroup::remove(folder, until),
        Leftover::Container { host, name } if name.starts_with(CONTAINER) => {
            engine.is_some_and(|patience| remove_container(host, name, patience))
        }
        // A list of ours has no such thing: nothing is done to it.
        Leftover::Cgroup(_) | Leftover::Container { .. } => {
            tracing::warn!(?leftover, "this does not belong to a sandbox");
            true
        }
    }
}

#[cfg(feature = "docker")]
fn remove_container(host: &str, name: &str, patience: Duration) -> bool {
    crate::backend::docker::remove_leftover(host, name, patience)
}

#[cfg(not(feature = "docker"))]
fn remove_container(host: &str, name: &str, _: Duration) -> bool {
    tracing::warn!(host, name, "a container stays behind: this program has no back end `docker`");
    false
}

/// Whose end is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    Itself,
    /// The process and the group that it leads.
    Group,
}

/// Ends a process, if it is still the one that was noted, and waits until it is gone.
fn end(pid: u32, started: u64, until: Instant, reach: Reach) -> bool {
    let Some(raw) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return true };
    // Opened before the look at its start: from here on the descriptor means this process and no later one.
    let process = match pidfd_open(raw, PidfdFlags::empty()) {
        Ok(process) => process,
        Err(error) => return error == Errno::SRCH,
    };
    if start_time(pid) != Some(started) {
        return true;
    }
    if reach == Reach::Group {
        // While its leader is there, and no other has its number, the group is the one that was noted.
        let _ = kill_process_group(raw, Signal::KILL);
    }
    match pidfd_send_signal(&process, Signal::KILL) {
        Ok(()) => {}
        Err(error) => return error == Errno::SRCH,
    }
    wait_for_end(&process, until.saturating_duration_since(Instant::now()))
}

/// Waits for a process that was killed, and says whether it has ended.
pub(crate) fn wait_for_end(process: &OwnedFd, patience: Duration) -> bool {
    let patience = Timespec::try_from(patience).ok();
    let mut watched = [PollFd::new(process, PollFlags::IN)];
    poll(&mut watched, patience.as_ref()).is_ok_and(|it| it > 0)
}

/// When a process was started, in the kernel's own count.
pub(super) fn start_time(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_ascii_whitespace().nth(19)?.parse().ok()
}

/// What the kernel calls this start of the machine; empty where it does not say.
pub(super) fn this_boot() -> String {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.trim().to_owned()
}

/// Whether something is of an earlier start of the machine, and so is gone.
fn is_of_earlier(boot: &str) -> bool {
    !boot.is_empty() && boot != this_boot()
}
