//! What came of running a program.

use serde::{Deserialize, Serialize};

/// How much of each output is kept: as much of its head as of its tail.
const KEPT: usize = 8 << 10;

/// What came of running a program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Execution {
    /// How it ended.
    pub status: Status,
    /// The code it ended with, if it ended by itself.
    pub exit_code: Option<i32>,
    /// Its standard output, without the middle where it is long.
    pub stdout: String,
    /// Its standard error, without the middle where it is long.
    pub stderr: String,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
    /// Processor time that it used, in milliseconds.
    pub cpu_ms: u64,
    /// The most memory that was seen, in MiB.
    pub memory_mb: u64,
    /// The sandbox it ran in, by name; empty if it did not run.
    pub sandbox: String,
    /// Whether that kept it apart from the host.
    pub isolated: bool,
}

/// How an execution ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// By itself, with code 0, and all that was asked of it held.
    Success,
    /// By itself, with another code.
    Error,
    /// It printed something else than it was to print.
    WrongOutput,
    /// It ended before its tests did.
    TestsCutShort,
    /// Execution timed out.
    Timeout,
    /// It used up its processor time.
    CpuTime,
    /// It ran out of memory.
    OutOfMemory,
    /// It had too many processes.
    TooManyProcesses,
    /// It had too many files.
    TooManyFiles,
    /// It filled its disk.
    DiskFull,
    /// It wrote too much to its output.
    TooMuchOutput,
    /// By a signal.
    Killed,
    /// It took its sandbox down.
    Crashed,
    /// Its sandbox failed in a way that is not known to be the program's doing.
    Internal,
    /// It needs a package that is not there, and was not run.
    DependencyUnavailable,
    /// The model gave no program that could be run. What never ran is no success, so this is the default.
    #[default]
    NoProgram,
}

impl Status {
    /// The status in words for people.
    pub fn words(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Error => "ended with an error",
            Self::WrongOutput => "printed something else",
            Self::TestsCutShort => "ended before its tests did",
            Self::Timeout => "timed out",
            Self::CpuTime => "used up its processor time",
            Self::OutOfMemory => "ran out of memory",
            Self::TooManyProcesses => "had too many processes",
            Self::TooManyFiles => "had too many files",
            Self::DiskFull => "filled its disk",
            Self::TooMuchOutput => "wrote too much output",
            Self::Killed => "was killed by a signal",
            Self::Crashed => "took its sandbox down",
            Self::Internal => "met an internal error",
            Self::DependencyUnavailable => "dependency unavailable",
            Self::NoProgram => "no program",
        }
    }
}

impl Execution {
    /// One that never ran, and why.
    pub fn not_run(status: Status, why: impl Into<String>) -> Self {
        Self { status, stderr: why.into(), ..Self::default() }
    }

    /// Whether it ran apart from the host; nothing where it did not run.
    pub fn isolation(&self) -> Option<bool> {
        (!self.sandbox.is_empty()).then_some(self.isolated)
    }

    /// Whether all that was asked of it held.
    pub fn success(&self) -> bool {
        self.status == Status::Success
    }
}

/// A text of bytes, without the middle where it is long, and with a mark there.
pub(crate) fn clip(bytes: &[u8]) -> String {
    if bytes.len() <= 2 * KEPT {
        return String::from_utf8_lossy(bytes).into_owned();
    }
    let (head, rest) = bytes.split_at(KEPT);
    let (middle, tail) = rest.split_at(rest.len() - KEPT);
    let (head, tail) = (String::from_utf8_lossy(head), String::from_utf8_lossy(tail));
    format!("{head}\n[… {} bytes left out …]\n{tail}", middle.len())
}

#[cfg(test)]
mod tests {
    use super::{KEPT, clip};

    #[test]
    fn head_and_tail_of_a_long_output_are_kept() {
        assert_eq!(clip(b"short"), "short");
        let long = [b"first ".as_slice(), &vec![b'x'; 3 * KEPT], b" last"].concat();
        let clipped = clip(&long);
        assert!(clipped.starts_with("first ") && clipped.ends_with(" last"), "{clipped}");
        assert!(clipped.contains(&format!("[… {} bytes left out …]", KEPT + 11)), "{clipped}");
        // Cut within a character.
        assert!(clip("é".repeat(2 * KEPT).as_bytes()).contains('é'));
    }
}
