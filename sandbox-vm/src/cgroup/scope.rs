//! Control groups from the user's service manager, for users who may not create groups beside their own.
//!
//! In a login session with systemd, the group of a process belongs to root, and so does its parent group. But the
//! user's own service manager owns a part of the tree and starts programs in new groups there, which it calls scopes. A
//! guest that needs a group is therefore started with `systemd-run --user --scope`, which creates the scope with the
//! guest's limits, enters it, and then becomes the guest's program.
//!
//! The service manager is not trusted: the kernel's files are read before a limit is claimed, and again for each guest.

use std::{
    collections::BTreeMap,
    env,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::OnceLock,
    thread,
    time::{Duration, Instant},
};

use graph_core::checkpoint::CheckpointId;

use super::tree::{BACKEND_PROCESSES, Controller, ControllerDirs, PREFIX, ROOT};
use crate::limits::Limits;

/// How long the service manager may take to start the scope with which it is tested.
const PROBE_TIMEOUT: Duration = Duration::from_secs(30);

/// Environment variables that `systemd-run` needs in order to find the user's service manager.
const VARIABLES: [&str; 2] = ["XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS"];

/// The user's service manager, which can start programs in scopes.
#[derive(Clone, Debug)]
pub(super) struct ServiceManager {
    /// The program `systemd-run`.
    program: PathBuf,
    variables: Vec<(&'static str, OsString)>,
    /// Mount point of version 2 of the cgroup file system.
    root: PathBuf,
    /// Mount point of the proc file system.
    proc: PathBuf,
}

/// A service manager whose scopes have limits.
#[derive(Clone, Debug)]
pub(super) struct Scopes {
    manager: ServiceManager,
    /// The directory in which scopes are created.
    parent: PathBuf,
    /// The controllers that scopes have. Memory is among them.
    controllers: Vec<Controller>,
}

/// A scope, which exists as soon as its first process runs.
#[derive(Clone, Debug)]
pub(crate) struct Scope {
    manager: ServiceManager,
    unit: String,
    limits: Limits,
    dir: PathBuf,
}

impl Scopes {
    /// Returns the scopes of this user, or `None` if this machine has none that limit memory. The result of the first
    /// call is cached.
    pub(super) fn find() -> Option<&'static Self> {
        static FOUND: OnceLock<Option<Scopes>> = OnceLock::new();
        FOUND.get_or_init(|| ServiceManager::of_this_user()?.test_scope()).as_ref()
    }

    /// Returns the directory of the scope for a guest.
    pub(super) fn dir(&self, id: &str) -> PathBuf {
        self.parent.join(unit_name(id))
    }

    /// Returns the scope for a guest and the directory for each of its controllers. Does not create them.
    pub(super) fn scope(&self, id: &str, limits: &Limits) -> (Scope, ControllerDirs) {
        let dir = self.dir(id);
        let dirs: BTreeMap<_, _> = self.controllers.iter().map(|it| (*it, dir.clone())).collect();
        (
            Scope {
                manager: self.manager.clone(),
                unit: unit_name(id),
                limits: limits.clone(),
                dir,
            },
            dirs,
        )
    }
}

impl Scope {
    /// Returns a command that starts a program in the scope, with an environment that contains only what `systemd-run`
    /// needs.
    pub(crate) fn command(&self, program: &Path) -> Command {
        // `systemd-run` would resolve `/proc/self/exe` to its own program, so the path names this process instead.
        let program = match program.to_str() {
            Some("/proc/self/exe") => format!("/proc/{}/exe", std::process::id()).into(),
            _ => program.to_owned(),
        };
        let limits = &self.limits;
        let tasks = limits.processes.saturating_add(BACKEND_PROCESSES);
        let percent = ((limits.cpus * 100.0) as u64).max(1);
        let mut command = Command::new(&self.manager.program);
        command.args(["--user", "--scope", "--quiet", "--collect"]);
        command.arg(format!("--unit={}", self.unit));
        for property in [
            format!("MemoryMax={}", limits.memory),
            "MemorySwapMax=0".to_owned(),
            format!("TasksMax={tasks}"),
            format!("CPUQuota={percent}%"),
        ] {
            command.arg(format!("--property={property}"));
        }
        command.arg("--").arg(program);
        command.env_clear().envs(self.manager.variables.iter().cloned());
        command
    }

