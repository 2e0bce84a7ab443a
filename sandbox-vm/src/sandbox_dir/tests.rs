use std::{
    fs::{self, File, Permissions},
    os::unix::fs::{PermissionsExt, chown},
    path::{Path, PathBuf},
    process::{Child, Command},
    time::{Duration, SystemTime},
};

use tempfile::TempDir;

use super::{
    CheckpointId, INCOMPLETE_PREFIX, Leftover, SandboxDir, registry::Registry, remove_orphans,
};

fn id() -> String {
    CheckpointId::next().to_string()
}

/// Creates a state directory with one sandbox directory in the state that a crash leaves behind. Its lock file is not
/// locked, and its list contains a running process. Returns the state directory, the sandbox directory and the process.
fn crashed() -> (TempDir, PathBuf, Child) {
    let dir = tempfile::tempdir().unwrap();
    let process = Command::new("sleep").arg("1000").spawn().unwrap();
    let dead = dir.path().join(id());
    fs::create_dir(&dead).unwrap();
    fs::write(dead.join("lock"), "").unwrap();
    let known = serde_json::to_string(&Leftover::process(process.id())).unwrap();
    let other = format!(r#"{{"process":{{"pid":{},"started":1}}}}"#, std::process::id());
    fs::write(dead.join("leftovers"), format!("{known}\n{other}\n{{\"cut")).unwrap();
    (dir, dead, process)
}

/// Creates a sandbox directory that is not in the user's registry, so that concurrent tests do not find it.
fn sandbox_dir(state: &Path) -> SandboxDir {
    SandboxDir::create_registered(&Registry::beside(state.to_owned()), state, &id()).unwrap()
}

/// Makes a directory appear older than the maximum time that creating it may take.
fn age(dir: &Path) {
    let hours_ago = SystemTime::now() - Duration::from_secs(7200);
    File::open(dir).unwrap().set_modified(hours_ago).unwrap();
}

#[test]
fn orphans_are_removed_and_directories_in_use_are_kept() {
    let (state, dead, mut process) = crashed();
    let sandbox_dir = sandbox_dir(state.path());
    assert_eq!(remove_orphans(state.path()), 1);
    assert!(!process.wait().unwrap().success());
    assert!(!dead.exists() && sandbox_dir.path().exists());
    let dir = sandbox_dir.path().to_owned();
    drop(sandbox_dir);
    assert!(!dir.exists());
}

#[test]
fn state_directory_writable_by_others_is_rejected() {
    let state = tempfile::tempdir().unwrap();
    fs::set_permissions(state.path(), Permissions::from_mode(0o777)).unwrap();
    assert!(SandboxDir::create(state.path(), "x").is_err());
}

#[test]
fn state_directory_of_another_user_is_ignored() {
    let (state, dead, mut process) = crashed();
    fs::set_permissions(state.path(), Permissions::from_mode(0o777)).unwrap();
    assert_eq!(remove_orphans(state.path()), 0);
    fs::set_permissions(state.path(), Permissions::from_mode(0o755)).unwrap();
    if rustix::process::geteuid().is_root() {
        chown(state.path(), Some(65_534), None).unwrap();
        assert_eq!(remove_orphans(state.path()), 0);
    }
    assert!(dead.exists() && process.try_wait().unwrap().is_none());
    process.kill().unwrap();
    process.wait().unwrap();
}

#[test]
fn unrelated_directories_are_kept() {
    let state = tempfile::tempdir().unwrap();
    let [letters, locked] = ["letters", "locked"].map(|it| state.path().join(it));
    let [empty, full] = [id(), format!("probe-{}", id())].map(|it| state.path().join(it));
    for dir in [&letters, &locked, &empty, &full] {
        fs::create_dir(dir).unwrap();
    }
    fs::write(locked.join("lock"), "").unwrap();
    fs::write(full.join("precious"), "").unwrap();
    fs::write(full.join("leftovers"), "").unwrap();
    for dir in [&letters, &locked, &empty, &full] {
        age(dir);
    }
    assert_eq!(remove_orphans(state.path()), 0);
    assert!(letters.exists() && locked.exists() && full.exists());
    assert!(!empty.exists());
}

/// If an owner is killed while it removes its sandbox directory, the next start removes the remaining entries,
/// whichever they are.
#[test]
fn partially_removed_directory_is_removed_by_the_next_start() {
    let state = tempfile::tempdir().unwrap();
    let contents = ["lock", "leftovers", "workspace"];
    for left in 0..1 << contents.len() {
        let dir = state.path().join(id());
        fs::create_dir(&dir).unwrap();
        for (nth, name) in contents.iter().enumerate().filter(|(nth, _)| left & (1 << nth) != 0) {
            match nth {
                2 => fs::create_dir_all(dir.join(name).join("below")).unwrap(),
                _ => fs::write(dir.join(name), "").unwrap(),
            }
        }
        age(&dir);
    }
    remove_orphans(state.path());
    let remaining = fs::read_dir(state.path()).unwrap().count();
    assert_eq!(remaining, 0, "directories that no start removes");
}

/// The lock file exists until all other entries are removed, so that a partially removed directory can be identified.
#[test]
fn lock_file_is_removed_last() {
    let state = tempfile::tempdir().unwrap();
    let sandbox_dir = sandbox_dir(state.path());
    let dir = sandbox_dir.path().to_owned();
    for nth in 0..50 {
        fs::write(dir.join(format!("file-{nth}")), "").unwrap();
    }
    let seen = std::thread::spawn(move || {
        let mut without = 0;
        while let Ok(entries) = fs::read_dir(&dir) {
            let names: Vec<_> = entries.flatten().map(|it| it.file_name()).collect();
            without += usize::from(!names.is_empty() && !names.iter().any(|it| it == "lock"));
        }
        without
    });
    drop(sandbox_dir);
    assert_eq!(seen.join().unwrap(), 0);
}

#[test]
fn process_of_an_earlier_boot_counts_as_gone() {
    let (state, dead, mut process) = crashed();
    let known = serde_json::to_string(&Leftover::process(process.id())).unwrap();
    let boot = super::leftover::current_boot_id();
    assert!(known.contains(&boot) && !boot.is_empty(), "{known}");
    fs::write(dead.join("leftovers"), known.replace(&boot, "another")).unwrap();
    assert_eq!(remove_orphans(state.path()), 1);
    assert!(
        process.try_wait().unwrap().is_none(),
        "killed a process that only has the id and the start time of the recorded one"
    );
    process.kill().unwrap();
    process.wait().unwrap();
}

#[test]
fn process_group_is_killed_with_its_leader() {
    use std::os::unix::process::CommandExt;
    let state = tempfile::tempdir().unwrap();
    let sandbox_dir = sandbox_dir(state.path());
    let script = "sleep 1000 & echo $!; wait";
    let mut leader = Command::new("sh");
    leader.args(["-c", script]).process_group(0).stdout(std::process::Stdio::piped());
    let mut leader = leader.spawn().unwrap();
    let mut member = String::new();
    let mut output = std::io::BufReader::new(leader.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut output, &mut member).unwrap();
    sandbox_dir.record_leftovers(Leftover::process_group(leader.id())).unwrap();
    drop(sandbox_dir);
    assert!(!leader.wait().unwrap().success());
    let stat = PathBuf::from(format!("/proc/{}/stat", member.trim()));
    let until = std::time::Instant::now() + Duration::from_secs(120);
    while fs::read_to_string(&stat).is_ok_and(|it| !it.contains(") Z")) {
        assert!(std::time::Instant::now() < until, "the member of the group is still running");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn list_is_truncated_when_all_leftovers_are_gone() {
    let state = tempfile::tempdir().unwrap();
    let sandbox_dir = sandbox_dir(state.path());
    for pid in 1..=100 {
        let leftover = Leftover::process(pid);
        sandbox_dir.record_leftovers(leftover.clone()).unwrap();
        sandbox_dir.leftovers().mark_removed(&leftover);
    }
    assert_eq!(fs::metadata(sandbox_dir.path().join("leftovers")).unwrap().len(), 0);
}

#[test]
fn commands_in_a_list_of_leftovers_are_not_run() {
    let state = tempfile::tempdir().unwrap();
    let (dead, trace) = (state.path().join(id()), state.path().join("trace"));
    fs::create_dir(&dead).unwrap();
    fs::write(dead.join("lock"), "").unwrap();
    let list = format!(r#"{{"command":["touch","{}"]}}"#, trace.display());
    fs::write(dead.join("leftovers"), list).unwrap();
    assert_eq!(remove_orphans(state.path()), 1);
    assert!(!trace.exists());
}

#[test]
fn sandbox_directory_is_private() {
    let state = tempfile::tempdir().unwrap();
    fs::set_permissions(state.path(), Permissions::from_mode(0o755)).unwrap();
    let sandbox_dir = sandbox_dir(state.path());
    assert_eq!(fs::metadata(sandbox_dir.path()).unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn incomplete_directory_is_removed_only_after_the_grace_period() {
    let state = tempfile::tempdir().unwrap();
    let [young, old] = [id(), id()].map(|it| state.path().join(format!("{INCOMPLETE_PREFIX}{it}")));
    for dir in [&young, &old] {
        fs::create_dir(dir).unwrap();
        fs::write(dir.join("lock"), "").unwrap();
    }
    age(&old);
    assert_eq!(remove_orphans(state.path()), 1);
    assert!(young.exists() && !old.exists());
}

/// Creating sandbox directories and removing orphans concurrently does not make either operation fail.
#[test]
fn directories_are_created_while_orphans_are_removed() {
    let state = tempfile::tempdir().unwrap();
    std::thread::scope(|it| {
        for _ in 0..2 {
            it.spawn(|| (0..300).for_each(|_| drop(sandbox_dir(state.path()))));
            it.spawn(|| (0..300).for_each(|_| assert_eq!(remove_orphans(state.path()), 0)));
        }
    });
    let left = fs::read_dir(state.path()).unwrap().count();
    assert_eq!(left, 0);
}

#[test]
fn dropping_a_directory_removes_its_leftovers() {
    let state = tempfile::tempdir().unwrap();
    let sandbox_dir = sandbox_dir(state.path());
    let mut process = Command::new("sleep").arg("1000").spawn().unwrap();
    sandbox_dir.record_leftovers(Leftover::process(process.id())).unwrap();
    let dir = sandbox_dir.path().to_owned();
    drop(sandbox_dir);
    assert!(!process.wait().unwrap().success());
    // If the process takes long to end, another thread removes the directory.
    let until = std::time::Instant::now() + Duration::from_secs(120);
    while dir.exists() {
        assert!(std::time::Instant::now() < until, "the directory was not removed");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The directory stays if a leftover cannot be removed. Here, that is a container in an engine that cannot be reached.
#[test]
fn directory_stays_while_a_leftover_cannot_be_removed() {
    let state = tempfile::tempdir().unwrap();
    let sandbox_dir = sandbox_dir(state.path());
    let host = format!("unix://{}", state.path().join("no-engine").display());
    let name = format!("{}{}", super::state_dir::CONTAINER_PREFIX, sandbox_dir.id());
    sandbox_dir.record_leftovers(Leftover::Container { host, name }).unwrap();
    let dir = sandbox_dir.path().to_owned();
    drop(sandbox_dir);
    // The clean-up thread releases the lock when it gives up. Until then, `remove_orphans` leaves the directory alone.
    let list = loop {
        assert_eq!(remove_orphans(state.path()), 0);
        let lock = File::open(dir.join("lock")).unwrap();
        if lock.try_lock().is_ok() {
            break fs::read_to_string(dir.join("leftovers")).unwrap();
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    assert!(list.contains("no-engine"), "{list}");
    assert_eq!(remove_orphans(state.path()), 0);
    assert!(dir.exists());
}

#[test]
fn state_directories_are_registered_until_they_are_empty() {
    let dir = tempfile::tempdir().unwrap();
    let [usual, other] = ["usual", "other"].map(|it| dir.path().join(it));
    let registry = Registry::beside(usual.clone());
    let make = |state: &Path| SandboxDir::create_registered(&registry, state, &id()).unwrap();
    let (one, two) = (make(&other), make(&other));
    let in_usual = make(&usual);
    assert_eq!(registry.state_dirs(), std::slice::from_ref(&other));
    drop(one);
    registry.remove_empty_entries();
    assert_eq!(registry.state_dirs(), std::slice::from_ref(&other));
    drop((two, in_usual));
    registry.remove_empty_entries();
    assert!(registry.state_dirs().is_empty());
}

#[test]
fn links_in_a_registry_writable_by_others_are_ignored() {
    let dir = tempfile::tempdir().unwrap();
    let [usual, other] = ["usual", "other"].map(|it| dir.path().join(it));
    let registry = Registry::beside(usual.clone());
    let _sandbox_dir = SandboxDir::create_registered(&registry, &other, &id()).unwrap();
    assert_eq!(registry.state_dirs().len(), 1);
    fs::set_permissions(&usual, Permissions::from_mode(0o777)).unwrap();
    assert!(registry.state_dirs().is_empty());
}
