//! Compares an eager graph with an ordinary one: ten branches of ten steps, with and without random latencies.

use std::{
    fmt::Write,
    time::{Duration, Instant},
};

use graph_core::{CompiledGraph, Context, Label, NodeExt, START, State, StateGraph};
use tokio::runtime::Handle;

use crate::{
    measure::{Run, Side},
    table::{align_columns, nanos, verdict},
};

/// Name of the workload on the command line.
pub const NAME: &str = "eager";

/// Number of branches.
const BRANCHES: usize = 10;

/// Number of steps of each branch.
const STEPS: usize = 10;

/// Maximum duration of an eager run, relative to the slowest branch alone.
const LATENCY_LIMIT: f64 = 1.05;

/// Maximum cost of an eager step, relative to an ordinary one.
const OVERHEAD_LIMIT: f64 = 1.5;

/// How long each task takes: one row per branch, one column per step. Empty if tasks take no time.
#[derive(Clone, Debug, Default)]
pub struct Latencies(Vec<[Duration; STEPS]>);

impl Latencies {
    /// Returns latencies between 2 and 40 milliseconds that depend on the seed.
    fn random(seed: u64) -> Self {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            Duration::from_millis(2 + (state >> 33) % 39)
        };
        Self((0..BRANCHES).map(|_| [(); STEPS].map(|()| next())).collect())
    }

    /// Waits for the duration of a task. Steps are numbered from 1.
    async fn wait(&self, branch: usize, step: i64) {
        if let Some(row) = self.0.get(branch) {
            tokio::time::sleep(row[(step - 1) as usize]).await;
        }
    }
}

/// Whether a graph is eager.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mode {
    Ordinary,
    Eager,
}

type Graph = StateGraph<Branches, Latencies>;

/// Declares the state, which has one field per branch, and the nodes of the branches.
macro_rules! branches {
    ($($index:literal $field:ident),*) => {
        /// Number of steps that each branch has done.
        #[derive(State, Clone, Debug, Default)]
        pub struct Branches { $(pub $field: u64),* }

        $(async fn $field(state: &Branches, cx: &Context<Latencies>) -> BranchesUpdate {
            cx.deps().wait($index, cx.step()).await;
            Branches::update().$field(state.$field + 1)
        })*

        /// Returns a graph with all nodes and no edges.
        fn nodes(mode: Mode) -> Graph {
            let mut graph = StateGraph::new();
            for step in 0..STEPS {
                $(graph = match mode {
                    Mode::Ordinary => graph.node_as(name($index, step), $field),
                    Mode::Eager => {
                        let node = $field.reads([stringify!($field)]).writes([stringify!($field)]);
                        graph.node_as(name($index, step), node)
                    }
                };)*
            }
            graph
        }

        /// Returns the number of steps of all branches.
        fn total(state: &Branches) -> u64 {
            [$(state.$field),*].into_iter().sum()
        }
    };
}

branches!(0 b0, 1 b1, 2 b2, 3 b3, 4 b4, 5 b5, 6 b6, 7 b7, 8 b8, 9 b9);

fn name(branch: usize, step: usize) -> Label {
    Label::from(format!("b{branch} step {step}"))
}

/// Builds the graph. Only the nodes of the eager graph declare their fields.
pub fn graph(mode: Mode) -> CompiledGraph<Branches, Latencies> {
    let mut graph = nodes(mode);
    for branch in 0..BRANCHES {
        graph = graph.edge(START, name(branch, 0));
        for step in 1..STEPS {
            graph = graph.edge(name(branch, step - 1), name(branch, step));
        }
    }
    let graph = if mode == Mode::Eager { graph.eager() } else { graph };
    graph.compile().expect("the graph is valid")
}

/// Runs the graph once. Returns the number of tasks.
pub async fn run(graph: &CompiledGraph<Branches, Latencies>, latencies: Latencies) -> u64 {
    let state = graph.invoke(Branches::default(), latencies).await;
    total(&state.expect("the run succeeds"))
}

/// Runs the tasks of all branches without a graph.
async fn run_by_hand(latencies: Latencies) {
    let branches = latencies.0.into_iter().map(|row| {
        tokio::spawn(async move {
            for latency in row {
                tokio::time::sleep(latency).await;
            }
        })
    });
    for branch in branches.collect::<Vec<_>>() {
        branch.await.expect("a branch does not panic");
    }
}

