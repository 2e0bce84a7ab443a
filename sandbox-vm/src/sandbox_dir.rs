//! Sandbox directories. The host keeps one directory for each sandbox. It contains a list of *leftovers*. A leftover is
//! anything that would outlive a crash of the host process, for example a process or a control group.
//!
//! The process that owns a sandbox directory holds a lock on a file in it. The kernel releases the lock when the
//! process ends. A sandbox directory that is not locked is therefore orphaned, and the next start of a program that
//! uses sandboxes removes the leftovers on its list. If the owner itself cannot remove everything, it leaves the
//! directory behind as an orphan.

mod reaper;
mod registry;
#[cfg(test)]
mod tests;

use std::{
    fs::{self, DirBuilder, File},
    io::{self, Seek, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use graph_core::checkpoint::CheckpointId;
use serde::{Deserialize, Serialize};

use self::{reaper::RemovalTimeouts, registry::Registry};
use crate::Error;

pub use self::reaper::remove_orphans;
pub(crate) use self::reaper::{remove_all_orphans, wait_for_exit};

const LOCK_FILE: &str = "lock";
const LEFTOVERS_FILE: &str = "leftovers";

/// Names of the entries that a sandbox directory may contain in addition to its lock file: the list of leftovers, the
/// workspace of an in-process agent, and the snapshot of a pool.
const KNOWN_CONTENTS: [&str; 3] = [LEFTOVERS_FILE, "workspace", "template"];

/// Prefix that the name of a sandbox directory has until its owner holds the lock. It prevents the directory from being
/// mistaken for an orphan.
const INCOMPLETE_PREFIX: &str = ".new-";

/// Prefix of the name of every container that this crate creates. Containers with other names are never removed.
pub const CONTAINER_PREFIX: &str = "sandbox-vm-";

/// The directory of one sandbox. Dropping it removes the directory and every leftover on its list that still exists.
#[derive(Debug)]
pub struct SandboxDir {
    id: String,
    path: PathBuf,
    lock: Option<File>,
    leftovers: Arc<LeftoverList>,
}

/// The leftovers recorded in a sandbox directory.
#[derive(Debug)]
pub(crate) struct LeftoverList {
    // A std mutex suffices, because it is held only while a line is written and never across an await.
    state: Mutex<ListState>,
}

#[derive(Debug)]
struct ListState {
    file: File,
    /// Leftovers that may still exist.
    remaining: Vec<Leftover>,
}

/// Something that would outlive a crash of the host process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Leftover {
    /// A process. It is identified by its start time as well, because the kernel reuses process ids.
    Process {
        /// Process id.
        pid: u32,
        /// Start time of the process in clock ticks since boot.
        started: u64,
        /// Boot id of the machine when the process started. It is needed because the start time counts from boot. Empty
        /// if unknown.
        #[serde(default)]
        boot: String,
    },
    /// A process and the process group that it leads, identified like a process.
    #[serde(rename = "group")]
    ProcessGroup {
        /// Process id of the leader.
        pid: u32,
        /// Start time of the leader in clock ticks since boot.
        started: u64,
        /// Boot id of the machine when the leader started. Empty if unknown.
        #[serde(default)]
        boot: String,
    },
    /// The directory of a control group.
    Cgroup(PathBuf),
    /// A container in a Docker engine.
    Container {
        /// Address of the engine.
        host: String,
        /// Name of the container.
        name: String,
    },
}

impl Leftover {
    /// Creates the entry for a running process.
    pub fn process(pid: u32) -> Self {
        let (started, boot) =
            (reaper::start_time(pid).unwrap_or_default(), reaper::current_boot_id());
        Self::Process { pid, started, boot }
    }

    /// Creates the entry for the process group that a running process leads.
    pub fn process_group(pid: u32) -> Self {
        let (started, boot) =
            (reaper::start_time(pid).unwrap_or_default(), reaper::current_boot_id());
        Self::ProcessGroup { pid, started, boot }
    }
}

impl SandboxDir {
    /// Creates a sandbox directory in the state directory `state`. `id` has to end with an id from
    /// [`CheckpointId::next`], because the reaper ignores directories with other names.
    pub fn create(state: &Path, id: &str) -> Result<Self, Error> {
        Self::create_registered(&Registry::in_default_dir(), state, id)
    }

    fn create_registered(registry: &Registry, state: &Path, id: &str) -> Result<Self, Error> {
        let create = || {
            create_private_dir(state)?;
            let incomplete = state.join(format!("{INCOMPLETE_PREFIX}{id}"));
            registry.register(state, || DirBuilder::new().mode(0o700).create(&incomplete))?;
            let populate = || {
                let lock = File::create(incomplete.join(LOCK_FILE))?;
                lock.lock()?;
                let file = File::create(incomplete.join(LEFTOVERS_FILE))?;
                fs::rename(&incomplete, state.join(id))?;
                Ok((lock, file))
            };
            populate().inspect_err(|_| drop(fs::remove_dir_all(&incomplete)))
        };
        let what =
            format!("cannot create the directory of sandbox `{id}` in `{}`", state.display());
        let (lock, file) = create().map_err(Error::io(what))?;
        let list = Mutex::new(ListState { file, remaining: Vec::new() });
        let (path, leftovers) = (state.join(id), Arc::new(LeftoverList { state: list }));
        Ok(Self { id: id.to_owned(), path, lock: Some(lock), leftovers })
    }

    /// Creates a sandbox directory in the default state directory. Used for the guest that is started to probe a back
    /// end.
    pub(crate) fn create_for_probe(name: &str) -> Result<Self, Error> {
        // The id has to be unique, because several probes may run concurrently.
        let id = format!("{name}-{}", CheckpointId::next());
        Self::create(&default_state_dir(), &id)
    }

    /// Returns the id of the sandbox. Unlike its name, it is never reused.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the path of the directory. The back end may store files in it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds leftovers to the list. If possible, call this before the leftovers are created.
    pub fn record_leftovers(
        &self,
        leftovers: impl IntoIterator<Item = Leftover>,
    ) -> Result<(), Error> {
        leftovers.into_iter().try_for_each(|it| self.leftovers.record(it))
    }

    /// Returns the list of leftovers, for callers that add or remove entries later.
    pub(crate) fn leftovers(&self) -> Arc<LeftoverList> {
        self.leftovers.clone()
    }
}

impl LeftoverList {
    /// Appends a leftover to the list.
    pub(crate) fn record(&self, leftover: Leftover) -> Result<(), Error> {
        let failed = |error| Error::io("cannot write the list of leftovers")(error);
        let mut line = serde_json::to_string(&leftover).map_err(|error| failed(error.into()))?;
        line.push('\n');
        let mut list = self.lock();
        list.file.write_all(line.as_bytes()).map_err(failed)?;
        list.remaining.push(leftover);
        Ok(())
    }

    /// Removes a leftover from the list, because it no longer exists.
    pub(crate) fn mark_removed(&self, leftover: &Leftover) {
        let mut list = self.lock();
        list.remaining.retain(|it| it != leftover);
        if list.remaining.is_empty() {
            // None of the leftovers in the file exists any more. Truncate the file, so that it does not keep growing
            // with every leftover that is recorded.
            let _ = list.file.set_len(0).and_then(|()| list.file.rewind());
        }
    }

    fn lock(&self) -> MutexGuard<'_, ListState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl IntoIterator for Leftover {
    type Item = Self;
    type IntoIter = std::iter::Once<Self>;

    fn into_iter(self) -> Self::IntoIter {
        std::iter::once(self)
    }
}

impl Drop for SandboxDir {
    fn drop(&mut self) {
        let remaining = std::mem::take(&mut self.leftovers.lock().remaining);
        let left = reaper::remove_leftovers(remaining, RemovalTimeouts::ON_DROP);
        if left.is_empty() {
            return reaper::remove_dir(&self.path);
        }
        // Use an OS thread instead of a task, because the runtime may already have shut down. If the process ends
        // before the thread has finished, the next start removes the remaining leftovers.
        let (dir, lock) = (self.path.clone(), self.lock.take());
        let finish = move || {
            match reaper::remove_leftovers(left, RemovalTimeouts::IN_BACKGROUND).as_slice() {
                [] => reaper::remove_dir(&dir),
                left => reaper::warn_incomplete_removal(&dir, left),
            }
            drop(lock);
        };
        let started = std::thread::Builder::new().name("sandbox-vm-reap".to_owned()).spawn(finish);
        if let Err(error) = started {
            tracing::warn!(dir = %self.path.display(), %error, "cannot start the clean-up thread of a sandbox; the next start removes its leftovers");
        }
    }
}

/// Returns the default state directory. If the environment variable `SANDBOX_VM_STATE` is set, this is its value.
/// Otherwise it is `/run/sandbox-vm` for the root user. For other users, it is `sandbox-vm` in `$XDG_RUNTIME_DIR` if
/// that variable is set. If it is not set, the directory is in the temporary directory, and its name contains the
/// user's id.
pub fn default_state_dir() -> PathBuf {
    if let Some(dir) = std::env::var_os("SANDBOX_VM_STATE").filter(|it| !it.is_empty()) {
        return PathBuf::from(dir);
    }
    let user = rustix::process::geteuid();
    if user.is_root() {
        return PathBuf::from("/run/sandbox-vm");
    }
    match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(dir) => PathBuf::from(dir).join("sandbox-vm"),
        None => std::env::temp_dir().join(format!("sandbox-vm-{}", user.as_raw())),
    }
}

/// Creates a directory that other users cannot write to, so that they cannot place files in it that this process would
/// act on. A new directory is not accessible to other users at all. Fails if the directory already exists and other
/// users can write to it.
pub(crate) fn create_private_dir(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    check_private_dir(dir)
}

/// Rejects a directory in which another user could have placed files.
pub(crate) fn check_private_dir(dir: &Path) -> io::Result<()> {
    let metadata = fs::symlink_metadata(dir)?;
    if !metadata.is_dir()
        || metadata.uid() != rustix::process::geteuid().as_raw()
        || metadata.mode() & 0o022 != 0
    {
        let problem =
            "it must be a directory that belongs to this user and that nobody else can write to";
        return Err(io::Error::other(problem));
    }
    Ok(())
}

/// Returns whether the name of a directory is that of a sandbox directory, which ends with a checkpoint id.
fn has_sandbox_dir_name(dir: &Path) -> bool {
    let name = dir.file_name().and_then(|it| it.to_str()).unwrap_or_default();
    let id = name.rsplit_once('-').map_or(name, |(_, id)| id);
    id.parse::<CheckpointId>().is_ok()
}
