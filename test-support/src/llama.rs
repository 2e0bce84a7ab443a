//! llama.cpp's server, which `cargo xtask test` installs together with a model that is small enough for every test.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use crate::peers;

/// Directory of the server in [`peers::dir`]; defined in `xtask/src/peers.rs`.
pub const FOLDER: &str = "llama-11549";

/// Name of the environment variable that makes tests fail instead of being skipped if the server is missing.
pub const REQUIRE: &str = "GRAPH_REQUIRE_LLAMA";

/// A server process: its model and its settings.
#[derive(Debug, Clone)]
pub struct Llama {
    /// Directory in which the server is installed.
    pub folder: PathBuf,
    /// Path of the model.
    pub model: PathBuf,
    /// Port on the loopback address. Zero: a free port, which the server prints.
    pub port: u16,
    /// Size of the context window in tokens.
    pub context: u32,
    /// Number of threads. On a busy machine, two threads mostly wait for each other.
    pub threads: u32,
}

impl Llama {
    /// Returns the server that is installed in `folder`, with the small model that is installed there too.
    pub fn new(folder: &Path) -> Self {
        let model = folder.join("model.gguf");
        Self { folder: folder.to_owned(), model, port: 0, context: 2048, threads: 1 }
    }

    /// Returns the installed server. Returns `None` if it is not installed; the test is then skipped.
    ///
    /// # Panics
    ///
    /// Panics if it is not installed and the environment variable [`REQUIRE`] is set.
    #[track_caller]
    pub fn find() -> Option<Self> {
        peers::find(FOLDER, REQUIRE).map(|it| Self::new(&it))
    }

    /// Returns the command that starts the server.
    pub fn command(&self) -> Command {
        let mut command = Command::new("python3");
        command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/src/llama.py")).arg(&self.model);
        command.args([u32::from(self.port), self.context, self.threads].map(|it| it.to_string()));
        command.env("PYTHONPATH", self.folder.join("python")).env("PYTHONDONTWRITEBYTECODE", "1");
        // With these settings, idle OS threads do not compete for the CPU.
        command.envs([("OMP_WAIT_POLICY", "passive"), ("GOMP_SPINCOUNT", "0")]);
        command
    }
}
