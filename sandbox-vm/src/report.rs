//! The capability report, which lists the guarantees that hold on this machine. It is available as text and as data.

use std::{collections::BTreeSet, fmt};

use serde::{Deserialize, Serialize};

/// Capabilities of one back end on this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[must_use]
pub struct Report {
    /// Name of the back end.
    pub backend: &'static str,
    /// Why the back end cannot start guests on this machine, or `None` if it can.
    pub problem: Option<String>,
    /// Properties that the back end guarantees for its guests.
    pub guarantees: BTreeSet<Guarantee>,
    /// Notes about the back end, and hints about what to install or change to get more guarantees.
    pub advice: Vec<String>,
}

impl Report {
    /// Creates the report of a back end that can start guests with these guarantees.
    pub fn available(
        backend: &'static str,
        guarantees: impl IntoIterator<Item = Guarantee>,
    ) -> Self {
        let guarantees = guarantees.into_iter().collect();
        Self { backend, problem: None, guarantees, advice: Vec::new() }
    }

    /// Creates the report of a back end that cannot start guests on this machine.
    pub fn unavailable(backend: &'static str, problem: impl Into<String>) -> Self {
        let problem = Some(problem.into());
        Self { backend, problem, guarantees: BTreeSet::new(), advice: Vec::new() }
    }

    /// Adds a note about the back end, or a hint about what to install or change.
    pub fn with_advice(mut self, advice: impl Into<String>) -> Self {
        self.advice.push(advice.into());
        self
    }

    /// Returns whether the back end can start guests.
    pub fn is_available(&self) -> bool {
        self.problem.is_none()
    }

    /// Returns whether a guarantee holds for the back end's guests.
    pub fn has(&self, guarantee: Guarantee) -> bool {
        self.guarantees.contains(&guarantee)
    }

    /// Returns whether guests are isolated, which means that they have no network and no access to the host's files and
    /// processes.
    pub fn is_isolated(&self) -> bool {
        self.level() > IsolationLevel::Off
    }

    /// Returns a warning if guests are isolated, but no kernel limits their memory.
    pub fn memory_warning(&self) -> Option<&'static str> {
        (self.is_isolated() && !self.has(Guarantee::MemoryLimit)).then_some(
            "memory is NOT BOUNDED by a kernel: it is measured every 50 ms, and a hostile program can hold a multiple of \
             its limit between two measurements",
        )
    }

    /// Returns how strongly guests are isolated from the host, according to the guarantees.
    pub fn level(&self) -> IsolationLevel {
        let needed = [Guarantee::NoNetwork, Guarantee::NoHostFiles, Guarantee::OwnProcesses];
        if !(self.is_available() && needed.iter().all(|it| self.has(*it))) {
            IsolationLevel::Off
        } else if self.has(Guarantee::VirtualMachine) {
            IsolationLevel::Vm
        } else if self.has(Guarantee::OwnKernel) {
            IsolationLevel::Kernel
        } else {
            IsolationLevel::Process
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.problem {
            Some(problem) => writeln!(f, "{}: not available: {problem}", self.backend)?,
            None => writeln!(f, "{}: {}", self.backend, self.level().description())?,
        }
        if let Some(warning) = self.memory_warning() {
            writeln!(f, "  ! {warning}")?;
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

/// How strongly a back end isolates its guests from the host. Levels are ordered, weakest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IsolationLevel {
    /// Guests are not isolated.
    #[default]
    Off,
    /// Guests are confined processes that share the host's kernel.
    Process,
    /// Guests run on their own kernel, which is itself a process on the host.
    Kernel,
    /// Guests run in virtual machines.
    Vm,
}

impl IsolationLevel {
    /// Returns the name of the level: `off`, `process`, `kernel` or `vm`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Process => "process",
            Self::Kernel => "kernel",
            Self::Vm => "vm",
        }
    }

    /// Describes the level in one phrase, which contains the level's name.
    ///
    /// ```
    /// use sandbox_vm::report::IsolationLevel;
    ///
    /// assert_eq!(IsolationLevel::Vm.description(), "isolation: vm");
    /// assert_eq!(IsolationLevel::Off.description(), "isolation: off, NOT ISOLATED");
    /// ```
    pub fn description(self) -> &'static str {
        match self {
            Self::Off => "isolation: off, NOT ISOLATED",
            Self::Process => "isolation: process, shares the host's kernel",
            Self::Kernel => "isolation: kernel, own kernel on top of the host's kernel",
            Self::Vm => "isolation: vm",
        }
    }
}

impl fmt::Display for IsolationLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A property that holds for the guests of a back end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Guarantee {
    /// The guest runs in a virtual machine.
    VirtualMachine,
    /// System calls of the guest are not handled by the host's kernel, but by a kernel of the guest or by a monitor.
    OwnKernel,
    /// Programs in the guest can make only system calls that are on an allow list, no matter which kernel handles them.
    FilteredCalls,
    /// The guest has no network.
    NoNetwork,
    /// The guest sees no host files except those of its image and of directories that are shared with it.
    NoHostFiles,
    /// The guest cannot see or signal host processes.
    OwnProcesses,
    /// The guest runs as an unprivileged user on the host and cannot become another user.
    NoPrivileges,
    /// A kernel limits the guest's memory.
    MemoryLimit,
    /// A kernel limits the guest's share of the processors.
    CpuShare,
    /// A kernel limits the guest's number of processes.
    ProcessLimit,
    /// A kernel limits the size of the workspace and the number of files in it.
    DiskLimit,
    /// Guests can run programs.
    Programs,
    /// Guests can be paused.
    Pause,
    /// Guests can be saved as snapshots and started from them.
    Snapshot,
    /// Host directories can be shared with guests, read-only.
    SharedDirectories,
}

impl Guarantee {
    /// All guarantees.
    pub const ALL: [Self; 15] = [
        Self::VirtualMachine,
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

    /// Describes the guarantee in one phrase.
    pub fn description(self) -> &'static str {
        match self {
            Self::VirtualMachine => "the guest runs in a virtual machine",
            Self::OwnKernel => "the guest does not use the host's kernel directly",
            Self::FilteredCalls => "programs in the guest can make only allowed system calls",
            Self::NoNetwork => "the guest has no network",
            Self::NoHostFiles => {
                "the guest sees no host files except those of its image and of shared directories"
            }
            Self::OwnProcesses => "the guest can see and signal only its own processes",
            Self::NoPrivileges => "the guest runs as an unprivileged user on the host",
            Self::MemoryLimit => "a kernel limits the guest's memory",
            Self::CpuShare => "a kernel limits the guest's share of the processors",
            Self::ProcessLimit => "a kernel limits the guest's processes",
            Self::DiskLimit => {
                "a kernel limits the size of the workspace and the number of files in it"
            }
            Self::Programs => "guests can run programs",
            Self::Pause => "guests can be paused",
            Self::Snapshot => "guests can be saved as snapshots",
            Self::SharedDirectories => "guests can read selected host directories",
        }
    }
}
