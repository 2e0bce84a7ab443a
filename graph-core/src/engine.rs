//! The engine: supersteps of plan → execute → commit, over a state it does not know the type of.
//!
//! `run_to_end` is the loop. What comes before it is in [`load`], one step in [`step`], and the edits and
//! views of a thread that run no node in [`edit`] and [`inspect`].

mod commit;
mod conflict;
pub(crate) mod edit;
mod events;
mod execute;
pub(crate) mod inspect;
mod load;
mod note;
mod persist;
mod plan;
mod quiet;
mod records;
mod run_tasks;
mod step;
mod team;

use std::{
    any::Any,
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::SystemTime,
};

use serde_json::{Map, Value};

pub use persist::Durability;
pub(crate) use persist::Writer;

use self::{persist::Closer, plan::Frontier, records::Records};
use crate::{
    Interrupt, RunError,
    checkpoint::{Change, CheckpointId, Header, NewCheckpoint, Place, Source, TaskRecord, Write},
    command::{Goto, ParentCommand},
    context::{Scope, TaskContext},
    effects::Effects,
    error::Stop,
    graph::{Graph, Stops},
    node::AnyUpdate,
    run::Control,
    spans,
    state::{
        FieldSet,
        erased::{AnyState, ErasedState},
    },
    stream::Sink,
    subgraph::Persistence,
};

/// What a run starts with.
pub(crate) enum RunInput {
    Fresh(AnyUpdate),
    /// Go on where the thread stands.
    Continue,
    Command(CommandInput),
}

/// A command given as input.
#[derive(Default)]
pub(crate) struct CommandInput {
    pub(crate) update: Option<AnyUpdate>,
    pub(crate) gotos: Vec<Goto>,
    pub(crate) resume: Option<Resume>,
}

/// The answers that a run is resumed with.
pub(crate) enum Resume {
    One(Value),
    Many(BTreeMap<String, Value>),
}

/// What holds for a whole run, its subgraphs included.
#[derive(Clone, Debug)]
pub(crate) struct RunSettings {
    pub(crate) limit: u32,
    pub(crate) concurrency: Option<usize>,
    pub(crate) durability: Durability,
    pub(crate) stop_before: Option<Stops>,
    pub(crate) stop_after: Option<Stops>,
    pub(crate) metadata: Map<String, Value>,
    pub(crate) config: Map<String, Value>,
    pub(crate) effects: Option<Arc<dyn Effects>>,
}

/// A run that came to an end of its own.
pub(crate) struct Finished {
    pub(crate) ended: Ended,
    /// The state it ended with.
    pub(crate) state: AnyState,
    /// Whether it showed any of its output.
    pub(crate) shown: bool,
}

/// How a run ended.
pub(crate) enum Ended {
    Done,
    Asked(Vec<Interrupt>),
    Stopped(Stop),
    Parent(Box<ParentCommand>),
}

/// A run to be started.
pub(crate) struct RootRun {
    pub(crate) graph: Arc<Graph>,
    pub(crate) run: Arc<str>,
    pub(crate) thread: Option<Arc<str>>,
    pub(crate) at: Option<CheckpointId>,
    pub(crate) deps: Arc<dyn Any + Send + Sync>,
    pub(crate) settings: Arc<RunSettings>,
    pub(crate) events: Option<Sink>,
    pub(crate) control: Control,
    pub(crate) input: RunInput,
}

/// A run that goes on from an older checkpoint: subgraphs that keep their state over visits start from what they
/// had then, once each.
#[derive(Debug)]
pub(crate) struct Replay {
    bound: CheckpointId,
    visited: Mutex<BTreeSet<String>>,
}

/// Runs a graph that is not part of another.
pub(crate) async fn run_root(request: RootRun) -> Result<Finished, RunError> {
    spans::within(spans::run(&request), run_alone(request)).await
}