    /// Returns whether a process is in the scope and the kernel limits the scope's memory.
    pub(crate) fn limits_process(&self, pid: u32) -> bool {
        self.manager.group_of(pid).as_deref() == Some(&*self.dir) && self.limits_memory()
    }

    fn limits_memory(&self) -> bool {
        // The kernel rounds the limit down to whole pages.
        let limit = fs::read_to_string(self.dir.join("memory.max")).unwrap_or_default();
        limit.trim().parse::<u64>().is_ok_and(|it| it <= self.limits.memory)
    }
}

impl ServiceManager {
    /// Returns the service manager of this user, or `None` if the user is root, the machine does not use cgroup version
    /// 2, or `systemd-run` is not installed.
    fn of_this_user() -> Option<Self> {
        let is_version_two = Path::new(ROOT).join("cgroup.controllers").exists();
        if rustix::process::geteuid().is_root() || !is_version_two {
            return None;
        }
        let paths = env::var_os("PATH").unwrap_or_default();
        let mut programs = env::split_paths(&paths).map(|it| it.join("systemd-run"));
        let variables = VARIABLES.into_iter().filter_map(|it| Some((it, env::var_os(it)?)));
        Some(Self {
            program: programs.find(|it| it.is_file())?,
            variables: variables.collect(),
            root: ROOT.into(),
            proc: "/proc".into(),
        })
    }

    /// Starts a scope and reads which controllers it has. Returns `None` if its memory is not limited.
    fn test_scope(&self) -> Option<Scopes> {
        let unit = unit_name(&format!("test-{}", CheckpointId::next()));
        let (limits, dir) = (Limits::default(), PathBuf::new());
        let scope = Scope { manager: self.clone(), unit, limits, dir };
        // The program `cat` runs until its input closes.
        let mut command = scope.command(Path::new("cat"));
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().ok()?;
        let scopes = self.wait_for_scope(scope, &mut child);
        drop(child.stdin.take());
        let _ = child.kill();
        let _ = child.wait();
        scopes
    }

    fn wait_for_scope(&self, scope: Scope, child: &mut Child) -> Option<Scopes> {
        let deadline = Instant::now() + PROBE_TIMEOUT;
        let dir = loop {
            let group = self.group_of(child.id());
            if let Some(dir) = group.filter(|it| it.ends_with(&scope.unit)) {
                break dir;
            }
            if !matches!(child.try_wait(), Ok(None)) || Instant::now() > deadline {
                return None;
            }
            thread::sleep(Duration::from_millis(10));
        };
        let controllers = [
            (Controller::Memory, "memory.max"),
            (Controller::Processes, "pids.max"),
            (Controller::Cpu, "cpu.max"),
            (Controller::CpuTime, "cpu.stat"),
            (Controller::Freezer, "cgroup.freeze"),
        ];
        let has = |it: &(Controller, &str)| dir.join(it.1).is_file();
        let controllers = controllers.into_iter().filter(has).map(|it| it.0).collect();
        let parent = dir.parent()?.to_owned();
        let scope = Scope { dir, ..scope };
        scope.limits_memory().then_some(Scopes { manager: self.clone(), parent, controllers })
    }

    /// Returns the directory of the version 2 group that a process is in.
    fn group_of(&self, pid: u32) -> Option<PathBuf> {
        let groups = fs::read_to_string(self.proc.join(pid.to_string()).join("cgroup")).ok()?;
        Some(self.root.join(groups.lines().find_map(|it| it.strip_prefix("0::/"))?))
    }
}

