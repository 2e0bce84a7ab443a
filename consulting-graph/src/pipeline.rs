//! The pipeline graph: takes a company's ticker and returns ranked moves.
//!
//! ```text
//! START → layer_0_gather ─(2 sends)→ inference_agent → layer_1_reduce
//!       ─(5 sends)→ analyst_agent → layer_2_reduce → sandbox_orchestrator → rank_and_output → END
//! ```

mod analyse;
mod events;
mod gather;
mod infer;
mod orchestrate;
mod rank;
mod request_findings;
mod state;

use std::sync::Arc;

use graph_core::{
    BuildError, Checkpointer, CompiledGraph, Context, END, NodeError, START, StateGraph,
};

use crate::{
    call::{CallOutcome, LLM, ModelCall},
    config::{Config, Group, Persona},
    data::DataSource,
    debate_host::DebateHost,
    fence::Fence,
    models::Models,
};
use analyse::{analyst_agent, layer_2_dispatch, layer_2_reduce};
use gather::layer_0_gather;
use infer::{inference_agent, layer_1_dispatch, layer_1_reduce};
use orchestrate::sandbox_orchestrator;
use rank::rank_and_output;

pub use analyse::{ReviewDecision, ReviewRequest};
pub use state::{MoveLogs, PipelineState, PipelineStateUpdate};

/// Name of the pipeline graph.
pub const GRAPH: &str = "consulting";

/// Dependencies that all nodes of the pipeline share.
#[derive(Debug)]
pub struct Deps {
    /// Agents, metrics and debate settings.
    pub config: Config,
    /// Source of the company data.
    pub data: DataSource,
    /// Delimiters around untrusted text in prompts.
    pub fence: Fence,
    /// Models that answer the agents' calls.
    pub models: Arc<Models>,
    /// Host that runs the debates in sandboxes.
    pub debates: DebateHost,
    /// Whether the run pauses before the debates so that a person can review the moves.
    pub review: bool,
}

/// Builds the pipeline graph with the given checkpointer.
pub fn graph(
    saver: Arc<dyn Checkpointer>,
) -> Result<CompiledGraph<PipelineState, Deps>, BuildError> {
    StateGraph::new()
        .name(GRAPH)
        .node(layer_0_gather)
        .node(inference_agent)
        .node(layer_1_reduce)
        .node(analyst_agent)
        .node(layer_2_reduce)
        .node(sandbox_orchestrator)
        .node(rank_and_output)
        .edge(START, layer_0_gather)
        .branch(layer_0_gather, layer_1_dispatch)
        .edge(inference_agent, layer_1_reduce)
        .branch(layer_1_reduce, layer_2_dispatch)
        .edge(analyst_agent, layer_2_reduce)
        .edge(layer_2_reduce, sandbox_orchestrator)
        .edge(sandbox_orchestrator, rank_and_output)
        .edge(rank_and_output, END)
        .shared_checkpointer(saver)
        .compile()
}

/// Makes a model call for an agent outside of debates. The answer is journaled, so a node that runs again after a crash
/// reads it from the journal and does not repeat the call.
async fn call_model(
    cx: &Context<Deps>,
    group: Group,
    persona: &Persona,
    key: &str,
    request: llm::Request,
) -> Result<CallOutcome, NodeError> {
    let models = &cx.deps().models;
    let request = models.call_settings(group, &persona.id).apply(request);
    let agent_id = persona.id.clone();
    let call = ModelCall { agent_id, group, move_id: None, round: 0, reply_to: None, request };
    // Failures are not journaled, so that a resumed run makes the call again.
    let mut failure = None;
    let answer = cx.task(LLM, (&persona.id, key), async {
        match models.call(&call).await {
            CallOutcome::Answered(answer) => Ok(answer),
            CallOutcome::Failed(it) => {
                let reason = it.reason.clone();
                failure = Some(it);
                Err(NodeError::terminal(reason))
            }
        }
    });
    let answer = answer.await;
    match (answer, failure) {
        (Ok(answer), _) => Ok(CallOutcome::Answered(answer)),
        (Err(_), Some(failure)) if !failure.kind.ends_run() => Ok(CallOutcome::Failed(failure)),
        (Err(error), _) => Err(error),
    }
}
