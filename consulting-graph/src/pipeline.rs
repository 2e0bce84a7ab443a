//! The pipeline graph: takes a company's ticker and returns ranked moves.
//!
//! ```text
//! START → layer_0_gather ─(2 sends)→ inference_agent → layer_1_reduce
//!       ─(5 sends)→ analyst_agent → layer_2_reduce → sandbox_orchestrator
//!       ─(a send per move)→ sandbox_debate → sandbox_reduce → rank_and_output → END
//! ```
//!
//! The node `sandbox_debate` runs the debate graph ([`debate`]) as a subgraph, in a sandbox.

mod analyse;
mod debate_thread;
mod debate_traces;
mod deps;
mod events;
mod gather;
mod infer;
mod rank;
mod request_findings;
mod sandbox;
mod state;

use std::sync::Arc;

use graph_core::{BuildError, Checkpointer, CompiledGraph, END, START, StateGraph, runs_graph};

use analyse::{analyst_agent, layer_2_dispatch, layer_2_reduce};
use gather::layer_0_gather;
use infer::{inference_agent, layer_1_dispatch, layer_1_reduce};
use rank::rank_and_output;
use sandbox::{sandbox_debate, sandbox_dispatch, sandbox_orchestrator, sandbox_reduce};

use crate::debate;

pub use analyse::{ReviewDecision, ReviewRequest};
pub use debate_traces::debate_traces;
pub use deps::Deps;
pub(crate) use sandbox::DEBATE_NODE;
pub use state::{MoveLogs, PipelineState, PipelineStateUpdate};

/// Name of the pipeline graph.
pub const GRAPH: &str = "consulting";

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
        .node(runs_graph(sandbox_debate, &debate::graph()?).runs_in("sandbox"))
        .node(sandbox_reduce)
        .node(rank_and_output)
        .edge(START, layer_0_gather)
        .branch(layer_0_gather, layer_1_dispatch)
        .edge(inference_agent, layer_1_reduce)
        .branch(layer_1_reduce, layer_2_dispatch)
        .edge(analyst_agent, layer_2_reduce)
        .edge(layer_2_reduce, sandbox_orchestrator)
        .branch(sandbox_orchestrator, sandbox_dispatch)
        .edge(sandbox_debate, sandbox_reduce)
        .edge(sandbox_reduce, rank_and_output)
        .edge(rank_and_output, END)
        .shared_checkpointer(saver)
        .compile()
}
