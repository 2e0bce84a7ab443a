//! Command line of the consulting pipeline, such as `consulting run NVDA`.

mod ablate;
mod args;
#[cfg(feature = "cluster")]
mod cluster;
mod error;
mod execute;
mod existing_runs;
mod inspect;
mod new_run;
mod output;
mod review;
mod run_path;
mod serve;
mod summary;
mod view;

use std::process::ExitCode;

use app_support::{
    program::{LevelFilter, init_logging, print},
    terminal::strip_invisible,
};
use clap::Parser;
use consulting_graph::{config, debate};

use crate::{
    args::{Cli, Command},
    error::{CliError, ExitStatus},
};

fn main() -> ExitCode {
    // This program is also the guest inside a sandbox. In a guest, `enter` does not return. It must be called before
    // any OS thread is started.
    sandbox_vm::guest::enter(debate::agent);
    let cli = Cli::parse();
    // Only servers and workers write log messages. All other commands report their progress themselves.
    init_logging(match cli.command {
        Command::Serve(_) => LevelFilter::INFO,
        #[cfg(feature = "cluster")]
        Command::Worker(_) => LevelFilter::INFO,
        _ => LevelFilter::OFF,
    });
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&CliError::Runtime(error)),
    };
    let result = runtime.block_on(command(cli.command));
    // Does not wait for an OS thread that is still reading from the terminal.
    runtime.shutdown_background();
    match result {
        Ok(status) => status.into(),
        Err(error) => fail(&error),
    }
}

fn fail(error: &CliError) -> ExitCode {
    // Strips invisible characters, because part of the message may come from a model provider.
    eprintln!("error: {}", strip_invisible(&error.to_string()));
    error.exit_status().into()
}

async fn command(command: Command) -> Result<ExitStatus, CliError> {
    match command {
        Command::Run(args) => {
            execute::check_sandbox(&args.execution)?;
            let run = new_run::create(&args).await?;
            return execute::execute(&run, &args.execution, &args.cluster, args.output, None).await;
        }
        Command::Resume(args) => return existing_runs::resume(&args).await,
        Command::Rescore(args) => return existing_runs::rescore(&args).await,
        Command::Replay(args) => return existing_runs::replay(&args).await,
        Command::Fork(args) => return existing_runs::fork(&args).await,
        Command::Diff(args) => return existing_runs::diff_runs(&args),
        Command::Ablate(args) => return ablate::ablate(&args).await,
        Command::Plan(args) => inspect::plan(&args)?,
        Command::Graph(args) => inspect::graph(&args)?,
        Command::Config => print(config::DEFAULT)?,
        Command::Events(args) => inspect::events(&args).await?,
        Command::Serve(args) => return serve::serve(&args).await,
        #[cfg(feature = "cluster")]
        Command::Worker(args) => return cluster::worker(&args).await,
        Command::Doctor => inspect::doctor().await?,
    }
    Ok(ExitStatus::Success)
}
