//! A host that is killed leaves nothing behind.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io::{BufRead, BufReader},
    os::{
        fd::AsRawFd,
        unix::{fs::chown, process::CommandExt},
    },
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use sandbox_vm::berth;

use crate::HOSTILE;

/// The processes whose command line names the folder, or that are guests of a process that does.
fn processes(parent: u32) -> Vec<u32> {
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

fn until_dead(pids: &[u32]) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while pids.iter().any(|it| alive(*it)) {
        assert!(Instant::now() < deadline, "still alive: {pids:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The control groups that belong to the sandboxes of a folder.
fn groups(ids: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    let mut open = vec![Path::new("/sys/fs/cgroup").to_path_buf()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
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

/// What becomes of the guests when their host is killed.
#[derive(Clone, Copy, PartialEq)]
enum Guests {
    /// They see it, and end.
    Free,
    /// They are paused. Their stages see it, and end them.
    Paused,
    /// They are stopped together with their stages, and cannot.
    Stopped,
    /// They are programs of this machine like any other, and go on.
    Unaware,
}

/// Who the host is.
#[derive(Clone, Copy, PartialEq)]
enum Host {
    /// Whoever runs the test.
    Own,
    /// An ordinary user, who has no control groups that would end processes.
    Nobody,
}

fn check(backend: &str, count: usize, guests: Guests, who: Host) {
    check_host(Path::new(HOSTILE), backend, count, guests, who);
}

fn check_host(program: &Path, backend: &str, count: usize, guests: Guests, who: Host) {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let before = Machine::now();
    let mut host = Command::new(program);
    host.args(["host", backend, &count.to_string(), &state.display().to_string()]);
    // Where it keeps what it knows of other folders: the tests beside this one must not clean up after it.
    host.env("SANDBOX_VM_STATE", folder.path().join("usual"));
    if who == Host::Nobody && rustix::process::geteuid().is_root() {
        chown(folder.path(), Some(65_534), Some(65_534)).unwrap();
        host.uid(65_534).gid(65_534).env("TMPDIR", folder.path()).env_remove("XDG_RUNTIME_DIR");
    }
    let mut host = host.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(host.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");

    // In the host's own process every third sandbox runs a program, which has started another; otherwise each has a
    // stage and a guest.
    let least = if guests == Guests::Unaware { 2 * count.div_ceil(3) } else { 2 * count };
    let deadline = Instant::now() + Duration::from_secs(30);
    let pids = loop {
        let pids = processes(host.id());
        if pids.len() > least {
            break pids;
        }
        assert!(Instant::now() < deadline, "{count} sandboxes have {} processes", pids.len());
        std::thread::sleep(Duration::from_millis(20));
    };
    let own: BTreeSet<String> = namespaces("self").into_keys().collect();
    let mut theirs: BTreeMap<String, File> =
        pids.iter().flat_map(|it| namespaces(&it.to_string())).collect();
    theirs.retain(|name, _| !own.contains(name));
    // Others than root may not be shown them.
    let shown = !theirs.is_empty() || !rustix::process::geteuid().is_root();
    assert!(shown || guests == Guests::Unaware, "guests without namespaces");
    let ids: Vec<String> = fs::read_dir(&state)
        .unwrap()
        .map(|it| it.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(ids.len(), count);
    // Nobody's folder would be left alone by the reaper of somebody else, as this test is.
    chown(&state, Some(rustix::process::geteuid().as_raw()), None).unwrap();
    // A start beside a living host leaves its sandboxes alone.
    assert_eq!(berth::reap(&state), 0);
    let stop: &[u32] = match guests {
        Guests::Free | Guests::Unaware => &[],
        // The host comes first, then the stages, one for each guest.
        Guests::Paused => &pids[1 + count..],
        Guests::Stopped => &pids[1..],
    };
    for pid in stop.iter().filter_map(|it| Pid::from_raw(i32::try_from(*it).unwrap())) {
        kill_process(pid, Signal::STOP).unwrap();
    }
    host.kill().unwrap();
    host.wait().unwrap();
    match guests {
        Guests::Free | Guests::Paused => until_dead(&pids),
        Guests::Stopped | Guests::Unaware => assert!(alive(pids[1])),
    }
    assert_eq!(berth::reap(&state), count);
    until_dead(&pids);
    assert_eq!(fs::read_dir(&state).unwrap().count(), 0);
    assert_eq!(groups(&ids), Vec::<String>::new());
    assert_eq!(processes_in(&theirs), Vec::<String>::new());
    before.until_as_now();
}

/// The namespaces of a process, each held open: the kernel gives the number of one that is gone to the next that is
/// made, which another test's guest would then seem to be in.
fn namespaces(process: &str) -> BTreeMap<String, File> {
    let links = fs::read_dir(format!("/proc/{process}/ns")).into_iter().flatten().flatten();
    let open = links.filter_map(|it| File::open(it.path()).ok());
    // What is open has its name for good, whatever the process has become meanwhile.
    let named = open.filter_map(|it| {
        let name = fs::read_link(format!("/proc/self/fd/{}", it.as_raw_fd())).ok()?;
        Some((name.display().to_string(), it))
    });
    named.collect()
}

/// The processes in any of these namespaces.
fn processes_in(theirs: &BTreeMap<String, File>) -> Vec<String> {
    let all = fs::read_dir("/proc").unwrap().flatten();
    let all = all.filter_map(|it| it.file_name().to_str()?.parse::<u32>().ok());
    let is_in = |pid: &u32| namespaces(&pid.to_string()).keys().any(|it| theirs.contains_key(it));
    // Of one that has ended, and that nobody has waited for yet, the kernel still shows whose it was.
    let found = all.filter(|it| alive(*it) && is_in(it));
    found.map(|it| it.to_string()).collect()
}

/// What of the machine a sandbox could leave behind, besides what bears its name.
struct Machine {
    mounts: BTreeSet<String>,
    sockets: BTreeSet<String>,
}

impl Machine {
    fn now() -> Self {
        let lines = |file: &str| fs::read_to_string(file).unwrap();
        // Each line begins with a number that is the mount's alone.
        let mounts = lines("/proc/self/mountinfo").lines().map(str::to_owned).collect();
        // The eighth word is the path or the name of a socket; most have none.
        let unix = lines("/proc/net/unix");
        let sockets = unix.lines().skip(1).filter_map(|it| it.split_whitespace().nth(7));
        Self { mounts, sockets: sockets.map(str::to_owned).collect() }
    }

    /// Waits until nothing is there that was not: the tests beside this one have mounts and sockets too, for a while.
    fn until_as_now(&self) {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let now = Self::now();
            let mounts: Vec<_> = now.mounts.difference(&self.mounts).collect();
            let sockets: Vec<_> = now.sockets.difference(&self.sockets).collect();
            if mounts.is_empty() && sockets.is_empty() {
                return;
            }
            assert!(Instant::now() < deadline, "left behind: {mounts:?} {sockets:?}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

#[test]
fn guests_of_a_killed_host_end_by_themselves_and_the_next_start_removes_the_rest() {
    check("jail", 20, Guests::Free, Host::Own);
}

#[test]
fn guests_that_cannot_end_by_themselves_are_ended() {
    check("jail", 3, Guests::Stopped, Host::Own);
    check("jail", 3, Guests::Stopped, Host::Nobody);
}

#[test]
fn guests_that_are_paused_end_with_their_host_all_the_same() {
    check("jail", 3, Guests::Paused, Host::Own);
    check("jail", 3, Guests::Paused, Host::Nobody);
}

#[test]
fn nothing_of_a_vm_stays_behind_either() {
    if crate::microvm::micro_vm().is_none() {
        return;
    }
    // It is started as the agent of its own VMs.
    let host = crate::microvm::agent().unwrap();
    check_host(&host, "microvm", 3, Guests::Free, Host::Own);
    // An emulated one takes seconds to start.
    check_host(&host, "microvm", 1, Guests::Paused, Host::Nobody);
    check_host(&host, "microvm", 1, Guests::Stopped, Host::Own);
}

#[tokio::test]
async fn nothing_of_gvisor_stays_behind_either() {
    if crate::suite::gvisor().await.is_none() {
        return;
    }
    check("gvisor", 20, Guests::Free, Host::Own);
    check("gvisor", 3, Guests::Stopped, Host::Own);
    check("gvisor", 3, Guests::Stopped, Host::Nobody);
}

#[cfg(target_arch = "x86_64")]
#[tokio::test]
async fn nothing_of_a_vm_without_a_kernel_stays_behind_either() {
    if crate::kvm_process::kvm_process().await.is_none() {
        return;
    }
    // It is started as the agent of its own VMs.
    let host = crate::microvm::agent().unwrap();
    check_host(&host, "kvm-process", 6, Guests::Free, Host::Own);
    check_host(&host, "kvm-process", 3, Guests::Stopped, Host::Own);
}

#[test]
fn programs_in_the_host_process_are_ended_by_the_next_start() {
    check("in-process", 6, Guests::Unaware, Host::Own);
}
