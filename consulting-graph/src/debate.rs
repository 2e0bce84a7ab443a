//! The debate graph, which runs the debate about one move. It is executed by a guest, the program inside a sandbox.
//!
//! The critic attacks the move, and each decision maker defends it in a separate conversation that the other decision
//! makers cannot read. Then each decision maker scores the move. The graph holds neither models nor API keys. It makes
//! every call with the host's function [`LLM`](crate::call::LLM). If baseline scoring is enabled, the node
//! `score_before` runs first.
//!
//! ```text
//! START → critic_round_1 → dm_respond ─┬→ critic_individual → dm_respond
//!                                      └→ score_move → END
//! ```
//!
//! A debate can start with the state of an earlier execution, which it continues.
//!
//! A failed call ends its conversation. If all turns of the critic in a round fail, the debate is scored with the
//! rounds completed so far.

mod files;
mod scoring;
mod state;
mod turn;
mod turns;

use graph_core::{BuildError, CompiledGraph, END, Route, START, StateGraph};
use sandbox_vm::guest::{Agent, Host};

pub(crate) use files::{LOGS_DIR, SCORES_FILE, log_markdown, log_names, pretty_json};
use scoring::{score_before, score_move};
pub(crate) use state::transcripts;
pub use state::{LoggedTurn, Participant, SandboxState, SandboxStateUpdate, Terms};
pub(crate) use turn::MAX_SHORTENED;
use turns::{critic_individual, critic_round_1, dm_respond};

use crate::transcript::Speaker;

/// Name of the debate graph, as registered with the guest agent.
pub const GRAPH: &str = "debate";

/// Returns a guest agent that can run the debate graph.
pub fn agent() -> Agent {
    Agent::new().graph(GRAPH, |host: &Host| {
        Ok((builder().shared_checkpointer(host.checkpointer()).compile()?, host.clone()))
    })
}

/// Builds the debate graph. It is a subgraph of the pipeline, which stores its checkpoints.
pub fn graph() -> Result<CompiledGraph<SandboxState, Host>, BuildError> {
    builder().compile()
}

fn builder() -> StateGraph<SandboxState, Host> {
    StateGraph::new()
        .name(GRAPH)
        .node(score_before)
        .node(critic_round_1)
        .node(dm_respond)
        .node(critic_individual)
        .node(score_move)
        .branch(START, first_node)
        .edge(score_before, critic_round_1)
        .branch(critic_round_1, after_critic)
        .branch(dm_respond, should_continue)
        .branch(critic_individual, after_critic)
        .edge(score_move, END)
}

#[derive(Route)]
enum FirstNode {
    #[to(score_before)]
    ScoreBefore,
    #[to(critic_round_1)]
    FirstRound,
    #[to(dm_respond)]
    MakerTurns,
    #[to(critic_individual)]
    AnotherRound,
    #[to(score_move)]
    Score,
}

/// Selects the first node: baseline scoring if it is enabled, otherwise the critic's opening. A debate that starts with
/// the state of an earlier execution continues after its last turns.
fn first_node(debate: &SandboxState) -> FirstNode {
    if debate.current_round == 0 {
        let is_scored = !debate.terms.baseline || !debate.baseline.is_empty();
        return if is_scored { FirstNode::FirstRound } else { FirstNode::ScoreBefore };
    }
    match should_continue(debate) {
        _ if !debate.awaiting_maker().is_empty() => FirstNode::MakerTurns,
        Next::AnotherRound => FirstNode::AnotherRound,
        Next::Score => FirstNode::Score,
    }
}

#[derive(Route)]
enum AfterCritic {
    #[to(dm_respond)]
    Answers,
    #[to(score_move)]
    Score,
    #[to(END)]
    End,
}

/// Selects the node after the critic's turns: normally the answers of the decision makers. If all turns of the critic
/// failed, the debate is over. It is scored with the completed rounds, or ends if there are none.
fn after_critic(debate: &SandboxState) -> AfterCritic {
    match debate.turns.last() {
        None => AfterCritic::End,
        Some(turn) if turn.entry.role == Speaker::Critic => AfterCritic::Answers,
        // Decision makers whose turns failed in this round are not asked again. Asking them again would also repeat the
        // turns of the critic, and the debate would not end.
        Some(_) => AfterCritic::Score,
    }
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
    if is_over || !debate.has_active_conversation() { Next::Score } else { Next::AnotherRound }
}