/// The results of the measurement.
#[derive(Clone, Copy, Debug)]
pub struct Report {
    /// Duration of the slowest branch alone, of the eager graph and of the ordinary graph, in seconds.
    pub seconds: [f64; 3],
    /// Cost of a step without latencies, of the eager graph and of the ordinary graph, in nanoseconds.
    pub step: [f64; 2],
}

/// Measures both graphs in rounds. Durations are sums over all rounds, each of which has different latencies.
pub fn measure(rounds: usize, runtime: &Handle) -> Report {
    let [eager, ordinary] = [Mode::Eager, Mode::Ordinary].map(graph);
    let mut seconds = [0.0; 3];
    for round in 0..rounds {
        let latencies = || Latencies::random(round as u64);
        runtime.block_on(async {
            let mut start = Instant::now();
            let mut lap = || std::mem::replace(&mut start, Instant::now()).elapsed().as_secs_f64();
            run_by_hand(latencies()).await;
            seconds[0] += lap();
            run(&eager, latencies()).await;
            seconds[1] += lap();
            run(&ordinary, latencies()).await;
            seconds[2] += lap();
        });
    }
    let mut sides = [eager, ordinary].map(|it| Side::warmed_up(timed(runtime, it), STEPS));
    for _ in 0..rounds {
        sides.iter_mut().for_each(Side::round);
    }
    let cost = |it: &Side| it.cost().expect("at least one round was measured").median;
    Report { seconds, step: [cost(&sides[0]), cost(&sides[1])] }
}

fn timed(runtime: &Handle, graph: CompiledGraph<Branches, Latencies>) -> Run {
    let runtime = runtime.clone();
    Box::new(move || {
        let start = Instant::now();
        let tasks = runtime.block_on(run(&graph, Latencies::default()));
        assert_eq!(tasks, (BRANCHES * STEPS) as u64);
        start.elapsed()
    })
}

/// Formats the results, followed by lines that state whether the limits are met.
pub fn text(report: &Report) -> String {
    let [alone, eager, ordinary] = report.seconds;
    let row = |name: &str, seconds: f64| {
        [name.to_owned(), format!("{:.0}", seconds * 1e3), format!("{:.3}", seconds / alone)]
    };
    let rows = [row("slowest branch", alone), row("eager", eager), row("ordinary", ordinary)];
    let mut text = align_columns(["ten branches", "ms", "ratio"], rows.into_iter());
    let [eager_step, ordinary_step] = report.step;
    let (waiting, overhead) = (eager / alone, eager_step / ordinary_step);
    let limits = [
        ("the slowest branch", waiting, LATENCY_LIMIT),
        ("an ordinary step", overhead, OVERHEAD_LIMIT),
    ];
    let [eager_step, ordinary_step] = [eager_step, ordinary_step].map(nanos);
    text += &format!(
        "\nwithout latencies: {eager_step} ns per eager step, {ordinary_step} ns per ordinary step\n"
    );
    for (of, ratio, limit) in limits {
        let holds = verdict(ratio <= limit);
        let _ = writeln!(text, "{NAME}: at most {limit} times {of}: {holds} ({ratio:.3})");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_contains_the_durations_and_the_verdicts() {
        let report = Report { seconds: [1.0, 1.04, 1.5], step: [20_000.0, 10_000.0] };
        let expect = "\
ten branches      ms  ratio
slowest branch  1000  1.000
eager           1040  1.040
ordinary        1500  1.500

without latencies: 20,000 ns per eager step, 10,000 ns per ordinary step
eager: at most 1.05 times the slowest branch: met (1.040)
eager: at most 1.5 times an ordinary step: not met (2.000)
";
        assert_eq!(text(&report), expect);
    }

    #[tokio::test]
    async fn both_graphs_run_all_tasks() {
        for mode in [Mode::Ordinary, Mode::Eager] {
            assert_eq!(run(&graph(mode), Latencies::default()).await, 100);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn eager_graph_takes_as_long_as_its_slowest_branch() {
        let latencies = Latencies::random(7);
        let slowest = latencies.0.iter().map(|it| it.iter().sum::<Duration>()).max();
        let barriers = (0..STEPS).map(|step| latencies.0.iter().map(|it| it[step]).max());
        let barriers: Duration = barriers.flatten().sum();
        for (mode, expected) in [(Mode::Eager, slowest), (Mode::Ordinary, Some(barriers))] {
            let start = tokio::time::Instant::now();
            run(&graph(mode), latencies.clone()).await;
            assert_eq!(Some(start.elapsed()), expected, "{mode:?}");
        }
    }
}
