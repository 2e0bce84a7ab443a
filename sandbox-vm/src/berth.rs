//! Berths: the folder of the host that belongs to one sandbox, with a list of all that would outlive a crash.
//!
//! The owner holds a lock on a file in the folder for as long as it lives, and the lock dies with its process. So
//! whoever finds a berth that is not locked has found an orphan, and removes what its list names.

use std::{
    fs::{self, File, TryLockError},
    io::Write,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use graph_core::checkpoint::CheckpointId;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

use crate::{Error, cgroup};

const LOCK: &str = "lock";
const LIST: &str = "leftovers";

/// What the name of a sandbox's container begins with: none of another name is removed.
pub const CONTAINER: &str = "sandbox-vm-";

/// The folder of one sandbox. Dropping it removes the folder.
#[derive(Debug)]
pub struct Berth {
    id: String,
    folder: PathBuf,
    #[expect(dead_code, reason = "held for its lock")]
    lock: File,
    // A std mutex: held while a line is written, never over an await.
    list: Mutex<File>,
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
        Self::Process { pid, started: start_time(pid).unwrap_or_default() }
    }
}

impl Berth {
    /// Makes a berth below a folder. Its id ends with one that [`CheckpointId::next`] made: other folders are none of
    /// the reaper's business.
    pub fn new(state: &Path, id: &str) -> Result<Self, Error> {
        let what = || format!("the folder of sandbox {id} in {}", state.display());
        make_private(state).map_err(Error::io(what()))?;
        let folder = state.join(id);
        fs::create_dir(&folder).map_err(Error::io(what()))?;
        let lock = File::create(folder.join(LOCK)).map_err(Error::io(what()))?;
        lock.lock().map_err(Error::io(what()))?;
        let list = File::create(folder.join(LIST)).map_err(Error::io(what()))?;
        Ok(Self { id: id.to_owned(), folder, lock, list: Mutex::new(list) })
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
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        for leftover in leftovers {
            let mut line = serde_json::to_string(&leftover)
                .map_err(|error| Error::io("the list of leftovers")(error.into()))?;
            line.push('\n');
            list.write_all(line.as_bytes()).map_err(Error::io("the list of leftovers"))?;
        }
        Ok(())
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
        if let Err(error) = fs::remove_dir_all(&self.folder) {
            tracing::warn!(folder = %self.folder.display(), %error, "a sandbox's folder stays behind");
        }
    }
}

/// Removes what crashed owners left behind below a folder, and says of how many sandboxes.
///
/// Nothing is looked at in a folder that somebody else could have put files in, and nothing but berths is removed.
pub fn reap(state: &Path) -> usize {
    if let Err(error) = check_private(state) {
        if error.kind() != std::io::ErrorKind::NotFound {
            tracing::warn!(folder = %state.display(), %error, "what crashed processes left here stays");
        }
        return 0;
    }
    let mut reaped = 0;
    for entry in fs::read_dir(state).into_iter().flatten().flatten() {
        let folder = entry.path();
        if !is_berth(&folder) {
            continue;
        }
        let Ok(lock) = File::open(folder.join(LOCK)) else {
            // Its owner is about to make the lock, or was killed before it did: nothing is in it yet.
            let old =
                entry.metadata().and_then(|it| it.modified()).ok().and_then(|it| it.elapsed().ok());
            if old.is_some_and(|it| it > Duration::from_secs(60)) {
                let _ = fs::remove_dir(&folder);
            }
            continue;
        };
        match lock.try_lock() {
            Ok(()) => {
                clean(&folder);
                reaped += 1;
            }
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => {
                tracing::warn!(folder = %folder.display(), %error, "an orphan cannot be looked at");
            }
        }
    }
    reaped
}

/// Whether a folder has the name of a berth: it ends with an id.
fn is_berth(folder: &Path) -> bool {
    let name = folder.file_name().and_then(|it| it.to_str()).unwrap_or_default();
    let id = name.rsplit_once('-').map_or(name, |(_, id)| id);
    id.parse::<CheckpointId>().is_ok()
}

/// Where berths are unless it is said.
pub fn default_state_folder() -> PathBuf {
    let user = rustix::process::geteuid();
    if user.is_root() {
        return PathBuf::from("/run/sandbox-vm");
    }
    match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(folder) => PathBuf::from(folder).join("sandbox-vm"),
        None => std::env::temp_dir().join(format!("sandbox-vm-{}", user.as_raw())),
    }
}

/// A folder that nobody else can look into, or put files in for us to act on.
pub(crate) fn make_private(folder: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    check_private(folder)
}

/// Refuses a folder that somebody else could have put files in.
pub(crate) fn check_private(folder: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::MetadataExt;
    let found = fs::symlink_metadata(folder)?;
    if !found.is_dir()
        || found.uid() != rustix::process::geteuid().as_raw()
        || found.mode() & 0o022 != 0
    {
        let problem = "it must be a folder of this user that nobody else can write to";
        return Err(std::io::Error::other(problem));
    }
    Ok(())
}

fn clean(folder: &Path) {
    let list = fs::read_to_string(folder.join(LIST)).unwrap_or_default();
    // A line that was cut short by the crash names something that was never made.
    let leftovers: Vec<Leftover> =
        list.lines().filter_map(|it| serde_json::from_str(it).ok()).collect();
    tracing::info!(folder = %folder.display(), leftovers = leftovers.len(), "removing an orphan");
    for leftover in &leftovers {
        if let Leftover::Process { pid, started } = leftover {
            end(*pid, *started);
        }
    }
    for leftover in leftovers {
        match leftover {
            Leftover::Process { .. } => {}
            Leftover::Cgroup(folder) if cgroup::is_ours(&folder) => cgroup::remove(&folder),
            Leftover::Cgroup(folder) => {
                tracing::warn!(folder = %folder.display(), "not a control group of a sandbox");
            }
            Leftover::Container { host, name } if name.starts_with(CONTAINER) => {
                remove_container(&host, &name);
            }
            Leftover::Container { name, .. } => {
                tracing::warn!(name, "not a container of a sandbox");
            }
        }
    }
    if let Err(error) = fs::remove_dir_all(folder) {
        tracing::warn!(folder = %folder.display(), %error, "an orphan's folder stays behind");
    }
}

