//! Command-line program that solves tasks, for example with `agent-sandbox run "Calculate fibonacci(10)"`.

mod args;
mod bench;
mod dotenv;
mod error;
mod serve;
mod session;
mod setup;
mod view;

use std::process::ExitCode;

use app_support::{
    program::{LevelFilter, init_logging, print},
    terminal::replace_invisible_in_lines,
};
use clap::Parser;

use crate::{
    args::{Cli, Command, Format},
    error::{CliError, CommandStatus},
};

fn main() -> ExitCode {
    // This program is also the guest agent. In a guest, this call does not return. It must run before any OS thread
    // starts.
    sandbox_vm::guest::enter(sandbox_vm::guest::Agent::new);
    let cli = Cli::parse();
    // This must also run before any OS thread starts, because it may replace the process.
    if let Err(error) = dotenv::load() {
        return fail(&error);
    }
    init_logging(match cli.command {
        Command::Serve(_) => LevelFilter::INFO,
        _ if cli.log => LevelFilter::INFO,
        _ => LevelFilter::ERROR,
    });
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&CliError::Runtime(error)),
    };
    match runtime.block_on(command(cli.command)) {
        Ok(ending) => ending.into(),
        Err(error) => fail(&error),
    }
}

fn fail(error: &CliError) -> ExitCode {
    // The message may contain untrusted text from a provider or a sandbox.
    eprintln!("error: {}", replace_invisible_in_lines(&error.to_string()));
    error.status().into()
}

async fn command(command: Command) -> Result<CommandStatus, CliError> {
    match command {
        Command::Run(args) => session::run(&args).await,
        Command::Resume(args) => session::resume(&args).await,
        Command::Fork(args) => session::fork(&args).await,
        Command::Bench(args) => bench::bench(&args).await,
        Command::Serve(args) => serve::serve(&args).await,
        Command::Measure(args) => bench::measure(&args).await,
        Command::Graph { format } => {
            let graph = reflexion_graph::graph::without_checkpointer()?;
            print(&match format {
                Format::Mermaid => graph.mermaid(),
                Format::Dot => graph.dot(0),
                Format::Json => format!("{:#}\n", graph.to_json(0)),
            })?;
            Ok(CommandStatus::Done)
        }
        Command::Doctor => setup::doctor().await,
    }
}
