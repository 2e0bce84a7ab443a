//! Requests: a run's input and options, in the form that the engine takes.

use std::{any::Any, sync::Arc};

use crate::{
    checkpoint::id::CheckpointId,
    engine::start::RootRun,
    graph::{erased::Graph, run_options::RunOptions},
    run::input::Input,
    state::State,
};

/// The name of a thread and, optionally, the checkpoint to start from. If no checkpoint is set, runs start from the
/// newest one.
#[derive(Clone, Debug)]
pub(super) struct ThreadPosition {
    pub(super) name: Arc<str>,
    pub(super) at: Option<CheckpointId>,
}

/// Creates a request without a stream.
pub(super) fn request<S: State>(
    graph: &Arc<Graph>,
    input: Input<S>,
    deps: Arc<dyn Any + Send + Sync>,
    options: RunOptions,
    thread: Option<&ThreadPosition>,
) -> RootRun {
    RootRun {
        graph: graph.clone(),
        run: options.resolve_run_id(),
        named_run: options.has_run_id(),
        thread: thread.map(|it| it.name.clone()),
        at: thread.and_then(|it| it.at),
        at_subgraph: None,
        deps,
        control: options.control.clone(),
        stop_before: options.stop_before,
        stop_after: options.stop_after,
        task_runner: options.task_runner,
        settings: Arc::new(options.settings),
        events: None,
        input: input.erase(),
    }
}
