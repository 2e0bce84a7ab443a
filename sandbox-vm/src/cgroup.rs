//! Control groups: how the kernel bounds what a guest's processes use, version 1 and 2.
//!
//! A group is made below the one this process is in, which is writable for root and for whoever was given a part of the
//! tree. Where it is not, or a controller is missing, the back end does without and says so in its report.
//!
//! With version 2 a group that bounds others may hold no processes itself, so ours mostly cannot: then the one above it
//! is taken, and the guests are beside this process. Limits of a service bound its guests only if the group above is
//! the service's own, as systemd makes it with `Delegate=yes` and `DelegateSubgroup=`.

mod tree;

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use self::tree::Tree;
use crate::limits::{ExceededLimit, Limits, Usage};

/// Where the kernel shows its groups.
const ROOT: &str = "/sys/fs/cgroup";

/// How the group of a guest is called, before the guest's id.
const PREFIX: &str = "sandbox-vm-";

/// How long the kernel has to let go of a guest's processes, usually.
const REMOVAL_TIMEOUT: Duration = Duration::from_millis(500);

/// What the kernel can bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Controller {
    /// Memory.
    Memory,
    /// Processes.
    Processes,
    /// Processor share.
    Cpu,
    /// Counting processor time, which bounds nothing.
    CpuTime,
    /// Pausing.
    Freezer,
}

/// A control group of one guest. It is removed by [`remove`](Self::remove) alone: a crash leaves it to the reaper.
#[derive(Clone, Debug)]
pub struct Cgroup {
    /// The folder for each controller; with version 2 it is the same for all.
    dirs: BTreeMap<Controller, PathBuf>,
    version: Version,
    created: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

impl Cgroup {
    /// Names the folders that a guest's group may get, whether they can be made or not. Nothing is changed by it.
    pub fn candidate_dirs(id: &str) -> Vec<PathBuf> {
        let tree = Tree::read(Path::new(ROOT), &read_own_cgroups());
        let mut dirs: Vec<_> = tree.parents().map(|it| it.join(cgroup_name(id))).collect();
        dirs.sort();
        dirs.dedup();
        dirs
    }

    /// Makes a group that bounds a guest; it may lack controllers, and is `None` where there is none at all.
    pub fn create(id: &str, limits: &Limits) -> Option<Self> {
        let tree = Tree::read(Path::new(ROOT), &read_own_cgroups());
        tree.create(&cgroup_name(id), limits)
    }

    /// Whether it bounds this.
    pub fn has(&self, controller: Controller) -> bool {
        self.dirs.contains_key(&controller)
    }

    /// The folders, each once.
    pub fn dirs(&self) -> Vec<PathBuf> {
        let mut dirs: Vec<_> = self.dirs.values().cloned().collect();
        dirs.sort();
        dirs.dedup();
        dirs
    }

    /// The files that a process writes `0` to in order to join.
    pub fn procs_files(&self) -> Vec<PathBuf> {
        self.dirs().into_iter().map(|it| it.join("cgroup.procs")).collect()
    }

    /// Takes a process in that has only just been started.
    #[must_use = "a process that is not in its group is not bounded by it"]
    pub fn add_process(&self, pid: u32) -> io::Result<()> {
        self.procs_files().iter().try_for_each(|it| fs::write(it, pid.to_string()))
    }

    /// What its processes have used.
    pub fn usage(&self) -> Usage {
        let number = |file: &str| self.read(file).and_then(|it| it.trim().parse::<u64>().ok());
        let (cpu, memory) = match self.version {
            Version::One => (
                number("cpuacct.usage").map(Duration::from_nanos),
                number("memory.max_usage_in_bytes"),
            ),
            Version::Two => {
                let micros = self.read("cpu.stat").and_then(|it| field(&it, "usage_usec"));
                (micros.map(Duration::from_micros), number("memory.peak"))
            }
        };
        Usage {
            wall: self.created.elapsed(),
            cpu: cpu.unwrap_or_default(),
            memory: memory.unwrap_or_default(),
        }
    }

    /// How often its processes have run into limits so far.
    pub fn hits(&self) -> LimitHits {
        let count = |file: &str, name: &str| {
            self.read(file).and_then(|it| field(&it, name)).unwrap_or_default()
        };
        let memory = match self.version {
            Version::One => count("memory.oom_control", "oom_kill"),
            Version::Two => count("memory.events", "oom_kill"),
        };
        LimitHits { memory, processes: count("pids.events", "max") }
    }

    /// Stops its processes, or lets them go on.
    pub fn set_freezer(&self, state: FreezerState) -> io::Result<()> {
        let dir = self.dirs.get(&Controller::Freezer).ok_or(io::ErrorKind::Unsupported)?;
        match (self.version, state) {
            (Version::One, FreezerState::Frozen) => fs::write(dir.join("freezer.state"), "FROZEN"),
            (Version::One, FreezerState::Thawed) => fs::write(dir.join("freezer.state"), "THAWED"),
            (Version::Two, FreezerState::Frozen) => fs::write(dir.join("cgroup.freeze"), "1"),
            (Version::Two, FreezerState::Thawed) => fs::write(dir.join("cgroup.freeze"), "0"),
        }
    }

