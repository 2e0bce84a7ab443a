//! A disk that fails, for one process: `faults/fail_io.c` stands before libc in it.

use std::{
    io,
    path::{Path, PathBuf},
    process::Command,
};

use tempfile::TempDir;

/// The numbers of the errors, as the system has them.
const EIO: i32 = 5;
const ENOSPC: i32 = 28;

/// The library that lets calls fail.
#[derive(Debug)]
pub struct FailingDisk {
    library: PathBuf,
    /// Holds the library.
    _folder: TempDir,
}

/// Which of the calls that write to a database's files fail, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailingCall {
    /// One call fails, with an I/O error.
    ErrorAt(usize),
    /// The disk is full from that call on.
    FullFrom(usize),
}

impl FailingDisk {
    /// Builds the library with the C compiler that SQLite was built with.
    pub fn build() -> io::Result<Self> {
        let folder = tempfile::tempdir()?;
        let library = folder.path().join("fail_io.so");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/faults/fail_io.c");
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).args([source, "-ldl"]);
        let output = compiler.output()?;
        match output.status.success() {
            true => Ok(Self { library, _folder: folder }),
            false => Err(io::Error::other(String::from_utf8_lossy(&output.stderr))),
        }
    }

    /// Lets calls of a process on this database's files fail.
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

    /// Lets nothing fail, and has the number of calls written to a file.
    pub fn count_into(&self, command: &mut Command, database: &Path, count: &Path) {
        self.load(command, database);
        command.env("FAIL_IO_COUNT", count);
    }

    fn load(&self, command: &mut Command, database: &Path) {
        command.env("LD_PRELOAD", &self.library).env("FAIL_IO_PREFIX", database);
    }
}
