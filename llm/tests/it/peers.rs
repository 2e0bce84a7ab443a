//! Servers that nobody here wrote: what they take for the protocols of the providers is what the protocols are.
//!
//! `cargo xtask test` fetches them. Without them these tests skip, and say so.

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

/// A server that tests can use.
#[derive(Debug)]
struct Peer {
    name: &'static str,
    /// Its folder, which xtask makes: the names are in `xtask/src/peers.rs`.
    folder: &'static str,
    /// The variable that makes tests fail, and not skip, without it.
    require: &'static str,
    start: fn(&Path) -> Server,
    started: OnceLock<Server>,
}

impl Peer {
    /// The server that all tests share, or a word on which test is skipped without it.
    fn shared(&'static self) -> Option<&'static Server> {
        let folder = self.folder()?;
        Some(self.started.get_or_init(|| (self.start)(&folder)))
    }

    fn folder(&self) -> Option<PathBuf> {
        let folder = peers().join(self.folder);
        if folder.is_dir() {
            return Some(folder);
        }
        let why =
            format!("{} is not in {}; `cargo xtask test` fetches it", self.name, folder.display());
        assert!(env::var_os(self.require).is_none(), "{why}");
        let test = thread::current().name().unwrap_or("a test").to_owned();
        // The handle itself: what goes through the macros is shown for failing tests alone.
        let _ = writeln!(io::stderr(), "SKIPPED: {test}: {why}");
        None
    }
}

/// Where xtask puts them: beside what cargo builds.
fn peers() -> PathBuf {
    if let Some(folder) = env::var_os("GRAPH_PEERS") {
        return PathBuf::from(folder);
    }
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("peers")
}
