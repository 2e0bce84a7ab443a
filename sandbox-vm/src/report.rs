//! The capability report: which guarantees hold on this machine, in words and as data.

use std::{collections::BTreeSet, fmt};

use serde::Serialize;

/// What one back end can do on this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[must_use]
pub struct Report {
    /// The back end.
    pub backend: &'static str,
    /// Why it cannot start a guest here, if it cannot.
    pub problem: Option<String>,
    /// What it guarantees.
    pub guarantees: BTreeSet<Guarantee>,
    /// What to install or change to get more.
    pub advice: Vec<String>,
}

impl Report {
    /// A back end that can start guests and guarantees this.
    pub fn available(
        backend: &'static str,
        guarantees: impl IntoIterator<Item = Guarantee>,
    ) -> Self {
        let guarantees = guarantees.into_iter().collect();
        Self { backend, problem: None, guarantees, advice: Vec::new() }
    }

    /// A back end that cannot start guests here.
    pub fn unavailable(backend: &'static str, problem: impl Into<String>) -> Self {
        let problem = Some(problem.into());
        Self { backend, problem, guarantees: BTreeSet::new(), advice: Vec::new() }
    }

    /// Says what would help.
    pub fn with_advice(mut self, advice: impl Into<String>) -> Self {
        self.advice.push(advice.into());
        self
    }

    /// Whether it can start guests.
    pub fn is_available(&self) -> bool {
        self.problem.is_none()
    }

    /// Whether this holds for its guests.
    pub fn has(&self, guarantee: Guarantee) -> bool {
        self.guarantees.contains(&guarantee)
    }

    /// Whether its guests are isolated: without network, without the host's files and processes.
    pub fn is_isolated(&self) -> bool {
        let needed = [Guarantee::NoNetwork, Guarantee::NoHostFiles, Guarantee::OwnProcesses];
        self.is_available() && needed.iter().all(|it| self.has(*it))
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.problem {
            Some(problem) => writeln!(f, "{}: not available: {problem}", self.backend)?,
            None if self.is_isolated() => writeln!(f, "{}: isolated", self.backend)?,
            None => writeln!(f, "{}: NOT ISOLATED", self.backend)?,
        }
        for guarantee in &self.guarantees {
            writeln!(f, "  + {}", guarantee.description())?;
        }
        if self.is_available() {
            for guarantee in Guarantee::ALL.iter().filter(|it| !self.has(**it)) {
                writeln!(f, "  - not: {}", guarantee.description())?;
            }
        }
        for advice in &self.advice {
            writeln!(f, "  > {advice}")?;
        }
        Ok(())
    }
}

/// Something that holds for the guests of a back end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Guarantee {
    /// The guest has a kernel of its own.
    OwnKernel,
    /// Programs of the guest make only system calls that are on a list; which kernel answers them is another matter.
    FilteredCalls,
    /// The guest has no network.
    NoNetwork,
    /// The guest sees no file of the host, but those of its image.
    NoHostFiles,
    /// The guest sees no process of the host and can signal none.
    OwnProcesses,
    /// The guest is an unprivileged user of the host and cannot become another.
    NoPrivileges,
    /// Memory is bounded by a kernel.
    MemoryLimit,
    /// Processor share is bounded by a kernel.
    CpuShare,
    /// The number of processes is bounded by a kernel.
    ProcessLimit,
    /// Room and number of files of the workspace are bounded by a kernel.
    DiskLimit,
    /// Programs can be run in a guest.
    Programs,
    /// A guest can be paused.
    Pause,
    /// A guest can be kept as a snapshot and started from it.
    Snapshot,
    /// A guest can be shown folders of the host, to read only.
    #[serde(rename = "folders")]
    SharedDirectories,
}

impl Guarantee {
    /// All there are.
    pub const ALL: [Self; 14] = [
        Self::OwnKernel,
        Self::FilteredCalls,
        Self::NoNetwork,
        Self::NoHostFiles,
        Self::OwnProcesses,
        Self::NoPrivileges,
        Self::MemoryLimit,
        Self::CpuShare,
        Self::ProcessLimit,
        Self::DiskLimit,
        Self::Programs,
        Self::Pause,
        Self::Snapshot,
        Self::SharedDirectories,
    ];

    /// What it means.
    pub fn description(self) -> &'static str {
        match self {
            Self::OwnKernel => "the guest has a kernel of its own",
            Self::FilteredCalls => "programs of the guest make only listed system calls",
            Self::NoNetwork => "the guest has no network",
            Self::NoHostFiles => "the guest sees no file of the host but those of its image",
            Self::OwnProcesses => "the guest sees and signals its own processes only",
            Self::NoPrivileges => "the guest is an unprivileged user of the host",
            Self::MemoryLimit => "a kernel bounds the guest's memory",
            Self::CpuShare => "a kernel bounds the guest's share of the processors",
            Self::ProcessLimit => "a kernel bounds the guest's processes",
            Self::DiskLimit => "a kernel bounds the workspace's size and files",
            Self::Programs => "guests can run programs",
            Self::Pause => "guests can be paused",
            Self::Snapshot => "guests can be kept as snapshots",
            Self::SharedDirectories => "guests can be shown folders of the host, to read only",
        }
    }
}
