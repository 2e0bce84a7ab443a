//! The pipeline: a company's ticker in, ranked moves out.
//!
//! ```text
//! START → layer_0_gather ─(2 sends)→ inference_agent → layer_1_reduce
//!       ─(5 sends)→ analyst_agent → layer_2_reduce → sandbox_orchestrator → rank_and_output → END
//! ```

mod analyse;
mod conclude;
mod finish;
mod gather;
mod infer;
mod orchestrate;
mod state;
mod tell;

use std::sync::Arc;

use graph_core::{
    BuildError, Checkpointer, CompiledGraph, Context, END, NodeError, START, StateGraph,
};

use crate::{
    ask::{Ask, Heard, LLM},
    config::{Config, Group, Persona},
    data::DataSource,
    debates::Debates,
    fence::Fence,
    models::Models,
};
use analyse::{analyst_agent, layer_2_dispatch, layer_2_reduce};
use finish::rank_and_output;
use gather::layer_0_gather;
use infer::{inference_agent, layer_1_dispatch, layer_1_reduce};
use orchestrate::sandbox_orchestrator;

pub use analyse::{Review, Reviewed};
pub use state::{MoveLogs, PipelineState, PipelineStateUpdate};

/// The pipeline's name.
pub const GRAPH: &str = "consulting";

/// What the nodes of a run work with.
#[derive(Debug)]
pub struct Deps {
    /// Who takes part.
    pub config: Config,
    /// Where the company is read from.
    pub data: DataSource,
    /// What untrusted text stands between.
    pub fence: Fence,
    /// Who answers.
    pub models: Arc<Models>,
    /// Where debates are held.
    pub debates: Debates,
    /// Whether a person looks at the moves before they are debated.
    pub review: bool,
}

/// The pipeline, its threads kept by a checkpointer.
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

/// Makes a call of someone outside of debates, once: a task that runs again gets the journaled answer.
async fn ask(
    cx: &Context<Deps>,
    group: Group,
    persona: &Persona,
    key: &str,
    request: llm::Request,
) -> Result<Heard, NodeError> {
    let models = &cx.deps().models;
    let request = models.voice(group, &persona.id).set(request);
    let ask = Ask { who: persona.id.clone(), group, move_id: None, round: 0, request };
    // Only answers are journaled: who was silent is asked again by a run that goes on.
    let mut silence = None;
    let said = cx.task(LLM, (&persona.id, key), async {
        match models.ask(&ask).await {
            Heard::Said(said) => Ok(said),
            Heard::Silent(it) => {
                let why = it.why.clone();
                silence = Some(it);
                Err(NodeError::terminal(why))
            }
        }
    });
    let said = said.await;
    match (said, silence) {
        (Ok(said), _) => Ok(Heard::Said(said)),
        (Err(_), Some(silence)) if !silence.kind.ends_run() => Ok(Heard::Silent(silence)),
        (Err(error), _) => Err(error),
    }
}
