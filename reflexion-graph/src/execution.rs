//! The result of executing a program.

use sandbox_vm::report::IsolationLevel;
use serde::{Deserialize, Serialize};

/// Number of bytes kept from the start and from the end of each output stream.
const KEPT_BYTES: usize = 8 << 10;

/// Result of executing a program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Execution {
    pub status: Status,
    /// Exit code, if the program exited by itself.
    pub exit_code: Option<i32>,
    /// Standard output; the middle of long output is omitted.
    pub stdout: String,
    /// Standard error; the middle of long output is omitted.
    pub stderr: String,
    /// Wall-clock time in milliseconds.
    pub duration_ms: u64,
    /// CPU time in milliseconds.
    pub cpu_ms: u64,
    /// Peak memory usage in MiB.
    pub memory_mb: u64,
    /// Name of the sandbox; empty if the program did not run.
    pub sandbox: String,
    /// How strongly the sandbox isolated the program from the host; `None` if the program did not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolation: Option<IsolationLevel>,
    /// Whether a kernel limited the memory of the sandbox; `None` if the program did not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bounded: Option<bool>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// The program exited with code 0 and passed all checks of its job.
    Success,
    /// The program exited with a code other than 0.
    Error,
    /// The program did not print the expected output.
    WrongOutput,
    /// The program exited before its tests completed.
    TestsCutShort,
    /// The program exceeded its wall-clock limit.
    Timeout,
    /// The program exceeded its CPU time limit.
    CpuTime,
    /// The program ran out of memory.
    OutOfMemory,
    /// The program exceeded the limit on the number of processes.
    TooManyProcesses,
    /// The program exceeded the limit on the number of files.
    TooManyFiles,
    /// The program exceeded the disk quota.
    DiskFull,
    /// The program exceeded the output limit.
    TooMuchOutput,
    /// The program was killed by a signal.
    Killed,
    /// The sandbox crashed while the program ran.
    Crashed,
    /// The sandbox failed for an unknown reason, possibly unrelated to the program.
    Internal,
    /// The program requires an unavailable package and was not run.
    DependencyUnavailable,
    /// The model returned no program that could be run. This is the default status, because a program that did not run
    /// must not count as a success.
    #[default]
    NoProgram,
}

impl Status {
    /// Returns a description of the status. For a program that ran and failed, the description is a verb phrase that
    /// completes "the program …".
    pub fn description(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Error => "exited with an error",
            Self::WrongOutput => "printed unexpected output",
            Self::TestsCutShort => "exited before its tests completed",
            Self::Timeout => "timed out",
            Self::CpuTime => "exceeded its CPU time",
            Self::OutOfMemory => "ran out of memory",
            Self::TooManyProcesses => "started too many processes",
            Self::TooManyFiles => "created or opened too many files",
            Self::DiskFull => "exceeded its disk quota",
            Self::TooMuchOutput => "wrote too much output",
            Self::Killed => "was killed by a signal",
            Self::Crashed => "crashed its sandbox",
            Self::Internal => "failed because of an internal error",
            Self::DependencyUnavailable => "dependency unavailable",
            Self::NoProgram => "no program",
        }
    }
}

impl Execution {
    /// Creates the result of a program that was not run.
    pub(crate) fn not_run(status: Status, why: impl Into<String>) -> Self {
        Self { status, stderr: why.into(), ..Self::default() }
    }

    /// Returns whether the program passed all checks of its job.
    pub fn success(&self) -> bool {
        self.status == Status::Success
    }
}

/// Converts bytes to text, replacing the middle of long texts with a marker.
pub(crate) fn truncate_middle(bytes: &[u8]) -> String {
    if bytes.len() <= 2 * KEPT_BYTES {
        return String::from_utf8_lossy(bytes).into_owned();
    }
    let (head, rest) = bytes.split_at(KEPT_BYTES);
    let (middle, tail) = rest.split_at(rest.len() - KEPT_BYTES);
    let (head, tail) = (String::from_utf8_lossy(head), String::from_utf8_lossy(tail));
    format!("{head}\n[… {} bytes omitted …]\n{tail}", middle.len())
}

#[cfg(test)]
mod tests {
    use super::{KEPT_BYTES, truncate_middle};

    #[test]
    fn middle_of_long_output_is_omitted() {
        assert_eq!(truncate_middle(b"short"), "short");
        let long = [b"first ".as_slice(), &vec![b'x'; 3 * KEPT_BYTES], b" last"].concat();
        let clipped = truncate_middle(&long);
        assert!(clipped.starts_with("first ") && clipped.ends_with(" last"), "{clipped}");
        assert!(clipped.contains(&format!("[… {} bytes omitted …]", KEPT_BYTES + 11)), "{clipped}");
        // A cut inside a multi-byte character does not damage the other characters.
        assert!(truncate_middle("é".repeat(2 * KEPT_BYTES).as_bytes()).contains('é'));
    }
}
