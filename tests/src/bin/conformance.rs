//! Runs conformance cases on the engine:
//! `conformance [--eager [--min-ahead N]] [--saver KIND] [--remote-tasks] [--cluster [--restate] [--database URL]]
//! [--case ID] [-v] FILE.jsonl...`.
#![expect(clippy::print_stdout, reason = "prints its report to stdout")]

use std::{collections::BTreeMap, env, error::Error, path::PathBuf, process::ExitCode};

use graph_tests::{
    Case, Execution, SaverKind, compare,
    eager::{self, Equality},
    read, run,
};
#[cfg(feature = "cluster")]
use graph_tests::{
    cluster::{CaseCluster, RunCounts},
    postgres,
};
use serde_json::Value;
#[cfg(feature = "cluster")]
use test_support::restate::Server;

fn main() -> ExitCode {
    let Some(options) = Options::from_args(env::args().skip(1)) else {
        eprintln!(
            "\
Usage: conformance [OPTIONS] FILE.jsonl...

Run conformance cases on the engine and compare the answers with the recorded ones.

  --eager         Build eager graphs, and print in how many cases tasks ran ahead of their steps
  --min-ahead N   With --eager, fail if tasks ran ahead in fewer than N cases
  --saver KIND    Store threads with this saver: memory, sqlite or postgres [default: memory]
  --remote-tasks  Serialise what tasks receive and return, as if they ran in another process
  --cluster       Run the cases on a cluster, with a new PostgreSQL server (feature `cluster`)
  --restate       With --cluster, let a new Restate server assign the runs, instead of PostgreSQL
  --database URL  With --cluster, use this empty PostgreSQL database instead of a new server
  --case ID       Run only the case with this id
  -v              Print the graph, the call and both answers of each difference; with --eager, how each case ran"
        );
        return ExitCode::FAILURE;
    };
    match report(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

#[derive(Default)]
struct Options {
    files: Vec<PathBuf>,
    eager: bool,
    /// Minimum number of cases in which tasks run ahead.
    min_ahead: usize,
    saver: SaverKind,
    execution: Execution,
    cluster: bool,
    /// Whether a Restate server assigns the runs of the cluster.
    restate: bool,
    /// URL of an empty database for the cluster. `None`: a new server.
    database: Option<String>,
    case: Option<String>,
    verbose: bool,
}

impl Options {
    fn from_args(mut args: impl Iterator<Item = String>) -> Option<Self> {
        let mut options = Self::default();
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--eager" => options.eager = true,
                "--min-ahead" => options.min_ahead = args.next()?.parse().ok()?,
                "--saver" => options.saver = args.next()?.parse().ok()?,
                "--case" => options.case = Some(args.next()?),
                "--remote-tasks" => options.execution = Execution::RemoteTasks,
                "--cluster" => options.cluster = true,
                "--restate" => options.restate = true,
                "--database" => options.database = Some(args.next()?),
                "-v" => options.verbose = true,
                other if other.starts_with('-') => return None,
                file => options.files.push(PathBuf::from(file)),
            }
        }
        let is_valid = !options.files.is_empty()
            && (options.eager || options.min_ahead == 0)
            && (options.cluster || options.database.is_none() && !options.restate)
            && !(options.cluster && options.has_local_options());
        is_valid.then_some(options)
    }

    /// Returns whether an option is set that does not apply to a cluster.
    fn has_local_options(&self) -> bool {
        let is_plain = matches!(self.execution, Execution::Engine);
        self.eager || self.saver != SaverKind::default() || !is_plain
    }
}

/// Runs cases that are not eager.
enum Runner<'a> {
    Engine(&'a Options),
    #[cfg(feature = "cluster")]
    Cluster(tokio::runtime::Runtime, CaseCluster),
    #[cfg(feature = "cluster")]
    Restate(tokio::runtime::Runtime, CaseCluster<graph_cluster::Restate>),
}

impl<'a> Runner<'a> {
    fn new(options: &'a Options) -> Result<Self, Box<dyn Error>> {
        if options.cluster { Self::cluster(options) } else { Ok(Self::Engine(options)) }
    }

