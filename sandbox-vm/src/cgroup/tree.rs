//! Finds the directory of the kernel's cgroup tree in which a guest's group is created.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use crate::limits::Limits;

/// Mount point of the cgroup file systems.
pub(super) const ROOT: &str = "/sys/fs/cgroup";

/// Prefix of the name of a guest's group. The guest's id follows the prefix.
pub(super) const PREFIX: &str = "sandbox-vm-";

/// Number of processes that the back end itself may need inside the group.
pub(super) const BACKEND_PROCESSES: u32 = 16;

/// A cgroup controller, which limits, counts or controls one kind of resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Controller {
    /// Limits memory.
    Memory,
    /// Limits the number of processes.
    Processes,
    /// Limits the share of the processors.
    Cpu,
    /// Counts CPU time without limiting it.
    CpuTime,
    /// Pauses processes.
    Freezer,
}

/// Version of the cgroup file systems.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    One,
    Two,
}

/// The directories in which a guest's group may be created.
pub(super) struct Tree {
    /// Candidate parent directories, best first.
    candidates: Vec<ControllerDirs>,
    pub(super) version: Version,
}

/// Directories by controller.
pub(super) type ControllerDirs = BTreeMap<Controller, PathBuf>;

impl Tree {
    /// Finds the candidates below `root`, where the cgroup file systems are mounted. `own` is the content of
    /// `/proc/self/cgroup`.
    pub(super) fn read(root: &Path, own: &str) -> Self {
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
            // In a container, the path may refer to the container's host and may not exist in the container's own
            // mount, so fall back to the root of the mount. Resolve links, because two controllers may share one
            // directory.
            let dirs = [path.map(|it| root.join(name).join(it)), Some(root.join(name))];
            let dir = dirs.into_iter().flatten().find_map(|it| it.canonicalize().ok());
            parents.extend(dir.map(|it| (controller, it)));
        }
        Self { candidates: vec![parents], version: Version::One }
    }

    /// Returns the candidates in version 2, which are the group of this process and the parent of that group. The group
    /// of this process can have child groups only if it is the root group.
    fn version_two(root: &Path, own: &str) -> Self {
        let path = own.lines().find_map(|it| it.strip_prefix("0::/")).unwrap_or_default();
        let own_group = root.join(path);
        let parent = own_group.parent().filter(|it| it.starts_with(root)).map(Path::to_path_buf);
        let all = [
            Controller::Memory,
            Controller::Processes,
            Controller::Cpu,
            Controller::CpuTime,
            Controller::Freezer,
        ];
        let dirs = [Some(own_group), parent].into_iter().flatten();
        let candidates =
            dirs.map(|it| ControllerDirs::from(all.map(|of| (of, it.clone())))).collect();
        Self { candidates, version: Version::Two }
    }

    /// Returns the directories in which a group's directories may be created. May contain duplicates.
    pub(super) fn parents(&self) -> impl Iterator<Item = &Path> {
        self.candidates.iter().flat_map(|it| it.values().map(PathBuf::as_path))
    }

    /// Creates a group in the first candidate that allows it. Returns the directory of the group for each controller.
    pub(super) fn create(&self, name: &str, limits: &Limits) -> Option<ControllerDirs> {
        self.candidates.iter().find_map(|it| self.create_in(it, name, limits))
    }

    fn create_in(
        &self,
        parents: &ControllerDirs,
        name: &str,
        limits: &Limits,
    ) -> Option<ControllerDirs> {
        if self.version == Version::Two
            && !parents.values().next().is_some_and(|it| enable_controllers(it))
        {
            return None;
        }
        let mut dirs = BTreeMap::new();
        for (controller, parent) in parents {
            let dir = parent.join(name);
            let created = fs::create_dir(&dir);
            let exists = created.is_ok() || dirs.values().any(|it| *it == dir);
            if exists && apply_limits(self.version, *controller, &dir, limits).is_ok() {
                dirs.insert(*controller, dir);
            } else if created.is_ok() {
                let _ = fs::remove_dir(&dir);
            }
        }
        (!dirs.is_empty()).then_some(dirs)
    }
}

