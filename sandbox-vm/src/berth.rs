//! Berths: the folder of the host that belongs to one sandbox, with a list of all that would outlive a crash.
//!
//! The owner holds a lock on a file in the folder for as long as it lives, and the lock dies with its process. So
//! whoever finds a berth that is not locked has found an orphan, and removes what its list names. A berth whose owner
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

use self::{reaper::Patience, registry::Registry};
use crate::Error;

pub use self::reaper::reap;
pub(crate) use self::reaper::{reap_all, wait_for_end};

const LOCK: &str = "lock";
const LIST: &str = "leftovers";

/// What a berth may hold, besides its lock: the list, an agent's files where it has no root of its own, a snapshot.
const CONTENTS: [&str; 3] = [LIST, "workspace", "template"];

/// What the name of a berth begins with until its lock is held: nobody takes it for an orphan meanwhile.
const BEING_MADE: &str = ".new-";

/// What the name of a sandbox's container begins with: none of another name is removed.
pub const CONTAINER: &str = "sandbox-vm-";

/// The folder of one sandbox. Dropping it removes the folder, and all on its list that is still there.
#[derive(Debug)]
pub struct Berth {
    id: String,
    folder: PathBuf,
    lock: Option<File>,
    noted: Arc<Noted>,
}

/// What a berth's list names.
#[derive(Debug)]
pub(crate) struct Noted {
    // A std mutex: held while a line is written, never over an await.
    list: Mutex<List>,
}

#[derive(Debug)]
struct List {
    file: File,
    /// What may still be there.
    open: Vec<Leftover>,
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
    Group {
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
        let (started, boot) = (reaper::start_time(pid).unwrap_or_default(), reaper::this_boot());
        Self::Process { pid, started, boot }
    }

    /// The group that a process leads which runs now.
    pub fn group(pid: u32) -> Self {
        let (started, boot) = (reaper::start_time(pid).unwrap_or_default(), reaper::this_boot());
        Self::Group { pid, started, boot }
    }
}

impl Berth {
    /// Makes a berth below a folder. Its id ends with one that [`CheckpointId::next`] made: other folders are none of
    /// the reaper's business.
    pub fn new(state: &Path, id: &str) -> Result<Self, Error> {
        Self::known_to(&Registry::usual(), state, id)
    }

    fn known_to(registry: &Registry, state: &Path, id: &str) -> Result<Self, Error> {
        let make = || {
            make_private(state)?;
            let being_made = state.join(format!("{BEING_MADE}{id}"));
            registry.note(state, || DirBuilder::new().mode(0o700).create(&being_made))?;
            let furnish = || {
                let lock = File::create(being_made.join(LOCK))?;
                lock.lock()?;
                let file = File::create(being_made.join(LIST))?;
                fs::rename(&being_made, state.join(id))?;
                Ok((lock, file))
            };
            furnish().inspect_err(|_| drop(fs::remove_dir_all(&being_made)))
        };
        let what = format!("the folder of sandbox {id} in {}", state.display());
        let (lock, file) = make().map_err(Error::io(what))?;
        let list = Mutex::new(List { file, open: Vec::new() });
        let (folder, noted) = (state.join(id), Arc::new(Noted { list }));
        Ok(Self { id: id.to_owned(), folder, lock: Some(lock), noted })
    }

    /// A berth in the usual place, for a guest that is started to see whether one can be.
    pub(crate) fn temporary(name: &str) -> Result<Self, Error> {
        // Several may be tried out at once.
        let id = format!("{name}-{}", CheckpointId::next());
        Self::new(&default_state_folder(), &id)
    }

    /// The id of the sandbox: unlike its name, never given twice.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The folder, for whatever the back end has to keep in files.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Notes what would outlive a crash; to be called before the thing is made, where that can be.
    pub fn note(&self, leftovers: impl IntoIterator<Item = Leftover>) -> Result<(), Error> {
        leftovers.into_iter().try_for_each(|it| self.noted.note(it))
    }

