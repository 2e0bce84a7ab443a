//! Read-only commands: graphs, plans, events, sandboxes.

use std::{io, sync::Arc, time::Duration};

use app_support::{files::FileError, lines::LineReader, program::print};
use consulting_graph::{
    config::Config,
    data::Ticker,
    debate, debate_host,
    event::{EventLog, NumberedEvent, PipelineEvent},
    models::ModelChoice,
    pipeline,
    plan::{Assumptions, Plan},
    run::{Run, RunError},
};
use graph_core::{CompiledGraph, MemorySaver, State};
use llm::Catalog;
use sandbox_vm::Isolation;
use tokio::time::sleep;

use crate::{
    args::{EventsArgs, Format, GraphArgs, PlanArgs},
    error::CliError,
    new_run,
    output::print_json,
    run_path::find_dir,
};

/// Provider whose prices are used for an estimate if no API key is set. The scripted model is free, so an estimate
/// for it would be useless.
const ESTIMATE_PROVIDER: &str = "anthropic";

/// Prints a graph.
pub(crate) fn graph(args: &GraphArgs) -> Result<(), CliError> {
    let drawing = if args.debate {
        draw(&debate::graph()?, args.format)
    } else {
        draw(&pipeline::graph(Arc::new(MemorySaver::new()))?, args.format)
    };
    Ok(print(&drawing)?)
}

fn draw<S: State, C: Send + Sync + 'static>(graph: &CompiledGraph<S, C>, format: Format) -> String {
    match format {
        Format::Mermaid => graph.mermaid_expanded(1),
        Format::Dot => graph.dot(1),
        Format::Json => format!("{:#}\n", graph.to_json(1)),
    }
}

/// Prints the estimate for a run.
pub(crate) fn plan(args: &PlanArgs) -> Result<(), CliError> {
    Ticker::parse(&args.ticker)?;
    let config = Config::parse(&new_run::config(&args.config)?).map_err(RunError::from)?;
    let environment = ModelChoice::from_env();
    let provider =
        if environment.is_scripted() { ESTIMATE_PROVIDER.to_owned() } else { environment.provider };
    let provider = args.provider.clone().unwrap_or(provider);
    let choice = ModelChoice { model: args.model.clone(), ..ModelChoice::for_provider(provider) };
    choice.check_provider().map_err(RunError::from)?;
    let (concurrency, baseline) = (args.concurrency, args.baseline);
    let assumed = Assumptions { concurrency, baseline, ..Assumptions::default() };
    let plan = Plan::new(&config, &choice, Catalog::builtin(), assumed);
    if args.json { print_json(&plan, false) } else { Ok(print(&plan.text())?) }
}

/// Prints the events of a run. If `--follow` is given, waits for further events until the run completes, fails or waits
/// for a review.
pub(crate) async fn events(args: &EventsArgs) -> Result<(), CliError> {
    let run = Run::open_unchecked(find_dir(&args.run)?)?;
    let path = run.dir().join("events.jsonl");
    // Reads the whole log once, so that an invalid log is reported before any event is printed.
    EventLog::read(&path)?;
    let mut log = LineReader::new(&path);
    let mut is_over = false;
    loop {
        // Checks for a waiting review before it reads the log. If a review is waiting, all earlier events are already
        // in the log, so none is missed.
        let is_waiting = run.awaits_review();
        let lines = log.read(u64::MAX).map_err(FileError::at(&path))?;
        let events = lines.iter().map(|it| serde_json::from_slice(it).map_err(io::Error::from));
        for event in events {
            let event: NumberedEvent = event.map_err(FileError::at(&path))?;
            is_over = is_last(&event.event);
            if event.seq > args.after {
                print_json(&event, true)?;
            }
        }
        if !args.follow || is_over || is_waiting {
            return Ok(());
        }
        sleep(Duration::from_millis(300)).await;
    }
}

/// Returns whether the run completes or fails with this event. Later events belong to a resumed execution.
fn is_last(event: &PipelineEvent) -> bool {
    matches!(event, PipelineEvent::PipelineComplete { .. } | PipelineEvent::PipelineError { .. })
}

/// Prints the available sandboxes and the provider that new runs would use.
pub(crate) async fn doctor() -> Result<(), CliError> {
    let sandboxes = debate_host::open_sandboxes(Isolation::Preferred, None).await?;
    let mut text: String = sandboxes.reports().iter().map(ToString::to_string).collect();
    let (backend, level) = (sandboxes.backend(), sandboxes.level().description());
    text += &format!("\nDebates would run in: {backend} ({level})\n");
    let choice = ModelChoice::from_env();
    text += &if choice.is_scripted() {
        "New runs would use the scripted model, because no provider's API key is set in the environment.\n"
            .to_owned()
    } else {
        format!(
            "New runs would use {}, because its API key is set in the environment.\n",
            choice.provider
        )
    };
    Ok(print(&text)?)
}
