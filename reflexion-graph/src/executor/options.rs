//! Options and fixed limits of the executor.

use std::path::PathBuf;

use crate::{
    language::{Language, Python},
    wheels::Wheels,
};

/// Maximum total size of a program's standard output and standard error, in bytes.
pub(crate) const OUTPUT: u64 = 1 << 20;

/// Maximum total size of the files that a program writes, in bytes.
pub(crate) const DISK: u64 = 64 << 20;

/// Maximum number of processes and OS threads in a sandbox.
pub(crate) const PROCESSES: u32 = 64;

/// Options of an [`Executor`](super::Executor).
#[derive(Debug)]
pub struct Options {
    /// Sandbox back end to use. If `None`, the jail is used, or the first other back end that works.
    pub backend: Option<String>,
    /// Maximum number of sandboxes, idle or in use.
    pub pool: usize,
    /// Memory of each sandbox in MiB.
    pub memory: u64,
    /// CPU share of each sandbox; 1.0 is one processor.
    pub cpus: f64,
    pub language: Box<dyn Language>,
    /// Packages that programs may use.
    pub wheels: Wheels,
    /// Directory into which packages are unpacked. If `None`, the user's cache directory is used, or `/var/cache` for
    /// the root user.
    pub cache: Option<PathBuf>,
    /// Program to run as the guest agent. If `None`, the current executable is used.
    pub agent: Option<PathBuf>,
    /// Directory for the records that are used to clean up sandboxes after a crash. If `None`, the user's default
    /// directory is used.
    pub state: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            backend: None,
            pool: 5,
            memory: 256,
            cpus: 0.5,
            language: Box::new(Python),
            wheels: Wheels::default(),
            cache: None,
            agent: None,
            state: None,
        }
    }
}
