//! Tests that the next host process that starts removes everything that a killed host process has left behind.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    os::{
        fd::AsRawFd,
        unix::{fs::chown, process::CommandExt},
    },
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use sandbox_vm::sandbox_dir;

use crate::{HOSTILE, start_host};

/// Returns the ids of a process and all its descendants.
fn descendants(parent: u32) -> Vec<u32> {
    let mut all = vec![parent];
    let mut index = 0;
    while let Some(pid) = all.get(index).copied() {
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        for task in tasks {
            let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            all.extend(children.split_whitespace().filter_map(|it| it.parse::<u32>().ok()));
        }
        index += 1;
    }
    all
}

fn alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z') && !rest.starts_with('X'))
}

/// Time in which processes and mounts must appear or disappear. It is long, because the machine may be busy.
const TIMEOUT: Duration = Duration::from_secs(600);

fn until_dead(pids: &[u32]) {
    let deadline = Instant::now() + TIMEOUT;
    while pids.iter().any(|it| alive(*it)) {
        assert!(Instant::now() < deadline, "still alive: {pids:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Returns the control groups of the sandboxes with these ids.
fn groups(ids: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    let mut open = vec![Path::new("/sys/fs/cgroup").to_path_buf()];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|it| it.is_dir()) {
                let name = entry.file_name().to_string_lossy().into_owned();
                if ids.iter().any(|it| name.contains(it)) {
                    found.push(entry.path().display().to_string());
                }
                open.push(entry.path());
            }
        }
    }
    found
}

/// State of the guests at the time their host is killed.
#[derive(Clone, Copy, PartialEq)]
enum GuestState {
    /// The guests are running. They notice that the host is gone, and exit.
    Running,
    /// The guests are paused. The stages, which are the guests' parent processes, notice that the host is gone and kill
    /// the guests.
    Paused,
    /// The guests and their stages are stopped by a signal, so they cannot exit.
    Stopped,
    /// The guests' programs are ordinary processes on this machine, and keep running.
    Detached,
}

/// The user that runs the host.
#[derive(Clone, Copy, PartialEq)]
enum HostUser {
    /// The user that runs the test.
    Current,
    /// An unprivileged user. Its processes cannot be killed through a control group, because it cannot create one.
    Nobody,
}

fn check(backend: &str, count: usize, guests: GuestState, user: HostUser) {
    check_host(Path::new(HOSTILE), backend, count, guests, user);
}

