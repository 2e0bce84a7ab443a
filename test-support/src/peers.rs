//! Programs and packages that `cargo xtask test` installs for the tests; see `xtask/src/peers.rs`.

use std::{env, path::PathBuf};

use crate::skip;

/// Returns the directory of all programs: `GRAPH_PEERS` if it is set, and otherwise `peers` in the target directory.
pub fn dir() -> PathBuf {
    if let Some(dir) = env::var_os("GRAPH_PEERS") {
        return dir.into();
    }
    let test = env::current_exe().expect("a test can read its path");
    // The test is `target/<profile>/deps/<name>-<hash>`.
    test.ancestors().nth(3).expect("a test is in the target directory").join("peers")
}

/// Returns the directory of a program. Returns `None` if it is not installed; the test is then skipped.
///
/// # Panics
///
/// Panics if the program is not installed and the environment variable that `require` names is set.
#[track_caller]
pub fn find(name: &str, require: &str) -> Option<PathBuf> {
    let dir = dir().join(name);
    if dir.is_dir() {
        return Some(dir);
    }
    skip(require, &format!("{} does not exist; `cargo xtask test` installs it", dir.display()));
    None
}
