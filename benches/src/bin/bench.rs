//! Runs the benchmarks: `bench [--quick] [NAME...]`.
#![expect(clippy::print_stdout, reason = "prints its results to stdout")]

use std::{
    env, io,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Instant,
};

use graph_benches::{
    build,
    compare::{
        environment::{describe_machine, describe_peers},
        overview::overview,
        peer,
        progress::{Progress, Run},
        publish,
        report::{self, Results},
        rounds::{self, Effort},
        verdicts::summary,
        workloads::{WORKLOADS, Workload},
    },
    eager,
    langgraph::{self, LangGraph},
    llm_layers, protocol, sandboxes,
    storage::{self, workload::StoredWorkload},
    workloads,
};
use sandbox_vm::guest::{self, Agent};
use tokio::runtime::{Handle, Runtime};

const HELP: &str = "\
Usage: bench [OPTIONS] [NAME...]

Measure the engine and its peers. Without NAME, measure everything. If all workloads, the sandboxes
and the builds are measured, write benches/results, the book's chapter and the README, unless the
engine is missing at any size or a peer in all workloads.

  --quick     Measure the main workloads and the sandboxes in under 4 minutes
  --resume    Keep the workloads that an interrupted run of the same programs has completed
  -h, --help  Print this help

Names:
  workloads (all of these): {workloads}
  storage (all of these): sqlite-one, sqlite-16, sqlite-bytes, postgres-one, postgres-16
  sandboxes
  build
  llm-layers
  eager
";

fn main() -> ExitCode {
    // This program is also the guest agent; in a guest, this call does not return. Two of the peers are this program
    // with an argument.
    guest::enter(Agent::new);
    match env::args().nth(1).as_deref() {
        Some(peer::ENGINE) => {
            return exit_code(protocol::serve(env!("CARGO_PKG_VERSION"), workloads::on_engine));
        }
        Some(peer::BY_HAND) => {
            return exit_code(protocol::serve("Rust and tokio", workloads::by_hand));
        }
        _ => {}
    }
    match parse(env::args().skip(1)) {
        Ok(None) => {
            let names: Vec<&str> = WORKLOADS.iter().map(|it| it.name).collect();
            print!("{}", HELP.replace("{workloads}", &names.join(", ")));
            ExitCode::SUCCESS
        }
        Ok(Some(selection)) => exit_code(measure(&selection)),
        Err(argument) => {
            eprintln!("error: unknown workload or option `{argument}`; `--help` lists them");
            ExitCode::from(2)
        }
    }
}

