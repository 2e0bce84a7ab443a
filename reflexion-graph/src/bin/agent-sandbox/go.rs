//! A session while a person watches: progress, Ctrl-C, and what it came to.

use std::{
    fs,
    io::{IsTerminal, stdout},
    path::PathBuf,
};

use reflexion_graph::{
    Job,
    graph::{self, Deps},
    run::{Manifest, Report, Run, RunProblem, run_id},
};
use serde_json::json;
use tokio::signal::ctrl_c;

use crate::{
    args::{ResumeArgs, RunArgs, ShownArgs},
    out::say,
    place,
    problem::{Ending, Problem, with},
    view,
};

/// Makes a session and goes to its end.
pub(crate) async fn run(args: &RunArgs) -> Result<Ending, Problem> {
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
        choice: place::choice(&args.voice),
        place: place::place(&args.place),
        allowance: place::allowance(&args.voice),
    };
    manifest.job.check().map_err(RunProblem::from)?;
    let deps = deps(&manifest).await?;
    let folder = match &args.out {
        Some(folder) => folder.clone(),
        None => PathBuf::from("runs").join(run_id(&args.task)?),
    };
    match Run::create(folder, manifest) {
        Ok(run) => go(&run, deps, &args.shown).await,
        Err(problem) => {
            deps.workshop.close().await;
            Err(problem.into())
        }
    }
}

/// Goes on with a session.
pub(crate) async fn resume(args: &ResumeArgs) -> Result<Ending, Problem> {
    let below = PathBuf::from("runs").join(&args.run);
    let folder = [args.run.clone(), below].into_iter().find(|it| it.join("run.json").is_file());
    let folder = folder.ok_or_else(|| Problem::NoSuchRun(args.run.clone()))?;
    let run = Run::open(folder)?;
    let deps = deps(run.manifest()).await?;
    go(&run, deps, &args.shown).await
}

async fn deps(manifest: &Manifest) -> Result<Deps, Problem> {
    place::deps(&manifest.choice, &manifest.place, manifest.job.limits.memory).await
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
        let Some(path) = &shown.trace else { return Ok(run.go(deps, tell).await) };
        let ended = run.go_traced(deps, tell).await;
        if let Ok((report, trace)) = &ended {
            let drawing = graph::unstored()?.drawing(0);
            fs::write(path, trace.html(&report.task, &drawing)).map_err(with(path))?;
        }
        Ok::<_, Problem>(ended.map(|it| it.0))
    };
    let ended = tokio::select! {
        ended = work => ended?,
        _ = ctrl_c() => {
            workshop.close().await;
            let folder = run.folder().display();
            eprintln!("\nInterrupted; nothing is lost. Go on with: agent-sandbox resume {folder}");
            return Ok(Ending::Interrupted);
        }
    };
    workshop.close().await;
    let report = ended.map_err(|problem| match problem {
        RunProblem::Busy(_) => Problem::Run(problem),
        problem => Problem::Stopped { folder: run.folder().to_owned(), problem },
    })?;
    say(&told(run, &report, shown))?;
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
