//! The engine: a loop of supersteps (plan → execute → commit) over a type-erased state.
//!
//! `Engine::run_to_end` is the loop. [`load`] prepares an engine from a checkpoint and an input, and [`step`] runs one
//! superstep. [`edit`] changes a thread, and [`inspect`] reads a thread; neither of them runs a node.

mod commit;
mod conflict;
pub(crate) mod edit;
mod events;
mod execute;
mod fast_path;
pub(crate) mod inspect;
mod load;
mod persist;
mod plan;
mod record_task_end;
mod records;
mod run_tasks;
mod step;
mod task_pool;

use std::{
    any::Any,
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::SystemTime,
};

use serde_json::{Map, Value};

pub(crate) use persist::CheckpointWriter;
pub use persist::Durability;

use self::{persist::Closer, plan::Frontier, records::Records};
use crate::{
    Interrupt, RunError,
    checkpoint::{
        Change, CheckpointId, CheckpointKey, CheckpointWrite, Header, NewCheckpoint, Source,
        TaskRecord,
    },
    command::{Goto, ParentCommand},
    context::{Scope, TaskContext},
    effects::EffectInterceptor,
    error::StopReason,
    graph::{Graph, Stops},
    node::AnyUpdate,
    run::RunControl,
    spans,
    state::{
        FieldSet,
        erased::{AnyState, ErasedState},
    },
    stream::EventSender,
    subgraph::Persistence,
};

/// The input of a run.
pub(crate) enum RunInput {
    Fresh(AnyUpdate),
    /// No input. The run continues from the thread's checkpoint.
    Continue,
    /// Fresh input that is used only if the thread has no checkpoint. Otherwise the run continues from the checkpoint.
    StartOrContinue(AnyUpdate),
    Command(CommandInput),
}

/// A command given as input.
#[derive(Default)]
pub(crate) struct CommandInput {
    pub(crate) update: Option<AnyUpdate>,
    pub(crate) gotos: Vec<Goto>,
    pub(crate) resume: Option<Resume>,
}

/// The values that a run is resumed with: either one value for the only pending interrupt, or one value per interrupt
/// id.
pub(crate) enum Resume {
    Single(Value),
    ById(BTreeMap<String, Value>),
}

/// Settings of a run and its subgraphs.
#[derive(Clone, Debug)]
pub(crate) struct RunSettings {
    pub(crate) step_limit: u32,
    pub(crate) max_concurrency: Option<usize>,
    pub(crate) durability: Durability,
    pub(crate) stop_before: Option<Stops>,
    pub(crate) stop_after: Option<Stops>,
    pub(crate) metadata: Map<String, Value>,
    pub(crate) config: Map<String, Value>,
    pub(crate) effects: Option<Arc<dyn EffectInterceptor>>,
}

/// The result of a run that did not fail, for a top-level graph or a subgraph.
pub(crate) struct GraphOutcome {
    pub(crate) exit: ExitReason,
    /// The final state.
    pub(crate) state: AnyState,
    /// Whether the graph produced output, that is, wrote an output field or continued from a checkpoint.
    pub(crate) has_output: bool,
}

/// Why a graph stopped running.
pub(crate) enum ExitReason {
    Done,
    Interrupted(Vec<Interrupt>),
    Stopped(StopReason),
    ParentCommand(Box<ParentCommand>),
}

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
    pub(crate) input: RunInput,
}

/// Data for time travel. Present only in a run that continues from an older checkpoint.
///
/// When the run enters a subgraph for the first time, the subgraph starts from its newest checkpoint older than
/// `bound`.
#[derive(Debug)]
pub(crate) struct Replay {
    bound: CheckpointId,
    visited: Mutex<BTreeSet<String>>,
}

/// Runs a top-level graph.
pub(crate) async fn run_root(request: RootRun) -> Result<GraphOutcome, RunError> {
    spans::instrument(spans::run(&request), run_leased(request)).await
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
    let RootRun { graph, run, thread, at, deps, settings, events, control, mut input } = request;
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
        graph,
    };
    let mut engine = Engine::new(scope, &saved)?;
    engine.apply_input(input, saved, None).await?;
    engine.run_to_end(true).await
}