fn unit_name(id: &str) -> String {
    format!("{PREFIX}{id}.scope")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script_file::write_script;

    /// Returns a service manager whose `systemd-run` is a script. The script creates the files that the kernel would
    /// provide, with `memory_max` as the memory limit of each scope.
    fn manager(dir: &Path, memory_max: &str) -> ServiceManager {
        let path = dir.display();
        let script = format!(
            "PATH=/usr/bin:/bin\n\
             for it; do\n\
             case \"$it\" in --unit=*) unit=${{it#--unit=}};; esac\n\
             [ \"$it\" = -- ] && break\n\
             echo \"$it\" >> {path}/args\n\
             done\n\
             while [ \"$1\" != -- ]; do shift; done; shift\n\
             echo \"runtime $XDG_RUNTIME_DIR, home $HOME\" >> {path}/args\n\
             mkdir -p \"{path}/root/user/$unit\" {path}/proc/$$\n\
             echo {memory_max} > \"{path}/root/user/$unit/memory.max\"\n\
             echo 9 > \"{path}/root/user/$unit/pids.max\"\n\
             echo \"0::/user/$unit\" > {path}/proc/$$/cgroup\n\
             exec \"$@\""
        );
        let program = dir.join("systemd-run");
        write_script(&program, &script);
        let variables = vec![("XDG_RUNTIME_DIR", "/run/user/7".into())];
        ServiceManager { program, variables, root: dir.join("root"), proc: dir.join("proc") }
    }

    #[test]
    fn scopes_are_used_if_the_kernel_shows_their_limits() {
        let dir = tempfile::tempdir().unwrap();
        let scopes = manager(dir.path(), &Limits::default().memory.to_string()).test_scope();
        let scopes = scopes.unwrap();
        assert_eq!(scopes.parent, dir.path().join("root/user"));
        assert_eq!(scopes.controllers, [Controller::Memory, Controller::Processes]);
        let limits = Limits { memory: 96 << 20, processes: 24, cpus: 0.5, ..Limits::default() };
        let (scope, dirs) = scopes.scope("guest", &limits);
        assert_eq!(dirs[&Controller::Memory], scopes.dir("guest"));

        fs::remove_file(dir.path().join("args")).unwrap();
        let output = scope.command(Path::new("echo")).arg("started").output().unwrap();
        assert_eq!(output.stdout, b"started\n");
        let args = fs::read_to_string(dir.path().join("args")).unwrap();
        let expected = "--user\n--scope\n--quiet\n--collect\n--unit=sandbox-vm-guest.scope\n\
                        --property=MemoryMax=100663296\n--property=MemorySwapMax=0\n\
                        --property=TasksMax=40\n--property=CPUQuota=50%\n\
                        runtime /run/user/7, home \n";
        assert_eq!(args, expected);
    }

    #[test]
    fn guests_outside_their_scope_and_unlimited_scopes_are_detected() {
        let dir = tempfile::tempdir().unwrap();
        assert!(manager(dir.path(), "max").test_scope().is_none());
        let manager = manager(dir.path(), &Limits::default().memory.to_string());
        let scopes = manager.test_scope().unwrap();
        let limits = Limits { memory: Limits::default().memory / 2, ..Limits::default() };
        for (id, limits, is_limited) in
            [("limited", Limits::default(), true), ("unlimited", limits, false)]
        {
            let (scope, _) = scopes.scope(id, &limits);
            let mut child = scope
                .command(Path::new("cat"))
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .spawn()
                .unwrap();
            while manager.group_of(child.id()).is_none() {
                thread::yield_now();
            }
            assert_eq!(scope.limits_process(child.id()), is_limited, "{id}");
            assert!(!scope.limits_process(std::process::id()));
            drop(child.stdin.take());
            child.wait().unwrap();
        }
    }

    #[test]
    fn failing_programs_are_not_used_as_service_managers() {
        let dir = tempfile::tempdir().unwrap();
        let mut manager = manager(dir.path(), "1");
        for program in ["false", "/no/such/program"] {
            manager.program = program.into();
            assert!(manager.test_scope().is_none(), "{program}");
        }
    }
}
