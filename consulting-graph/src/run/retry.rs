//! Prepares a run for another execution, which retries failed parts.

use graph_core::{AsNode, ThreadState};

use super::{
    error::RunError,
    resources::RunResources,
    run_dir::Run,
    threads::{load_debates, newest_ancestor},
};
use crate::{call::FailureKind, pipeline::PipelineState};

/// Marker of the start of the pipeline.
const START: &str = "__start__";

impl Run {
    /// Returns whether some failures can be retried. Calls that the budget did not cover can only be made with a
    /// higher limit. Failures that a fork inherited from its origin are final.
    pub(super) fn has_retryable_failures(&self, state: &PipelineState, limit_raised: bool) -> bool {
        let is_retryable = |kind| limit_raised || kind != FailureKind::BudgetExhausted;
        let own = state.failures.iter().skip(self.inherited_failures());
        own.into_iter().any(|it| is_retryable(it.kind))
    }

    /// Rewinds the pipeline to its newest checkpoint without own failures. The nodes after it run again. They read
    /// answers that were already paid for from the recording and keep finished debates, so only failed parts are
    /// repeated. The result is therefore that of a run without failures, and a replay reproduces it.
    pub(super) async fn rewind_failures(
        &self,
        resources: &RunResources,
        head: &PipelineState,
    ) -> Result<(), RunError> {
        let inherited = self.inherited_failures();
        let is_match = |it: &ThreadState<PipelineState>| {
            it.values.failures.len() <= inherited && previous_node(&it.next).is_some()
        };
        let RunResources { thread, saver, .. } = resources;
        let checkpoint = newest_ancestor(thread, is_match).await?;
        let earlier_debates = load_debates(thread, saver, head).await?;
        let previous = checkpoint.as_ref().and_then(|it| previous_node(&it.next));
        let (Some(checkpoint), Some(previous)) = (checkpoint, previous) else {
            let problem = "the run has no checkpoint before its first failure";
            return Err(RunError::Internal(problem.to_owned()));
        };
        let update =
            PipelineState::update().held_in(head.held_in.clone()).earlier_debates(earlier_debates);
        thread.at(checkpoint.id).update_state(update, AsNode::node(previous)).await?;
        Ok(())
    }

    /// Returns the number of failures before the fork point, if the run is a fork.
    fn inherited_failures(&self) -> usize {
        self.manifest.fork_origin.as_ref().map_or(0, |it| it.inherited_failures)
    }
}

/// Returns the node whose edges lead to the next nodes. Returns `None` if the pipeline cannot be rewound to this point.
fn previous_node(next: &[String]) -> Option<&'static str> {
    match next.first()?.as_str() {
        "layer_0_gather" => Some(START),
        "inference_agent" => Some("layer_0_gather"),
        "analyst_agent" => Some("layer_1_reduce"),
        "sandbox_orchestrator" => Some("layer_2_reduce"),
        _ => None,
    }
}
