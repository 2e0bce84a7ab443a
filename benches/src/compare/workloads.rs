//! The workloads: what every program does, and at which sizes it is measured.

/// One workload, the same for all programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workload {
    /// Name in requests, on the command line and in the results.
    pub name: &'static str,
    /// Description of the program.
    pub about: &'static str,
    /// Unit of the size: the time of a run is divided by the number of these units.
    pub unit: &'static str,
    /// Sizes of a full measurement.
    pub sizes: &'static [usize],
    /// Sizes of a quick measurement. If there are none, a quick measurement omits the workload.
    pub quick: &'static [usize],
    /// Whether the bytes that a run stores are measured.
    pub stored: bool,
}

const DEFAULTS: Workload =
    Workload { name: "", about: "", unit: "", sizes: &[], quick: &[], stored: false };

/// All workloads, in the order of the results.
pub const WORKLOADS: &[Workload] = &[
    Workload {
        name: "loop",
        about: "One node increments a counter and a branch repeats it.",
        unit: "step",
        sizes: &[1_000, 10_000, 100_000, 1_000_000],
        quick: &[1_000, 100_000],
        ..DEFAULTS
    },
    Workload {
        name: "fan-out",
        about: "A branch sends one payload per task to one node; a reducer adds the results.",
        unit: "task",
        sizes: &[100, 1_000, 10_000, 100_000],
        quick: &[1_000, 10_000],
        ..DEFAULTS
    },
    Workload {
        name: "growing-list",
        about: "Each step of a loop appends one item to a list in the state.",
        unit: "step",
        sizes: &[100, 1_000, 10_000, 100_000],
        quick: &[1_000, 10_000],
        ..DEFAULTS
    },
    Workload {
        name: "sequential",
        about: "LangGraph's `sequential`: a chain of nodes. Each node increments a counter, so that the answer shows that it ran.",
        unit: "node",
        sizes: &[10, 1_000, 3_000],
        quick: &[1_000],
        ..DEFAULTS
    },
    Workload {
        name: "sequential-checkpoint",
        about: "The same, with one checkpoint in memory at the end.",
        unit: "node",
        sizes: &[10, 1_000, 3_000],
        quick: &[],
        ..DEFAULTS
    },
    Workload {
        name: "fanout-to-subgraph",
        about: "LangGraph's `fanout_to_subgraph`: each subject, a list of 1,000 letters, is sent to a subgraph of 12 steps.",
        unit: "subject",
        sizes: &[10, 100, 1_000],
        quick: &[100],
        ..DEFAULTS
    },
    Workload {
        name: "fanout-to-subgraph-checkpoint",
        about: "The same, with one checkpoint in memory at the end.",
        unit: "subject",
        sizes: &[10, 100],
        quick: &[],
        ..DEFAULTS
    },
    Workload {
        name: "wide-state",
        about: "LangGraph's `wide_state`: 16 fields with eight kinds of reducers, six nodes in a loop that doubles its lists until they have more than `size` items.",
        unit: "run",
        sizes: &[300, 600, 1_200],
        quick: &[300],
        ..DEFAULTS
    },
    Workload {
        name: "wide-state-checkpoint",
        about: "The same, with one checkpoint in memory at the end.",
        unit: "run",
        sizes: &[300, 1_200],
        quick: &[],
        ..DEFAULTS
    },
    Workload {
        name: "react-agent",
        about: "LangGraph's `react_agent`: a fake model calls a tool once per turn; arguments have 3,600 characters and results 36,180.",
        unit: "tool call",
        sizes: &[10, 100],
        quick: &[10],
        ..DEFAULTS
    },
    Workload {
        name: "react-agent-checkpoint",
        about: "The same, with one checkpoint in memory at the end.",
        unit: "tool call",
        sizes: &[10, 100],
        quick: &[],
        ..DEFAULTS
    },
    Workload {
        name: "agent-loop",
        about: "An agent whose model answers at once calls a cheap tool once per turn, with short texts: LangChain's `create_agent` for LangGraph, `createReactAgent` for LangGraph.js, and the crate's own agent elsewhere.",
        unit: "tool call",
        sizes: &[1, 5, 25],
        quick: &[25],
        ..DEFAULTS
    },
    Workload {
        name: "nested",
        about: "Each step of a loop runs a subgraph of one node.",
        unit: "call",
        sizes: &[100, 1_000, 10_000],
        quick: &[100],
        ..DEFAULTS
    },
    Workload {
        name: "threads",
        about: "Concurrent threads of 10 steps each, every step in a checkpoint in memory.",
        unit: "thread",
        sizes: &[10, 100, 1_000],
        quick: &[100],
        ..DEFAULTS
    },
    Workload {
        name: "cpu-branches",
        about: "One step with branches that compute and never wait.",
        unit: "branch",
        sizes: &[1, 2, 8, 32],
        quick: &[8],
        ..DEFAULTS
    },
    Workload {
        name: "sqlite-loop",
        about: "Each step of a loop appends a message of 100 characters to a list, and is in a SQLite file before the next one starts: write-ahead log, `synchronous=FULL`.",
        unit: "step",
        sizes: &[100, 300, 1_000],
        quick: &[100],
        stored: true,
    },
    Workload {
        name: "sqlite-loop-16",
        about: "The same, with 16 concurrent threads on one file. The time is per step of all threads.",
        unit: "step",
        sizes: &[30, 100],
        quick: &[30],
        stored: true,
    },
    Workload {
        name: "resume",
        about: "A new process opens the file of the `sqlite-loop` thread of this length and adds one step.",
        unit: "run",
        sizes: &[100, 1_000, 10_000, 100_000],
        quick: &[],
        ..DEFAULTS
    },
    Workload {
        name: "server",
        about: "Sequential round trips over loopback HTTP: each creates a thread, runs a graph of one node on it and waits for the result. The engine's server keeps threads in memory and runs in a SQLite file; LangGraph's is its development server (`langgraph dev`), which keeps both in memory.",
        unit: "round trip",
        sizes: &[1, 10, 100],
        quick: &[2],
        ..DEFAULTS
    },
    Workload {
        name: "server-concurrent",
        about: "The same round trips, concurrently. LangGraph's server executes at most 10 runs at a time, its documented default.",
        unit: "concurrent run",
        sizes: &[20, 200],
        quick: &[20],
        ..DEFAULTS
    },
    Workload {
        name: "server-first-event",
        about: "Sequential requests that run the graph and stream its events, each until the first event.",
        unit: "request",
        sizes: &[1, 10],
        quick: &[2],
        ..DEFAULTS
    },
];

impl Workload {
    /// Returns the number of units in a run of this size.
    pub fn units(&self, size: usize) -> usize {
        match self.name {
            "sqlite-loop-16" => 16 * size,
            _ if self.unit == "run" => 1,
            _ => size,
        }
    }

    /// Returns the workload with this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        WORKLOADS.iter().find(|it| it.name == name)
    }
}