/// Runs a subgraph within a task of its parent graph.
pub(crate) async fn run_nested(
    task: Arc<TaskContext>,
    graph: Arc<Graph>,
    namespace: String,
    persistence: Persistence,
    input: RunInput,
) -> Result<GraphOutcome, RunError> {
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
    let resuming = started && ((task.resuming && !replays) || retried);
    // A new invocation finds a checkpoint only if an earlier run of the same step crashed. The new invocation must not
    // start from that checkpoint.
    let saved = match persistence == Persistence::Invocation && !resuming && !replays {
        true => saved.without_checkpoint(),
        false => saved,
    };
    // The run's stop options apply to the top-level graph only.
    let settings = RunSettings { stop_before: None, stop_after: None, ..(*outer.settings).clone() };
    let scope = Scope {
        run: outer.run.clone(),
        thread: outer.thread.clone(),
        deps: outer.deps.clone(),
        settings: Arc::new(settings),
        store: graph.store.clone().or_else(|| outer.store.clone()),
        cache: graph.cache.clone().or_else(|| outer.cache.clone()),
        events: outer.events.as_ref().and_then(|it| it.nested(&namespace, &task)),
        control: outer.control.clone(),
        writer,
        resume_values: outer.resume_values.clone(),
        replay: outer.replay.clone(),
        namespace,
        graph,
        parent: Some(task.clone()),
    };
    let mut engine = Engine::new(scope, &saved)?;
    engine.apply_input(input, saved, Some(resuming)).await?;
    engine.run_to_end(persistence == Persistence::Thread).await
}

/// A running graph: its state, its position in the thread and its pending work.
pub(crate) struct Engine {
    scope: Arc<Scope>,
    state: Box<dyn ErasedState>,
    frontier: Frontier,
    /// Step-scoped fields that currently have a value.
    live_step_scoped: FieldSet,
    step: i64,
    max_step: i64,
    /// The checkpoint that the current step starts from.
    id: CheckpointId,
    /// The checkpoint that task ids are derived from.
    origin: CheckpointId,
    /// The parent of the checkpoint `id`.
    parent: Option<CheckpointId>,
    source: Source,
    /// The namespace's newest checkpoint, as far as this run knows.
    head: Option<CheckpointId>,
    /// The last stored checkpoint. The changes in the next checkpoint are relative to it.
    stored: Option<CheckpointId>,
    /// Fields changed since `stored`. Used only with exit durability.
    unsaved: FieldSet,
    /// Whether the next checkpoint must contain the whole state because `stored` has an older state version.
    rebase: bool,
    /// Changes made by an input command; they become part of the next checkpoint.
    command_changes: Vec<(String, Change)>,
    /// Records that earlier runs stored for the tasks of the current step.
    records: Records,
    /// Records to be stored with the next checkpoint or at the end of the run.
    buffered_records: Vec<TaskRecord>,
    first_step: bool,
    /// Whether tasks run again even if they are recorded as finished. Set for time travel.
    replaying: bool,
    /// Whether subgraphs that run in this step resume from their own checkpoints.
    resuming: bool,
    /// Whether this run has created a checkpoint.
    checkpointed: bool,
    /// Whether this run wrote an output field or continued from a checkpoint.
    has_output: bool,
    /// The final state of an interrupted run, including the writes of tasks that finished in the interrupted step.
    exit_state: Option<AnyState>,
    /// The context of a finished task, kept so that the next task can reuse its allocation.
    spare_context: Option<Arc<TaskContext>>,
}

impl Engine {
    fn graph(&self) -> &Graph {
        &self.scope.graph
    }

    /// Runs supersteps until the graph completes, stops, is interrupted or fails.
    ///
    /// `store_when_done` applies to exit durability only. It determines whether the graph stores a checkpoint if it
    /// completes or exceeds its step limit.
    async fn run_to_end(mut self, store_when_done: bool) -> Result<GraphOutcome, RunError> {
        let fast_path = self.can_use_fast_path();
        let exit = loop {
            let span = spans::superstep(&self.scope.namespace, self.step);
            let step = match fast_path.then(|| self.fast_path_node()).flatten() {
                Some(node) => spans::instrument(span, self.run_fast_step(node)).await,
                None => spans::instrument(span, self.run_step()).await,
            };
            match step {
                Ok(None) => {}
                Ok(Some(reason)) => break Ok(reason),
                Err(error) => break Err(error),
            }
        };
        // As in LangGraph, a subgraph that exceeds its step limit stores no checkpoint at exit, so the next run starts
        // it over.
        let discarded = matches!(exit, Ok(ExitReason::Done)) || self.step > self.max_step;
        if store_when_done || !discarded {
            self.store_at_exit().await?;
        }
        let flushed = self.flush_records().await;
        let exit = exit?;
        flushed?;
        let state = self.exit_state.take().unwrap_or_else(|| self.state.snapshot());
        Ok(GraphOutcome { exit, state, has_output: self.has_output })
    }

