//! What a guest may use, what it used, and which limit ended it.

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};

/// What a sandbox may use as a whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[must_use]
pub struct Limits {
    /// Bytes of memory, the files of its workspace included.
    pub memory: u64,
    /// How much of a processor's time it gets: 0.5 is half of one.
    pub cpus: f64,
    /// How much processor time it may use in all, where the back end can see it.
    pub cpu_time: Option<Duration>,
    /// How many processes and threads it may have at once.
    pub processes: u32,
    /// How many files its workspace may hold, and how many a process may have open. A process that opens more is refused
    /// them, and not ended for it.
    pub files: u32,
    /// Bytes that its workspace may hold.
    pub disk: u64,
    /// How long it may do nothing before it is removed.
    pub idle: Duration,
    /// What one program may use, unless it is said when it is run.
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

/// What one program may use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[must_use]
pub struct ExecLimits {
    /// How long it may take.
    pub wall: Duration,
    /// How much processor time it may use, its children included.
    pub cpu_time: Duration,
    /// Bytes that it may write to its standard output and error together.
    pub output: u64,
    /// Bytes of memory; the sandbox's own limit where it is not said.
    pub memory: Option<u64>,
    /// How many processes and threads it may have; the sandbox's own limit where it is not said.
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

/// What was used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// How long it took.
    pub wall: Duration,
    /// Processor time.
    pub cpu: Duration,
    /// The most memory that was seen, in bytes.
    pub memory: u64,
}

/// Which limit was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ExceededLimit {
    /// Memory.
    Memory,
    /// Processor time.
    CpuTime,
    /// Time.
    Wall,
    /// Processes.
    Processes,
    /// Files in the workspace.
    Files,
    /// Room in the workspace.
    Disk,
    /// Output.
    Output,
    /// Time without anything to do.
    Idle,
    /// The sandbox's lifetime.
    Lifetime,
}

impl fmt::Display for ExceededLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Memory => "memory",
            Self::CpuTime => "processor time",
            Self::Wall => "time",
            Self::Processes => "processes",
            Self::Files => "files",
            Self::Disk => "disk",
            Self::Output => "output",
            Self::Idle => "idle time",
            Self::Lifetime => "lifetime",
        })
    }
}