    /// The list, for whoever adds to it later, or learns that something on it is gone.
    pub(crate) fn noted(&self) -> Arc<Noted> {
        self.noted.clone()
    }
}

impl Noted {
    /// Notes what would outlive a crash.
    pub(crate) fn note(&self, leftover: Leftover) -> Result<(), Error> {
        let failed = |error| Error::io("the list of leftovers")(error);
        let mut line = serde_json::to_string(&leftover).map_err(|error| failed(error.into()))?;
        line.push('\n');
        let mut list = self.list();
        list.file.write_all(line.as_bytes()).map_err(failed)?;
        list.open.push(leftover);
        Ok(())
    }

    /// This is gone: nobody has to look for it.
    pub(crate) fn settle(&self, leftover: &Leftover) {
        let mut list = self.list();
        list.open.retain(|it| it != leftover);
        if list.open.is_empty() {
            // What is left of the file names nothing that is there; it must not grow with everything that ever was.
            let _ = list.file.set_len(0).and_then(|()| list.file.rewind());
        }
    }

    fn list(&self) -> MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl IntoIterator for Leftover {
    type Item = Self;
    type IntoIter = std::iter::Once<Self>;

    fn into_iter(self) -> Self::IntoIter {
        std::iter::once(self)
    }
}

impl Drop for Berth {
    fn drop(&mut self) {
        let open = std::mem::take(&mut self.noted.list().open);
        let left = reaper::remove(open, Patience::AT_ONCE);
        if left.is_empty() {
            return reaper::remove_folder(&self.folder);
        }
        // A thread and no task: there may be no runtime any more. If the process ends before it does, the next start
        // goes on from the list.
        let (folder, lock) = (self.folder.clone(), self.lock.take());
        let finish = move || {
            match reaper::remove(left, Patience::IN_THE_BACKGROUND).as_slice() {
                [] => reaper::remove_folder(&folder),
                left => reaper::complain(&folder, left),
            }
            drop(lock);
        };
        let started = std::thread::Builder::new().name("sandbox-vm-berth".to_owned()).spawn(finish);
        if let Err(error) = started {
            tracing::warn!(folder = %self.folder.display(), %error, "a sandbox stays behind");
        }
    }
}

/// Where berths are unless it is said: the folder that the variable `SANDBOX_VM_STATE` names, or the system's place for
/// what this user's programs keep while they run.
pub fn default_state_folder() -> PathBuf {
    if let Some(folder) = std::env::var_os("SANDBOX_VM_STATE").filter(|it| !it.is_empty()) {
        return PathBuf::from(folder);
    }
    let user = rustix::process::geteuid();
    if user.is_root() {
        return PathBuf::from("/run/sandbox-vm");
    }
    match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(folder) => PathBuf::from(folder).join("sandbox-vm"),
        None => std::env::temp_dir().join(format!("sandbox-vm-{}", user.as_raw())),
    }
}

/// A folder that nobody else can put files in for us to act on. One that is made is closed to others altogether.
pub(crate) fn make_private(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    check_private(folder)
}

/// Refuses a folder that somebody else could have put files in.
pub(crate) fn check_private(folder: &Path) -> io::Result<()> {
    let found = fs::symlink_metadata(folder)?;
    if !found.is_dir()
        || found.uid() != rustix::process::geteuid().as_raw()
        || found.mode() & 0o022 != 0
    {
        let problem = "it must be a folder of this user that nobody else can write to";
        return Err(io::Error::other(problem));
    }
    Ok(())
}

/// Whether a folder has the name of a berth: it ends with an id.
fn is_berth(folder: &Path) -> bool {
    let name = folder.file_name().and_then(|it| it.to_str()).unwrap_or_default();
    let id = name.rsplit_once('-').map_or(name, |(_, id)| id);
    id.parse::<CheckpointId>().is_ok()
}
