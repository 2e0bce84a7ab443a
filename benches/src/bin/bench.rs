//! Runs the benchmarks: `bench [--quick] [--langgraph] [NAME...]`.
#![expect(clippy::print_stdout, reason = "prints its results to stdout")]

use std::{env, fs, io, path::PathBuf, process::ExitCode, thread::available_parallelism};

use graph_benches::{
    agents,
    langgraph::{self, LangGraph},
    llm_layers,
    measure::{Samples, Side},
    storage,
    table::{self, Row},
    workload::{Size, Workload},
};
use tokio::runtime::{Handle, Runtime};

const ROUNDS: usize = 9;
const QUICK_ROUNDS: usize = 3;
/// Number of measurements of the engine and of the baseline in each round.
const TURNS: usize = 3;

const HELP: &str = "\
Usage: bench [OPTIONS] [NAME...]

Measure workloads on the engine, on plain tokio and in LangGraph. Without NAME, measure all of them.

  --quick      Measure three rounds instead of nine
  --langgraph  Install LangGraph, its savers and LangChain into target/langgraph-venv if no Python has them
  -h, --help   Print this help

Workloads:
  loop, fan-out, chain, append, checkpointed-loop, checkpointed-append
  sqlite-one, sqlite-16, sqlite-bytes, postgres-one, postgres-16; `storage` selects these five
  llm-layers
  agents
";

fn main() -> ExitCode {
    match parse(env::args().skip(1)) {
        Ok(None) => {
            print!("{HELP}");
            ExitCode::SUCCESS
        }
        Ok(Some(selection)) => {
            measure(&selection);
            ExitCode::SUCCESS
        }
        Err(argument) => {
            eprint!("error: unknown workload or option `{argument}`\n\n{HELP}");
            ExitCode::from(2)
        }
    }
}

/// The workloads to measure, the number of rounds, and how to find LangGraph.
struct Selection {
    workloads: Vec<Workload>,
    stored: Vec<storage::workload::Workload>,
    llm_layers: bool,
    agents: bool,
    rounds: usize,
    langgraph: fn() -> io::Result<Option<PathBuf>>,
}

/// Parses the arguments. Returns `None` for `--help`. The error is the invalid argument.
fn parse(args: impl Iterator<Item = String>) -> Result<Option<Selection>, String> {
    let mut selection = Selection {
        workloads: Vec::new(),
        stored: Vec::new(),
        llm_layers: false,
        agents: false,
        rounds: ROUNDS,
        langgraph: || Ok(langgraph::find()),
    };
    for arg in args {
        match arg.as_str() {
            "-h" | "--help" => return Ok(None),
            "--quick" => selection.rounds = QUICK_ROUNDS,
            "--langgraph" => selection.langgraph = find_or_install,
            "storage" => selection.stored.extend(storage::workload::Workload::ALL),
            llm_layers::NAME => selection.llm_layers = true,
            agents::NAME => selection.agents = true,
            name => selection.add(name).ok_or(arg)?,
        }
    }
    let has_others = selection.llm_layers || selection.agents;
    if selection.workloads.is_empty() && selection.stored.is_empty() && !has_others {
        selection.workloads.extend(Workload::ALL);
        selection.stored.extend(storage::workload::Workload::ALL);
        selection.llm_layers = true;
        selection.agents = true;
    }
    Ok(Some(selection))
}

impl Selection {
    /// Adds the workload with this name, if it exists.
    fn add(&mut self, name: &str) -> Option<()> {
        if let Some(workload) = Workload::ALL.into_iter().find(|it| it.name() == name) {
            self.workloads.push(workload);
        } else {
            self.stored
                .push(storage::workload::Workload::ALL.into_iter().find(|it| it.name() == name)?);
        }
        Some(())
    }
}

fn find_or_install() -> io::Result<Option<PathBuf>> {
    match langgraph::find() {
        Some(python) if langgraph::is_complete(&python) => Ok(Some(python)),
        _ => langgraph::install().map(Some),
    }
}

fn measure(selection: &Selection) {
    let runtime = Runtime::new().expect("a runtime can be created");
    let mut langgraph = start(selection);
    print_environment(selection, langgraph.as_ref());
    if !selection.workloads.is_empty() {
        measure_engine(selection, runtime.handle(), &mut langgraph);
    }
    if !selection.stored.is_empty() {
        measure_storage(selection, runtime.handle(), &mut langgraph);
    }
    if selection.llm_layers {
        measure_llm_layers(selection, runtime.handle());
    }
    if selection.agents {
        measure_agents(selection, runtime.handle(), &mut langgraph);
    }
}

