//! Trying problems, and measuring sandboxes.

use std::fs;

use reflexion_graph::{
    bench::{self, Options, Problem as Puzzle, Summary},
    graph::Deps,
    models::ChoiceError,
    offline,
};
use serde_json::json;

use crate::{
    args::{BenchArgs, MeasureArgs},
    out::say,
    place,
    problem::{Ending, Problem, with},
    view,
};

/// Tries problems and says what came of it.
pub(crate) async fn bench(args: &BenchArgs) -> Result<Ending, Problem> {
    let mut problems = match &args.problems {
        None => Puzzle::builtin(),
        Some(path) => {
            let text = fs::read_to_string(path).map_err(with(path))?;
            let parsed = if path.extension().is_some_and(|it| it == "jsonl") {
                Puzzle::parse_lines(&text).map_err(|error| error.to_string())
            } else {
                Puzzle::parse(&text).map_err(|error| error.to_string())
            };
            parsed.map_err(|problem| Problem::Content { path: path.clone(), problem })?
        }
    };
    if let Some(only) = &args.only {
        problems.retain(|it| it.id.contains(only.as_str()));
    }
    if problems.is_empty() {
        return Err(Problem::NoProblems);
    }
    let options = Options {
        max_attempts: args.trying.max_attempts,
        strategy: place::strategy(&args.trying),
        limits: place::limits(&args.trying),
        samples: args.samples.into(),
        at_once: args.concurrency.into(),
    };
    place::check(&args.trying)?;
    bench::check(&problems, &options)?;
    let choice = place::choice(&args.voice)?;
    let llm = if choice.is_scripted() {
        eprintln!("{}", view::SCRIPTED);
        offline::model_for(&problems).map_err(ChoiceError::from)?
    } else {
        choice.make()?
    };
    let allowance = args.voice.budget.allowance();
    allowance.check(&llm)?;
    let workshop = place::workshop(&place::place(&args.place), args.trying.memory).await?;
    let mut deps = Deps::new(llm, workshop);
    // One for all sessions.
    deps.budget = allowance.budget(&[]);
    let tried = bench::run(&problems, &deps, options, |it| {
        let said = match &it.session {
            Err(error) => format!("error: {}", view::clean(error)),
            Ok(session) => match &session.outcome {
                Some(it) if it.success => format!("solved in {}", it.attempts),
                _ => "not solved".to_owned(),
            },
        };
        eprintln!("{:<24} {said}, {} ms", it.problem, it.took.as_millis());
    });
    let tried = tried.await?;
    deps.workshop.close().await;
    let summary = Summary::of(&tried, options.max_attempts);
    say(&if args.json { format!("{:#}\n", json!(summary)) } else { summary.text() })?;
    Ok(if summary.broken == 0 { Ending::Done } else { Ending::Failed })
}

/// Measures warm and cold sandboxes beside a plain process.
pub(crate) async fn measure(args: &MeasureArgs) -> Result<Ending, Problem> {
    let workshop = place::workshop(&place::place(&args.place), 256).await?;
    let measured = bench::measure(&workshop, args.runs.into()).await?;
    say(&format!("back end: {}\n{}", workshop.sandboxes().backend(), measured.text()))?;
    workshop.close().await;
    Ok(Ending::Done)
}