async fn run_alone(request: RootRun) -> Result<Finished, RunError> {
    if request.settings.limit < 1 {
        return Err(RunError::BadLimit);
    }
    let (writer, closer) = open(&request).await?;
    let control = request.control.clone();
    let result = tokio::select! {
        result = root(request, writer.clone()) => result,
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

/// Takes the thread and opens the way to its checkpointer.
async fn open(request: &RootRun) -> Result<(Option<Writer>, Option<Closer>), RunError> {
    let resumes = matches!(&request.input, RunInput::Command(command) if command.resume.is_some());
    let Some(saver) = &request.graph.checkpointer else {
        return if resumes { Err(RunError::NoCheckpointer) } else { Ok((None, None)) };
    };
    let thread = request.thread.as_ref().ok_or(RunError::MissingThread)?;
    let lease = saver.lease(thread).await?;
    let (writer, closer) = Writer::new(saver.clone(), request.settings.durability, lease);
    Ok((Some(writer), Some(closer)))
}

async fn root(request: RootRun, writer: Option<Writer>) -> Result<Finished, RunError> {
    let RootRun { graph, run, thread, at, deps, settings, events, control, mut input } = request;
    let saved = match (&writer, &thread) {
        (Some(writer), Some(thread)) => load::load(&graph, &writer.saver, thread, "", at).await?,
        _ => load::Loaded::default(),
    };
    let answers = load::take_answers(&mut input, &saved)?;
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
        answers: Arc::new(answers),
        replay: saved.replay(&input),
        graph,
    };
    let mut engine = Engine::new(scope, &saved)?;
    engine.first(input, saved, None).await?;
    engine.run_to_end(true).await
}

/// Runs a graph as part of a task of another.
pub(crate) async fn run_nested(
    task: Arc<TaskContext>,
    graph: Arc<Graph>,
    namespace: String,
    persistence: Persistence,
    input: RunInput,
) -> Result<Finished, RunError> {
    let outer = &task.scope;
    let writer = outer.writer.clone().filter(|_| persistence != Persistence::Nothing);
    let retried = task.attempt.load(std::sync::atomic::Ordering::Relaxed) > 1;
    if let Some(writer) = writer.as_ref().filter(|_| retried || persistence == Persistence::Thread)
    {
        // What an earlier visit of this run came to may still be on its way.
        writer.flush().await?;
    }
    let (saved, replays) = match (&writer, &outer.thread) {
        (Some(writer), Some(thread)) => {
            load::load_nested(&graph, &writer.saver, thread, &namespace, outer.replay.as_deref())
                .await?
        }
        _ => (load::Loaded::default(), false),
    };
    // A graph that keeps its state goes on only with a visit that this task began.
    let begun = persistence != Persistence::Thread || saved.began_at(&task);
    let resuming = begun && ((task.resuming && !replays) || retried);
    // A visit that begins finds something only if an earlier run of the same step was lost before its end.
    let saved = match persistence == Persistence::Visit && !resuming && !replays {
        true => saved.emptied(),
        false => saved,
    };
    // Stops given with a call are for the graph that was called.
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
        answers: outer.answers.clone(),
        replay: outer.replay.clone(),
        namespace,
        graph,
        parent: Some(task.clone()),
    };
    let mut engine = Engine::new(scope, &saved)?;
    engine.first(input, saved, Some(resuming)).await?;
    engine.run_to_end(persistence == Persistence::Thread).await
}

/// One graph in the middle of a run.
pub(crate) struct Engine {
    scope: Arc<Scope>,
    state: Box<dyn ErasedState>,
    frontier: Frontier,
    /// Fields of one step's life that have a value.
    live: FieldSet,
    step: i64,
    stop: i64,
    /// The checkpoint this step starts from, the one that task ids are made from, and the one before.
    id: CheckpointId,
    origin: CheckpointId,
    parent: Option<CheckpointId>,
    source: Source,
    /// The namespace's newest checkpoint as we know it, and the one our changes are relative to.
    head: Option<CheckpointId>,
    stored: Option<CheckpointId>,
    /// Fields changed since `stored`, where checkpoints are stored at the end only.
    unsaved: FieldSet,
    /// Whether the next checkpoint stores the whole state, since `stored` is in an older form of it.
    rebase: bool,
    /// What a command given as input changed: it goes into the next checkpoint.
    carried: Vec<(String, Change)>,
    /// What earlier runs left behind for the tasks of this step.
    records: Records,
    /// What is recorded with the next checkpoint, or when the run ends.
    late_records: Vec<TaskRecord>,
    first_step: bool,
    /// Whether finished tasks are run again, as they are when an older checkpoint is gone on from.
    replaying: bool,
    /// Whether graphs inside tasks of this step go on where they stood.
    resuming: bool,
    /// Whether this run has made a checkpoint.
    checkpointed: bool,
    /// Whether the state was shown in this run.
    shown: bool,
    /// The state with what the finished siblings of a question wrote.
    ended_with: Option<AnyState>,
    /// The last task's context, its memory to be used again.
    spare: Option<Arc<TaskContext>>,
}

