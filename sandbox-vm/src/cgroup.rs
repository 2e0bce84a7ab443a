//! Control groups, with which the kernel limits the resources of a guest's processes. Supports cgroup versions 1 and 2.
//!
//! A guest's group is created below the group of this process. That works for the root user and for users to whom a
//! part of the cgroup tree was delegated. Otherwise, the user's service manager creates the group (see [`scope`]). If
//! there is no group, or if it lacks a controller, the back end starts guests anyway, but its report does not list the
//! corresponding guarantees.
//!
//! In version 2, a group that enables controllers for its child groups must not contain processes itself, so the group
//! of this process usually cannot have children. The guest's group is then created in the parent group, next to the
//! group of this process. The limits of a service therefore apply to its guests only if the parent group belongs to the
//! service. systemd sets this up for services with `Delegate=yes` and `DelegateSubgroup=`.

mod scope;
mod tree;

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

pub(crate) use self::{scope::Scope, tree::Controller};
use self::{
    scope::Scopes,
    tree::{PREFIX, ROOT, Tree, Version},
};
use crate::limits::{ExceededLimit, Limits};

/// How long [`Cgroup::remove`] waits for the kernel to release the processes of a guest that has ended.
const REMOVAL_TIMEOUT: Duration = Duration::from_millis(500);

/// Control group of one guest. It is not removed on drop, only by [`remove`](Self::remove) or, after a crash, by the
/// process that removes orphaned sandbox directories.
#[derive(Clone, Debug)]
pub(crate) struct Cgroup {
    /// Directory of the group for each controller. In version 2, all controllers have the same directory.
    dirs: BTreeMap<Controller, PathBuf>,
    version: Version,
    /// The scope that the user's service manager creates as this group. The guest is started in the scope and does not
    /// have to join it.
    scope: Option<Box<Scope>>,
}

impl Cgroup {
    /// Returns all directories in which [`create`](Self::create) could create a guest's group. A scope has other
    /// directories.
    pub(crate) fn candidate_dirs(id: &str) -> Vec<PathBuf> {
        let tree = Tree::read(Path::new(ROOT), &read_own_cgroups());
        let mut dirs: Vec<_> = tree.parents().map(|it| it.join(cgroup_name(id))).collect();
        dirs.sort();
        dirs.dedup();
        dirs
    }

    /// Creates a group with the given limits. Some controllers may be missing from the group. Returns `None` if no
    /// controller is available at all.
    pub(crate) fn create(id: &str, limits: &Limits) -> Option<Self> {
        let tree = Tree::read(Path::new(ROOT), &read_own_cgroups());
        let group = tree.create(&cgroup_name(id), limits);
        let group = group.map(|dirs| Self { dirs, version: tree.version, scope: None });
        if group.as_ref().is_some_and(|it| it.has(Controller::Memory)) {
            return group;
        }
        let Some(scopes) = Scopes::find() else { return group };
        if let Some(group) = group {
            group.remove();
        }
        let (scope, dirs) = scopes.scope(id, limits);
        Some(Self { dirs, version: Version::Two, scope: Some(Box::new(scope)) })
    }

    /// Creates a version 1 group that has only the memory controller.
    #[cfg(test)]
    pub(crate) fn with_memory_only(dir: PathBuf) -> Self {
        let dirs = BTreeMap::from([(Controller::Memory, dir)]);
        Self { dirs, version: Version::One, scope: None }
    }

    /// Returns the scope in which the guest has to be started, if the group is a scope.
    pub(crate) fn scope(&self) -> Option<&Scope> {
        self.scope.as_deref()
    }

    /// Returns whether the group has this controller.
    pub(crate) fn has(&self, controller: Controller) -> bool {
        self.dirs.contains_key(&controller)
    }

    /// Returns the directories of the group, without duplicates.
    pub(crate) fn dirs(&self) -> Vec<PathBuf> {
        let mut dirs: Vec<_> = self.dirs.values().cloned().collect();
        dirs.sort();
        dirs.dedup();
        dirs
    }

    /// Returns the files to which a process writes `0` in order to join the group. There are none for a scope.
    pub(crate) fn procs_files(&self) -> Vec<PathBuf> {
        if self.scope.is_some() {
            return Vec::new();
        }
        self.dirs().into_iter().map(|it| it.join("cgroup.procs")).collect()
    }

    /// Returns the CPU time that the group's processes have used so far. Returns `None` if the kernel does not count
    /// it, for example in version 1 without the controller `cpuacct`.
    pub(crate) fn cpu_time(&self) -> Option<Duration> {
        match self.version {
            Version::One => self.read_number("cpuacct.usage").map(Duration::from_nanos),
            Version::Two => field(&self.read("cpu.stat")?, "usage_usec").map(Duration::from_micros),
        }
    }

    /// Returns the highest memory use of the group in bytes. Returns `None` if the kernel does not record it, for
    /// example in version 2 before Linux 5.19.
    pub(crate) fn peak_memory(&self) -> Option<u64> {
        self.read_number(match self.version {
            Version::One => "memory.max_usage_in_bytes",
            Version::Two => "memory.peak",
        })
    }