    /// Removes the group; its processes must be gone. Says whether it is gone: the kernel may take longer than this
    /// waits, and then it is left to whoever drops the [sandbox_dir](crate::sandbox_dir::SandboxDir) that it is noted in.
    pub fn remove(&self) -> bool {
        let deadline = Instant::now() + REMOVAL_TIMEOUT;
        // All of them are tried, though one be not removed.
        self.dirs().iter().filter(|it| !remove_dir(it, deadline)).count() == 0
    }

    fn read(&self, file: &str) -> Option<String> {
        self.dirs().iter().find_map(|it| fs::read_to_string(it.join(file)).ok())
    }
}

/// How often the processes of a group have run into its limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LimitHits {
    memory: u64,
    processes: u64,
}

impl LimitHits {
    /// The limit that was run into since an earlier look.
    pub fn since(self, earlier: Self) -> Option<ExceededLimit> {
        if self.memory > earlier.memory {
            Some(ExceededLimit::Memory)
        } else if self.processes > earlier.processes {
            Some(ExceededLimit::Processes)
        } else {
            None
        }
    }
}

/// What becomes of a group's processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FreezerState {
    /// They stop.
    Frozen,
    /// They go on.
    Thawed,
}

/// Removes one folder of a group, with the processes that are still in it, and says whether it is gone.
///
/// The kernel takes a moment to let go of processes that have just ended, so this tries until then.
pub fn remove_dir(dir: &Path, deadline: Instant) -> bool {
    loop {
        match fs::remove_dir(dir) {
            Ok(()) => return true,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return true,
            Err(_) if Instant::now() >= deadline => return false,
            Err(_) => {}
        }
        // A frozen process cannot die.
        thaw(dir);
        kill_all(dir);
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Lets the processes of one folder go on, if they were stopped.
pub(crate) fn thaw(dir: &Path) {
    for (file, word) in [("freezer.state", "THAWED"), ("cgroup.freeze", "0")] {
        let file = fs::OpenOptions::new().write(true).open(dir.join(file));
        let _ = file.and_then(|mut it| it.write_all(word.as_bytes()));
    }
}

/// Ends all processes of one folder: at once where the kernel can, otherwise one by one.
fn kill_all(dir: &Path) {
    let all = fs::OpenOptions::new().write(true).open(dir.join("cgroup.kill"));
    if all.and_then(|mut it| it.write_all(b"1")).is_ok() {
        return;
    }
    for pid in member_pids(dir) {
        let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { continue };
        // Looked for again: from here on the descriptor means this process, and no later one of its number.
        if member_pids(dir).contains(&pid) {
            let _ = pidfd_send_signal(&process, Signal::KILL);
        }
    }
}

fn member_pids(dir: &Path) -> Vec<Pid> {
    let pids = fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default();
    pids.lines().filter_map(|it| it.parse().ok()).filter_map(Pid::from_raw).collect()
}

/// Removes groups that bound nobody: those without a process whose guest is not known any more, and that are older than
/// it takes to start one.
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
            // The kernel refuses where a process is in it.
            let _ = fs::remove_dir(entry.path());
        }
    }
}

fn cgroup_name(id: &str) -> String {
    format!("{PREFIX}{id}")
}

/// Whether a folder is one that [`Cgroup::create`] could have made.
pub(crate) fn is_ours(dir: &Path) -> bool {
    let name = dir.file_name().and_then(|it| it.to_str());
    dir.starts_with(ROOT) && name.is_some_and(|it| it.starts_with(PREFIX))
}

fn read_own_cgroups() -> String {
    fs::read_to_string("/proc/self/cgroup").unwrap_or_default()
}

/// The number behind a name, one of each a line.
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

    use super::{field, remove_dir, remove_unused_below};

    #[test]
    fn groups_that_nobody_knows_are_removed_and_no_others() {
        let root = tempfile::tempdir().unwrap();
        let all =
            ["sandbox-vm-old", "sandbox-vm-young", "sandbox-vm-known", "sandbox-vm-used", "x"];
        let hour_ago = SystemTime::now() - Duration::from_secs(3600);
        for name in all {
            fs::create_dir(root.path().join(name)).unwrap();
        }
        // The kernel does not let go of a group with processes; nor does it of a folder with something in it.
        fs::create_dir(root.path().join("sandbox-vm-used/below")).unwrap();
        for name in all.iter().filter(|it| !it.ends_with("young")) {
            fs::File::open(root.path().join(name)).unwrap().set_modified(hour_ago).unwrap();
        }
        remove_unused_below(root.path(), &|id: &str| id == "known", Duration::from_secs(60));
        let there: Vec<_> = all.iter().filter(|it| root.path().join(it).exists()).collect();
        assert_eq!(
            there,
            ["sandbox-vm-young", "sandbox-vm-known", "sandbox-vm-used", "x"]
                .iter()
                .collect::<Vec<_>>()
        );
    }

    #[test]
    fn a_folder_that_stays_is_said_to() {
        let root = tempfile::tempdir().unwrap();
        let group = root.path().join("group");
        fs::create_dir_all(group.join("below")).unwrap();
        assert!(!remove_dir(&group, Instant::now()));
        fs::remove_dir(group.join("below")).unwrap();
        assert!(remove_dir(&group, Instant::now()) && !group.exists());
        assert!(remove_dir(&group, Instant::now()), "it is gone already");
    }

    #[test]
    fn counters_are_read_by_their_names() {
        let text = "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n";
        assert_eq!(field(text, "oom_kill"), Some(3));
        assert_eq!(field(text, "oom"), None);
    }
}
