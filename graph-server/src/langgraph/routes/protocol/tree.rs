//! The command that returns the graphs of a run and their statuses.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::command::{CommandError, CommandResult, applied_through, parse};
use crate::langgraph::{id::parse_id, manager::Manager, records::Run};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReadTree {
    #[serde(default)]
    run_id: Option<String>,
}

/// Returns the graphs of a run as a tree. Without the id of a run, selects the thread's latest run that has started.
pub(super) async fn read_tree(
    manager: &Arc<Manager>,
    thread: Uuid,
    params: Map<String, Value>,
) -> CommandResult<(Value, u64)> {
    let ReadTree { run_id } = parse(params)?;
    manager.thread(thread).await?;
    let run = match run_id {
        Some(run) => Some(find_run(manager, thread, &run).await?),
        None => manager.feed(thread).await?.runs.borrow().last().map(|it| it.facts.run),
    };
    let live = match run {
        Some(run) => manager.live(run).await?,
        None => None,
    };
    let Some(live) = live else {
        let problem = "the server has no events of the run; read the state of the thread instead";
        return Err(CommandError("no_such_run", problem.to_owned()));
    };
    let result = json!({ "tree": live.agent_tree().to_json() });
    Ok((result, applied_through(manager, thread).await?))
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
