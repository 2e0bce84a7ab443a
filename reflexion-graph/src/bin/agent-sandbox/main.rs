//! The loop on the command line: `agent-sandbox run "Calculate fibonacci(10)"`.

mod args;
mod bench;
mod dotenv;
mod go;
mod out;
mod place;
mod problem;
mod serve;
mod view;

use std::{
    io::{IsTerminal, stderr},
    process::ExitCode,
};

use clap::Parser;
use tracing_subscriber::{EnvFilter, filter::LevelFilter};

use crate::{
    args::{Cli, Command, Format},
    problem::{Ending, Problem},
};

fn main() -> ExitCode {
    // A sandbox's guest is this program too; then it never comes back from here. Before any thread is started.
    sandbox_vm::guest::enter(sandbox_vm::guest::Agent::new);
    let cli = Cli::parse();
    // Still before any thread: the program may start itself once more.
    if let Err(problem) = dotenv::enter() {
        return fail(&problem);
    }
    log(match cli.command {
        Command::Serve(_) => LevelFilter::INFO,
        _ if cli.log => LevelFilter::INFO,
        _ => LevelFilter::ERROR,
    });
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&Problem::Runtime(error)),
    };
    match runtime.block_on(command(cli.command)) {
        Ok(ending) => ending.into(),
        Err(problem) => fail(&problem),
    }
}

fn fail(problem: &Problem) -> ExitCode {
    // A provider or a sandbox may have had a word in it.
    eprintln!("error: {}", view::clean_lines(&problem.to_string()));
    problem.ending().into()
}

async fn command(command: Command) -> Result<Ending, Problem> {
    match command {
        Command::Run(args) => go::run(&args).await,
        Command::Resume(args) => go::resume(&args).await,
        Command::Fork(args) => go::fork(&args).await,
        Command::Bench(args) => bench::bench(&args).await,
        Command::Serve(args) => serve::serve(&args).await,
        Command::Measure(args) => bench::measure(&args).await,
        Command::Graph { format } => {
            let graph = reflexion_graph::graph::unstored()?;
            out::say(&match format {
                Format::Mermaid => graph.mermaid(),
                Format::Dot => graph.dot(0),
                Format::Json => format!("{:#}\n", graph.to_json(0)),
            })?;
            Ok(Ending::Done)
        }
        Command::Doctor => place::doctor().await,
    }
}

/// Lets events of `tracing` appear on stderr; `RUST_LOG` says which, where it is set.
fn log(level: LevelFilter) {
    let filter = EnvFilter::builder().with_default_directive(level.into()).from_env_lossy();
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(stderr)
        .with_ansi(stderr().is_terminal());
    // Nobody has set another one: this is the program's first step.
    subscriber.init();
}