    /// Returns how often the group's processes have hit its limits so far.
    pub(crate) fn hits(&self) -> LimitHits {
        let count = |file: &str, name: &str| {
            self.read(file).and_then(|it| field(&it, name)).unwrap_or_default()
        };
        let memory = match self.version {
            Version::One => count("memory.oom_control", "oom_kill"),
            Version::Two => count("memory.events", "oom_kill"),
        };
        LimitHits { memory, processes: count("pids.events", "max") }
    }

    /// Freezes or thaws the group's processes.
    pub(crate) fn set_freezer(&self, state: FreezerState) -> io::Result<()> {
        let dir = self.dirs.get(&Controller::Freezer).ok_or(io::ErrorKind::Unsupported)?;
        match (self.version, state) {
            (Version::One, FreezerState::Frozen) => fs::write(dir.join("freezer.state"), "FROZEN"),
            (Version::One, FreezerState::Thawed) => fs::write(dir.join("freezer.state"), "THAWED"),
            (Version::Two, FreezerState::Frozen) => fs::write(dir.join("cgroup.freeze"), "1"),
            (Version::Two, FreezerState::Thawed) => fs::write(dir.join("cgroup.freeze"), "0"),
        }
    }

    /// Returns whether all processes of the group are stopped. The kernel stops them some time after the request to
    /// freeze the group.
    pub(crate) fn is_frozen(&self) -> bool {
        let Some(dir) = self.dirs.get(&Controller::Freezer) else { return false };
        let read = |file: &str| fs::read_to_string(dir.join(file)).unwrap_or_default();
        match self.version {
            Version::One => read("freezer.state").trim() == "FROZEN",
            Version::Two => field(&read("cgroup.events"), "frozen") == Some(1),
        }
    }

    /// Removes the group, whose processes must have ended, and returns whether that succeeded. If the kernel takes
    /// longer than this function waits, the group is removed when the [`SandboxDir`](crate::sandbox_dir::SandboxDir)
    /// that lists it is dropped.
    pub(crate) fn remove(&self) -> bool {
        let deadline = Instant::now() + REMOVAL_TIMEOUT;
        // Try to remove all directories even if one of them cannot be removed.
        self.dirs().iter().filter(|it| !remove_dir(it, deadline)).count() == 0
    }

    fn read_number(&self, file: &str) -> Option<u64> {
        self.read(file)?.trim().parse().ok()
    }

    fn read(&self, file: &str) -> Option<String> {
        self.dirs().iter().find_map(|it| fs::read_to_string(it.join(file)).ok())
    }
}

/// Number of times that the processes of a group have hit its limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LimitHits {
    memory: u64,
    processes: u64,
}

impl LimitHits {
    /// Returns a limit that was hit after the `earlier` reading, or `None` if none was hit.
    pub(crate) fn since(self, earlier: Self) -> Option<ExceededLimit> {
        if self.memory > earlier.memory {
            Some(ExceededLimit::Memory)
        } else if self.processes > earlier.processes {
            Some(ExceededLimit::Processes)
        } else {
            None
        }
    }
}

/// Whether the processes of a group are stopped or running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FreezerState {
    /// Stopped.
    Frozen,
    /// Running.
    Thawed,
}

/// Kills the processes that are still in one directory of a group, removes the directory, and returns whether that
/// succeeded.
///
/// The kernel takes a moment to release processes that have just ended, so this function retries until the deadline.
pub(crate) fn remove_dir(dir: &Path, deadline: Instant) -> bool {
    loop {
        match fs::remove_dir(dir) {
            Ok(()) => return true,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return true,
            Err(_) if Instant::now() >= deadline => return false,
            Err(_) => {}
        }
        // Thaw the processes first, because a frozen process cannot die.
        thaw(dir);
        kill_all(dir);
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Thaws the processes in one directory of a group.
pub(crate) fn thaw(dir: &Path) {
    for (file, word) in [("freezer.state", "THAWED"), ("cgroup.freeze", "0")] {
        let file = fs::OpenOptions::new().write(true).open(dir.join(file));
        let _ = file.and_then(|mut it| it.write_all(word.as_bytes()));
    }
}

/// Kills all processes in one directory of a group. Uses `cgroup.kill` if the kernel supports it, and otherwise kills
/// them one by one.
fn kill_all(dir: &Path) {
    let all = fs::OpenOptions::new().write(true).open(dir.join("cgroup.kill"));
    if all.and_then(|mut it| it.write_all(b"1")).is_ok() {
        return;
    }
    for pid in member_pids(dir) {
        let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { continue };
        // Check the membership again, because the id may have been reused before the pidfd was opened. From here on,
        // the pidfd always refers to the same process.
        if member_pids(dir).contains(&pid) {
            let _ = pidfd_send_signal(&process, Signal::KILL);
        }
    }
}

fn member_pids(dir: &Path) -> Vec<Pid> {
    let pids = fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default();
    pids.lines().filter_map(|it| it.parse().ok()).filter_map(Pid::from_raw).collect()
}

/// Removes abandoned groups. A group is abandoned if it contains no processes, belongs to no known guest, and is older
/// than `age`, the maximum time that starting a guest may take.
pub(crate) fn remove_unused(is_known: impl Fn(&str) -> bool, age: Duration) {
    let tree = Tree::read(Path::new(ROOT), &read_own_cgroups());
    tree.parents().for_each(|it| remove_unused_below(it, &is_known, age));
}

fn remove_unused_below(parent: &Path, is_known: &impl Fn(&str) -> bool, age: Duration) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(id) = name.to_str().and_then(|it| it.strip_prefix(PREFIX)) else { continue };
        let modified = entry.metadata().and_then(|it| it.modified()).ok();
        let is_old = modified.and_then(|it| it.elapsed().ok()).is_some_and(|it| it > age);
        if is_old && !is_known(id) {
            // The kernel refuses to remove a group that contains a process.
            let _ = fs::remove_dir(entry.path());
        }
    }
}