fn measure_engine(selection: &Selection, runtime: &Handle, langgraph: &mut Option<LangGraph>) {
    let mut rows = Vec::new();
    for &workload in &selection.workloads {
        for size in workload.sizes() {
            eprintln!("{} {} …", workload.name(), size.size);
            rows.push(row(workload, size, selection.rounds, runtime, langgraph));
        }
    }
    println!("{}", table::table(&rows));
    println!("{}", table::growth(&rows));
    println!("{}", table::verdicts(&rows));
}

fn measure_storage(selection: &Selection, runtime: &Handle, langgraph: &mut Option<LangGraph>) {
    match storage::measure(&selection.stored, selection.rounds, runtime, langgraph) {
        Ok(report) => print!("{}", storage::table::text(&report)),
        Err(error) => eprintln!("cannot measure the storage workloads: {error}"),
    }
}

fn measure_llm_layers(selection: &Selection, runtime: &Handle) {
    eprintln!("{} …", llm_layers::NAME);
    match llm_layers::measure(selection.rounds, runtime) {
        Ok(rows) => println!("{}", llm_layers::text(&rows)),
        Err(error) => eprintln!("cannot measure the layers of llm: {error}"),
    }
}

fn measure_agents(selection: &Selection, runtime: &Handle, langgraph: &mut Option<LangGraph>) {
    eprintln!("{} …", agents::NAME);
    match agents::measure(selection.rounds, runtime, langgraph) {
        Ok(rows) => println!("{}", agents::text(&rows)),
        Err(error) => eprintln!("cannot measure the agents: {error}"),
    }
}

/// Starts LangGraph, or prints why it is not available.
fn start(selection: &Selection) -> Option<LangGraph> {
    let python = (selection.langgraph)()
        .inspect_err(|error| eprintln!("LangGraph is not available: {error}"));
    let langgraph = LangGraph::start(&python.ok()??);
    langgraph.inspect_err(|error| eprintln!("cannot start LangGraph: {error}")).ok()
}

fn print_environment(selection: &Selection, langgraph: Option<&LangGraph>) {
    let cores = available_parallelism().map_or(1, usize::from);
    println!(
        "{} rounds with {TURNS} measurements of the engine and one of LangGraph each, on {cores} cores",
        selection.rounds
    );
    match langgraph {
        Some(langgraph) => println!("compared with {}", langgraph.version()),
        None => println!(
            "LangGraph is not installed: install it with `cargo xtask bench --langgraph`, or set {} to a Python that has it",
            langgraph::PYTHON
        ),
    }
    if let Some(load) = load().filter(|it| *it > 0.5 * cores as f64) {
        println!(
            "the machine is busy (load average {load:.1}): the ratios are reliable, the times are not"
        );
    }
    println!();
}

/// Returns the load average over the last minute, if the system reports it.
fn load() -> Option<f64> {
    fs::read_to_string("/proc/loadavg").ok()?.split_whitespace().next()?.parse().ok()
}

/// Measures one row of the table. In each round, the engine, the baseline and LangGraph take turns.
fn row(
    workload: Workload,
    size: Size,
    rounds: usize,
    runtime: &Handle,
    langgraph: &mut Option<LangGraph>,
) -> Row {
    let sides = workload.sides(size, runtime);
    let mut engine = Side::warmed_up(sides.engine, size.steps);
    let mut baseline = sides.baseline.map(|it| Side::warmed_up(it, size.steps));
    let mut langgraph_samples = Samples::default();
    run_langgraph(langgraph, workload, size, &mut Samples::default());
    for round in 0..rounds {
        match &mut baseline {
            Some(baseline) => take_turns(&mut engine, baseline, round),
            None => engine.round(),
        }
        run_langgraph(langgraph, workload, size, &mut langgraph_samples);
    }
    Row {
        workload,
        size: size.size,
        engine: engine.cost().expect("at least one round was measured"),
        baseline: baseline.and_then(|it| it.cost()),
        langgraph: langgraph_samples.cost().zip(size.langgraph),
    }
}

/// Measures the engine and the baseline several times, because this is cheap compared with running LangGraph.
fn take_turns(engine: &mut Side, baseline: &mut Side, round: usize) {
    let mut pair = [engine, baseline];
    // The side that runs first finds cold caches, so the order alternates between rounds.
    pair.rotate_left(round % 2);
    for _ in 0..TURNS {
        pair.iter_mut().for_each(|it| it.round());
    }
}

/// Measures one round of LangGraph. After a failure, LangGraph is no longer measured.
fn run_langgraph(
    langgraph: &mut Option<LangGraph>,
    workload: Workload,
    size: Size,
    samples: &mut Samples,
) {
    let (Some(child), Some(langgraph_size)) = (langgraph.as_mut(), size.langgraph) else { return };
    match child.run(workload, langgraph_size) {
        Ok(time) => samples.add(time, langgraph_size.steps),
        Err(error) => {
            eprintln!("LangGraph failed: {error}");
            *langgraph = None;
        }
    }
}
