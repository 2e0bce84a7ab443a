//! Trying problems, and measuring sandboxes.

use std::fs;

use reflexion_graph::{
    bench::{self, Options, Problem as Puzzle, Summary},
    graph::Deps,
    offline,
};
use serde_json::json;

use crate::{
    args::{BenchArgs, MeasureArgs},
    out::say,
    place,
    problem::{Ending, Problem, with},
};

/// Tries problems and says what came of it.
pub(crate) async fn bench(args: &BenchArgs) -> Result<Ending, Problem> {
    let mut problems = match &args.problems {
        None => Puzzle::builtin(),
        Some(path) => {
            let text = fs::read_to_string(path).map_err(with(path))?;
            let wrong = |error: toml::de::Error| Problem::Content {
                path: path.clone(),
                problem: error.to_string(),
            };
            Puzzle::parse(&text).map_err(wrong)?
        }
    };
    if let Some(only) = &args.only {
        problems.retain(|it| it.id.contains(only.as_str()));
    }
    if problems.is_empty() {
        return Err(Problem::NoProblems);
    }
    let choice = place::choice(&args.voice);
    let mut deps = place::deps(&choice, &place::place(&args.place), args.trying.memory).await?;
    if choice.is_scripted() {
        let llm =
            offline::model_for(&problems).map_err(reflexion_graph::models::ChoiceError::from)?;
        deps = Deps { generator: llm.clone(), critic: llm, ..deps };
        eprintln!("{}", crate::view::SCRIPTED);
    }
    let options = Options {
        max_attempts: args.trying.max_attempts,
        strategy: place::strategy(&args.trying),
        limits: place::limits(&args.trying),
        samples: args.samples,
        at_once: args.concurrency,
    };
    let tried = bench::run(&problems, &deps, options, |it| {
        let said = match &it.session {
            Err(error) => format!("error: {error}"),
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
    let measured = bench::measure(&workshop, args.runs).await?;
    say(&format!("back end: {}\n{}", workshop.sandboxes().backend(), measured.text()))?;
    workshop.close().await;
    Ok(Ending::Done)
}