fn cgroup_name(id: &str) -> String {
    format!("{PREFIX}{id}")
}

/// Returns whether [`Cgroup::create`] could have created this directory.
pub(crate) fn is_ours(dir: &Path) -> bool {
    let name = dir.file_name().and_then(|it| it.to_str());
    dir.starts_with(ROOT) && name.is_some_and(|it| it.starts_with(PREFIX))
}

fn read_own_cgroups() -> String {
    fs::read_to_string("/proc/self/cgroup").unwrap_or_default()
}

/// Returns the number after `name` in a text with one `name number` pair per line.
fn field(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(' ')?;
        (key == name).then(|| value.trim().parse().ok()).flatten()
    })
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        time::{Duration, Instant, SystemTime},
    };

    use super::{Cgroup, Version, field, remove_dir, remove_unused_below};

    #[test]
    fn only_old_unknown_groups_without_processes_are_removed() {
        let root = tempfile::tempdir().unwrap();
        let all =
            ["sandbox-vm-old", "sandbox-vm-young", "sandbox-vm-known", "sandbox-vm-used", "x"];
        let hour_ago = SystemTime::now() - Duration::from_secs(3600);
        for name in all {
            fs::create_dir(root.path().join(name)).unwrap();
        }
        // The kernel does not remove a group that contains processes. A directory that is not empty simulates such a
        // group.
        fs::create_dir(root.path().join("sandbox-vm-used/below")).unwrap();
        for name in all.iter().filter(|it| !it.ends_with("young")) {
            fs::File::open(root.path().join(name)).unwrap().set_modified(hour_ago).unwrap();
        }
        remove_unused_below(root.path(), &|id: &str| id == "known", Duration::from_secs(60));
        let remaining: Vec<_> = all.iter().filter(|it| root.path().join(it).exists()).collect();
        assert_eq!(
            remaining,
            ["sandbox-vm-young", "sandbox-vm-known", "sandbox-vm-used", "x"]
                .iter()
                .collect::<Vec<_>>()
        );
    }

    #[test]
    fn remove_dir_reports_whether_the_directory_is_gone() {
        let root = tempfile::tempdir().unwrap();
        let group = root.path().join("group");
        fs::create_dir_all(group.join("below")).unwrap();
        assert!(!remove_dir(&group, Instant::now()));
        fs::remove_dir(group.join("below")).unwrap();
        assert!(remove_dir(&group, Instant::now()) && !group.exists());
        assert!(remove_dir(&group, Instant::now()), "it was removed before");
    }

    #[test]
    fn usage_is_unknown_without_its_counter() {
        let dir = tempfile::tempdir().unwrap();
        let group = Cgroup::with_memory_only(dir.path().to_owned());
        assert_eq!((group.cpu_time(), group.peak_memory()), (None, None));
        fs::write(dir.path().join("cpuacct.usage"), "7000\n").unwrap();
        fs::write(dir.path().join("memory.max_usage_in_bytes"), "4096\n").unwrap();
        assert_eq!(group.cpu_time(), Some(Duration::from_micros(7)));
        assert_eq!(group.peak_memory(), Some(4096));
        let group = Cgroup { version: Version::Two, ..group };
        assert_eq!((group.cpu_time(), group.peak_memory()), (None, None));
        fs::write(dir.path().join("cpu.stat"), "usage_usec 9\nuser_usec 5\n").unwrap();
        fs::write(dir.path().join("memory.peak"), "8192\n").unwrap();
        assert_eq!(group.cpu_time(), Some(Duration::from_micros(9)));
        assert_eq!(group.peak_memory(), Some(8192));
    }

    #[test]
    fn counters_are_read_by_name() {
        let text = "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n";
        assert_eq!(field(text, "oom_kill"), Some(3));
        assert_eq!(field(text, "oom"), None);
    }
}
