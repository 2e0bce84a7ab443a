//! A host that is killed leaves nothing behind.

use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::{fs::chown, process::CommandExt},
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

    let pids = processes(host.id());
    assert!(pids.len() > 2 * count, "{count} sandboxes have {} processes", pids.len());
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
        Guests::Free => &[],
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
        Guests::Stopped => assert!(alive(pids[1])),
    }
    assert_eq!(berth::reap(&state), count);
    until_dead(&pids);
    assert_eq!(fs::read_dir(&state).unwrap().count(), 0);
    assert_eq!(groups(&ids), Vec::<String>::new());
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains(&state.display().to_string()), "{mounts}");
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
    check_host(&host, "microvm", 3, Guests::Paused, Host::Nobody);
    check_host(&host, "microvm", 3, Guests::Stopped, Host::Own);
}

#[tokio::test]
async fn nothing_of_gvisor_stays_behind_either() {
    if crate::suite::gvisor().await.is_none() {
        return;
    }
    check("gvisor", 5, Guests::Free, Host::Own);
    check("gvisor", 3, Guests::Stopped, Host::Own);
    check("gvisor", 3, Guests::Stopped, Host::Nobody);
}
