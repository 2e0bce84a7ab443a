//! Starts runs of top-level graphs and of subgraphs: loads their checkpoint, applies their input and runs their steps.

use std::{any::Any, sync::Arc, sync::atomic::Ordering};

use crate::{
    checkpoint::{
        id::{CheckpointId, TaskId},
        record::{TaskEvent, TaskRecord},
        stored::{Checkpoint, CheckpointKey, Source},
        writer::{self, CheckpointWriter, Closer},
    },
    context::{
        ahead::RecordTarget,
        settings::RunSettings,
        task::{Scope, TaskContext, TaskKind, task_id},
    },
    control::RunControl,
    engine::{
        execute::run_error,
        input::RunInput,
        inspect::{planned_task_id, subgraph_namespace},
        load::{self, Loaded},
        outcome::{GraphOutcome, TaskOutput},
        plan::StartInput,
        resolve,
        running::{Engine, FirstStep},
        target::{Target, Targets, goto_records, resolve_gotos, stored_targets},
    },
    error::RunError,
    goto::Goto,
    graph::{
        erased::{Graph, Subgraph},
        stops::Stops,
    },
    label::Label,
    namespace::{Persistence, number_of},
    remote::task_call::RemoteTaskRunner,
    spans,
    state::erased::AnyUpdate,
    stream::EventSender,
};

