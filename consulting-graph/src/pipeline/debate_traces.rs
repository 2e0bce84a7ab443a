//! Traces of the debates, which are part of the trace of the pipeline.

use graph_core::BuildError;
use graph_trace::{Header, RunStatus, TaskTrace, Trace};

use super::sandbox::DEBATE_NODE;
use crate::{debate, debate_host::DebateRequest, moves::MoveId};

/// Returns the debates in the trace of a pipeline as separate traces, in the order of the moves. Debates that ran
/// before the trace began are left out.
pub fn debate_traces(pipeline: &Trace) -> Result<Vec<(MoveId, Trace)>, BuildError> {
    let graph = debate::graph()?.fingerprint();
    let trace = |task: &TaskTrace| {
        let request: DebateRequest = serde_json::from_value(task.input.clone()).ok()?;
        let input = task.input.clone();
        // A debate has no interrupts, so it receives no later inputs.
        let later_inputs = Vec::new();
        let engine = pipeline.header.engine.clone();
        let header = Header { graph: graph.clone(), engine, input, later_inputs };
        let root = task.graphs.last()?.clone();
        Some((request.the_move.move_id, Trace { header, root, end: RunStatus::Done }))
    };
    let tasks = pipeline.root.steps.iter().flat_map(|it| &it.tasks);
    Ok(tasks.filter(|it| it.node == DEBATE_NODE).filter_map(trace).collect())
}