    /// Creates a checkpoint of the current state and increments the step number.
    async fn put_checkpoint(
        &mut self,
        source: Source,
        changes: Vec<(String, Change)>,
        affected: &FieldSet,
    ) -> Result<(), RunError> {
        if let Some(writer) = self.scope.writer.clone() {
            let mut writes = Vec::with_capacity(2);
            if writer.durability == Durability::Sync && !self.buffered_records.is_empty() {
                writes.push(CheckpointWrite::Record(
                    self.checkpoint_key(),
                    std::mem::take(&mut self.buffered_records),
                ));
            }
            self.parent = self.stored;
            self.id = CheckpointId::after(self.head.max(Some(self.id)));
            self.source = source;
            self.checkpointed = true;
            if source != Source::Loop {
                self.origin = self.id;
            }
            if writer.durability == Durability::Exit {
                self.unsaved.union_with(affected);
            } else {
                writes.push(self.new_checkpoint(changes)?);
                writer.write(writes).await?;
            }
        }
        self.step += 1;
        Ok(())
    }

    /// Returns a write that stores a checkpoint of the current state, and makes that checkpoint the head.
    fn new_checkpoint(
        &mut self,
        mut changes: Vec<(String, Change)>,
    ) -> Result<CheckpointWrite, RunError> {
        let mut base = self.stored;
        if std::mem::take(&mut self.rebase) {
            base = None;
            let all = (0..self.state.fields().len()).collect();
            changes = commit::full_values(self.graph(), &*self.state, &all)?;
        }
        let checkpoint = NewCheckpoint {
            key: self.checkpoint_key(),
            expected_head: self.head,
            base,
            header: self.header(),
            frontier: self.frontier_record()?,
            changes,
        };
        self.head = Some(self.id);
        self.stored = Some(self.id);
        Ok(CheckpointWrite::Put(Box::new(checkpoint)))
    }

    /// Stores the final checkpoint and the buffered records. Does nothing unless the run has exit durability.
    async fn store_at_exit(&mut self) -> Result<(), RunError> {
        let writer = self.scope.writer.clone().filter(|it| it.durability == Durability::Exit);
        let Some(writer) = writer else { return Ok(()) };
        let mut writes = Vec::with_capacity(2);
        if self.stored != Some(self.id) && self.checkpointed {
            let unsaved = std::mem::take(&mut self.unsaved);
            let changes = commit::full_values(self.graph(), &*self.state, &unsaved)?;
            // `put_checkpoint` already incremented the step.
            self.step -= 1;
            let checkpoint = self.new_checkpoint(changes);
            self.step += 1;
            writes.push(checkpoint?);
        }
        let records = std::mem::take(&mut self.buffered_records);
        if !records.is_empty() {
            writes.push(CheckpointWrite::Record(self.checkpoint_key(), records));
        }
        Ok(writer.write(writes).await?)
    }

    /// Stores the buffered records now instead of with the next checkpoint. Does nothing unless the run has sync
    /// durability.
    async fn flush_records(&mut self) -> Result<(), RunError> {
        let is_pending = !self.buffered_records.is_empty();
        let writer = self.scope.writer.clone().filter(|it| it.durability == Durability::Sync);
        if let (true, Some(writer)) = (is_pending, writer) {
            let records = std::mem::take(&mut self.buffered_records);
            writer.record(self.checkpoint_key(), records).await?;
        }
        Ok(())
    }

    fn checkpoint_key(&self) -> CheckpointKey {
        CheckpointKey {
            thread: self.scope.thread.as_deref().unwrap_or_default().to_owned(),
            namespace: self.scope.namespace.clone(),
            id: self.id,
        }
    }

    fn header(&self) -> Header {
        Header {
            parent: self.parent,
            origin: self.origin,
            step: self.step,
            source: self.source,
            created_at: SystemTime::now(),
            run: self.scope.run.to_string(),
            version: self.state.version(),
            parents: self.parents(),
            metadata: self.scope.settings.metadata.clone(),
        }
    }

    /// Returns the current checkpoint of each enclosing graph, by namespace.
    fn parents(&self) -> BTreeMap<String, CheckpointId> {
        let mut parents = BTreeMap::new();
        let mut task = self.scope.parent.as_ref();
        while let Some(outer) = task {
            parents.insert(outer.scope.namespace.clone(), outer.checkpoint);
            task = outer.scope.parent.as_ref();
        }
        parents
    }
}
