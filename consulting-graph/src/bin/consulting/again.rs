//! Commands on runs that are there: resume, replay, fork, diff.

use std::{env, fs};

use consulting_graph::{
    data::Ticker,
    debates,
    diff::diff,
    event::Numbered,
    report::Report,
    run::{Going, Replayed, Run, new},
};
use sandbox_vm::Isolation;
use serde_json::json;
use tokio::sync::mpsc::UnboundedSender;

use crate::{
    args::{DiffArgs, ForkArgs, ReplayArgs, ResumeArgs},
    folder, go,
    out::{say, say_json},
    problem::{Ending, Problem, with},
    review,
    view::View,
};

/// Goes on with a run from where it stands.
pub(crate) async fn resume(args: &ResumeArgs) -> Result<Ending, Problem> {
    let run = Run::open(folder::find(&args.run)?)?;
    let reviewed = match &args.reviewed {
        Some(_) if !run.manifest().given.review => return Err(Problem::NothingToReview),
        Some(path) => Some(review::read(path)?),
        None => None,
    };
    let limit = args.going.limit().or(run.manifest().limit);
    if !(limit.is_none() || args.shown.quiet) {
        eprintln!("The whole run may spend {limit}.");
    }
    if let (None, Some(isolation)) = (args.going.isolation, run.manifest().isolation)
        && isolation != Isolation::Preferred
        && !args.shown.quiet
    {
        eprintln!(
            "As before, isolation is {}.",
            if isolation == Isolation::Off { "off" } else { "required" }
        );
    }
    go::go(&run, &args.going, args.shown, reviewed).await
}

/// Branches off from a run, and goes on from there.
pub(crate) async fn fork(args: &ForkArgs) -> Result<Ending, Problem> {
    let run = Run::open(folder::find(&args.run)?)?;
    go::check(&args.going)?;
    let run_id = new::run_id(&Ticker::parse(&run.manifest().given.ticker)?)?;
    let folder = args.out.clone().unwrap_or_else(|| folder::of(&run_id));
    let fork = run.fork(folder, run_id, args.at, args.only, &args.set).await?;
    go::go(&fork, &args.going, args.shown, None).await
}

/// Repeats a run and says whether it came to the same. Unless it is told where, nothing of it is kept.
pub(crate) async fn replay(args: &ReplayArgs) -> Result<Ending, Problem> {
    let run = Run::open(folder::find(&args.run)?)?;
    let folder = match &args.out {
        Some(folder) => folder.clone(),
        None => env::temp_dir().join(format!("consulting-replay-{}", new::chance(8)?)),
    };
    let sandbox = match &args.sandbox {
        Some(name) => Some(name.clone()),
        None => own_backend(&run).await,
    };
    let going = Going { concurrency: args.concurrency, backend: sandbox, ..Going::default() };
    let work = |sender: UnboundedSender<Numbered>| {
        run.replay(folder.clone(), going, move |event| drop(sender.send(event.clone())))
    };
    let replayed = go::watch(View::of(&run, args.shown), work).await;
    if args.out.is_none() && folder.exists() {
        fs::remove_dir_all(&folder).map_err(with(&folder))?;
    }
    match replayed {
        None => {
            eprintln!("\nInterrupted; the run is as it was.");
            Ok(Ending::Interrupted)
        }
        Some(replayed) => {
            same(&run, args, &replayed?)?;
            Ok(Ending::Done)
        }
    }
}

/// What the run's debates ran in, if this machine has it; else the strongest it has will do.
async fn own_backend(run: &Run) -> Option<String> {
    let text = fs::read_to_string(run.folder().join("report.json")).ok()?;
    let backend = serde_json::from_str::<Report>(&text).ok()?.outcome.isolation.backend;
    let opened = debates::open(Isolation::Preferred, Some(&backend)).await;
    opened.is_ok().then_some(backend)
}

fn same(run: &Run, args: &ReplayArgs, replayed: &Replayed) -> Result<(), Problem> {
    let (folder, files) = (run.folder(), &replayed.files);
    if args.shown.json {
        return say_json(&json!({ "folder": folder, "same": files, "kept": args.out }), false);
    }
    let (n, folder) = (files.len(), folder.display());
    let same = format!("The replay of {folder} came to the same: {n} files, byte for byte.\n");
    say(&match &args.out {
        Some(kept) => format!("{same}It is kept in {}.\n", kept.display()),
        None => same,
    })
}

/// Says how two runs differ.
pub(crate) fn differ(args: &DiffArgs) -> Result<Ending, Problem> {
    let look = |run| Ok::<_, Problem>(Run::look(folder::find(run)?)?);
    let found = diff(&look(&args.a)?, &look(&args.b)?)?;
    if args.json {
        say_json(&found, false)?
    } else {
        say(&found.text())?
    }
    Ok(Ending::Done)
}
