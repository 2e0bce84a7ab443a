//! Limits of a guest, the resources that it has used, and the limit that it has exceeded.

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};

/// Limits of a sandbox as a whole.
///
/// ```
/// use std::time::Duration;
/// use sandbox_vm::{ExecLimits, Limits, Spec};
///
/// let exec = ExecLimits { wall: Duration::from_secs(10), ..ExecLimits::default() };
/// let limits = Limits { memory: 512 << 20, cpus: 0.5, exec, ..Limits::default() };
/// let spec = Spec::new("job-7").limits(limits);
/// assert_eq!(spec.limits.exec.wall.as_secs(), 10);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[must_use]
pub struct Limits {
    /// Maximum memory in bytes, including the files in the workspace.
    pub memory: u64,
    /// Number of processors that the sandbox may use. 0.5 means half of the time of one processor.
    pub cpus: f64,
    /// Maximum total CPU time. Enforced only if the back end can measure it.
    pub cpu_time: Option<Duration>,
    /// Maximum number of processes and OS threads that exist at the same time.
    pub processes: u32,
    /// Maximum number of files in the workspace. Also the maximum number of files that one process may have open.
    /// Opening more files fails but does not end the process. If the program or graph fails because of it, the limit is
    /// reported as [`ExceededLimit::OpenFiles`].
    pub files: u32,
    /// Maximum size of the workspace in bytes.
    pub disk: u64,
    /// How long the sandbox may be idle before it is removed.
    pub idle: Duration,
    /// Default limits for each program. A request to run a program can override them.
    pub exec: ExecLimits,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory: 256 << 20,
            cpus: 1.0,
            cpu_time: None,
            processes: 64,
            files: 4096,
            disk: 64 << 20,
            idle: Duration::from_secs(15 * 60),
            exec: ExecLimits::default(),
        }
    }
}

/// Limits of one program.
///
/// ```
/// use std::time::Duration;
///
/// use sandbox_vm::{ExecLimits, Program};
///
/// let limits = ExecLimits { wall: Duration::from_secs(5), output: 64 << 10, ..ExecLimits::default() };
/// let program = Program::new("python3").arg("code.py").limits(limits);
/// # let _ = program;
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[must_use]
pub struct ExecLimits {
    /// Maximum elapsed time.
    pub wall: Duration,
    /// Maximum CPU time of the program and its children together.
    pub cpu_time: Duration,
    /// Maximum number of bytes written to standard output and standard error together.
    pub output: u64,
    /// Maximum memory in bytes. If `None`, the limit of the sandbox applies.
    pub memory: Option<u64>,
    /// Maximum number of processes and OS threads. If `None`, the limit of the sandbox applies.
    pub processes: Option<u32>,
}

impl Default for ExecLimits {
    fn default() -> Self {
        Self {
            wall: Duration::from_secs(30),
            cpu_time: Duration::from_secs(30),
            output: 1 << 20,
            memory: None,
            processes: None,
        }
    }
}

/// Resources that a guest or a program has used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Elapsed time since the start.
    pub wall: Duration,
    /// CPU time.
    pub cpu: Duration,
    /// Highest observed memory use in bytes.
    pub memory: u64,
}

/// The system's message for the error `EMFILE`, which programs and graphs report if they cannot open another file.
pub(crate) const TOO_MANY_OPEN_FILES: &str = "Too many open files";

/// A limit that a guest or a program has exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ExceededLimit {
    /// Amount of memory.
    Memory,
    /// CPU time.
    CpuTime,
    /// Run time.
    Wall,
    /// Number of processes.
    Processes,
    /// Number of files in the workspace.
    Files,
    /// Number of files that one process had open. Reported if a program failed and its standard error contains the
    /// system's message for this error, or if a graph failed and its error contains the message.
    OpenFiles,
    /// Size of the workspace.
    Disk,
    /// Size of the output.
    Output,
    /// Idle time.
    Idle,
    /// Lifetime of the sandbox.
    Lifetime,
}

impl fmt::Display for ExceededLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Memory => "memory",
            Self::CpuTime => "CPU time",
            Self::Wall => "run time",
            Self::Processes => "processes",
            Self::Files => "files",
            Self::OpenFiles => "open files",
            Self::Disk => "disk",
            Self::Output => "output",
            Self::Idle => "idle time",
            Self::Lifetime => "lifetime",
        })
    }
}
