//! The commands `bench` and `measure`.

use app_support::{files, program::print, terminal::replace_invisible};
use reflexion_graph::{
    bench::{self, Options, Problem, Summary},
    graph::Deps,
    offline,
};
use serde_json::json;

use crate::{
    args::{BenchArgs, MeasureArgs},
    error::{CliError, CommandStatus},
    setup, view,
};

/// Runs the benchmark and prints the summary.
pub(crate) async fn bench(args: &BenchArgs) -> Result<CommandStatus, CliError> {
    let mut problems = match &args.problems {
        None => Problem::builtin(),
        Some(path) => {
            let text = files::read(path)?;
            let parsed = if path.extension().is_some_and(|it| it == "jsonl") {
                Problem::parse_lines(&text).map_err(|error| error.to_string())
            } else {
                Problem::parse(&text).map_err(|error| error.to_string())
            };
            parsed.map_err(|error| CliError::Content { path: path.clone(), error })?
        }
    };
    if let Some(only) = &args.only {
        problems.retain(|it| it.id.contains(only.as_str()));
    }
    if problems.is_empty() {
        return Err(CliError::NoProblems);
    }
    let options = Options {
        max_attempts: args.attempts.max_attempts,
        strategy: setup::strategy(&args.attempts),
        limits: setup::limits(&args.attempts),
        samples: args.samples.into(),
        concurrency: args.concurrency.into(),
    };
    setup::check(&args.attempts)?;
    bench::check(&problems, &options)?;
    let choice = setup::model_choice(&args.model)?;
    let llm = if choice.is_scripted() {
        eprintln!("{}", view::SCRIPTED_NOTICE);
        offline::model_for(&problems)
    } else {
        choice.build()?
    };
    let budget = args.model.budget.to_run_budget();
    budget.check(&llm)?;
    let executor =
        setup::open_executor(&setup::sandbox_config(&args.sandbox), args.attempts.memory).await?;
    let mut deps = Deps::new(llm, executor);
    // All sessions share one budget.
    deps.budget = budget.remaining(&[]);
    let tried = bench::run(&problems, &deps, options, |it| {
        let outcome = match &it.session {
            Err(error) => format!("error: {}", replace_invisible(error)),
            Ok(session) => match &session.outcome {
                Some(it) if it.success => format!("solved in {}", it.attempts),
                _ => "not solved".to_owned(),
            },
        };
        eprintln!("{:<24} {outcome}, {} ms", it.problem, it.elapsed.as_millis());
    });
    let tried = tried.await?;
    deps.executor.close().await;
    let summary = Summary::of(&tried, options.max_attempts);
    print(&if args.json { format!("{:#}\n", json!(summary)) } else { summary.text() })?;
    Ok(if summary.broken == 0 { CommandStatus::Done } else { CommandStatus::Failed })
}

/// Measures the time to run a program in a warm sandbox, in a cold sandbox and in a plain process.
pub(crate) async fn measure(args: &MeasureArgs) -> Result<CommandStatus, CliError> {
    let executor = setup::open_executor(&setup::sandbox_config(&args.sandbox), 256).await?;
    let timings = bench::measure(&executor, args.runs.into()).await?;
    print(&format!("back end: {}\n{}", executor.sandboxes().backend(), timings.text()))?;
    executor.close().await;
    Ok(CommandStatus::Done)
}
