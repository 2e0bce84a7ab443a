//! Executes commands.

use std::sync::Arc;

use serde_json::{Value, json};
use uuid::Uuid;

use super::{
    command::{CommandError, CommandRequest, success},
    runs::{fork, inject, respond_to_interrupts, start_run},
    state::{list_checkpoints, read_state},
    tree::read_tree,
};
use crate::langgraph::manager::Manager;

/// Executes a command and returns the answer to it.
pub(super) async fn execute(
    manager: &Arc<Manager>,
    thread: Uuid,
    command: CommandRequest,
) -> Value {
    let CommandRequest { id, method, params } = command;
    let done = match method.as_str() {
        "run.start" => start_run(manager, thread, params).await,
        "input.respond" => respond_to_interrupts(manager, thread, params).await,
        "input.inject" => inject(manager, thread, params).await,
        "state.get" => read_state(manager, thread, params).await,
        "state.listCheckpoints" => list_checkpoints(manager, thread, params).await,
        "state.fork" => fork(manager, thread, params).await,
        "agent.getTree" => read_tree(manager, thread, params).await,
        "subscription.subscribe" | "subscription.unsubscribe" | "subscription.reconnect" => {
            let problem = format!(
                "the command `{method}` requires a WebSocket; over HTTP, send one request to `stream/events` \
                 for each subscription, and set `since` to resume it"
            );
            Err(CommandError("not_supported", problem))
        }
        _ => Err(CommandError(
            "unknown_command",
            format!(
                "unknown command `{method}`; the commands are `run.start`, `input.respond`, `input.inject`, \
                 `state.get`, `state.listCheckpoints`, `state.fork` and `agent.getTree`"
            ),
        )),
    };
    // A command that fails does not create its thread, whose event feed must then be dropped.
    manager.release_feed(thread).await;
    match done {
        Ok((result, seq)) => {
            success(id, result, json!({ "thread_id": thread, "applied_through_seq": seq }))
        }
        Err(error) => error.answer(Some(id)),
    }
}
