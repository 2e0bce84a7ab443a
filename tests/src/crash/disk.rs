//! Injects disk failures into one process. A library that is built from `faults/fail_io.c` and loaded with `LD_PRELOAD`
//! makes system calls fail.

use std::{
    io,
    path::{Path, PathBuf},
    process::Command,
};

use tempfile::TempDir;

/// Linux error number of an I/O error.
const EIO: i32 = 5;
/// Linux error number of a full disk.
const ENOSPC: i32 = 28;

/// The library that makes system calls fail, built and ready to be loaded.
#[derive(Debug)]
pub struct FailingDisk {
    library: PathBuf,
    /// Directory that contains the library.
    _dir: TempDir,
}

/// Selects the calls that fail. Only calls that write to the database's files are counted, starting at 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailingCall {
    /// The call with this number fails with an I/O error.
    ErrorAt(usize),
    /// The call with this number and all later calls fail because the disk is full.
    FullFrom(usize),
}

impl FailingDisk {
    /// Builds the library with the C compiler of the system.
    pub fn build() -> io::Result<Self> {
        let dir = tempfile::tempdir()?;
        let library = dir.path().join("fail_io.so");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/faults/fail_io.c");
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).args([source, "-ldl"]);
        let output = compiler.output()?;
        match output.status.success() {
            true => Ok(Self { library, _dir: dir }),
            false => Err(io::Error::other(String::from_utf8_lossy(&output.stderr))),
        }
    }

    /// Configures `command` so that the calls that `call` selects fail. Only calls that write to the files of
    /// `database` count.
    pub fn fail_at(&self, command: &mut Command, database: &Path, call: FailingCall) {
        let (nth, errno) = match call {
            FailingCall::ErrorAt(nth) => (nth, EIO),
            FailingCall::FullFrom(nth) => (nth, ENOSPC),
        };
        self.load(command, database);
        command.env("FAIL_IO_AT", nth.to_string()).env("FAIL_IO_ERRNO", errno.to_string());
        if matches!(call, FailingCall::FullFrom(_)) {
            command.env("FAIL_IO_EVER", "1");
        }
    }

    /// Configures `command` so that calls that write to the files of `database` are counted but do not fail. The
    /// number of calls is written to the file `count`.
    pub fn count_into(&self, command: &mut Command, database: &Path, count: &Path) {
        self.load(command, database);
        command.env("FAIL_IO_COUNT", count);
    }

    fn load(&self, command: &mut Command, database: &Path) {
        command.env("LD_PRELOAD", &self.library).env("FAIL_IO_PREFIX", database);
    }
}
