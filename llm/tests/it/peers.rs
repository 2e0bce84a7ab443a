//! Tests against third-party servers, which verify that the codecs implement the providers' protocols.
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

/// A server for tests.
#[derive(Debug)]
struct Peer {
    name: &'static str,
    /// Its directory, which xtask creates; the names are in `xtask/src/peers.rs`.
    folder: &'static str,
    /// Environment variable that makes tests fail instead of skip if the server is missing.
    require: &'static str,
    start: fn(&Path) -> Server,
    started: OnceLock<Server>,
}

impl Peer {
    /// Returns the server that all tests share, or prints which test is skipped.
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
        // Write to the handle, because the output of macros is shown only for failing tests.
        let _ = writeln!(io::stderr(), "SKIPPED: {test}: {why}");
        None
    }
}

/// Returns the directory of the servers, which is next to cargo's build output.
fn peers() -> PathBuf {
    if let Some(folder) = env::var_os("GRAPH_PEERS") {
        return PathBuf::from(folder);
    }
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("peers")
}
