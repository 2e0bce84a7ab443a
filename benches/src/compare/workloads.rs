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

const fn workload(
    name: &'static str,
    unit: &'static str,
    sizes: &'static [usize],
    quick: &'static [usize],
) -> Workload {
    Workload { name, about: "", unit, sizes, quick, stored: false }
}

/// All workloads, in the order of the results.
pub const WORKLOADS: &[Workload] = &[
    workload("loop", "step", &[1_000, 10_000, 100_000, 1_000_000], &[1_000, 100_000])
        .about("One node increments a counter and a branch repeats it."),
    workload("fan-out", "task", &[100, 1_000, 10_000, 100_000], &[1_000, 10_000])
        .about("A branch sends one payload per task to one node; a reducer adds the results."),
    workload("growing-list", "step", &[100, 1_000, 10_000, 100_000], &[1_000, 10_000])
        .about("Each step of a loop appends one item to a list in the state."),
    workload("sequential", "node", &[10, 1_000, 3_000], &[1_000])
        .about("LangGraph's `sequential`: a chain of nodes. Each node increments a counter, so that the answer shows that it ran."),
    workload("sequential-checkpoint", "node", &[10, 1_000, 3_000], &[])
        .about("The same, with one checkpoint in memory at the end."),
    workload("fanout-to-subgraph", "subject", &[10, 100, 1_000], &[100])
        .about("LangGraph's `fanout_to_subgraph`: each subject, a list of 1,000 letters, is sent to a subgraph of 12 steps."),
    workload("fanout-to-subgraph-checkpoint", "subject", &[10, 100], &[])
        .about("The same, with one checkpoint in memory at the end."),
    workload("wide-state", "run", &[300, 600, 1_200], &[300])
        .about("LangGraph's `wide_state`: 16 fields with eight kinds of reducers, six nodes in a loop that doubles its lists until they have more than `size` items."),
    workload("wide-state-checkpoint", "run", &[300, 1_200], &[])
        .about("The same, with one checkpoint in memory at the end."),
    workload("react-agent", "tool call", &[10, 100], &[10])
        .about("LangGraph's `react_agent`: a fake model calls a tool once per turn; arguments have 3,600 characters and results 36,180."),
    workload("react-agent-checkpoint", "tool call", &[10, 100], &[])
        .about("The same, with one checkpoint in memory at the end."),
    workload("agent-loop", "tool call", &[1, 5, 25], &[25])
        .about("An agent whose model answers at once calls a cheap tool once per turn, with short texts: LangChain's `create_agent` for LangGraph, `createReactAgent` for LangGraph.js, and the crate's own agent elsewhere."),
    workload("nested", "call", &[100, 1_000, 10_000], &[100])
        .about("Each step of a loop runs a subgraph of one node."),
    workload("threads", "thread", &[10, 100, 1_000], &[100])
        .about("Concurrent threads of 10 steps each, every step in a checkpoint in memory."),
    workload("cpu-branches", "branch", &[1, 2, 8, 32], &[8])
        .about("One step with branches that compute and never wait."),
    workload("sqlite-loop", "step", &[100, 300, 1_000], &[100]).stored()
        .about("Each step of a loop appends a message of 100 characters to a list, and is in a SQLite file before the next one starts: write-ahead log, `synchronous=FULL`."),
    workload("sqlite-loop-16", "step", &[30, 100], &[30]).stored()
        .about("The same, with 16 concurrent threads on one file. The time is per step of all threads."),
    workload("resume", "run", &[100, 1_000, 10_000, 100_000], &[])
        .about("A new process opens the file of the `sqlite-loop` thread of this length and adds one step."),
    workload("server", "round trip", &[1, 10, 100], &[2])
        .about("Sequential round trips over loopback HTTP: each creates a thread, runs a graph of one node on it and waits for the result. The engine's server keeps threads in memory and runs in a SQLite file; LangGraph's is its development server (`langgraph dev`), which keeps both in memory."),
    workload("server-concurrent", "concurrent run", &[20, 200], &[20])
        .about("The same round trips, concurrently. LangGraph's server executes at most 10 runs at a time, its documented default."),
    workload("server-first-event", "request", &[1, 10], &[2])
        .about("Sequential requests that run the graph and stream its events, each until the first event."),
];

impl Workload {
    const fn about(mut self, about: &'static str) -> Self {
        self.about = about;
        self
    }

    const fn stored(mut self) -> Self {
        self.stored = true;
        self
    }

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
