//! Programs that `cargo xtask test` installs for the tests; see `xtask/src/peers.rs`.

use std::{
    env,
    io::{self, Write},
    path::{Path, PathBuf},
    thread,
};

/// Returns the directory of a program. Returns `None` if it is not installed; the test is then skipped, unless the
/// environment variable `require` is set.
pub(crate) fn find(name: &str, require: &str) -> Option<PathBuf> {
    let peers = env::var_os("GRAPH_PEERS").map_or_else(
        || Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("peers"),
        PathBuf::from,
    );
    let dir = peers.join(name);
    if dir.is_dir() {
        return Some(dir);
    }
    let why = format!("{} does not exist; `cargo xtask test` installs it", dir.display());
    assert!(env::var_os(require).is_none(), "{why}");
    let test = thread::current().name().unwrap_or("a test").to_owned();
    let _ = writeln!(io::stderr(), "SKIPPED: {test}: {why}");
    None
}
