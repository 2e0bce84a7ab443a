//! The debate about one move: a compiled graph of its own, which runs in a guest.
//!
//! A critic attacks the move and each decision maker defends it, in conversations of their own that nobody else reads;
//! then each decision maker scores it. The graph holds no model and no key: it asks its [`Desk`] for each call.
//!
//! ```text
//! START → critic_round_1 → dm_respond ─┬→ critic_individual → dm_respond
//!                                      └→ score_move → END
//! ```

mod desk;
mod notes;
mod scoring;
mod state;
mod turns;

use std::sync::Arc;

use graph_core::{BuildError, Checkpointer, CompiledGraph, END, Route, START, StateGraph};
use sandbox_vm::guest::{Agent, Host};

pub use desk::Desk;
pub use notes::{LOGS, SCORES, log_names};
pub(crate) use notes::{data, log_text};
use scoring::{score_before, score_move};
pub use state::{SandboxState, SandboxStateUpdate, Speaking, Terms};
use turns::{critic_individual, critic_round_1, dm_respond};

/// The name under which a guest knows the graph.
pub const GRAPH: &str = "debate";

/// The agent of a guest that can run debates.
pub fn agent() -> Agent {
    Agent::new().graph(GRAPH, |host: &Host| {
        Ok((builder().shared_checkpointer(host.checkpointer()).compile()?, Desk::of(host)))
    })
}

/// The graph as the host sees it, to draw it and to look into its threads.
pub fn graph(
    saver: Arc<dyn Checkpointer>,
) -> Result<CompiledGraph<SandboxState, Desk>, BuildError> {
    builder().shared_checkpointer(saver).compile()
}

fn builder() -> StateGraph<SandboxState, Desk> {
    StateGraph::new()
        .name(GRAPH)
        .node(score_before)
        .node(critic_round_1)
        .node(dm_respond)
        .node(critic_individual)
        .node(score_move)
        .branch(START, opens)
        .edge(score_before, critic_round_1)
        .branch(critic_round_1, is_open)
        .branch(dm_respond, should_continue)
        .edge(critic_individual, dm_respond)
        .edge(score_move, END)
}

#[derive(Route)]
enum Opening {
    #[to(score_before)]
    Scored,
    #[to(critic_round_1)]
    Unscored,
}

/// Scores before the debate are asked for only where they are wanted.
fn opens(debate: &SandboxState) -> Opening {
    if debate.terms.baseline { Opening::Scored } else { Opening::Unscored }
}

#[derive(Route)]
enum Opened {
    #[to(dm_respond)]
    Yes,
    #[to(END)]
    No,
}

/// Without an opening there is nothing to answer, and nothing to score.
fn is_open(debate: &SandboxState) -> Opened {
    if debate.current_round == 0 { Opened::No } else { Opened::Yes }
}

#[derive(Route)]
enum Next {
    #[to(critic_individual)]
    AnotherRound,
    #[to(score_move)]
    Score,
}

fn should_continue(debate: &SandboxState) -> Next {
    let is_over = debate.current_round >= debate.max_rounds || debate.ended_early.is_some();
    if is_over || !debate.is_anyone_speaking() { Next::Score } else { Next::AnotherRound }
}
