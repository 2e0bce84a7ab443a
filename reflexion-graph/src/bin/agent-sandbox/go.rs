//! A session while a person watches: progress, Ctrl-C, and what it came to.

use std::{
    fs::{self, File},
    io::{IsTerminal, stdout},
    path::{Path, PathBuf},
};

use reflexion_graph::{
    Job,
    graph::{self, Deps},
    models::Choice,
    run::{Manifest, Report, Run, RunProblem, run_id},
};
use serde_json::json;
use tokio::signal::ctrl_c;

use crate::{
    args::{ForkArgs, ResumeArgs, RunArgs, ShownArgs},
    out::say,
    place,
    problem::{Ending, Problem, with},
    view,
};

/// Makes a session and goes to its end.
pub(crate) async fn run(args: &RunArgs) -> Result<Ending, Problem> {
    writable(&args.shown)?;
    let tests = match &args.test {
        None => None,
        Some(path) => Some(fs::read_to_string(path).map_err(with(path))?),
    };
    let job = Job {
        task: args.task.clone(),
        tests,
        expect: args.expect.clone(),
        max_attempts: args.trying.max_attempts,
        strategy: place::strategy(&args.trying),
        limits: place::limits(&args.trying),
    };
    let manifest = Manifest {
        job,
        choice: place::choice(&args.voice)?,
        place: place::place(&args.place),
        allowance: args.voice.budget.allowance(),
        kept: Vec::new(),
    };
    begin(manifest, args.out.as_deref(), &args.shown).await
}

/// Makes a session of attempts of another one and goes to its end.
pub(crate) async fn fork(args: &ForkArgs) -> Result<Ending, Problem> {
    writable(&args.shown)?;
    let run = open(&args.run)?;
    let mut manifest = run.manifest().clone();
    manifest.kept = run.attempts_before(args.at)?;
    manifest.job.max_attempts = match args.max_attempts {
        Some(attempts) => attempts,
        None => manifest.job.max_attempts.max(args.at),
    };
    manifest.choice = match (&args.provider, &args.model) {
        (Some(provider), model) => Choice { provider: provider.clone(), model: model.clone() },
        (None, Some(_)) => Choice { model: args.model.clone(), ..manifest.choice },
        (None, None) => manifest.choice,
    };
    manifest.allowance = args.budget.given().unwrap_or(manifest.allowance);
    begin(manifest, args.out.as_deref(), &args.shown).await
}

async fn begin(
    manifest: Manifest,
    out: Option<&Path>,
    shown: &ShownArgs,
) -> Result<Ending, Problem> {
    manifest.check().map_err(RunProblem::from)?;
    let deps = deps(&manifest).await?;
    let folder = match out {
        Some(folder) => folder.to_owned(),
        None => PathBuf::from("runs").join(run_id(&manifest.job.task)?),
    };
    match Run::create(folder, manifest) {
        Ok(run) => go(&run, deps, shown).await,
        Err(problem) => {
            deps.workshop.close().await;
            Err(problem.into())
        }
    }
}

/// Goes on with a session.
pub(crate) async fn resume(args: &ResumeArgs) -> Result<Ending, Problem> {
    writable(&args.shown)?;
    let mut run = open(&args.run)?;
    if let Some(allowance) = args.budget.given() {
        allowance.check(&run.manifest().choice.make()?)?;
        run.allow(allowance)?;
    }
    let deps = deps(run.manifest()).await?;
    go(&run, deps, &args.shown).await
}

/// A session by its folder, or by its name.
fn open(run: &Path) -> Result<Run, Problem> {
    let folders = [run.to_owned(), Path::new("runs").join(run)];
    let folder = folders.into_iter().find(|it| it.join("run.json").is_file());
    Ok(Run::open(folder.ok_or_else(|| Problem::NoSuchRun(run.to_owned()))?)?)
}

/// Sees that the trace can be written, before anything is paid for.
fn writable(shown: &ShownArgs) -> Result<(), Problem> {
    let Some(path) = &shown.trace else { return Ok(()) };
    File::options().create(true).append(true).open(path).map(drop).map_err(with(path))
}

async fn deps(manifest: &Manifest) -> Result<Deps, Problem> {
    let Manifest { choice, place, allowance, job, .. } = manifest;
    place::deps(choice, *allowance, place, job.limits.memory).await
}

async fn go(run: &Run, deps: Deps, shown: &ShownArgs) -> Result<Ending, Problem> {
    let workshop = deps.workshop.clone();
    let quiet = shown.quiet;
    let tell = move |event: &reflexion_graph::Numbered| {
        if !quiet {
            eprint!("{}", view::line(&event.event));
        }
    };
    if !shown.json && run.manifest().choice.is_scripted() {
        eprintln!("{}", view::SCRIPTED);
    }
    let work = async {
        match shown.trace {
            None => Ok((run.go(deps, tell).await?, None)),
            Some(_) => run.go_traced(deps, tell).await.map(|(report, trace)| (report, Some(trace))),
        }
    };
    let ended = tokio::select! {
        ended = work => ended,
        _ = ctrl_c() => {
            workshop.close().await;
            let folder = run.folder().display();
            eprintln!("\nInterrupted; nothing is lost. Go on with: agent-sandbox resume {folder}");
            return Ok(Ending::Interrupted);
        }
    };
    workshop.close().await;
    let (report, trace) = ended.map_err(|problem| match problem {
        RunProblem::Busy(_) => Problem::Run(problem),
        problem => Problem::Stopped { folder: run.folder().to_owned(), problem },
    })?;
    say(&told(run, &report, shown))?;
    if let (Some(path), Some(trace)) = (&shown.trace, trace) {
        let drawing = graph::unstored()?.drawing(0);
        fs::write(path, trace.html(&report.task, &drawing)).map_err(with(path))?;
    }
    Ok(if report.outcome.success { Ending::Done } else { Ending::NotSolved })
}

fn told(run: &Run, report: &Report, shown: &ShownArgs) -> String {
    if shown.json {
        let is_scripted = run.manifest().choice.is_scripted();
        let folder = run.folder();
        return format!(
            "{:#}\n",
            json!({ "folder": folder, "scripted": is_scripted, "report": report })
        );
    }
    // What the program printed goes to stdout, as if it had been started here; everything else to stderr. A program
    // that nobody has read does not act on a terminal, though.
    if !shown.quiet {
        eprint!("{}", view::summary(run, report));
    }
    let output = &report.outcome.output;
    if stdout().is_terminal() { view::clean_lines(output) } else { output.clone() }
}