/// Everything needed to start a run of a top-level graph.
pub(crate) struct RootRun {
    pub(crate) graph: Arc<Graph>,
    pub(crate) run: Arc<str>,
    /// Whether the caller chose the run's id, so that a repeated start with the same id applies its input once.
    pub(crate) named_run: bool,
    pub(crate) thread: Option<Arc<str>>,
    pub(crate) at: Option<CheckpointId>,
    /// The checkpoint of a subgraph to start from, with the subgraph's namespace. Replaces `at`.
    pub(crate) at_subgraph: Option<(String, CheckpointId)>,
    pub(crate) deps: Arc<dyn Any + Send + Sync>,
    pub(crate) settings: Arc<RunSettings>,
    pub(crate) events: Option<EventSender>,
    pub(crate) control: RunControl,
    /// The nodes before which the run stops. `None` selects the graph's setting.
    pub(crate) stop_before: Option<Stops>,
    /// The nodes after which the run stops. `None` selects the graph's setting.
    pub(crate) stop_after: Option<Stops>,
    pub(crate) task_runner: Option<Arc<dyn RemoteTaskRunner>>,
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
    for stops in [&request.stop_before, &request.stop_after].into_iter().flatten() {
        check_stops(stops, &request.graph)?;
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
    let outcome = result?;
    flushed?;
    Ok(outcome)
}

/// Checks that the graph has every node that a run stops at.
fn check_stops(stops: &Stops, graph: &Graph) -> Result<(), RunError> {
    let Stops::At(labels) = stops else { return Ok(()) };
    let is_node = |it: &&Label| graph.find(it.as_str()).is_some_and(|it| it != graph.start);
    match labels.iter().find(|it| !is_node(it)) {
        None => Ok(()),
        Some(label) => Err(RunError::UnknownStop {
            node: label.to_string(),
            graph: graph.name.clone(),
            nodes: graph.node_names(),
        }),
    }
}

/// Leases the thread and opens a writer to the graph's checkpointer. Returns no writer if the graph has no
/// checkpointer.
async fn open_writer(
    request: &RootRun,
) -> Result<(Option<CheckpointWriter>, Option<Closer>), RunError> {
    let resumes = matches!(&request.input, RunInput::Command(command) if command.resume.is_some());
    let Some(saver) = &request.graph.checkpointer else {
        let stores = resumes || request.thread.is_some();
        return if stores { Err(RunError::NoCheckpointer) } else { Ok((None, None)) };
    };
    let thread = request.thread.as_ref().ok_or(RunError::MissingThread)?;
    let lease = writer::lease(&**saver, thread).await?;
    let (writer, closer) =
        CheckpointWriter::new(saver.clone(), thread, request.settings.durability, lease);
    Ok((Some(writer), Some(closer)))
}

async fn run_from_checkpoint(
    request: RootRun,
    writer: Option<CheckpointWriter>,
) -> Result<GraphOutcome, RunError> {
    let RootRun { graph, run, thread, mut at, deps, settings, events, control, .. } = request;
    let mut input = request.input;
    let mut subgraph_start = None;
    if let (Some(writer), Some((namespace, id))) = (&writer, request.at_subgraph) {
        let thread = thread.as_deref().unwrap_or_default().to_owned();
        let key = CheckpointKey { thread, namespace, id };
        let (start, top_level) = load::load_subgraph_start(&writer.saver, key).await?;
        (subgraph_start, at) = (Some(Arc::new(start)), Some(top_level));
    }
    let saved = match (&writer, &thread) {
        (Some(writer), Some(thread)) => {
            let mut saved = load::load(&graph, &writer.saver, thread, "", at).await?;
            if let Some(checkpoint) = &saved.checkpoint {
                let (saver, run) = (&writer.saver, request.named_run.then_some(&*run));
                let repeats_answer =
                    saved.is_addressed() && resolve::repeats_answer(&input, checkpoint, run);
                input = resolve::resolve_input(input, &graph, saver, checkpoint, run).await?;
                if repeats_answer && matches!(input, RunInput::Continue) {
                    // The first call has answered the interrupt of the newest checkpoint. Its repetition continues the
                    // thread, and must not travel back to that checkpoint.
                    saved = load::load(&graph, &writer.saver, thread, "", None).await?;
                    subgraph_start = None;
                }
            }
            saved
        }
        _ => Loaded::default(),
    };
    let max_bytes = graph.max_stored_bytes;
    let resume_values = load::resume_values(&input, &saved, thread.as_deref(), max_bytes)?;
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
        replay: saved.replay(&input, None),
        subgraph_start,
        initial: graph.initial.snapshot(),
        update_from: graph.initial.update_from_fn(),
        max_stored_bytes: graph.max_stored_bytes,
        record_target: record_target(&graph),
        host: None,
    };
    let mut engine = Engine::new(graph, scope, &saved)?;
    engine.task_runner = request.task_runner;
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
    let Subgraph { graph, persistence, .. } = inner;
    let outer = &task.scope;
    let writer = outer.writer.clone().filter(|_| persistence != Persistence::None);
    let retried = task.attempt.load(Ordering::Relaxed) > 1;
    if let Some(writer) = writer.as_ref().filter(|_| retried || persistence == Persistence::Thread)
    {
        // Checkpoints of an earlier invocation in this run may still be queued, and they must be stored before they
        // are read.
        writer.flush().await?;
    }
    let (saved, replays) = match (&writer, &outer.thread) {
        (Some(writer), Some(thread)) => {
            load::load_nested(&graph, &writer.saver, thread, &namespace, outer).await?
        }
        _ => (Loaded::default(), false),
    };
    // With thread persistence, an invocation is resumed only if this task started it.
    let started = persistence != Persistence::Thread || saved.was_started_by(&task);
    let resuming =
        saved.is_addressed() || (started && ((task.step.resuming && !replays) || retried));
    // A new invocation finds a checkpoint only if an earlier run of the same step crashed. The new invocation must not
    // start from that checkpoint.
    let saved = match persistence == Persistence::Invocation && !resuming && !replays {
        true => saved.without_checkpoint(),
        false => saved,
    };
    // An error handler has no start event, so events refer to the failed task instead.
    let parent_task = task.handled_task().unwrap_or_else(|| task.id());
    // A subgraph that continues from an addressed checkpoint bounds the checkpoints of its own subgraphs.
    let replay = saved.replay(&RunInput::Continue, outer.replay.as_deref());
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
        replay: replay.or_else(|| outer.replay.clone()),
        subgraph_start: outer.subgraph_start.clone(),
        namespace,
        initial: graph.initial.snapshot(),
        update_from: graph.initial.update_from_fn(),
        max_stored_bytes: graph.max_stored_bytes,
        record_target: record_target(&graph),
        host: None,
        parent: Some(task.clone()),
    };
    let mut engine = Engine::new(graph, scope, &saved)?;
    engine.apply_input(input, saved, Some(resuming)).await?;
    engine.run_to_end(persistence == Persistence::Thread).await
}