fn exit_code(result: io::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The benchmarks to run.
#[derive(Default)]
struct Selection {
    workloads: Vec<&'static Workload>,
    sandboxes: bool,
    build: bool,
    stored: Vec<StoredWorkload>,
    llm_layers: bool,
    eager: bool,
    quick: bool,
    resume: bool,
}

/// Parses the arguments. Returns `None` for `--help`. The error is the invalid argument.
fn parse(args: impl Iterator<Item = String>) -> Result<Option<Selection>, String> {
    let mut selection = Selection::default();
    for arg in args {
        match arg.as_str() {
            "-h" | "--help" => return Ok(None),
            "--quick" => selection.quick = true,
            "--resume" => selection.resume = true,
            "workloads" => selection.workloads.extend(WORKLOADS),
            "storage" => selection.stored.extend(StoredWorkload::ALL),
            llm_layers::NAME => selection.llm_layers = true,
            sandboxes::NAME => selection.sandboxes = true,
            build::NAME => selection.build = true,
            eager::NAME => selection.eager = true,
            name => selection.add(name).ok_or(arg)?,
        }
    }
    if selection.is_empty() {
        selection.workloads.extend(WORKLOADS);
        selection.sandboxes = true;
        if !selection.quick {
            selection.build = true;
            selection.stored.extend(StoredWorkload::ALL);
            selection.llm_layers = true;
            selection.eager = true;
        }
    }
    Ok(Some(selection))
}

impl Selection {
    /// Adds the workload or stored workload with this name, if it exists.
    fn add(&mut self, name: &str) -> Option<()> {
        if let Some(workload) = Workload::named(name) {
            self.workloads.push(workload);
        } else {
            let mut stored = StoredWorkload::ALL.into_iter();
            self.stored.push(stored.find(|it| it.name() == name)?);
        }
        Some(())
    }

    fn is_empty(&self) -> bool {
        self.workloads.is_empty()
            && self.stored.is_empty()
            && !(self.sandboxes || self.build || self.llm_layers || self.eager)
    }

    fn effort(&self) -> Effort {
        if self.quick { Effort::QUICK } else { Effort::FULL }
    }

    /// Returns whether everything that is published is measured, as thoroughly as published results require.
    fn has_all_published(&self) -> bool {
        let has_workloads = WORKLOADS.iter().all(|it| self.workloads.contains(&it));
        has_workloads && self.sandboxes && self.build && !self.quick
    }
}

fn measure(selection: &Selection) -> io::Result<()> {
    let runtime = Runtime::new()?;
    let rounds = selection.effort().rounds;
    if !selection.workloads.is_empty() || selection.sandboxes || selection.build {
        measure_published(selection, runtime.handle())?;
    }
    if !selection.stored.is_empty() {
        measure_storage(&selection.stored, rounds, runtime.handle());
    }
    if selection.llm_layers {
        measure_llm_layers(rounds, runtime.handle());
    }
    if selection.eager {
        eprintln!("{} …", eager::NAME);
        println!("{}", eager::text(&eager::measure(rounds, runtime.handle())));
    }
    Ok(())
}

/// Measures what is published, prints the results, and writes them to the repository if they are complete.
fn measure_published(selection: &Selection, runtime: &Handle) -> io::Result<()> {
    let start = Instant::now();
    let scratch = storage::scratch_dir()?;
    let peers = peer::peers()?;
    let partial = partial_dir(scratch.path());
    let versions = describe_peers(&peers, scratch.path());
    let run = Run::new(selection.has_all_published(), selection.quick, &peers, &versions)?;
    let mut progress = Progress::open(&partial, run, selection.resume)?;
    let before = progress.duration();
    let mut results = Results {
        environment: describe_machine(scratch.path())? + &versions,
        peers: peers.iter().map(|it| it.name).collect(),
        ..Results::default()
    };
    if selection.sandboxes {
        eprintln!("{} …", sandboxes::NAME);
        results.sandboxes = runtime.block_on(sandboxes::measure());
    }
    for workload in &selection.workloads {
        if let Some(cells) = progress.cells(workload, &peers) {
            results.cells.extend(cells);
            continue;
        }
        if start.elapsed() > selection.effort().total {
            eprintln!("{} skipped: the time limit of the run is reached", workload.name);
            continue;
        }
        let cells = rounds::measure(workload, &peers, selection.effort(), scratch.path())?;
        progress.add(workload, &cells, before + start.elapsed())?;
        results.cells.extend(cells);
        // If the run is interrupted, the results so far are kept.
        report::write(&partial, &results)?;
    }
    if selection.build {
        results.builds = build::measure(scratch.path());
    }
    let minutes = (before + start.elapsed()).as_secs_f64() / 60.0;
    let parts = if before.is_zero() { "" } else { " and was interrupted once or more" };
    results.environment += &format!("\nThe measurement took {minutes:.0} minutes{parts}.\n");
    let path = write(selection, &results, &partial)?;
    progress.finish()?;
    print!("{}", overview(&results));
    if !results.sandboxes.is_empty() {
        println!("{}", sandboxes::section(&results.sandboxes));
    }
    if !results.builds.is_empty() {
        println!("{}", build::section(&results.builds));
    }
    println!("Wrote {}", path.display());
    Ok(())
}

/// Returns the directory of results that are not published.
fn partial_dir(scratch: &Path) -> PathBuf {
    scratch.with_file_name("bench-results")
}

/// Writes the results and returns the path of the file. Only complete results replace those in the repository; others
/// are written to `partial`.
fn write(selection: &Selection, results: &Results, partial: &Path) -> io::Result<PathBuf> {
    let missing = publish::missing(&results.peers, &results.cells);
    if selection.has_all_published() && !missing.is_empty() {
        let missing = missing.join(", ");
        eprintln!("the results are not published, because they lack: {missing}");
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or(io::ErrorKind::NotFound)?;
    let dir = if selection.has_all_published() && missing.is_empty() {
        let dir = root.join("benches/results");
        report::write(&dir, results)?;
        publish::publish(root, &dir, &summary(&results.cells))?;
        dir
    } else {
        report::write(partial, results)?;
        partial.to_owned()
    };
    Ok(dir.join("results.md"))
}

fn measure_storage(workloads: &[StoredWorkload], rounds: usize, runtime: &Handle) {
    match storage::measure(workloads, rounds, runtime, &mut start_langgraph()) {
        Ok(report) => print!("{}", storage::table::text(&report)),
        Err(error) => eprintln!("cannot measure the storage workloads: {error}"),
    }
}

fn measure_llm_layers(rounds: usize, runtime: &Handle) {
    eprintln!("{} …", llm_layers::NAME);
    match llm_layers::measure(rounds, runtime) {
        Ok(rows) => println!("{}", llm_layers::text(&rows)),
        Err(error) => eprintln!("cannot measure the layers of llm: {error}"),
    }
}

/// Starts LangGraph, or prints why it is not available.
fn start_langgraph() -> Option<LangGraph> {
    let Some(python) = langgraph::find() else {
        eprintln!(
            "LangGraph is not installed: run `cargo xtask bench`, or set {}",
            langgraph::PYTHON
        );
        return None;
    };
    let langgraph = LangGraph::start(&python);
    langgraph.inspect_err(|error| eprintln!("cannot start LangGraph: {error}")).ok()
}
