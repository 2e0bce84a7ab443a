//! The consulting pipeline on the command line: `consulting run NVDA`.

mod again;
mod args;
mod begin;
mod folder;
mod go;
mod log;
mod look;
mod out;
mod problem;
mod review;
mod serve;
mod summary;
mod view;

use std::process::ExitCode;

use clap::Parser;
use consulting_graph::{config, debate, fence::visible};

use crate::{
    args::{Cli, Command},
    problem::{Ending, Problem},
};

fn main() -> ExitCode {
    // A sandbox's guest is this program too; then it never comes back from here. Before any thread is started.
    sandbox_vm::guest::enter(debate::agent);
    let cli = Cli::parse();
    log::start(&cli.command);
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&Problem::Runtime(error)),
    };
    let ended = runtime.block_on(command(cli.command));
    // A thread that still waits for a line from the terminal is not waited for.
    runtime.shutdown_background();
    match ended {
        Ok(ending) => ending.into(),
        Err(problem) => fail(&problem),
    }
}

fn fail(problem: &Problem) -> ExitCode {
    // A provider may have written a part of it.
    eprintln!("error: {}", visible(&problem.to_string()));
    problem.ending().into()
}

async fn command(command: Command) -> Result<Ending, Problem> {
    match command {
        Command::Run(args) => {
            go::check(&args.going)?;
            let run = begin::begin(&args)?;
            return go::go(&run, &args.going, args.shown, None).await;
        }
        Command::Resume(args) => return again::resume(&args).await,
        Command::Replay(args) => return again::replay(&args).await,
        Command::Fork(args) => return again::fork(&args).await,
        Command::Diff(args) => return again::differ(&args),
        Command::Plan(args) => look::plan(&args)?,
        Command::Graph(args) => look::graph(&args)?,
        Command::Config => out::say(config::DEFAULT)?,
        Command::Events(args) => look::events(&args).await?,
        Command::Serve(args) => return serve::serve(&args).await,
        Command::Doctor => look::doctor().await?,
    }
    Ok(Ending::Done)
}
