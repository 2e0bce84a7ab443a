//! Starts runs of top-level graphs and of subgraphs.

use std::{any::Any, sync::Arc};

use crate::{
    checkpoint::{
        id::CheckpointId,
        writer::{CheckpointWriter, Closer},
    },
    context::{
        settings::RunSettings,
        task::{Scope, TaskContext},
    },
    control::RunControl,
    engine::{input::RunInput, load, outcome::GraphOutcome, running::Engine},
    error::RunError,
    graph::{
        erased::{Graph, Subgraph},
        stops::Stops,
    },
    namespace::Persistence,
    spans,
    stream::EventSender,
};

/// Everything needed to start a run of a top-level graph.
pub(crate) struct RootRun {
    pub(crate) graph: Arc<Graph>,
    pub(crate) run: Arc<str>,
    pub(crate) thread: Option<Arc<str>>,
    pub(crate) at: Option<CheckpointId>,
    pub(crate) deps: Arc<dyn Any + Send + Sync>,
    pub(crate) settings: Arc<RunSettings>,
    pub(crate) events: Option<EventSender>,
    pub(crate) control: RunControl,
    /// The nodes before which the run stops. `None` selects the graph's setting.
    pub(crate) stop_before: Option<Stops>,
    /// The nodes after which the run stops. `None` selects the graph's setting.
    pub(crate) stop_after: Option<Stops>,
    pub(crate) input: RunInput,
}

/// Runs a top-level graph.
pub(crate) async fn run_root(request: RootRun) -> Result<GraphOutcome, RunError> {
    let span = spans::run(&request.graph.name, &request.run, request.thread.as_deref());
    spans::instrument(span, run_leased(request)).await
}

async fn run_leased(request: RootRun) -> Result<GraphOutcome, RunError> {
    if request.settings.step_limit < 1 {
        return Err(RunError::ZeroStepLimit);
    }
    let (writer, closer) = open_writer(&request).await?;
    let control = request.control.clone();
    let result = tokio::select! {
        result = run_from_checkpoint(request, writer.clone()) => result,
        () = control.cancelled() => Err(RunError::Cancelled),
    };
    let flushed = match &writer {
        Some(writer) => writer.flush().await,
        None => Ok(()),
    };
    if let Some(closer) = closer {
        closer.close().await;
    }
    let finished = result?;
    flushed?;
    Ok(finished)
}

/// Leases the thread and opens a writer to the graph's checkpointer. Returns no writer if the graph has no
/// checkpointer.
async fn open_writer(
    request: &RootRun,
) -> Result<(Option<CheckpointWriter>, Option<Closer>), RunError> {
    let resumes = matches!(&request.input, RunInput::Command(command) if command.resume.is_some());
    let Some(saver) = &request.graph.checkpointer else {
        return if resumes { Err(RunError::NoCheckpointer) } else { Ok((None, None)) };
    };
    let thread = request.thread.as_ref().ok_or(RunError::MissingThread)?;
    let lease = saver.lease(thread).await?;
    let (writer, closer) = CheckpointWriter::new(saver.clone(), request.settings.durability, lease);
    Ok((Some(writer), Some(closer)))
}

async fn run_from_checkpoint(
    request: RootRun,
    writer: Option<CheckpointWriter>,
) -> Result<GraphOutcome, RunError> {
    let RootRun { graph, run, thread, at, deps, settings, events, control, .. } = request;
    let mut input = request.input;
    let saved = match (&writer, &thread) {
        (Some(writer), Some(thread)) => load::load(&graph, &writer.saver, thread, "", at).await?,
        _ => load::Loaded::default(),
    };
    let resume_values = load::take_resume_values(&mut input, &saved)?;
    let scope = Scope {
        run,
        thread,
        namespace: String::new(),
        parent: None,
        deps,
        settings,
        store: graph.store.clone(),
        cache: graph.cache.clone(),
        events,
        control,
        writer,
        resume_values: Arc::new(resume_values),
        replay: saved.replay(&input),
        initial: graph.initial.snapshot(),
        max_stored_bytes: graph.max_stored_bytes,
    };
    let mut engine = Engine::new(graph, scope, &saved)?;
    engine.stop_before = request.stop_before.unwrap_or(engine.stop_before);
    engine.stop_after = request.stop_after.unwrap_or(engine.stop_after);
    engine.apply_input(input, saved, None).await?;
    engine.run_to_end(true).await
}

/// Runs a subgraph within a task of its parent graph.
pub(crate) async fn run_nested(
    task: Arc<TaskContext>,
    inner: Subgraph,
    namespace: String,
    input: RunInput,
) -> Result<GraphOutcome, RunError> {
    let Subgraph { graph, persistence } = inner;
    let outer = &task.scope;
    let writer = outer.writer.clone().filter(|_| persistence != Persistence::None);
    let retried = task.attempt.load(std::sync::atomic::Ordering::Relaxed) > 1;
    if let Some(writer) = writer.as_ref().filter(|_| retried || persistence == Persistence::Thread)
    {
        // Checkpoints of an earlier invocation in this run may still be queued, and they must be stored before they
        // are read.
        writer.flush().await?;
    }
    let (saved, replays) = match (&writer, &outer.thread) {
        (Some(writer), Some(thread)) => {
            load::load_nested(&graph, &writer.saver, thread, &namespace, outer.replay.as_deref())
                .await?
        }
        _ => (load::Loaded::default(), false),
    };
    // With thread persistence, an invocation is resumed only if this task started it.
    let started = persistence != Persistence::Thread || saved.was_started_by(&task);
    let resuming = started && ((task.step.resuming && !replays) || retried);
    // A new invocation finds a checkpoint only if an earlier run of the same step crashed. The new invocation must not
    // start from that checkpoint.
    let saved = match persistence == Persistence::Invocation && !resuming && !replays {
        true => saved.without_checkpoint(),
        false => saved,
    };
    // An error handler has no start event, so events refer to the failed task instead.
    let parent_task = task.handled_task().unwrap_or_else(|| task.id());
    let scope = Scope {
        run: outer.run.clone(),
        thread: outer.thread.clone(),
        deps: outer.deps.clone(),
        settings: outer.settings.clone(),
        store: graph.store.clone().or_else(|| outer.store.clone()),
        cache: graph.cache.clone().or_else(|| outer.cache.clone()),
        events: outer.events.as_ref().and_then(|it| it.nested(&namespace, parent_task)),
        control: outer.control.clone(),
        writer,
        resume_values: outer.resume_values.clone(),
        replay: outer.replay.clone(),
        namespace,
        initial: graph.initial.snapshot(),
        max_stored_bytes: graph.max_stored_bytes,
        parent: Some(task.clone()),
    };
    let mut engine = Engine::new(graph, scope, &saved)?;
    engine.apply_input(input, saved, Some(resuming)).await?;
    engine.run_to_end(persistence == Persistence::Thread).await
}
