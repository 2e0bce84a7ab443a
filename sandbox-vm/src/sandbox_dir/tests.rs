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

/// A state folder with one sandbox directory as a crash leaves it: a list, and nobody who holds the lock. The process is on it.
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

/// A sandbox directory that no other test's start finds.
fn sandbox_dir(state: &Path) -> SandboxDir {
    SandboxDir::create_registered(&Registry::beside(state.to_owned()), state, &id()).unwrap()
}

/// Makes a folder so old that whoever made it is done with it.
fn age(dir: &Path) {
    let hours_ago = SystemTime::now() - Duration::from_secs(7200);
    File::open(dir).unwrap().set_modified(hours_ago).unwrap();
}

#[test]
fn a_berth_in_use_is_left_alone_and_an_orphan_is_removed() {
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
fn a_folder_that_others_can_write_to_is_refused() {
    let state = tempfile::tempdir().unwrap();
    fs::set_permissions(state.path(), Permissions::from_mode(0o777)).unwrap();
    assert!(SandboxDir::create(state.path(), "x").is_err());
}

#[test]
fn nothing_is_done_that_a_folder_of_somebody_else_asks_for() {
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
fn folders_that_are_no_berths_are_left_alone_though_they_look_like_orphans() {
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

/// Whoever is ended while it removes a sandbox directory leaves some of it; the next start finds all of that.
#[test]
fn a_berth_that_is_removed_in_part_is_removed_by_the_next_start() {
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
    let there = fs::read_dir(state.path()).unwrap().count();
    assert_eq!(there, 0, "folders that no start removes");
}

/// One that is removed keeps its lock to the last: until then it is known for what it is.
#[test]
fn the_lock_of_a_berth_goes_last() {
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
fn a_process_of_an_earlier_start_of_the_machine_is_gone() {
    let (state, dead, mut process) = crashed();
    let known = serde_json::to_string(&Leftover::process(process.id())).unwrap();
    let boot = super::reaper::current_boot_id();
    assert!(known.contains(&boot) && !boot.is_empty(), "{known}");
    fs::write(dead.join("leftovers"), known.replace(&boot, "another")).unwrap();
    assert_eq!(remove_orphans(state.path()), 1);
    assert!(process.try_wait().unwrap().is_none(), "it has the number and the time of another");
    process.kill().unwrap();
    process.wait().unwrap();
}

#[test]
fn a_group_is_ended_with_its_leader() {
    use std::os::unix::process::CommandExt;
    let state = tempfile::tempdir().unwrap();
    let sandbox_dir = sandbox_dir(state.path());
    let script = "sleep 1000 & echo $!; wait";
    let mut leader = Command::new("sh");
    leader.args(["-c", script]).process_group(0).stdout(std::process::Stdio::piped());
    let mut leader = leader.spawn().unwrap();
    let mut member = String::new();
    let mut said = std::io::BufReader::new(leader.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut said, &mut member).unwrap();
    sandbox_dir.record_leftovers(Leftover::process_group(leader.id())).unwrap();
    drop(sandbox_dir);
    assert!(!leader.wait().unwrap().success());
    let stat = PathBuf::from(format!("/proc/{}/stat", member.trim()));
    let until = std::time::Instant::now() + Duration::from_secs(10);
    while fs::read_to_string(&stat).is_ok_and(|it| !it.contains(") Z")) {
        assert!(std::time::Instant::now() < until, "the member of the group is still there");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_list_is_no_longer_than_what_may_be_there() {
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
fn a_list_of_leftovers_names_no_command() {
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
fn nobody_else_can_look_into_a_berth() {
    let state = tempfile::tempdir().unwrap();
    fs::set_permissions(state.path(), Permissions::from_mode(0o755)).unwrap();
    let sandbox_dir = sandbox_dir(state.path());
    assert_eq!(fs::metadata(sandbox_dir.path()).unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn a_berth_that_is_being_made_is_left_alone_and_one_that_never_was_is_removed() {
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

/// Makers and reapers at once: none makes another fail.
#[test]
fn berths_are_made_while_others_reap() {
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
fn what_is_left_when_a_berth_is_dropped_is_removed() {
    let state = tempfile::tempdir().unwrap();
    let sandbox_dir = sandbox_dir(state.path());
    let mut process = Command::new("sleep").arg("1000").spawn().unwrap();
    sandbox_dir.record_leftovers(Leftover::process(process.id())).unwrap();
    let dir = sandbox_dir.path().to_owned();
    drop(sandbox_dir);
    assert!(!process.wait().unwrap().success());
    assert!(!dir.exists());
}

/// A container of an engine that is not there cannot be removed, nor said to be gone.
#[test]
fn a_berth_stays_for_the_next_start_while_something_of_it_does() {
    let state = tempfile::tempdir().unwrap();
    let sandbox_dir = sandbox_dir(state.path());
    let host = format!("unix://{}", state.path().join("no-engine").display());
    let name = format!("{}{}", super::CONTAINER_PREFIX, sandbox_dir.id());
    sandbox_dir.record_leftovers(Leftover::Container { host, name }).unwrap();
    let dir = sandbox_dir.path().to_owned();
    drop(sandbox_dir);
    // Its thread lets go of the lock when it gives up; a start meanwhile leaves it alone.
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
fn folders_with_berths_are_known_until_they_have_none() {
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
fn links_that_somebody_else_could_have_made_are_not_followed() {
    let dir = tempfile::tempdir().unwrap();
    let [usual, other] = ["usual", "other"].map(|it| dir.path().join(it));
    let registry = Registry::beside(usual.clone());
    let _berth = SandboxDir::create_registered(&registry, &other, &id()).unwrap();
    assert_eq!(registry.state_dirs().len(), 1);
    fs::set_permissions(&usual, Permissions::from_mode(0o777)).unwrap();
    assert!(registry.state_dirs().is_empty());
}
