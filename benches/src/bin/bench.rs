//! Runs the benchmarks: `bench [--quick] [NAME...]`.
#![expect(clippy::print_stdout, reason = "prints its results to stdout")]

use std::{
    env, fs, io, path::Path, process::ExitCode, thread::available_parallelism, time::Instant,
};

use graph_benches::{
    agents,
    compare::{
        peer::{self, Peer},
        publish, report,
        rounds::{self, Effort},
        works::{WORKS, Work},
    },
    eager,
    langgraph::{self, LangGraph},
    llm_layers, storage,
};
use tokio::runtime::{Handle, Runtime};

const HELP: &str = "\
Usage: bench [OPTIONS] [NAME...]

Measure the engine and its peers. Without NAME, measure everything, and write benches/results, the
book's chapter and the README if every peer was measured in at least one workload.

  --quick     Measure small sizes in few rounds, and only the workloads that are compared with peers
  -h, --help  Print this help

Names:
  works (all of these): {works}
  storage (all of these): sqlite-one, sqlite-16, sqlite-bytes, postgres-one, postgres-16
  llm-layers
  agents
  eager
";

fn main() -> ExitCode {
    let result = match parse(env::args().skip(1)) {
        Ok(None) => {
            let names: Vec<&str> = WORKS.iter().map(|it| it.name).collect();
            print!("{}", HELP.replace("{works}", &names.join(", ")));
            return ExitCode::SUCCESS;
        }
        Ok(Some(selection)) => measure(&selection),
        Err(argument) => {
            eprintln!("error: unknown workload or option `{argument}`; `--help` lists them");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The benchmarks to run.
struct Selection {
    works: Vec<&'static Work>,
    stored: Vec<storage::workload::Workload>,
    llm_layers: bool,
    agents: bool,
    eager: bool,
    effort: Effort,
}

/// Parses the arguments. Returns `None` for `--help`. The error is the invalid argument.
fn parse(args: impl Iterator<Item = String>) -> Result<Option<Selection>, String> {
    let mut selection = Selection {
        works: Vec::new(),
        stored: Vec::new(),
        llm_layers: false,
        agents: false,
        eager: false,
        effort: Effort::FULL,
    };
    for arg in args {
        match arg.as_str() {
            "-h" | "--help" => return Ok(None),
            "--quick" => selection.effort = Effort::QUICK,
            "works" => selection.works.extend(WORKS),
            "storage" => selection.stored.extend(storage::workload::Workload::ALL),
            llm_layers::NAME => selection.llm_layers = true,
            agents::NAME => selection.agents = true,
            eager::NAME => selection.eager = true,
            name => selection.add(name).ok_or(arg)?,
        }
    }
    if selection.is_empty() {
        selection.works.extend(WORKS);
        if !selection.effort.quick {
            selection.stored.extend(storage::workload::Workload::ALL);
            selection.llm_layers = true;
            selection.agents = true;
            selection.eager = true;
        }
    }
    Ok(Some(selection))
}

impl Selection {
    /// Adds the compared or stored workload with this name, if it exists.
    fn add(&mut self, name: &str) -> Option<()> {
        if let Some(work) = Work::named(name) {
            self.works.push(work);
        } else {
            let mut stored = storage::workload::Workload::ALL.into_iter();
            self.stored.push(stored.find(|it| it.name() == name)?);
        }
        Some(())
    }

    fn is_empty(&self) -> bool {
        self.works.is_empty()
            && self.stored.is_empty()
            && !self.llm_layers
            && !self.agents
            && !self.eager
    }
}

fn measure(selection: &Selection) -> io::Result<()> {
    if !selection.works.is_empty() {
        measure_works(selection)?;
    }
    let runtime = Runtime::new()?;
    let mut langgraph = None;
    if !selection.stored.is_empty() || selection.agents {
        langgraph = start_langgraph();
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
    if selection.eager {
        eprintln!("{} …", eager::NAME);
        println!("{}", eager::text(&eager::measure(selection.effort.rounds, runtime.handle())));
    }
    Ok(())
}

/// Measures the workloads, prints the results, and writes them to the repository if they are complete.
fn measure_works(selection: &Selection) -> io::Result<()> {
    let start = Instant::now();
    let scratch = storage::scratch_dir()?;
    let peers = peer::peers()?;
    let mut environment = describe_machine(&storage::describe_disk(scratch.path()));
    environment += &describe_peers(&peers, scratch.path());
    let mut cells = Vec::new();
    for work in &selection.works {
        cells.extend(rounds::measure(work, &peers, selection.effort, scratch.path())?);
    }
    environment += &format!("\nThe measurement took {} minutes.\n", start.elapsed().as_secs() / 60);
    let names: Vec<&str> = peers.iter().map(|it| it.name).collect();
    let all_works = selection.works.len() == WORKS.len() && !selection.effort.quick;
    let unmeasured = publish::unmeasured_peers(&names, &cells);
    if all_works && !unmeasured.is_empty() {
        let peers = unmeasured.join(", ");
        eprintln!("the results are not published, because they lack peers: {peers}");
    }
    let complete = all_works && unmeasured.is_empty();
    // Partial results go to the target directory, so that they do not replace complete ones.
    let dir = match complete {
        true => Path::new(env!("CARGO_MANIFEST_DIR")).join("results"),
        false => scratch.path().with_file_name("bench-results"),
    };
    report::write(&dir, &environment, &names, &cells)?;
    if complete {
        let root = dir.ancestors().nth(2).expect("the results are in a directory of `benches`");
        publish::publish(root, &dir, &report::summary(&cells))?;
    }
    let path = dir.join("results.md");
    println!("{}\nWrote {}", fs::read_to_string(&path)?, path.display());
    Ok(())
}

fn describe_machine(disk: &str) -> String {
    let cores = available_parallelism().map_or(1, usize::from);
    let load = match load() {
        Some(load) if load > 0.25 * cores as f64 => {
            format!(
                " The machine was busy (load average {load:.1}): the ratios are meaningful, the times are not."
            )
        }
        _ => String::new(),
    };
    format!(
        "Measured with `cargo xtask bench` on {cores} cores; the SQLite files are in a directory that {disk}.{load}\n"
    )
}

/// Returns the load average over the last minute, if the system reports it.
fn load() -> Option<f64> {
    fs::read_to_string("/proc/loadavg").ok()?.split_whitespace().next()?.parse().ok()
}

fn describe_peers(peers: &[Peer], scratch: &Path) -> String {
    let mut text = String::from("\n| peer | version |\n|---|---|\n");
    for peer in peers {
        let version = match peer.start(scratch) {
            Ok(session) => session.version.clone(),
            Err(error) => format!("not installed ({error})"),
        };
        text += &format!("| {} | {version} |\n", peer.name);
    }
    text
}

fn measure_storage(selection: &Selection, runtime: &Handle, langgraph: &mut Option<LangGraph>) {
    match storage::measure(&selection.stored, selection.effort.rounds, runtime, langgraph) {
        Ok(report) => print!("{}", storage::table::text(&report)),
        Err(error) => eprintln!("cannot measure the storage workloads: {error}"),
    }
}

fn measure_llm_layers(selection: &Selection, runtime: &Handle) {
    eprintln!("{} …", llm_layers::NAME);
    match llm_layers::measure(selection.effort.rounds, runtime) {
        Ok(rows) => println!("{}", llm_layers::text(&rows)),
        Err(error) => eprintln!("cannot measure the layers of llm: {error}"),
    }
}

fn measure_agents(selection: &Selection, runtime: &Handle, langgraph: &mut Option<LangGraph>) {
    eprintln!("{} …", agents::NAME);
    match agents::measure(selection.effort.rounds, runtime, langgraph) {
        Ok(rows) => println!("{}", agents::text(&rows)),
        Err(error) => eprintln!("cannot measure the agents: {error}"),
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
