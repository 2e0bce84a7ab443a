//! Anything that would outlive a crash of the host process, in the form in which a sandbox directory lists it.

use std::{fs, path::PathBuf};

use serde::{Deserialize, Serialize};

use crate::meter::proc_text;

/// Something that would outlive a crash of the host process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Leftover {
    /// A process. It is identified by its start time as well, because the kernel reuses process ids.
    Process {
        /// Process id.
        pid: u32,
        /// Start time of the process in clock ticks since boot.
        started: u64,
        /// Boot id of the machine when the process started. It is needed because the start time counts from boot. Empty
        /// if unknown.
        #[serde(default)]
        boot: String,
    },
    /// A process group and the process that leads it. The leader is identified by its start time as well as by its id.
    ProcessGroup {
        /// Process id of the leader.
        pid: u32,
        /// Start time of the leader in clock ticks since boot.
        started: u64,
        /// Boot id of the machine when the leader started. Empty if unknown.
        #[serde(default)]
        boot: String,
    },
    /// The directory of a control group.
    Cgroup(PathBuf),
    /// A container in a Docker engine.
    Container {
        /// Address of the engine.
        host: String,
        /// Name of the container.
        name: String,
    },
}

impl Leftover {
    /// Creates the entry for a running process.
    pub fn process(pid: u32) -> Self {
        Self::Process { pid, started: start_time(pid).unwrap_or_default(), boot: current_boot_id() }
    }

    /// Creates the entry for the process group that a running process leads.
    pub(crate) fn process_group(pid: u32) -> Self {
        let started = start_time(pid).unwrap_or_default();
        Self::ProcessGroup { pid, started, boot: current_boot_id() }
    }
}

impl IntoIterator for Leftover {
    type Item = Self;
    type IntoIter = std::iter::Once<Self>;

    fn into_iter(self) -> Self::IntoIter {
        std::iter::once(self)
    }
}

/// Returns the start time of a process in clock ticks since boot.
pub(super) fn start_time(pid: u32) -> Option<u64> {
    proc_text::stat_field(pid, 19)
}

/// Returns the boot id of the running kernel, or an empty string if it is not available.
pub(super) fn current_boot_id() -> String {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.trim().to_owned()
}
