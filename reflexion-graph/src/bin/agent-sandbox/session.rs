//! The commands `run`, `fork` and `resume`.

use std::{
    fs::{self, File},
    io::{IsTerminal, stdout},
    path::Path,
};

use app_support::{
    files::{self, FileError},
    program::print,
    run_path,
    terminal::replace_invisible_in_lines,
};
use reflexion_graph::{
    Job,
    graph::{self, Deps},
    models::ModelChoice,
    run::{Manifest, Report, Run, RunError, run_id},
};
use serde_json::json;
use tokio::signal::ctrl_c;

use crate::{
    args::{ForkArgs, OutputArgs, ResumeArgs, RunArgs},
    error::{CliError, CommandStatus},
    setup, view,
};

pub(crate) async fn run(args: &RunArgs) -> Result<CommandStatus, CliError> {
    check_trace_writable(&args.output)?;
    let tests = match &args.test {
        None => None,
        Some(path) => Some(files::read(path)?),
    };
    let job = Job {
        task: args.task.clone(),
        tests,
        expect: args.expect.clone(),
        max_attempts: args.attempts.max_attempts,
        strategy: setup::strategy(&args.attempts),
        limits: setup::limits(&args.attempts),
    };
    let manifest = Manifest {
        job,
        choice: setup::model_choice(&args.model)?,
        sandbox: setup::sandbox_config(&args.sandbox),
        budget: args.model.budget.to_run_budget(),
        earlier_attempts: Vec::new(),
    };
    begin(manifest, args.out.as_deref(), &args.output).await
}

/// Creates a session that starts with attempts of another session, and runs it.
pub(crate) async fn fork(args: &ForkArgs) -> Result<CommandStatus, CliError> {
    check_trace_writable(&args.output)?;
    let run = open(&args.run)?;
    let mut manifest = run.manifest().clone();
    manifest.earlier_attempts = run.attempts_before(args.at)?;
    manifest.job.max_attempts = match args.max_attempts {
        Some(attempts) => attempts,
        None => manifest.job.max_attempts.max(args.at),
    };
    manifest.choice = match (&args.provider, &args.model) {
        (Some(provider), model) => ModelChoice { provider: provider.clone(), model: model.clone() },
        (None, Some(_)) => ModelChoice { model: args.model.clone(), ..manifest.choice },
        (None, None) => manifest.choice,
    };
    manifest.budget = args.budget.specified().unwrap_or(manifest.budget);
    begin(manifest, args.out.as_deref(), &args.output).await
}

async fn begin(
    manifest: Manifest,
    out: Option<&Path>,
    output: &OutputArgs,
) -> Result<CommandStatus, CliError> {
    manifest.check().map_err(RunError::from)?;
    let deps = deps(&manifest).await?;
    let dir = match out {
        Some(dir) => dir.to_owned(),
        None => run_path::default_dir(&run_id(&manifest.job.task)?),
    };
    match Run::create(dir, manifest) {
        Ok(run) => execute(&run, deps, output).await,
        Err(error) => {
            deps.executor.close().await;
            Err(error.into())
        }
    }
}

/// Resumes a session.
pub(crate) async fn resume(args: &ResumeArgs) -> Result<CommandStatus, CliError> {
    check_trace_writable(&args.output)?;
    let mut run = open(&args.run)?;
    if let Some(budget) = args.budget.specified() {
        budget.check(&run.manifest().choice.build()?)?;
        run.set_budget(budget)?;
    }
    let deps = deps(run.manifest()).await?;
    execute(&run, deps, &args.output).await
}

/// Opens the session in a directory, or the session with a given name under `runs/`.
fn open(run: &Path) -> Result<Run, CliError> {
    let dir = run_path::find(run).ok_or_else(|| CliError::NoSuchRun(run.to_owned()))?;
    Ok(Run::open(dir)?)
}

/// Checks that the trace file can be written, before any model is called.
fn check_trace_writable(output: &OutputArgs) -> Result<(), CliError> {
    let Some(path) = &output.trace else { return Ok(()) };
    let opened = File::options().create(true).append(true).open(path);
    Ok(opened.map(drop).map_err(FileError::at(path))?)
}

async fn deps(manifest: &Manifest) -> Result<Deps, CliError> {
    let Manifest { choice, sandbox, budget, job, .. } = manifest;
    setup::deps(choice, *budget, sandbox, job.limits.memory).await
}

async fn execute(run: &Run, deps: Deps, output: &OutputArgs) -> Result<CommandStatus, CliError> {
    let executor = deps.executor.clone();
    let quiet = output.quiet;
    let on_event = move |event: &reflexion_graph::NumberedEvent| {
        if !quiet {
            eprint!("{}", view::line(&event.event));
        }
    };
    if !output.json && run.manifest().choice.is_scripted() {
        eprintln!("{}", view::SCRIPTED_NOTICE);
    }
    let work = async {
        match output.trace {
            None => Ok((run.run(deps, on_event).await?, None)),
            Some(_) => {
                run.run_traced(deps, on_event).await.map(|(report, trace)| (report, Some(trace)))
            }
        }
    };
    let ended = tokio::select! {
        ended = work => ended,
        _ = ctrl_c() => {
            executor.close().await;
            let dir = run.dir().display();
            eprintln!("\nInterrupted. Resume with: agent-sandbox resume {dir}");
            return Ok(CommandStatus::Interrupted);
        }
    };
    executor.close().await;
    let (report, trace) = ended.map_err(|error| match error {
        RunError::Busy(_) => CliError::Run(error),
        error => CliError::Stopped { dir: run.dir().to_owned(), error },
    })?;
    print(&final_output(run, &report, output))?;
    if let (Some(path), Some(trace)) = (&output.trace, trace) {
        let drawing = graph::without_checkpointer()?.drawing(0);
        fs::write(path, trace.html(&report.task, &drawing)).map_err(FileError::at(path))?;
    }
    Ok(if report.outcome.success { CommandStatus::Done } else { CommandStatus::NotSolved })
}

fn final_output(run: &Run, report: &Report, output: &OutputArgs) -> String {
    if output.json {
        let is_scripted = run.manifest().choice.is_scripted();
        let dir = run.dir();
        return format!(
            "{:#}\n",
            json!({ "folder": dir, "scripted": is_scripted, "report": report })
        );
    }
    // Print the program's output to stdout, as if it had been run here, and everything else to stderr. On a terminal,
    // remove control characters from the untrusted output.
    if !output.quiet {
        eprint!("{}", view::summary(run, report));
    }
    let output = &report.outcome.output;
    if stdout().is_terminal() { replace_invisible_in_lines(output) } else { output.clone() }
}