fn check_host(program: &Path, backend: &str, count: usize, guests: GuestState, user: HostUser) {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state");
    let mounts = Leftovers::mounts();
    let mut host = Command::new(program);
    host.args(["host", backend, &count.to_string(), &state.display().to_string()]);
    // Use a separate registry of state directories, so that concurrent tests do not clean up after this host.
    host.env("SANDBOX_VM_STATE", dir.path().join("usual"));
    if user == HostUser::Nobody && rustix::process::geteuid().is_root() {
        chown(dir.path(), Some(65_534), Some(65_534)).unwrap();
        host.uid(65_534).gid(65_534).env("TMPDIR", dir.path()).env_remove("XDG_RUNTIME_DIR");
    }
    let mut host = start_host(&mut host);

    // With the in-process back end, every third sandbox runs a program that starts another process. With all other back
    // ends, each sandbox has two processes: a stage, which is a child of the host, and the guest, which the stage
    // starts.
    let least = if guests == GuestState::Detached { 2 * count.div_ceil(3) } else { 2 * count };
    let deadline = Instant::now() + TIMEOUT;
    let pids = loop {
        let pids = descendants(host.id());
        if pids.len() > least {
            break pids;
        }
        assert!(Instant::now() < deadline, "{count} sandboxes have {} processes", pids.len());
        std::thread::sleep(Duration::from_millis(20));
    };
    let own_sockets = sockets_of("self");
    let mut sockets: BTreeSet<String> =
        pids.iter().flat_map(|it| sockets_of(&it.to_string())).collect();
    sockets.retain(|it| !own_sockets.contains(it));
    let mounts = Leftovers::mounts().difference(&mounts).cloned().collect();
    let leftovers = Leftovers { mounts, sockets };
    let own: BTreeSet<String> = namespaces("self").into_keys().collect();
    let mut theirs: BTreeMap<String, File> =
        pids.iter().flat_map(|it| namespaces(&it.to_string())).collect();
    theirs.retain(|name, _| !own.contains(name));
    // Users other than root may not be able to see the namespaces of other processes, so the assertion applies only to
    // root.
    let shown = !theirs.is_empty() || !rustix::process::geteuid().is_root();
    assert!(shown || guests == GuestState::Detached, "guests without namespaces");
    let ids: Vec<String> = fs::read_dir(&state)
        .unwrap()
        .map(|it| it.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(ids.len(), count);
    // Make this test's user the owner of the state directory, because `remove_orphans` ignores directories of other
    // users.
    chown(&state, Some(rustix::process::geteuid().as_raw()), None).unwrap();
    // The sandboxes of a host that is still alive must not be removed.
    assert_eq!(sandbox_dir::remove_orphans(&state), 0);
    let stop: &[u32] = match guests {
        GuestState::Running | GuestState::Detached => &[],
        // `pids` starts with the id of the host, followed by the id of one stage per guest.
        GuestState::Paused => &pids[1 + count..],
        GuestState::Stopped => &pids[1..],
    };
    for pid in stop.iter().filter_map(|it| Pid::from_raw(i32::try_from(*it).unwrap())) {
        kill_process(pid, Signal::STOP).unwrap();
    }
    host.kill().unwrap();
    host.wait().unwrap();
    match guests {
        GuestState::Running | GuestState::Paused => until_dead(&pids),
        GuestState::Stopped | GuestState::Detached => assert!(alive(pids[1])),
    }
    assert_eq!(sandbox_dir::remove_orphans(&state), count);
    until_dead(&pids);
    assert_eq!(fs::read_dir(&state).unwrap().count(), 0);
    assert_eq!(groups(&ids), Vec::<String>::new());
    assert_eq!(processes_in(&theirs), Vec::<String>::new());
    leftovers.wait_until_gone();
}

/// Returns the namespaces of a process, keyed by name. The files stay open, because the kernel could otherwise reuse
/// the number of a removed namespace for another test's guest.
fn namespaces(process: &str) -> BTreeMap<String, File> {
    let links = fs::read_dir(format!("/proc/{process}/ns")).into_iter().flatten().flatten();
    let open = links.filter_map(|it| File::open(it.path()).ok());
    // Read the namespace's name through the open file, because that works even if the process has exited.
    let named = open.filter_map(|it| {
        let name = fs::read_link(format!("/proc/self/fd/{}", it.as_raw_fd())).ok()?;
        Some((name.display().to_string(), it))
    });
    named.collect()
}

/// Returns the ids of the processes that are in any of these namespaces.
fn processes_in(theirs: &BTreeMap<String, File>) -> Vec<String> {
    let all = fs::read_dir("/proc").unwrap().flatten();
    let all = all.filter_map(|it| it.file_name().to_str()?.parse::<u32>().ok());
    let is_in = |pid: &u32| namespaces(&pid.to_string()).keys().any(|it| theirs.contains_key(it));
    // Check `alive` too, because the kernel still shows the namespaces of a process that has exited but has not been
    // reaped.
    let found = all.filter(|it| alive(*it) && is_in(it));
    found.map(|it| it.to_string()).collect()
}

/// Returns the numbers of the sockets that a process has open.
fn sockets_of(process: &str) -> BTreeSet<String> {
    let open = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
    let targets =
        open.filter_map(|it| fs::read_link(it.path()).ok()?.into_os_string().into_string().ok());
    targets
        .filter_map(|it| Some(it.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned()))
        .collect()
}

/// Mounts and sockets that a sandbox could leave behind. They do not contain the sandbox's name, so they are recognised
/// by their ids.
struct Leftovers {
    /// The mounts that were made while the sandboxes were created, including those of concurrent tests. Later mounts do
    /// not count.
    mounts: BTreeSet<String>,
    /// The sockets of the sandboxes. Sockets of other programs on the machine do not count.
    sockets: BTreeSet<String>,
}

impl Leftovers {
    fn mounts() -> BTreeSet<String> {
        // Each line starts with the unique id of the mount.
        fs::read_to_string("/proc/self/mountinfo").unwrap().lines().map(str::to_owned).collect()
    }

    fn sockets() -> BTreeSet<String> {
        let table = fs::read_to_string("/proc/net/unix").unwrap();
        // The seventh field is the number of the socket.
        table
            .lines()
            .skip(1)
            .filter_map(|it| it.split_whitespace().nth(6))
            .map(str::to_owned)
            .collect()
    }

    /// Waits until none of these mounts and sockets are left. Waiting is necessary because concurrent tests also create
    /// mounts and remove them later.
    fn wait_until_gone(&self) {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let mounts: Vec<_> = Self::mounts().intersection(&self.mounts).cloned().collect();
            let sockets: Vec<_> = Self::sockets().intersection(&self.sockets).cloned().collect();
            if mounts.is_empty() && sockets.is_empty() {
                return;
            }
            assert!(
                Instant::now() < deadline,
                "left behind: mounts {mounts:?}, sockets {sockets:?}"
            );
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

#[test]
fn guests_of_killed_host_exit_and_next_start_removes_the_rest() {
    check("jail", 20, GuestState::Running, HostUser::Current);
}

#[test]
fn stopped_guests_of_killed_host_are_killed_by_next_start() {
    check("jail", 3, GuestState::Stopped, HostUser::Current);
    check("jail", 3, GuestState::Stopped, HostUser::Nobody);
}

#[test]
fn paused_guests_end_with_their_host() {
    check("jail", 3, GuestState::Paused, HostUser::Current);
    check("jail", 3, GuestState::Paused, HostUser::Nobody);
}

#[test]
fn micro_vms_of_killed_host_leave_nothing_behind() {
    if crate::microvm::micro_vm().is_none() {
        return;
    }
    // The host starts its own program as the agent of its VMs, so run the host from the static agent program.
    let host = crate::microvm::agent().unwrap();
    // Use few VMs, because an emulated VM takes seconds to start.
    check_host(&host, "microvm", 2, GuestState::Running, HostUser::Current);
    check_host(&host, "microvm", 1, GuestState::Paused, HostUser::Nobody);
    check_host(&host, "microvm", 1, GuestState::Stopped, HostUser::Current);
}

#[tokio::test]
async fn gvisor_guests_of_killed_host_leave_nothing_behind() {
    if crate::suite::gvisor().await.is_none() {
        return;
    }
    check("gvisor", 6, GuestState::Running, HostUser::Current);
    check("gvisor", 3, GuestState::Stopped, HostUser::Current);
    check("gvisor", 3, GuestState::Stopped, HostUser::Nobody);
}

#[cfg(target_arch = "x86_64")]
#[tokio::test]
async fn kvm_processes_of_killed_host_leave_nothing_behind() {
    if crate::kvm_process::backends().await.is_empty() {
        return;
    }
    check("kvm-process", 6, GuestState::Running, HostUser::Current);
    check("kvm-process", 3, GuestState::Stopped, HostUser::Current);
}

#[test]
fn in_process_programs_are_killed_by_next_start() {
    check("in-process", 6, GuestState::Detached, HostUser::Current);
}
