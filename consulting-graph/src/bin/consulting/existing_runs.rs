//! Commands on existing runs: resume, replay, fork, diff.

use std::fs;

use app_support::{files::FileError, program::print, run_id::run_id, run_path::default_dir};
use consulting_graph::{
    call::Failure,
    data::Ticker,
    debate_host,
    diff::diff,
    event::NumberedEvent,
    report::Report,
    run::{ReplayResult, ResumeOptions, Run},
};
use sandbox_vm::Isolation;
use serde_json::json;
use tokio::sync::mpsc::UnboundedSender;

use crate::{
    args::{ClusterArgs, DiffArgs, ForkArgs, ReplayArgs, RescoreArgs, ResumeArgs},
    error::{CliError, ExitStatus},
    execute,
    output::print_json,
    review,
    run_path::find_dir,
    view::View,
};

/// Resumes a run.
pub(crate) async fn resume(args: &ResumeArgs) -> Result<ExitStatus, CliError> {
    let run = Run::open(find_dir(&args.run)?)?;
    let decision = match &args.reviewed {
        Some(_) if !run.manifest().run_config.review => return Err(CliError::NotAwaitingReview),
        Some(path) => Some(review::read(path)?),
        None => None,
    };
    let limit = args.execution.limits.limit().or(run.manifest().limit);
    if !(limit.is_unlimited() || args.output.quiet) {
        eprintln!("Spending limit of the whole run: {limit}.");
    }
    // A cluster rejects a run with an isolation requirement, so the requirement is not printed.
    let is_silent = args.output.quiet || execute::is_on_cluster(&args.cluster);
    if let (None, Some(isolation)) =
        (args.execution.sandboxes.isolation, run.manifest().required_isolation)
        && isolation != Isolation::Preferred
        && !is_silent
    {
        let level = isolation.minimum();
        let least = if isolation == Isolation::Off { "" } else { "at least " };
        eprintln!("Isolation is {least}{level}, as in the last execution.");
    }
    execute::execute(&run, &args.execution, &args.cluster, args.output, decision).await
}

/// Requests new scores in place of those that could not be read, and retries everything else that failed.
pub(crate) async fn rescore(args: &RescoreArgs) -> Result<ExitStatus, CliError> {
    let run = Run::open(find_dir(&args.run)?)?;
    let text = fs::read_to_string(run.dir().join("report.json")).unwrap_or_default();
    let is_unread = |it: &Failure| it.place.contains("scoring");
    match serde_json::from_str::<Report>(&text) {
        // A run without a report is executed too: it failed because no move has a score.
        Ok(report) if !report.outcome.failures.iter().any(is_unread) => {
            Err(CliError::NothingToRescore)
        }
        _ => {
            execute::execute(&run, &args.execution, &ClusterArgs::default(), args.output, None)
                .await
        }
    }
}

/// Forks a run and executes the fork.
pub(crate) async fn fork(args: &ForkArgs) -> Result<ExitStatus, CliError> {
    let run = Run::open(find_dir(&args.run)?)?;
    execute::check_sandbox(&args.execution)?;
    let run_id = run_id(&Ticker::parse(&run.manifest().run_config.ticker)?.slug())?;
    let dir = args.out.clone().unwrap_or_else(|| default_dir(&run_id));
    let fork = run.fork(dir, run_id, args.at, args.only, &args.set).await?;
    execute::execute(&fork, &args.execution, &ClusterArgs::default(), args.output, None).await
}

/// Replays a run and checks that the results are identical. The replay is deleted unless `--out` is given.
pub(crate) async fn replay(args: &ReplayArgs) -> Result<ExitStatus, CliError> {
    let run = Run::open(find_dir(&args.run)?)?;
    // Deleted on drop.
    let scratch = tempfile::tempdir().map_err(FileError::at(&std::env::temp_dir()))?;
    let dir = args.out.clone().unwrap_or_else(|| scratch.path().to_owned());
    let sandbox = match &args.sandbox {
        Some(name) => Some(name.clone()),
        None => original_backend(&run).await,
    };
    let options = ResumeOptions {
        concurrency: args.concurrency,
        backend: sandbox,
        ..ResumeOptions::default()
    };
    let work = |sender: UnboundedSender<NumberedEvent>| {
        run.replay(dir.clone(), options, move |event| drop(sender.send(event.clone())))
    };
    let replayed = execute::run_with_view(View::new(&run, args.output), work).await;
    match replayed {
        None => {
            eprintln!("\nInterrupted. The run is unchanged.");
            Ok(ExitStatus::Interrupted)
        }
        Some(replayed) => {
            print_identical(&run, args, &replayed?)?;
            Ok(ExitStatus::Success)
        }
    }
}

/// Returns the back end that the run's debates used, if it is available on this machine.
async fn original_backend(run: &Run) -> Option<String> {
    let text = fs::read_to_string(run.dir().join("report.json")).ok()?;
    let backend = serde_json::from_str::<Report>(&text).ok()?.outcome.isolation.backend;
    let opened = debate_host::open_sandboxes(Isolation::Preferred, Some(&backend)).await;
    opened.is_ok().then_some(backend)
}

fn print_identical(run: &Run, args: &ReplayArgs, replayed: &ReplayResult) -> Result<(), CliError> {
    let (dir, files) = (run.dir(), &replayed.files);
    if args.output.json {
        return print_json(&json!({ "folder": dir, "same": files, "kept": args.out }), false);
    }
    let (n, dir) = (files.len(), dir.display());
    let text = format!("The replay of {dir} produced identical results ({n} files compared).\n");
    Ok(print(&match &args.out {
        Some(out) => format!("{text}The replay is in {}.\n", out.display()),
        None => text,
    })?)
}

/// Compares two runs.
pub(crate) fn diff_runs(args: &DiffArgs) -> Result<ExitStatus, CliError> {
    let open = |run| Ok::<_, CliError>(Run::open_unchecked(find_dir(run)?)?);
    let found = diff(&open(&args.a)?, &open(&args.b)?)?;
    if args.json {
        print_json(&found, false)?;
    } else {
        print(&found.text())?;
    }
    Ok(ExitStatus::Success)
}
