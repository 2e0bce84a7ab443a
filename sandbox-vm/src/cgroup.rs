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
use crate::limits::{Cause, Limits, Usage};

/// Where the kernel shows its groups.
const ROOT: &str = "/sys/fs/cgroup";

/// How the group of a guest is called, before the guest's id.
const PREFIX: &str = "sandbox-vm-";

/// How long the kernel has to let go of a guest's processes, usually.
const PATIENCE: Duration = Duration::from_millis(500);

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
    folders: BTreeMap<Controller, PathBuf>,
    version: Version,
    made: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

impl Cgroup {
    /// Names the folders that a guest's group may get, whether they can be made or not. Nothing is changed by it.
    pub fn folders_for(id: &str) -> Vec<PathBuf> {
        let tree = Tree::read(Path::new(ROOT), &own_groups());
        let mut folders: Vec<_> = tree.parents().map(|it| it.join(name(id))).collect();
        folders.sort();
        folders.dedup();
        folders
    }

    /// Makes a group that bounds a guest; it may lack controllers, and is `None` where there is none at all.
    pub fn make(id: &str, limits: &Limits) -> Option<Self> {
        let tree = Tree::read(Path::new(ROOT), &own_groups());
        tree.make(&name(id), limits)
    }

    /// Whether it bounds this.
    pub fn has(&self, controller: Controller) -> bool {
        self.folders.contains_key(&controller)
    }

    /// The folders, each once.
    pub fn folders(&self) -> Vec<PathBuf> {
        let mut folders: Vec<_> = self.folders.values().cloned().collect();
        folders.sort();
        folders.dedup();
        folders
    }

    /// The files that a process writes `0` to in order to join.
    pub fn entries(&self) -> Vec<PathBuf> {
        self.folders().into_iter().map(|it| it.join("cgroup.procs")).collect()
    }

    /// Takes a process in that has only just been started.
    #[must_use = "a process that is not in its group is not bounded by it"]
    pub fn take(&self, pid: u32) -> io::Result<()> {
        self.entries().iter().try_for_each(|it| fs::write(it, pid.to_string()))
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
            wall: self.made.elapsed(),
            cpu: cpu.unwrap_or_default(),
            memory: memory.unwrap_or_default(),
        }
    }

    /// How often its processes have run into limits so far.
    pub fn hits(&self) -> Hits {
        let count = |file: &str, name: &str| {
            self.read(file).and_then(|it| field(&it, name)).unwrap_or_default()
        };
        let memory = match self.version {
            Version::One => count("memory.oom_control", "oom_kill"),
            Version::Two => count("memory.events", "oom_kill"),
        };
        Hits { memory, processes: count("pids.events", "max") }
    }

    /// Stops its processes, or lets them go on.
    pub fn freeze(&self, stop: Freeze) -> io::Result<()> {
        let folder = self.folders.get(&Controller::Freezer).ok_or(io::ErrorKind::Unsupported)?;
        match (self.version, stop) {
            (Version::One, Freeze::Stop) => fs::write(folder.join("freezer.state"), "FROZEN"),
            (Version::One, Freeze::GoOn) => fs::write(folder.join("freezer.state"), "THAWED"),
            (Version::Two, Freeze::Stop) => fs::write(folder.join("cgroup.freeze"), "1"),
            (Version::Two, Freeze::GoOn) => fs::write(folder.join("cgroup.freeze"), "0"),
        }
    }

    /// Removes the group; its processes must be gone. Says whether it is gone: the kernel may take longer than this
    /// waits, and then it is left to whoever drops the [berth](crate::berth::Berth) that it is noted in.
    pub fn remove(&self) -> bool {
        let until = Instant::now() + PATIENCE;
        // All of them are tried, though one be not removed.
        self.folders().iter().filter(|it| !remove(it, until)).count() == 0
    }

    fn read(&self, file: &str) -> Option<String> {
        self.folders().iter().find_map(|it| fs::read_to_string(it.join(file)).ok())
    }
}

/// How often the processes of a group have run into its limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hits {
    memory: u64,
    processes: u64,
}

impl Hits {
    /// The limit that was run into since an earlier look.
    pub fn since(self, earlier: Self) -> Option<Cause> {
        if self.memory > earlier.memory {
            Some(Cause::Memory)
        } else if self.processes > earlier.processes {
            Some(Cause::Processes)
        } else {
            None
        }
    }
}

/// What becomes of a group's processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freeze {
    /// They stop.
    Stop,
    /// They go on.
    GoOn,
}

/// Removes one folder of a group, with the processes that are still in it, and says whether it is gone.
///
/// The kernel takes a moment to let go of processes that have just ended, so this tries until then.
pub fn remove(folder: &Path, until: Instant) -> bool {
    loop {
        match fs::remove_dir(folder) {
            Ok(()) => return true,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return true,
            Err(_) if Instant::now() >= until => return false,
            Err(_) => {}
        }
        // A frozen process cannot die.
        thaw(folder);
        kill_all(folder);
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Lets the processes of one folder go on, if they were stopped.
pub(crate) fn thaw(folder: &Path) {
    for (file, word) in [("freezer.state", "THAWED"), ("cgroup.freeze", "0")] {
        let file = fs::OpenOptions::new().write(true).open(folder.join(file));
        let _ = file.and_then(|mut it| it.write_all(word.as_bytes()));
    }
}

/// Ends all processes of one folder: at once where the kernel can, otherwise one by one.
fn kill_all(folder: &Path) {
    let all = fs::OpenOptions::new().write(true).open(folder.join("cgroup.kill"));
    if all.and_then(|mut it| it.write_all(b"1")).is_ok() {
        return;
    }
    for pid in members(folder) {
        let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { continue };
        // Looked for again: from here on the descriptor means this process, and no later one of its number.
        if members(folder).contains(&pid) {
            let _ = pidfd_send_signal(&process, Signal::KILL);
        }
    }
}

fn members(folder: &Path) -> Vec<Pid> {
    let pids = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
    pids.lines().filter_map(|it| it.parse().ok()).filter_map(Pid::from_raw).collect()
}

/// Removes groups that bound nobody: those without a process whose guest is not known any more, and that are older than
/// it takes to start one.
pub(crate) fn remove_unused(is_known: impl Fn(&str) -> bool, age: Duration) {
    let tree = Tree::read(Path::new(ROOT), &own_groups());
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

fn name(id: &str) -> String {
    format!("{PREFIX}{id}")
}

/// Whether a folder is one that [`Cgroup::make`] could have made.
pub(crate) fn is_ours(folder: &Path) -> bool {
    let name = folder.file_name().and_then(|it| it.to_str());
    folder.starts_with(ROOT) && name.is_some_and(|it| it.starts_with(PREFIX))
}

fn own_groups() -> String {
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

    use super::{field, remove, remove_unused_below};

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
        assert!(!remove(&group, Instant::now()));
        fs::remove_dir(group.join("below")).unwrap();
        assert!(remove(&group, Instant::now()) && !group.exists());
        assert!(remove(&group, Instant::now()), "it is gone already");
    }

    #[test]
    fn counters_are_read_by_their_names() {
        let text = "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n";
        assert_eq!(field(text, "oom_kill"), Some(3));
        assert_eq!(field(text, "oom"), None);
    }
}
