//! The command that returns the graphs of a run and their statuses.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::command::{CommandError, CommandResult, applied_through, parse};
use crate::langgraph::{
    id::parse_id,
    manager::{LiveRun, Manager},
    records::Run,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReadTree {
    run_id: Option<String>,
}

/// Returns the graphs of a run as a tree. Without the id of a run, selects the thread's latest run that has started and
/// that the client sees.
pub(super) async fn read_tree(
    manager: &Arc<Manager>,
    thread: Uuid,
    params: Map<String, Value>,
) -> CommandResult<(Value, u64)> {
    let ReadTree { run_id } = parse(params)?;
    manager.thread(thread).await?;
    let live = match run_id {
        Some(run) => manager.live(find_run(manager, thread, &run).await?).await?,
        None => latest_run(manager, thread).await?,
    };
    let Some(live) = live else {
        let problem = "the server has no events of the run; read the state of the thread instead";
        return Err(CommandError("no_such_run", problem.to_owned()));
    };
    let result = json!({ "tree": live.agent_tree().to_json() });
    Ok((result, applied_through(manager, thread).await?))
}

/// Returns the thread's latest run that has started and that the client sees.
async fn latest_run(manager: &Manager, thread: Uuid) -> CommandResult<Option<Arc<LiveRun>>> {
    let feed = manager.feed(thread).await?;
    let runs: Vec<_> = feed.runs.borrow().iter().map(|it| it.facts.run).collect();
    for run in runs.into_iter().rev() {
        let live = manager.live(run).await?;
        if live.is_some() {
            return Ok(live);
        }
    }
    Ok(None)
}

/// Finds a run of the thread.
pub(super) async fn find_run(manager: &Manager, thread: Uuid, run: &str) -> CommandResult<Uuid> {
    let id = parse_id("run", run)?;
    let stored = manager.database.get::<Run>(&id.to_string()).await?;
    match stored.filter(|it| it.thread_id == thread) {
        Some(_) => Ok(id),
        None => {
            let problem = format!("run {id} does not exist on thread {thread}");
            Err(CommandError("no_such_run", problem))
        }
    }
}
