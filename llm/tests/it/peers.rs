//! Tests with third-party servers. They verify that the codecs implement the providers' protocols correctly.
//!
//! `cargo xtask test` downloads the servers. Without them the tests are skipped with a message.

mod aimock;
mod llama;

use std::{
    path::{Path, PathBuf},
    sync::OnceLock,
};

use test_support::{peers, server::Server};

/// A third-party server for tests.
#[derive(Debug)]
struct Peer {
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
        peers::find(self.folder, self.require)
    }
}
