//! Control groups: how the kernel bounds what a guest's processes use, version 1 and 2.
//!
//! A group is made below the one this process is in, which is writable for root and for whoever was given a part of the
//! tree. Where it is not, or a controller is missing, the back end does without and says so in its report.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use crate::limits::{Cause, Limits, Usage};

/// Where the kernel shows its groups.
const ROOT: &str = "/sys/fs/cgroup";

/// How the group of a guest is called, before the guest's id.
const PREFIX: &str = "sandbox-vm-";

/// How many processes a back end itself may need inside the group.
const OWN_PROCESSES: u32 = 16;

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
    /// Names the folders that a guest's group would have, whether they can be made or not.
    pub fn folders_for(id: &str) -> Vec<PathBuf> {
        let tree = Tree::read(Path::new(ROOT), &own_groups());
        let mut folders: Vec<_> = tree.parents.into_values().map(|it| it.join(name(id))).collect();
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

    /// Removes the group; its processes must be gone.
    pub fn remove(&self) {
        self.folders().iter().for_each(|it| remove(it));
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

/// Removes one folder of a group, with the processes that are still in it.
///
/// The kernel takes a moment to let go of processes that have just ended, so this tries for a while.
pub fn remove(folder: &Path) {
    for _ in 0..50 {
        if !folder.exists() || fs::remove_dir(folder).is_ok() {
            return;
        }
        // A frozen process cannot die.
        let _ = fs::write(folder.join("freezer.state"), "THAWED");
        kill_all(folder);
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn kill_all(folder: &Path) {
    let pids = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
    for pid in
        pids.lines().filter_map(|it| it.parse().ok()).filter_map(rustix::process::Pid::from_raw)
    {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
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

/// The folders below which groups can be made, by controller.
struct Tree {
    parents: BTreeMap<Controller, PathBuf>,
    version: Version,
}

impl Tree {
    /// Looks at the mounts and at the lines of `/proc/self/cgroup`.
    fn read(root: &Path, own: &str) -> Self {
        if root.join("cgroup.controllers").exists() {
            return Self::version_two(root, own);
        }
        let mut parents = BTreeMap::new();
        for (controller, name) in [
            (Controller::Memory, "memory"),
            (Controller::Processes, "pids"),
            (Controller::Cpu, "cpu"),
            (Controller::CpuTime, "cpuacct"),
            (Controller::Freezer, "freezer"),
        ] {
            let path = own.lines().find_map(|line| {
                let (_, rest) = line.split_once(':')?;
                let (names, path) = rest.split_once(':')?;
                names.split(',').any(|it| it == name).then(|| path.trim_start_matches('/'))
            });
            // A container may see a path of its host here, which does not exist in its own mount. Links are followed now:
            // two controllers may be one folder.
            let folders = [path.map(|it| root.join(name).join(it)), Some(root.join(name))];
            let folder = folders.into_iter().flatten().find_map(|it| it.canonicalize().ok());
            parents.extend(folder.map(|it| (controller, it)));
        }
        Self { parents, version: Version::One }
    }

    /// A group with controllers may hold no processes beside groups, so the folder above ours is tried before ours.
    fn version_two(root: &Path, own: &str) -> Self {
        let path = own.lines().find_map(|it| it.strip_prefix("0::/")).unwrap_or_default();
        let ours = root.join(path);
        let above = ours.parent().filter(|it| it.starts_with(root)).map(Path::to_path_buf);
        let parent = [above, Some(ours)].into_iter().flatten().find(|it| {
            let _ = fs::write(it.join("cgroup.subtree_control"), "+memory +pids +cpu");
            fs::read_to_string(it.join("cgroup.subtree_control"))
                .is_ok_and(|it| it.contains("memory"))
        });
        let all = [
            Controller::Memory,
            Controller::Processes,
            Controller::Cpu,
            Controller::CpuTime,
            Controller::Freezer,
        ];
        let parents = parent.iter().flat_map(|it| all.map(|of| (of, it.clone()))).collect();
        Self { parents, version: Version::Two }
    }

    fn make(self, name: &str, limits: &Limits) -> Option<Cgroup> {
        let mut folders = BTreeMap::new();
        for (controller, parent) in self.parents {
            let folder = parent.join(name);
            let made = fs::create_dir(&folder);
            let there = made.is_ok() || folders.values().any(|it| *it == folder);
            if there && bound(self.version, controller, &folder, limits).is_ok() {
                folders.insert(controller, folder);
            } else if made.is_ok() {
                let _ = fs::remove_dir(&folder);
            }
        }
        (!folders.is_empty()).then(|| Cgroup {
            folders,
            version: self.version,
            made: Instant::now(),
        })
    }
}

fn bound(
    version: Version,
    controller: Controller,
    folder: &Path,
    limits: &Limits,
) -> io::Result<()> {
    let write = |file: &str, value: String| fs::write(folder.join(file), value);
    let period = 100_000;
    let quota = ((limits.cpus * f64::from(period)) as u64).max(1000);
    let processes = limits.processes.saturating_add(OWN_PROCESSES);
    match (version, controller) {
        (Version::One, Controller::Memory) => {
            write("memory.limit_in_bytes", limits.memory.to_string())?;
            // Missing where the kernel does not account for swap; then there is mostly none.
            let _ = write("memory.memsw.limit_in_bytes", limits.memory.to_string());
            Ok(())
        }
        (Version::Two, Controller::Memory) => {
            write("memory.max", limits.memory.to_string())?;
            let _ = write("memory.swap.max", "0".to_owned());
            Ok(())
        }
        (_, Controller::Processes) => write("pids.max", processes.to_string()),
        (Version::One, Controller::Cpu) => {
            write("cpu.cfs_period_us", period.to_string())?;
            write("cpu.cfs_quota_us", quota.to_string())
        }
        (Version::Two, Controller::Cpu) => write("cpu.max", format!("{quota} {period}")),
        (_, Controller::CpuTime) => Ok(()),
        (Version::One, Controller::Freezer) => write("freezer.state", "THAWED".to_owned()),
        (Version::Two, Controller::Freezer) => write("cgroup.freeze", "0".to_owned()),
    }
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
    use std::{fs, path::Path};

    use super::{Controller, Tree, Version, field};

    fn folder(root: &Path, path: &str) {
        fs::create_dir_all(root.join(path)).unwrap();
    }

    #[test]
    fn version_one_is_found_by_the_lines_of_the_kernel() {
        let root = tempfile::tempdir().unwrap();
        for path in ["memory/user/x", "pids", "cpu,cpuacct"] {
            folder(root.path(), path);
        }
        for name in ["cpu", "cpuacct"] {
            std::os::unix::fs::symlink("cpu,cpuacct", root.path().join(name)).unwrap();
        }
        let tree = Tree::read(root.path(), "4:memory:/user/x\n3:pids:/gone\n1:name=systemd:/\n");
        assert_eq!(tree.version, Version::One);
        assert_eq!(tree.parents[&Controller::Memory], root.path().join("memory/user/x"));
        assert_eq!(tree.parents[&Controller::Processes], root.path().join("pids"));
        assert!(!tree.parents.contains_key(&Controller::Freezer));
        // One folder for two controllers, as many systems have it, is used for both.
        assert_eq!(tree.parents[&Controller::Cpu], tree.parents[&Controller::CpuTime]);
        let group = tree.make("guest", &crate::Limits::default()).unwrap();
        assert!(group.has(Controller::Cpu) && group.has(Controller::CpuTime));
        assert_eq!(group.folders().len(), 3);
    }

    #[test]
    fn version_two_is_used_where_its_controllers_can_be_had() {
        let root = tempfile::tempdir().unwrap();
        folder(root.path(), "user/session");
        fs::write(root.path().join("cgroup.controllers"), "memory pids cpu").unwrap();
        let tree = Tree::read(root.path(), "0::/user/session\n");
        assert_eq!(tree.version, Version::Two);
        assert_eq!(tree.parents[&Controller::Memory], root.path().join("user"));
    }

    #[test]
    fn counters_are_read_by_their_names() {
        let text = "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n";
        assert_eq!(field(text, "oom_kill"), Some(3));
        assert_eq!(field(text, "oom"), None);
    }
}
