//! Commands that only look: graphs, plans, events, sandboxes.

use std::{sync::Arc, time::Duration};

use consulting_graph::{
    config::Config,
    data::Ticker,
    debate, debates,
    event::{EventLog, PipelineEvent},
    models::Choice,
    pipeline,
    plan::{Assumptions, Plan},
    run::{Run, RunProblem},
};
use graph_core::{CompiledGraph, MemorySaver, State};
use llm::Catalog;
use sandbox_vm::Isolation;
use serde_json::json;
use tokio::time::sleep;

use crate::{
    args::{EventsArgs, Format, GraphArgs, PlanArgs},
    begin, folder,
    out::say,
    problem::Problem,
};

/// Whose prices are told to someone without a key: a script costs nothing, which is no plan.
const PRICED: &str = "anthropic";

/// Draws a graph.
pub(crate) fn graph(args: &GraphArgs) -> Result<(), Problem> {
    let saver = Arc::new(MemorySaver::new());
    let drawing = if args.debate {
        draw(&debate::graph(saver)?, args.format)
    } else {
        draw(&pipeline::graph(saver)?, args.format)
    };
    say(&drawing)
}

fn draw<S: State, C: Send + Sync + 'static>(graph: &CompiledGraph<S, C>, format: Format) -> String {
    match format {
        Format::Mermaid => graph.mermaid(),
        Format::Dot => graph.dot(0),
        Format::Json => format!("{:#}\n", graph.to_json(0)),
    }
}

/// Says what a run would take.
pub(crate) fn plan(args: &PlanArgs) -> Result<(), Problem> {
    Ticker::parse(&args.ticker)?;
    let config = Config::parse(&begin::config(&args.config)?).map_err(RunProblem::from)?;
    let found = Choice::by_environment();
    let provider = if found.is_scripted() { PRICED.to_owned() } else { found.provider };
    let provider = args.provider.clone().unwrap_or(provider);
    let choice = Choice { provider, model: args.model.clone(), seed: 0 };
    let (concurrency, baseline) = (args.concurrency, args.baseline);
    let assumed = Assumptions { concurrency, baseline, ..Assumptions::default() };
    let plan = Plan::new(&config, &choice, Catalog::builtin(), assumed);
    say(&if args.json { format!("{:#}\n", json!(plan)) } else { plan.text() })
}

/// Prints the events of a run, and those to come if it is asked for.
pub(crate) async fn events(args: &EventsArgs) -> Result<(), Problem> {
    let run = Run::look(folder::find(&args.run)?)?;
    let path = run.folder().join("events.jsonl");
    let mut after = args.after;
    loop {
        let events = match path.exists() {
            true => EventLog::read(&path)?,
            false => Vec::new(),
        };
        let mut is_over = false;
        for event in &events {
            is_over |= matches!(event.event, PipelineEvent::PipelineComplete { .. });
            if event.seq > after {
                after = event.seq;
                say(&(serde_json::to_string(event).unwrap_or_default() + "\n"))?;
            }
        }
        if !args.follow || is_over {
            return Ok(());
        }
        sleep(Duration::from_millis(300)).await;
    }
}

/// Says which sandboxes this machine offers, and who would speak.
pub(crate) async fn doctor() -> Result<(), Problem> {
    let sandboxes = debates::open(Isolation::Preferred, None).await?;
    let mut text: String = sandboxes.reports().iter().map(ToString::to_string).collect();
    let isolated = if sandboxes.isolated() { "isolated" } else { "NOT ISOLATED" };
    text += &format!("\nDebates would run in: {} ({isolated})\n", sandboxes.backend());
    let choice = Choice::by_environment();
    text += &if choice.is_scripted() {
        "A scripted model would speak: no provider's key is in the environment.\n".to_owned()
    } else {
        format!("{} would speak: its key is in the environment.\n", choice.provider)
    };
    say(&text)
}