/// Returns the record target of an eager graph. The engine sets its checkpoint.
fn record_target(graph: &Graph) -> Option<RecordTarget> {
    graph.declared_fields.as_ref().map(|_| RecordTarget::new(CheckpointId::next()))
}

impl Engine {
    /// Applies the run's input: fresh input, a command, or nothing.
    ///
    /// For a subgraph, `nested` is `Some` and says whether the subgraph resumes from its own checkpoint.
    async fn apply_input(
        &mut self,
        input: RunInput,
        saved: Loaded,
        nested: Option<bool>,
    ) -> Result<(), RunError> {
        let known = saved.checkpoint.is_some();
        // The run holds the lease of its thread, so two processes cannot both apply the input. A subgraph decides by
        // `nested` whether it continues.
        let input = match input {
            RunInput::StartOrContinue(update, _) if !known || nested.is_some() => {
                RunInput::Fresh(update)
            }
            RunInput::WholeState(update) => RunInput::Fresh(update),
            input => input,
        };
        let resumes = known && nested.unwrap_or(!matches!(input, RunInput::Fresh(_)));
        let replaying = saved.is_time_travel(&input);
        self.first_step = Some(FirstStep { replaying, resuming: nested.unwrap_or(resumes) });
        if replaying {
            self.records.clear_interrupts();
            self.ignore_records_ahead();
        }
        let edited = matches!(self.history.source, Source::Update | Source::Fork);
        let forks =
            resumes && replaying && (!edited || saved.is_superseded() || self.has_new_parents());
        self.apply_stored_commands()?;
        match input {
            _ if resumes && nested.is_some() => {}
            RunInput::Fresh(update) => {
                return self.start_from_input(StartInput { update, gotos: Targets::new() }).await;
            }
            RunInput::Continue if !known => return Err(RunError::EmptyInput),
            RunInput::Continue | RunInput::StartOrContinue(..) | RunInput::WholeState(_) => {}
            RunInput::Command(command) => {
                if command.update.is_none() && command.gotos.is_empty() && command.resume.is_none()
                {
                    return Err(RunError::EmptyInput);
                }
                let gotos = self.command_targets(command.gotos)?;
                if !known {
                    let update = match command.update {
                        Some(update) => update,
                        None => self.state.values.update_from(Vec::new())?,
                    };
                    return self.start_from_input(StartInput { update, gotos }).await;
                }
                let is_applied = command.update.is_some() || !gotos.is_empty();
                if !forks && (is_applied || command.pending.is_some()) {
                    let record =
                        self.command_record(command.update.as_ref(), &gotos, command.pending)?;
                    self.record(vec![record]).await?;
                    self.flush_records().await?;
                }
                if is_applied {
                    self.apply_command(command.update, &gotos)?;
                }
            }
        }
        if let Some(checkpoint) = &saved.checkpoint {
            load::check_nodes(&self.graph, checkpoint)?;
        }
        self.frontier.resumed_version = self.frontier.version;
        if forks {
            self.records.clear();
            let affected = std::mem::take(&mut self.history.unsaved_fields);
            let changes = std::mem::take(&mut self.history.command_changes);
            self.put_checkpoint(Source::Fork, changes, &affected).await?;
        }
        if let Some(checkpoint) = &saved.checkpoint {
            self.locate_subgraph(checkpoint)?;
        }
        self.has_output = true;
        self.publish_values(&*self.state.values, true).await;
        Ok(())
    }