/// Enables the controllers that a version 2 group has not yet enabled for its child groups. Returns whether the memory
/// controller is enabled for them.
fn enable_controllers(dir: &Path) -> bool {
    let file = dir.join("cgroup.subtree_control");
    let enabled = || fs::read_to_string(&file).unwrap_or_default();
    for controller in ["memory", "pids", "cpu"] {
        if !enabled().split_whitespace().any(|it| it == controller) {
            // Write each controller separately, so that the others are enabled even if one is missing.
            let _ = fs::write(&file, format!("+{controller}"));
        }
    }
    enabled().contains("memory")
}

fn apply_limits(
    version: Version,
    controller: Controller,
    dir: &Path,
    limits: &Limits,
) -> io::Result<()> {
    let write = |file: &str, value: String| fs::write(dir.join(file), value);
    let period = 100_000;
    let quota = ((limits.cpus * f64::from(period)) as u64).max(1000);
    let processes = limits.processes.saturating_add(BACKEND_PROCESSES);
    match (version, controller) {
        (Version::One, Controller::Memory) => {
            write("memory.limit_in_bytes", limits.memory.to_string())?;
            // This file is missing if the kernel does not account for swap. Such machines usually have no swap.
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

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::{Controller, Tree, Version};

    fn dir(root: &Path, path: &str) {
        fs::create_dir_all(root.join(path)).unwrap();
    }

    #[test]
    fn version_one_groups_are_found_from_proc_self_cgroup() {
        let root = tempfile::tempdir().unwrap();
        for path in ["memory/user/x", "pids", "cpu,cpuacct"] {
            dir(root.path(), path);
        }
        for name in ["cpu", "cpuacct"] {
            std::os::unix::fs::symlink("cpu,cpuacct", root.path().join(name)).unwrap();
        }
        let tree = Tree::read(root.path(), "4:memory:/user/x\n3:pids:/gone\n1:name=systemd:/\n");
        assert_eq!(tree.version, Version::One);
        let [parents] = tree.candidates.as_slice() else { panic!("{:?}", tree.candidates) };
        assert_eq!(parents[&Controller::Memory], root.path().join("memory/user/x"));
        assert_eq!(parents[&Controller::Processes], root.path().join("pids"));
        assert!(!parents.contains_key(&Controller::Freezer));
        // Two controllers that share one directory, as on many systems, are both available.
        assert_eq!(parents[&Controller::Cpu], parents[&Controller::CpuTime]);
        let group = tree.create("guest", &crate::Limits::default()).unwrap();
        assert_eq!(group[&Controller::Cpu], group[&Controller::CpuTime]);
        assert_eq!(group.len(), 4);
    }

    #[test]
    fn version_two_tree_changes_only_when_a_group_is_created() {
        let root = tempfile::tempdir().unwrap();
        dir(root.path(), "service/main");
        fs::write(root.path().join("cgroup.controllers"), "memory pids cpu").unwrap();
        let [service, main] = ["service", "service/main"].map(|it| root.path().join(it));
        let tree = Tree::read(root.path(), "0::/service/main\n");
        assert_eq!(tree.version, Version::Two);
        let was_changed = |it: &Path| it.join("cgroup.subtree_control").exists();
        assert!(!was_changed(&service) && !was_changed(&main));
        // The group of this process is not used as the parent, because the kernel refuses to enable controllers in a
        // group that contains a process. Here, a directory in place of the file makes the write fail in the same way.
        dir(&main, "cgroup.subtree_control");
        fs::write(service.join("cgroup.subtree_control"), "cpu memory pids").unwrap();
        let group = tree.create("guest", &crate::Limits::default()).unwrap();
        assert!(group.values().all(|it| *it == service.join("guest")), "{group:?}");
        // Controllers that are already enabled are not enabled again.
        let enabled = fs::read_to_string(service.join("cgroup.subtree_control")).unwrap();
        assert_eq!(enabled, "cpu memory pids");
    }

    #[test]
    fn own_group_is_preferred_if_it_can_have_children() {
        let root = tempfile::tempdir().unwrap();
        dir(root.path(), "service");
        fs::write(root.path().join("cgroup.controllers"), "memory").unwrap();
        let service = root.path().join("service");
        fs::write(service.join("cgroup.subtree_control"), "cpu memory pids").unwrap();
        let tree = Tree::read(root.path(), "0::/service\n");
        let group = tree.create("guest", &crate::Limits::default()).unwrap();
        assert!(group.values().all(|it| *it == service.join("guest")), "{group:?}");
    }
}
