//! Sandbox directories: the folder of the host that belongs to one sandbox, with a list of all that would outlive a crash.
//!
//! The owner holds a lock on a file in the folder for as long as it lives, and the lock dies with its process. So
//! whoever finds a sandbox directory that is not locked has found an orphan, and removes what its list names. A sandbox directory whose owner
//! could not remove all of it is left as such an orphan.

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

/// What a sandbox directory may hold, besides its lock: the list, an agent's files where it has no root of its own, a snapshot.
const KNOWN_CONTENTS: [&str; 3] = [LEFTOVERS_FILE, "workspace", "template"];

/// What the name of a sandbox directory begins with until its lock is held: nobody takes it for an orphan meanwhile.
const INCOMPLETE_PREFIX: &str = ".new-";

/// What the name of a sandbox's container begins with: none of another name is removed.
pub const CONTAINER_PREFIX: &str = "sandbox-vm-";

/// The folder of one sandbox. Dropping it removes the folder, and all on its list that is still there.
#[derive(Debug)]
pub struct SandboxDir {
    id: String,
    path: PathBuf,
    lock: Option<File>,
    leftovers: Arc<LeftoverList>,
}

/// What a sandbox directory's list names.
#[derive(Debug)]
pub(crate) struct LeftoverList {
    // A std mutex: held while a line is written, never over an await.
    state: Mutex<ListState>,
}

#[derive(Debug)]
struct ListState {
    file: File,
    /// What may still be there.
    remaining: Vec<Leftover>,
}

/// Something that would outlive a crash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Leftover {
    /// A process, which is known by the time of its start too: ids are given anew.
    Process {
        /// Its id.
        pid: u32,
        /// When it was started, in the kernel's own count.
        started: u64,
        /// The start of the machine that it was in, for that count begins anew with each; empty where it is not known.
        #[serde(default)]
        boot: String,
    },
    /// A process and the group that it leads; known like a process.
    #[serde(rename = "group")]
    ProcessGroup {
        /// The leader's id.
        pid: u32,
        /// When the leader was started, in the kernel's own count.
        started: u64,
        /// The start of the machine that it was in.
        #[serde(default)]
        boot: String,
    },
    /// A control group.
    Cgroup(PathBuf),
    /// A container of a Docker engine.
    Container {
        /// Where the engine listens.
        host: String,
        /// The container's name.
        name: String,
    },
}

impl Leftover {
    /// A process that runs now.
    pub fn process(pid: u32) -> Self {
        let (started, boot) =
            (reaper::start_time(pid).unwrap_or_default(), reaper::current_boot_id());
        Self::Process { pid, started, boot }
    }

    /// The group that a process leads which runs now.
    pub fn process_group(pid: u32) -> Self {
        let (started, boot) =
            (reaper::start_time(pid).unwrap_or_default(), reaper::current_boot_id());
        Self::ProcessGroup { pid, started, boot }
    }
}

impl SandboxDir {
    /// Makes a sandbox directory below a folder. Its id ends with one that [`CheckpointId::next`] made: other folders are none of
    /// the reaper's business.
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
        let what = format!("the folder of sandbox {id} in {}", state.display());
        let (lock, file) = create().map_err(Error::io(what))?;
        let list = Mutex::new(ListState { file, remaining: Vec::new() });
        let (path, leftovers) = (state.join(id), Arc::new(LeftoverList { state: list }));
        Ok(Self { id: id.to_owned(), path, lock: Some(lock), leftovers })
    }

    /// A sandbox directory in the usual place, for a guest that is started to see whether one can be.
    pub(crate) fn create_for_probe(name: &str) -> Result<Self, Error> {
        // Several may be tried out at once.
        let id = format!("{name}-{}", CheckpointId::next());
        Self::create(&default_state_dir(), &id)
    }

    /// The id of the sandbox: unlike its name, never given twice.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The folder, for whatever the back end has to keep in files.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Notes what would outlive a crash; to be called before the thing is made, where that can be.
    pub fn record_leftovers(
        &self,
        leftovers: impl IntoIterator<Item = Leftover>,
    ) -> Result<(), Error> {
        leftovers.into_iter().try_for_each(|it| self.leftovers.record(it))
    }

    /// The list, for whoever adds to it later, or learns that something on it is gone.
    pub(crate) fn leftovers(&self) -> Arc<LeftoverList> {
        self.leftovers.clone()
    }
}

impl LeftoverList {
    /// Notes what would outlive a crash.
    pub(crate) fn record(&self, leftover: Leftover) -> Result<(), Error> {
        let failed = |error| Error::io("the list of leftovers")(error);
        let mut line = serde_json::to_string(&leftover).map_err(|error| failed(error.into()))?;
        line.push('\n');
        let mut list = self.lock();
        list.file.write_all(line.as_bytes()).map_err(failed)?;
        list.remaining.push(leftover);
        Ok(())
    }

    /// This is gone: nobody has to look for it.
    pub(crate) fn mark_removed(&self, leftover: &Leftover) {
        let mut list = self.lock();
        list.remaining.retain(|it| it != leftover);
        if list.remaining.is_empty() {
            // What is left of the file names nothing that is there; it must not grow with everything that ever was.
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
        // A thread and no task: there may be no runtime any more. If the process ends before it does, the next start
        // goes on from the list.
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
            tracing::warn!(dir = %self.path.display(), %error, "a sandbox stays behind");
        }
    }
}

/// Where sandbox directories are unless it is said: the folder that the variable `SANDBOX_VM_STATE` names, or the system's place for
/// what this user's programs keep while they run.
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

/// A folder that nobody else can put files in for us to act on. One that is made is closed to others altogether.
pub(crate) fn create_private_dir(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    check_private_dir(dir)
}

/// Refuses a folder that somebody else could have put files in.
pub(crate) fn check_private_dir(dir: &Path) -> io::Result<()> {
    let found = fs::symlink_metadata(dir)?;
    if !found.is_dir()
        || found.uid() != rustix::process::geteuid().as_raw()
        || found.mode() & 0o022 != 0
    {
        let problem = "it must be a folder of this user that nobody else can write to";
        return Err(io::Error::other(problem));
    }
    Ok(())
}

/// Whether a folder has the name of a sandbox directory: it ends with an id.
fn has_sandbox_dir_name(dir: &Path) -> bool {
    let name = dir.file_name().and_then(|it| it.to_str()).unwrap_or_default();
    let id = name.rsplit_once('-').map_or(name, |(_, id)| id);
    id.parse::<CheckpointId>().is_ok()
}