    /// If the run starts from a checkpoint of a subgraph, finds the task that runs the subgraph. This graph continues
    /// from `checkpoint`.
    fn locate_subgraph(&mut self, checkpoint: &Checkpoint) -> Result<(), RunError> {
        let Some(start) = self.scope.subgraph_start.clone() else { return Ok(()) };
        let Some((stored_in, id, index)) = start.inside(&checkpoint.key) else { return Ok(()) };
        let error = |problem| RunError::SubgraphStart {
            namespace: stored_in.to_owned(),
            checkpoint: id,
            problem,
        };
        let graph = &self.graph;
        // The checkpoint's own frontier lacks the targets of commands, which are recorded separately.
        for plan in self.frontier.tasks(graph, false) {
            let node = graph.node(plan.node);
            let stored = planned_task_id(graph, checkpoint, &plan);
            let outer = &checkpoint.key.namespace;
            let first = subgraph_namespace(graph, outer, plan.node, stored);
            let Some(number) = first.and_then(|first| number_of(stored_in, &first)) else {
                continue;
            };
            let (origin, outer) = (self.history.origin, &self.scope.namespace);
            let task = task_id(origin, outer, self.step, node.label.as_str(), plan.kind);
            if let Some(namespace) = subgraph_namespace(graph, outer, plan.node, task) {
                start.set_next(format!("{namespace}{number}"), index);
            }
            return Ok(());
        }
        Err(error(
            "no task of the enclosing graph runs the subgraph at this checkpoint; choose another checkpoint",
        ))
    }

    /// Drops pending tasks and stores a checkpoint with the fresh input, so that START runs next.
    async fn start_from_input(&mut self, input: StartInput) -> Result<(), RunError> {
        let discarded = self.frontier.discard_pending(&self.graph);
        let options = self.commit_options(discarded);
        let committed = self.state.commit(&self.graph, [], options)?;
        // Changes made by an earlier command are part of the state that the input is applied to.
        let mut changes = std::mem::take(&mut self.history.command_changes);
        changes.extend(committed.changes);
        let mut affected = std::mem::take(&mut self.history.unsaved_fields);
        affected.union_with(&committed.affected);
        self.frontier.version += 1;
        self.frontier.input = Some(input);
        self.records.clear();
        self.put_checkpoint(Source::Input, changes, &affected).await
    }

    /// Returns the record of an input command. Later runs of the thread apply the command from this record, and a
    /// repetition of this run uses the record to detect whether its answer was used.
    fn command_record(
        &self,
        update: Option<&AnyUpdate>,
        targets: &[Target],
        pending: Option<Vec<String>>,
    ) -> Result<TaskRecord, RunError> {
        let mut writes = match update {
            Some(update) => self.state.values.writes(update)?,
            None => Vec::new(),
        };
        self.graph.strip_untracked(&mut writes);
        self.check_size(&writes)?;
        let gotos = goto_records(&self.graph, targets)?;
        let event = TaskEvent::Command { run: self.scope.run.to_string(), writes, gotos, pending };
        Ok(TaskRecord { task: TaskId::COMMAND, node: String::new(), event })
    }

    /// Applies the commands that earlier runs recorded on this checkpoint.
    pub(super) fn apply_stored_commands(&mut self) -> Result<(), RunError> {
        for (writes, gotos) in std::mem::take(&mut self.records.commands) {
            let update = self.state.values.update_from(writes)?;
            let targets = stored_targets(&self.graph, gotos);
            self.apply_command(Some(update), &targets)?;
        }
        Ok(())
    }

    fn apply_command(
        &mut self,
        update: Option<AnyUpdate>,
        targets: &[Target],
    ) -> Result<(), RunError> {
        self.ignore_records_ahead();
        let mut output = TaskOutput::new(self.graph.start, update.into_iter().collect());
        let options = self.commit_options(false);
        let committed = self.state.commit(&self.graph, [&mut output], options)?;
        self.history.command_changes.extend(committed.changes);
        self.history.unsaved_fields.union_with(&committed.affected);
        self.frontier.apply_command(&self.graph, targets);
        Ok(())
    }

    fn command_targets(&self, mut gotos: Vec<Goto>) -> Result<Targets, RunError> {
        let start = self.graph.start;
        let mut targets = Targets::new();
        match resolve_gotos(&self.graph, start, &mut gotos, &mut targets) {
            Ok(()) => Ok(targets),
            Err(error) => Err(run_error(&self.task_context(start, TaskKind::Pull), error)),
        }
    }
}
