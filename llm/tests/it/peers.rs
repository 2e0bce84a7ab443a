//! Tests with third-party servers. They verify that the codecs implement the providers' protocols correctly.
//!
//! `cargo xtask test` downloads the servers. Without them the tests are skipped with a message.

mod aimock;
mod llama;
mod server;

use std::{
    env,
    io::{self, Write},
    path::{Path, PathBuf},
    sync::OnceLock,
    thread,
};

use self::server::Server;

/// A third-party server for tests.
#[derive(Debug)]
struct Peer {
    name: &'static str,
    /// Name of the server's directory, which xtask creates. The names are defined in `xtask/src/peers.rs`.
    folder: &'static str,
    /// Name of an environment variable. If it is set and the server is missing, tests fail instead of being skipped.
    require: &'static str,
    start: fn(&Path) -> Server,
    started: OnceLock<Server>,
}

impl Peer {
    /// Returns the server that all tests share. If it is not installed, prints that the test is skipped and returns
    /// `None`.
    fn shared(&'static self) -> Option<&'static Server> {
        let folder = self.folder()?;
        Some(self.started.get_or_init(|| (self.start)(&folder)))
    }

    fn folder(&self) -> Option<PathBuf> {
        let folder = peers().join(self.folder);
        if folder.is_dir() {
            return Some(folder);
        }
        let why = format!(
            "{} is not in {}; `cargo xtask test` downloads it",
            self.name,
            folder.display()
        );
        assert!(env::var_os(self.require).is_none(), "{why}");
        let test = thread::current().name().unwrap_or("a test").to_owned();
        // Write to the stderr handle, because the test harness captures the output of `eprintln!` for passing tests.
        let _ = writeln!(io::stderr(), "SKIPPED: {test}: {why}");
        None
    }
}

/// Returns the directory of all servers, which is next to cargo's build output by default.
fn peers() -> PathBuf {
    if let Some(folder) = env::var_os("GRAPH_PEERS") {
        return PathBuf::from(folder);
    }
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("peers")
}
