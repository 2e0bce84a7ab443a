//! Tests that a host process, when it starts, removes what crashed host processes left behind, even in other state
//! directories.

use std::{fs, path::Path, process::Command};

use sandbox_vm::sandbox_dir;

use crate::{HOSTILE, start_host};

/// Starts a host with `count` live sandboxes in a state directory, and kills it.
fn host(count: usize, state: &Path, default_state: &Path) {
    let mut host = Command::new(HOSTILE);
    host.args(["host", "jail", &count.to_string(), &state.display().to_string()]);
    let mut host = start_host(host.env("SANDBOX_VM_STATE", default_state));
    host.kill().unwrap();
    host.wait().unwrap();
}

#[test]
fn start_removes_orphaned_sandboxes_in_other_state_directories() {
    let dir = tempfile::tempdir().unwrap();
    let [default_state, first, second] =
        ["default_state", "first", "second"].map(|it| dir.path().join(it));
    let sandbox_dirs = |state: &Path| fs::read_dir(state).unwrap().count();
    host(2, &first, &default_state);
    assert_eq!(sandbox_dirs(&first), 2);
    host(1, &second, &default_state);
    assert_eq!((sandbox_dirs(&first), sandbox_dirs(&second)), (0, 1));
    // The first state directory is now empty, so it is no longer in the registry.
    let known = fs::read_dir(default_state.join("states")).unwrap();
    let known = known.filter_map(|it| fs::read_link(it.unwrap().path()).ok());
    assert_eq!(known.collect::<Vec<_>>(), std::slice::from_ref(&second));
    // Clean up the second state directory; otherwise its control groups would outlive the temporary directory.
    assert_eq!(sandbox_dir::remove_orphans(&second), 1);
}
