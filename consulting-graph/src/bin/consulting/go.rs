//! Going on with a run while a person watches: the view, Ctrl-C, a review, and what it came to.

use std::{
    io::{IsTerminal, stderr, stdin},
    pin::pin,
};

use consulting_graph::{
    data::Ticker,
    event::Numbered,
    pipeline::{Review, Reviewed},
    report::Report,
    run::{Ended, Going, Run, RunProblem},
};
use serde_json::json;
use tokio::{
    signal::ctrl_c,
    sync::mpsc::{self, UnboundedSender},
    task::spawn_blocking,
    time::interval,
};

use crate::{
    args::{GoingArgs, Isolation, ShownArgs},
    out::{say, say_json},
    problem::{Ending, Problem},
    review::{self, Decision},
    summary::summary,
    view::{self, View},
};

/// Goes on with a run to its end, and says what it came to.
pub(crate) async fn go(
    run: &Run,
    args: &GoingArgs,
    shown: ShownArgs,
    mut reviewed: Option<Reviewed>,
) -> Result<Ending, Problem> {
    loop {
        let going = Going { reviewed: reviewed.take(), ..going(args)? };
        let work = |sender: UnboundedSender<Numbered>| {
            run.go(going, move |event| drop(sender.send(event.clone())))
        };
        let Some(ended) = watch(View::of(run, shown).catch_up(run), work).await else {
            return Ok(interrupted(run));
        };
        let ended = ended.map_err(|problem| match problem {
            RunProblem::Busy(_) => Problem::Run(problem),
            RunProblem::NothingToReview => Problem::NothingToReview,
            problem => Problem::Stopped { folder: run.folder().to_owned(), problem },
        })?;
        match ended {
            Ended::Done { report, was_done, .. } => {
                tell(run, &report, shown)?;
                if was_done && !shown.quiet {
                    eprintln!("The run was at its end already: there was nothing left to do.");
                }
                return Ok(ending(run, &report));
            }
            Ended::Review(review) => match ask(run, review, shown).await? {
                Answer::Debate(moves) => reviewed = Some(moves),
                Answer::Interrupted => return Ok(interrupted(run)),
                Answer::Later => return Ok(Ending::AwaitsReview),
            },
        }
    }
}

/// Refuses a sandbox for debates that are to have none.
pub(crate) fn check(args: &GoingArgs) -> Result<(), Problem> {
    match &args.sandbox {
        Some(name) if args.isolation == Some(Isolation::Off) && name != "in-process" => {
            Err(Problem::NeedlessSandbox(name.clone()))
        }
        _ => Ok(()),
    }
}

/// How a run is gone on with.
fn going(args: &GoingArgs) -> Result<Going, Problem> {
    check(args)?;
    Ok(Going {
        concurrency: args.concurrency,
        isolation: args.isolation.map(Into::into),
        backend: args.sandbox.clone(),
        region: args.region.clone(),
        limit: args.limit(),
        ..Going::default()
    })
}

/// Shows what happens until the work ends by itself; nothing if it was interrupted.
pub(crate) async fn watch<T, F: Future<Output = T>>(
    mut view: View,
    begin: impl FnOnce(UnboundedSender<Numbered>) -> F,
) -> Option<T> {
    let (sender, mut events) = mpsc::unbounded_channel();
    let mut work = pin!(begin(sender));
    let mut stop = pin!(ctrl_c());
    let mut tick = interval(view::TICK);
    let ended = loop {
        tokio::select! {
            biased;
            Some(event) = events.recv() => view.tell(&event),
            _ = &mut stop => break None,
            _ = tick.tick() => view.draw(),
            ended = &mut work => break Some(ended),
        }
    };
    while let Ok(event) = events.try_recv() {
        view.tell(&event);
    }
    view.leave();
    ended
}

enum Answer {
    Debate(Reviewed),
    Later,
    Interrupted,
}

/// Asks the person at the terminal what to debate; where there is none, says where the question lies.
async fn ask(run: &Run, review: Review, shown: ShownArgs) -> Result<Answer, Problem> {
    let waits = review::leave(run, &review)?;
    // For later, in the form that was asked for.
    let document = shown.json.then(|| json!({ "folder": run.folder(), "review": review }));
    let later = || {
        eprintln!("{waits}");
        document.as_ref().map_or(Ok(()), |it| say_json(it, false))?;
        Ok(Answer::Later)
    };
    if !(stdin().is_terminal() && stderr().is_terminal()) {
        return later();
    }
    let ticker = Ticker::parse(&run.manifest().given.ticker)?;
    let folder = run.folder().to_owned();
    let talk = move || review::talk(ticker, review, &folder, view::columns());
    // Reading from a terminal cannot be cancelled, so whoever interrupts leaves the thread behind.
    let decision = tokio::select! {
        decision = spawn_blocking(talk) => decision,
        _ = ctrl_c() => return Ok(Answer::Interrupted),
    };
    match decision {
        Ok(Ok(Decision::Debate(moves))) => Ok(Answer::Debate(moves)),
        Ok(Ok(Decision::Later)) => later(),
        Ok(Err(source)) => Err(Problem::File { path: "the terminal".into(), source }),
        Err(_) => Ok(Answer::Interrupted),
    }
}

fn interrupted(run: &Run) -> Ending {
    eprintln!(
        "\nInterrupted; nothing is lost. Go on with: consulting resume {}",
        run.folder().display()
    );
    Ending::Interrupted
}

/// How a run ended that came to its end. Where moves have no score, says how they get one.
fn ending(run: &Run, report: &Report) -> Ending {
    let missing = report.ranking.unscored.len();
    if missing == 0 {
        return Ending::Done;
    }
    let has = if missing == 1 { "has" } else { "have" };
    let (of, folder) = (report.outcome.moves.len(), run.folder().display());
    // It may have been told another one since the run was opened.
    let limit = Run::look(run.folder()).map(|it| it.manifest().limit).unwrap_or_default();
    let raise = match (limit.tokens, limit.money) {
        (None, None) => "",
        (Some(_), None) => "\nIf the budget is spent, raise it: --max-tokens N",
        (None, Some(_)) => "\nIf the budget is spent, raise it: --max-cost DOLLARS",
        (Some(_), Some(_)) => {
            "\nIf the budget is spent, raise it: --max-tokens N --max-cost DOLLARS"
        }
    };
    eprintln!(
        "{missing} of {of} moves {has} no score. To debate them, go on with: consulting resume {folder}{raise}"
    );
    Ending::Unscored
}

/// Says what a run came to.
fn tell(run: &Run, report: &Report, shown: ShownArgs) -> Result<(), Problem> {
    if shown.json {
        say_json(&json!({ "folder": run.folder(), "report": report }), false)
    } else {
        say(&summary(report, run.folder()))
    }
}
