//! Limits of a guest, what it used, and which limit ended it.

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};

/// Limits of a sandbox as a whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[must_use]
pub struct Limits {
    /// Maximum memory in bytes, including the files in the workspace.
    pub memory: u64,
    /// Share of the processors: 0.5 is half of one processor.
    pub cpus: f64,
    /// Maximum total processor time, where the back end can measure it.
    pub cpu_time: Option<Duration>,
    /// Maximum number of concurrent processes and threads.
    pub processes: u32,
    /// Maximum number of files in the workspace, and of files that one process may have open. Opening more files fails;
    /// it does not end the process.
    pub files: u32,
    /// Maximum size of the workspace in bytes.
    pub disk: u64,
    /// How long the sandbox may be idle before it is removed.
    pub idle: Duration,
    /// Limits of one program, unless the program specifies its own.
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[must_use]
pub struct ExecLimits {
    /// Maximum run time.
    pub wall: Duration,
    /// Maximum processor time, including its children.
    pub cpu_time: Duration,
    /// Maximum number of bytes written to standard output and standard error together.
    pub output: u64,
    /// Maximum memory in bytes. `None`: the limit of the sandbox.
    pub memory: Option<u64>,
    /// Maximum number of processes and threads. `None`: the limit of the sandbox.
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

/// Resources that were used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Elapsed time.
    pub wall: Duration,
    /// Processor time.
    pub cpu: Duration,
    /// Highest observed memory use in bytes.
    pub memory: u64,
}

/// The limit that was exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ExceededLimit {
    /// Memory.
    Memory,
    /// Processor time.
    CpuTime,
    /// Run time.
    Wall,
    /// Number of processes.
    Processes,
    /// Number of files in the workspace.
    Files,
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
            Self::CpuTime => "processor time",
            Self::Wall => "run time",
            Self::Processes => "processes",
            Self::Files => "files",
            Self::Disk => "disk",
            Self::Output => "output",
            Self::Idle => "idle time",
            Self::Lifetime => "lifetime",
        })
    }
}
