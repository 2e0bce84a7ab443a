//! Commands that only look: graphs, plans, events, sandboxes.

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    path::Path,
    sync::Arc,
    time::Duration,
};

use consulting_graph::{
    config::Config,
    data::Ticker,
    debate, debates,
    event::{EventLog, Numbered, PipelineEvent},
    models::Choice,
    pipeline,
    plan::{Assumptions, Plan},
    run::{Run, RunProblem},
};
use graph_core::{CompiledGraph, MemorySaver, State};
use llm::Catalog;
use sandbox_vm::Isolation;
use tokio::time::sleep;

use crate::{
    args::{EventsArgs, Format, GraphArgs, PlanArgs},
    begin, folder,
    out::{say, say_json},
    problem::{Problem, with},
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
    let choice = Choice { model: args.model.clone(), ..Choice::of(provider) };
    choice.check_name().map_err(RunProblem::from)?;
    let (concurrency, baseline) = (args.concurrency, args.baseline);
    let assumed = Assumptions { concurrency, baseline, ..Assumptions::default() };
    let plan = Plan::new(&config, &choice, Catalog::builtin(), assumed);
    if args.json { say_json(&plan, false) } else { say(&plan.text()) }
}

/// Prints the events of a run, and those to come if it is asked for: until it is done, failed, or waits for a person.
pub(crate) async fn events(args: &EventsArgs) -> Result<(), Problem> {
    let run = Run::look(folder::find(&args.run)?)?;
    let path = run.folder().join("events.jsonl");
    // What is wrong with the list is said before anything of it.
    EventLog::read(&path)?;
    let mut read = 0;
    let mut is_over = false;
    loop {
        // Asked before the list is read, so that nothing is missed which was told before.
        let waits = run.awaits_review();
        for event in more(&path, &mut read).map_err(with(&path))? {
            is_over = is_last(&event.event);
            if event.seq > args.after {
                say_json(&event, true)?;
            }
        }
        if !args.follow || is_over || waits {
            return Ok(());
        }
        sleep(Duration::from_millis(300)).await;
    }
}

/// The events in the whole lines that a list has got since so many of its bytes were read.
fn more(path: &Path, read: &mut u64) -> io::Result<Vec<Numbered>> {
    let mut file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        opened => opened?,
    };
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(*read))?;
    file.read_to_end(&mut bytes)?;
    let whole = bytes.iter().rposition(|it| *it == b'\n').map_or(0, |it| it + 1);
    *read += whole as u64;
    let lines = bytes[..whole].split(|it| *it == b'\n').filter(|it| !it.is_empty());
    lines.map(|it| serde_json::from_slice(it).map_err(io::Error::from)).collect()
}

/// Whether a run that told this has ended: what is told after it is told by somebody who resumed it.
fn is_last(event: &PipelineEvent) -> bool {
    matches!(event, PipelineEvent::PipelineComplete { .. } | PipelineEvent::PipelineError { .. })
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
