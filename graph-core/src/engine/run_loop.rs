//! The loop of supersteps.

use crate::{
    engine::{outcome::GraphOutcome, running::Engine, step_task::StepEnd},
    error::{Halt, RunError},
    spans,
};

impl Engine {
    /// Runs supersteps until the graph completes, stops, is interrupted or fails.
    ///
    /// `store_when_done` applies to exit durability only. It determines whether the graph stores a checkpoint if it
    /// completes or exceeds its step limit.
    pub(super) async fn run_to_end(
        mut self,
        store_when_done: bool,
    ) -> Result<GraphOutcome, RunError> {
        let fast_path = self.allows_fast_path();
        let end = loop {
            let span = spans::superstep(&self.scope.namespace, self.step);
            let step = match fast_path.then(|| self.fast_path_node()).flatten() {
                Some(node) => spans::instrument(span, self.run_fast_step(node)).await,
                None => spans::instrument(span, self.run_step()).await,
            };
            match step {
                Ok(StepEnd::Continue(())) => {}
                Ok(StepEnd::Break(halt)) => break Ok(halt),
                Err(error) => break Err(error),
            }
        };
        if self.ahead.is_some() {
            let wait = matches!(&end, Ok(Some(Halt::Interrupted(_) | Halt::Stopped(_))));
            self.finish_tasks_ahead(wait).await?;
        }
        // As in LangGraph, a subgraph that exceeds its step limit stores no checkpoint at exit, so the next run starts
        // it over.
        let discarded = matches!(end, Ok(None)) || self.step > self.max_step;
        if store_when_done || !discarded {
            self.store_at_exit().await?;
        }
        let flushed = self.flush_records().await;
        let halt = end?;
        flushed?;
        let state = self.exit_state.take().unwrap_or_else(|| self.state.values.snapshot());
        Ok(GraphOutcome { halt, state, has_output: self.has_output })
    }
}