fn remove_container(host: &str, name: &str) {
    let mut docker = std::process::Command::new("docker");
    if let Err(error) = docker.args(["--host", host, "rm", "--force", name]).output() {
        tracing::warn!(host, name, %error, "a container stays behind: is the program `docker` here?");
    }
}

/// Ends a process, if it is still the one that was noted, and waits until it is gone.
fn end(pid: u32, started: u64) {
    let Some(raw) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return };
    // Opened before the look at its start: from here on the descriptor means this process and no later one.
    let Ok(process) = pidfd_open(raw, PidfdFlags::empty()) else { return };
    if start_time(pid) != Some(started) || pidfd_send_signal(&process, Signal::KILL).is_err() {
        return;
    }
    let mut watched = [rustix::event::PollFd::new(&process, rustix::event::PollFlags::IN)];
    let patience = rustix::event::Timespec { tv_sec: 5, tv_nsec: 0 };
    let _ = rustix::event::poll(&mut watched, Some(&patience));
}

/// When a process was started, in the kernel's own count.
fn start_time(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_ascii_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, File, Permissions},
        os::unix::fs::{PermissionsExt, chown},
        path::{Path, PathBuf},
        process::{Child, Command},
        time::{Duration, SystemTime},
    };

    use tempfile::TempDir;

    use super::{Berth, CheckpointId, Leftover, reap};

    fn id() -> String {
        CheckpointId::next().to_string()
    }

    /// A state folder with one berth as a crash leaves it: a list, and nobody who holds the lock. The process is on it.
    fn crashed() -> (TempDir, PathBuf, Child) {
        let folder = tempfile::tempdir().unwrap();
        let process = Command::new("sleep").arg("1000").spawn().unwrap();
        let dead = folder.path().join(id());
        fs::create_dir(&dead).unwrap();
        fs::write(dead.join("lock"), "").unwrap();
        let known = serde_json::to_string(&Leftover::process(process.id())).unwrap();
        let other = format!(r#"{{"process":{{"pid":{},"started":1}}}}"#, std::process::id());
        fs::write(dead.join("leftovers"), format!("{known}\n{other}\n{{\"cut")).unwrap();
        (folder, dead, process)
    }

    /// Makes a folder so old that whoever made it is done with it.
    fn age(folder: &Path) {
        let hours_ago = SystemTime::now() - Duration::from_secs(7200);
        File::open(folder).unwrap().set_modified(hours_ago).unwrap();
    }

    #[test]
    fn a_berth_in_use_is_left_alone_and_an_orphan_is_removed() {
        let (state, dead, mut process) = crashed();
        let berth = Berth::new(state.path(), &id()).unwrap();
        assert_eq!(reap(state.path()), 1);
        assert!(!process.wait().unwrap().success());
        assert!(!dead.exists() && berth.folder().exists());
        let folder = berth.folder().to_owned();
        drop(berth);
        assert!(!folder.exists());
    }

    #[test]
    fn a_folder_that_others_can_write_to_is_refused() {
        let state = tempfile::tempdir().unwrap();
        fs::set_permissions(state.path(), Permissions::from_mode(0o777)).unwrap();
        assert!(Berth::new(state.path(), "x").is_err());
    }

    #[test]
    fn nothing_is_done_that_a_folder_of_somebody_else_asks_for() {
        let (state, dead, mut process) = crashed();
        fs::set_permissions(state.path(), Permissions::from_mode(0o777)).unwrap();
        assert_eq!(reap(state.path()), 0);
        fs::set_permissions(state.path(), Permissions::from_mode(0o755)).unwrap();
        if rustix::process::geteuid().is_root() {
            chown(state.path(), Some(65_534), None).unwrap();
            assert_eq!(reap(state.path()), 0);
        }
        assert!(dead.exists() && process.try_wait().unwrap().is_none());
        process.kill().unwrap();
        process.wait().unwrap();
    }

    #[test]
    fn folders_that_are_no_berths_are_left_alone_though_they_look_like_orphans() {
        let state = tempfile::tempdir().unwrap();
        let [letters, locked] = ["letters", "locked"].map(|it| state.path().join(it));
        let [empty, full] = [id(), format!("probe-{}", id())].map(|it| state.path().join(it));
        for folder in [&letters, &locked, &empty, &full] {
            fs::create_dir(folder).unwrap();
        }
        fs::write(locked.join("lock"), "").unwrap();
        fs::write(full.join("precious"), "").unwrap();
        for folder in [&letters, &locked, &empty, &full] {
            age(folder);
        }
        assert_eq!(reap(state.path()), 0);
        assert!(letters.exists() && locked.exists() && full.exists());
        assert!(!empty.exists());
    }

    #[test]
    fn a_list_of_leftovers_names_no_command() {
        let state = tempfile::tempdir().unwrap();
        let (dead, trace) = (state.path().join(id()), state.path().join("trace"));
        fs::create_dir(&dead).unwrap();
        fs::write(dead.join("lock"), "").unwrap();
        let list = format!(r#"{{"command":["touch","{}"]}}"#, trace.display());
        fs::write(dead.join("leftovers"), list).unwrap();
        assert_eq!(reap(state.path()), 1);
        assert!(!trace.exists());
    }
}