impl Engine {
    fn graph(&self) -> &Graph {
        &self.scope.graph
    }

    /// The loop. `keeps` says whether a graph that ends well is stored though it is stored at the end only.
    async fn run_to_end(mut self, keeps: bool) -> Result<Finished, RunError> {
        let quiet = self.is_quiet();
        let ended = loop {
            let span = spans::superstep(&self.scope.namespace, self.step);
            let step = match quiet.then(|| self.quiet_task()).flatten() {
                Some(node) => spans::within(span, self.quiet_step(node)).await,
                None => spans::within(span, self.tick()).await,
            };
            match step {
                Ok(None) => {}
                Ok(Some(ended)) => break Ok(ended),
                Err(error) => break Err(error),
            }
        };
        // As LangGraph does: a graph inside a task that ran out of steps is not stored at the end, and starts over.
        let forgets = matches!(ended, Ok(Ended::Done)) || self.step > self.stop;
        if keeps || !forgets {
            self.store_at_exit().await?;
        }
        let settled = self.settle().await;
        let ended = ended?;
        settled?;
        let state = self.ended_with.take().unwrap_or_else(|| self.state.snapshot());
        Ok(Finished { ended, state, shown: self.shown })
    }

    /// Makes a checkpoint of where the run stands and goes on to the next step.
    async fn put_checkpoint(
        &mut self,
        source: Source,
        changes: Vec<(String, Change)>,
        affected: &FieldSet,
    ) -> Result<(), RunError> {
        if let Some(writer) = self.scope.writer.clone() {
            let mut writes = Vec::with_capacity(2);
            if writer.durability == Durability::Sync && !self.late_records.is_empty() {
                writes.push(Write::Record(self.place(), std::mem::take(&mut self.late_records)));
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

    /// The checkpoint of where the run stands, which is the newest from here on.
    fn new_checkpoint(&mut self, mut changes: Vec<(String, Change)>) -> Result<Write, RunError> {
        let mut base = self.stored;
        if std::mem::take(&mut self.rebase) {
            base = None;
            let all = (0..self.state.fields().len()).collect();
            changes = commit::whole(self.graph(), &*self.state, &all)?;
        }
        let checkpoint = NewCheckpoint {
            place: self.place(),
            expected_head: self.head,
            base,
            header: self.header(),
            cursor: self.cursor()?,
            changes,
        };
        self.head = Some(self.id);
        self.stored = Some(self.id);
        Ok(Write::Put(Box::new(checkpoint)))
    }

    /// Stores what a run that is stored at its end has come to.
    async fn store_at_exit(&mut self) -> Result<(), RunError> {
        let writer = self.scope.writer.clone().filter(|it| it.durability == Durability::Exit);
        let Some(writer) = writer else { return Ok(()) };
        let mut writes = Vec::with_capacity(2);
        if self.stored != Some(self.id) && self.checkpointed {
            let unsaved = std::mem::take(&mut self.unsaved);
            let changes = commit::whole(self.graph(), &*self.state, &unsaved)?;
            // The step was counted when the checkpoint was made.
            self.step -= 1;
            let checkpoint = self.new_checkpoint(changes);
            self.step += 1;
            writes.push(checkpoint?);
        }
        let records = std::mem::take(&mut self.late_records);
        if !records.is_empty() {
            writes.push(Write::Record(self.place(), records));
        }
        Ok(writer.write(writes).await?)
    }

    /// Stores records that wait for the next checkpoint, since it may not come soon.
    async fn settle(&mut self) -> Result<(), RunError> {
        let waits = !self.late_records.is_empty();
        let writer = self.scope.writer.clone().filter(|it| it.durability == Durability::Sync);
        if let (true, Some(writer)) = (waits, writer) {
            let records = std::mem::take(&mut self.late_records);
            writer.record(self.place(), records).await?;
        }
        Ok(())
    }

    fn place(&self) -> Place {
        Place {
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

    /// The checkpoints of the graphs around this one.
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