    #[cfg(feature = "cluster")]
    fn cluster(options: &Options) -> Result<Self, Box<dyn Error>> {
        let runtime = tokio::runtime::Runtime::new()?;
        let url = match &options.database {
            Some(url) => url.clone(),
            None => postgres::shared_or_error()?.fresh_database(),
        };
        if !options.restate {
            let cluster = runtime.block_on(CaseCluster::connect(&url))?;
            return Ok(Self::Cluster(runtime, cluster));
        }
        let server = Server::start(1).ok_or("the Restate server is not installed")?;
        let cluster = runtime.block_on(CaseCluster::connect_with_restate(&url, server))?;
        Ok(Self::Restate(runtime, cluster))
    }

    #[cfg(not(feature = "cluster"))]
    fn cluster(_: &Options) -> Result<Self, Box<dyn Error>> {
        Err("`--cluster` is not part of this build; build with `-p graph-tests --features cluster`"
            .into())
    }

    fn run(&self, case: &Case) -> Result<Vec<Value>, Box<dyn Error>> {
        match self {
            Self::Engine(options) => Ok(run(case, options.saver, &options.execution)?),
            #[cfg(feature = "cluster")]
            Self::Cluster(runtime, cluster) => Ok(runtime.block_on(cluster.run(case))?),
            #[cfg(feature = "cluster")]
            Self::Restate(runtime, cluster) => Ok(runtime.block_on(cluster.run(case))?),
        }
    }

    /// Returns the number of runs on the cluster, if there is one.
    #[cfg(feature = "cluster")]
    fn counts(&self) -> Option<&RunCounts> {
        match self {
            Self::Engine(_) => None,
            Self::Cluster(_, cluster) => Some(cluster.counts()),
            Self::Restate(_, cluster) => Some(cluster.counts()),
        }
    }
}

/// Runs the selected cases. Returns whether all answers are equal to the recorded ones, and tasks ran ahead in enough
/// cases.
fn report(options: &Options) -> Result<bool, Box<dyn Error>> {
    let runner = Runner::new(options)?;
    let (mut n_cases, mut n_equal) = (0, 0);
    let mut equalities: BTreeMap<Equality, usize> = BTreeMap::new();
    for file in &options.files {
        for case in read::<Case>(file)? {
            if options.case.as_ref().is_some_and(|it| *it != case.id) {
                continue;
            }
            n_cases += 1;
            if !options.eager {
                n_equal += usize::from(is_equal(&case, &runner, options.verbose));
            } else if let Some(equality) = equality(&case, options) {
                n_equal += 1;
                *equalities.entry(equality).or_default() += 1;
            }
        }
    }
    println!("{n_cases} cases, {n_equal} equal");
    #[cfg(feature = "cluster")]
    if let Some(counts) = runner.counts() {
        println!("{counts}");
    }
    for (equality, count) in &equalities {
        println!("{count:5} {equality}");
    }
    let n_ahead = equalities.get(&Equality::RanAhead).copied().unwrap_or_default();
    if n_ahead < options.min_ahead {
        println!(
            "tasks ran ahead in only {n_ahead} cases; at least {} are required",
            options.min_ahead
        );
    }
    Ok(n_cases == n_equal && n_ahead >= options.min_ahead)
}

fn equality(case: &Case, options: &Options) -> Option<Equality> {
    let equality = eager::check(case, options.saver);
    let report = |error: &eager::EagerError| {
        println!("{}: {}\n  {}\n", case.id, case.about, error.to_string().replace('\n', "\n  "));
    };
    let equality = equality.inspect_err(report).ok()?;
    if options.verbose {
        println!("{}: {equality}", case.id);
    }
    Some(equality)
}

fn is_equal(case: &Case, runner: &Runner<'_>, verbose: bool) -> bool {
    let got = match runner.run(case) {
        Ok(got) => got,
        Err(error) => {
            println!("{}: {}\n  {error}\n", case.id, case.about);
            return false;
        }
    };
    let Some(difference) = compare(case, &got) else { return true };
    println!("{}: {}\n  {}\n", case.id, case.about, difference.to_string().replace('\n', "\n  "));
    if verbose {
        print_answers(case, &got, difference.call);
    }
    false
}

fn print_answers(case: &Case, got: &[Value], call: usize) {
    let text =
        |answer: Option<Value>| answer.map_or_else(|| "nothing".to_owned(), |it| format!("{it:#}"));
    println!("graph: {:#?}", case.graph);
    println!("call: {:#?}", case.script.get(call));
    println!("expected: {}", text(compare::answer(case, &case.expect, call)));
    println!("got: {}\n", text(compare::answer(case, got, call)));
}
