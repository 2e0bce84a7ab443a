//! Load: from a stored checkpoint and an input to the start of the loop.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
};

use super::{
    CommandInput, Engine, Replay, Resume, RunInput,
    commit::{self, Committed, Mode, Writes},
    execute::{failure, find},
    plan::{Frontier, Hop, Hops, StartInput},
    records::Records,
};
use crate::{
    FieldWrite, NodeError, RunError,
    checkpoint::{
        Checkpoint, CheckpointError, CheckpointId, Checkpointer, Cursor, Event, GotoRecord,
        History, Lookup, Place, Source, StartRecord, TaskId, TaskRecord,
    },
    command::Goto,
    context::{Answers, Scope, TaskContext, TaskKind, lock},
    error::Halt,
    graph::Graph,
    node::AnyUpdate,
    state::{FieldError, FieldSet, erased::ErasedState, guard},
};

/// What a run found when it started.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    checkpoint: Option<Checkpoint>,
    /// The namespace's newest checkpoint.
    head: Option<CheckpointId>,
    /// Whether the caller named the checkpoint.
    addressed: bool,
    /// Whether it is stored in an older form.
    migrated: bool,
}

impl Loaded {
    pub(crate) fn into_checkpoint(self) -> Option<Checkpoint> {
        self.checkpoint
    }

    /// Nothing but the namespace's head, which a new checkpoint has to follow.
    pub(crate) fn emptied(self) -> Self {
        Self { head: self.head, ..Self::default() }
    }

    /// Whether the checkpoint was made for the step that a task belongs to.
    pub(crate) fn began_at(&self, task: &TaskContext) -> bool {
        let parents = self.checkpoint.as_ref().map(|it| &it.header.parents);
        parents.and_then(|it| it.get(&task.scope.namespace)) == Some(&task.checkpoint)
    }

    /// Whether the thread has moved past the checkpoint that was named.
    pub(super) fn superseded(&self) -> bool {
        self.addressed && self.checkpoint.as_ref().map(|it| it.place.id) != self.head
    }

    /// Whether the run goes back in time, rather than on from where the thread stands.
    fn travels(&self, input: &RunInput) -> bool {
        let resumes = matches!(input, RunInput::Command(it) if it.resume.is_some());
        self.addressed && (!resumes || self.superseded())
    }

    /// From when subgraphs that keep their state start, in a run that goes back in time.
    pub(crate) fn replay(&self, input: &RunInput) -> Option<Arc<Replay>> {
        let checkpoint = self.checkpoint.as_ref()?;
        if !self.travels(input) || matches!(input, RunInput::Fresh(_)) {
            return None;
        }
        // An edit was made after the subgraphs ran, so their checkpoints lie before its parent.
        let edited = matches!(checkpoint.header.source, Source::Update | Source::Fork);
        let bound = checkpoint.header.parent.filter(|_| edited).unwrap_or(checkpoint.place.id);
        Some(Arc::new(Replay { bound, visited: Mutex::new(BTreeSet::new()) }))
    }
}

/// Reads the checkpoint that a run starts from.
pub(crate) async fn load(
    graph: &Graph,
    saver: &Arc<dyn Checkpointer>,
    thread: &str,
    namespace: &str,
    at: Option<CheckpointId>,
) -> Result<Loaded, CheckpointError> {
    let head = saver.get(&Lookup::head(thread, namespace)).await?;
    let head_id = head.as_ref().map(|it| it.place.id);
    let mut checkpoint = match at {
        None => head,
        Some(id) if head_id == Some(id) => head,
        Some(id) => {
            let found = saver.get(&Lookup::exact(thread, namespace, id)).await?;
            Some(found.ok_or_else(|| CheckpointError::UnknownCheckpoint {
                thread: thread.to_owned(),
                namespace: namespace.to_owned(),
                id,
            })?)
        }
    };
    let migrated = checkpoint.as_mut().map_or(Ok(false), |it| graph.migrate(it))?;
    Ok(Loaded { checkpoint, head: head_id, addressed: at.is_some(), migrated })
}

/// Reads the checkpoint that a graph inside a task starts from, and says whether it is replayed.
pub(crate) async fn load_nested(
    graph: &Graph,
    saver: &Arc<dyn Checkpointer>,
    thread: &str,
    namespace: &str,
    replay: Option<&Replay>,
) -> Result<(Loaded, bool), CheckpointError> {
    let mut loaded = load(graph, saver, thread, namespace, None).await?;
    let Some(replay) = replay else { return Ok((loaded, false)) };
    // Without the task's id, so that the second visit in a loop is not taken for a first one.
    let stable = namespace.rsplit_once(':').map_or(namespace, |(stable, _)| stable);
    if lock(&replay.visited).insert(stable.to_owned()) {
        let older = History::of(thread, namespace).before(replay.bound).limit(1);
        loaded.checkpoint = saver.list(&older).await?.into_iter().next();
        loaded.migrated = loaded.checkpoint.as_mut().map_or(Ok(false), |it| graph.migrate(it))?;
    }
    Ok((loaded, true))
}

/// Takes the answers out of an input, checking them against the questions that wait.
pub(crate) fn take_answers(input: &mut RunInput, saved: &Loaded) -> Result<Answers, RunError> {
    if let RunInput::Command(CommandInput { resume: Some(resume), .. }) = &*input {
        let answers: Vec<&serde_json::Value> = match resume {
            Resume::One(answer) => vec![answer],
            Resume::Many(answers) => answers.values().collect(),
        };
        answers.into_iter().try_for_each(|it| guard::check("answer", it, usize::MAX))?;
    }
    let RunInput::Command(CommandInput { resume, .. }) = input else {
        return Ok(Answers::default());
    };
    let stored = saved.checkpoint.as_ref().map(|it| it.records.clone()).unwrap_or_default();
    let records = Records::new(stored);
    match resume {
        None => Ok(Answers::default()),
        Some(Resume::One(value)) => {
            let pending = records.pending().count();
            if pending > 1 {
                return Err(RunError::AmbiguousResume { pending });
            }
            Ok(Answers::new(Some(value.clone()), Default::default()))
        }
        Some(Resume::Many(answers)) => {
            let known = |id: &String| records.pending().any(|it| it.id == *id);
            // Going back in time, the question is one of the old ones, answered or not.
            if let Some(id) = answers.keys().find(|it| !saved.superseded() && !known(it)) {
                return Err(RunError::UnknownInterrupt { id: id.clone() });
            }
            Ok(Answers::new(None, answers.clone()))
        }
    }
}

impl Engine {
    /// An engine at the loaded checkpoint, or at the start of a new thread.
    pub(crate) fn new(scope: Scope, saved: &Loaded) -> Result<Self, RunError> {
        let scope = Arc::new(scope);
        let mut engine = Self::at_start(&scope);
        engine.head = saved.head;
        if let Some(checkpoint) = &saved.checkpoint {
            engine.restore(checkpoint)?;
        }
        engine.rebase = saved.migrated;
        engine.stop = engine.step + i64::from(scope.settings.limit) + 1;
        Ok(engine)
    }

    fn at_start(scope: &Arc<Scope>) -> Self {
        let id = CheckpointId::next();
        // A graph that stores nothing has no line of its own: its tasks are those of the task around it.
        let outer = scope.parent.as_ref().filter(|_| scope.writer.is_none());
        let origin = outer.map_or(id, |it| it.origin);
        Self {
            state: scope.graph.initial.fork(),
            scope: scope.clone(),
            frontier: Frontier::default(),
            live: FieldSet::default(),
            step: -1,
            stop: 0,
            id,
            origin,
            parent: None,
            source: Source::Input,
            head: None,
            stored: None,
            unsaved: FieldSet::default(),
            rebase: false,
            carried: Vec::new(),
            records: Records::default(),
            late_records: Vec::new(),
            first_step: true,
            replaying: false,
            resuming: false,
            checkpointed: false,
            shown: false,
            spare: None,
            ended_with: None,
        }
    }

    fn restore(&mut self, checkpoint: &Checkpoint) -> Result<(), RunError> {
        let graph = self.scope.graph.clone();
        let damaged = |error: FieldError| damaged(&checkpoint.place, &error);
        (self.state, self.live) = stored_state(&graph, checkpoint)?;
        self.frontier = Frontier::from_cursor(&graph, &checkpoint.cursor);
        self.frontier.input = match &checkpoint.cursor.input {
            Some(start) => Some(self.start_input(start).map_err(damaged)?),
            None => None,
        };
        self.records = Records::new(checkpoint.records.clone());
        self.step = checkpoint.header.step + 1;
        self.id = checkpoint.place.id;
        self.origin = checkpoint.header.origin;
        self.source = checkpoint.header.source;
        self.parent = checkpoint.header.parent;
        self.stored = Some(self.id);
        Ok(())
    }

    /// Makes of the input what it means here: fresh input, a command, or going on.
    ///
    /// `nested` says, for a graph inside a task, whether it is to go on where it stood.
    pub(crate) async fn first(
        &mut self,
        input: RunInput,
        saved: Loaded,
        nested: Option<bool>,
    ) -> Result<(), RunError> {
        let known = saved.checkpoint.is_some();
        let resumes = known && nested.unwrap_or(!matches!(input, RunInput::Fresh(_)));
        self.resuming = nested.unwrap_or(resumes);
        self.replaying = saved.travels(&input);
        if self.replaying {
            self.records.forget_answers();
        }
        let edited = matches!(self.source, Source::Update | Source::Fork);
        let forks = resumes && self.replaying && (!edited || saved.superseded());
        self.apply_stored_commands()?;
        match input {
            _ if resumes && nested.is_some() => {}
            RunInput::Fresh(update) => {
                return self.start(StartInput { update, gotos: Hops::new() }).await;
            }
            RunInput::Continue if !known => return Err(RunError::EmptyInput),
            RunInput::Continue => {}
            RunInput::Command(command) => {
                if command.update.is_none() && command.gotos.is_empty() && command.resume.is_none()
                {
                    return Err(RunError::EmptyInput);
                }
                let gotos = self.command_hops(command.gotos)?;
                if !known {
                    let update = match command.update {
                        Some(update) => update,
                        None => self.state.update_from(Vec::new())?,
                    };
                    return self.start(StartInput { update, gotos }).await;
                }
                self.command(command.update, gotos, !forks).await?;
            }
        }
        self.frontier.seen = self.frontier.version;
        if forks {
            self.records.clear();
            let affected = std::mem::take(&mut self.unsaved);
            let changes = std::mem::take(&mut self.carried);
            self.put_checkpoint(Source::Fork, changes, &affected).await?;
        }
        self.shown = true;
        self.show_values(&*self.state, true).await;
        Ok(())
    }

    /// Takes in fresh input: what was pending is dropped, and START runs next.
    async fn start(&mut self, input: StartInput) -> Result<(), RunError> {
        let graph = self.scope.graph.clone();
        let clears = self.frontier.discard(&graph);
        let committed = self.fold(&mut [], clears)?;
        // What a command wrote to the thread as it stood is part of it now.
        let mut changes = std::mem::take(&mut self.carried);
        changes.extend(committed.changes);
        let mut affected = std::mem::take(&mut self.unsaved);
        affected.union_with(&committed.affected);
        self.frontier.version += 1;
        self.frontier.input = Some(input);
        self.records.clear();
        self.put_checkpoint(Source::Input, changes, &affected).await
    }

    /// Applies a command given as input to where the thread stands.
    async fn command(
        &mut self,
        update: Option<AnyUpdate>,
        hops: Hops,
        record: bool,
    ) -> Result<(), RunError> {
        let graph = self.scope.graph.clone();
        if update.is_none() && hops.is_empty() {
            return Ok(());
        }
        if record {
            let mut writes = match &update {
                Some(update) => self.state.writes(update)?,
                None => Vec::new(),
            };
            self.strip_untracked(&mut writes);
            self.check_size(&writes)?;
            let gotos = hops.iter().map(|it| it.to_record(&graph)).collect::<Result<_, _>>()?;
            let run = self.scope.run.to_string();
            let event = Event::Command { run, writes, gotos };
            self.record(vec![TaskRecord { task: TaskId::COMMAND, node: String::new(), event }])
                .await?;
            self.settle().await?;
        }
        self.apply_command(update, &hops)
    }

    /// Applies what commands of earlier runs wrote on this checkpoint.
    pub(super) fn apply_stored_commands(&mut self) -> Result<(), RunError> {
        for (writes, gotos) in std::mem::take(&mut self.records.commands) {
            let update = self.state.update_from(writes)?;
            let graph = &self.scope.graph;
            let hops = stored_hops(graph, gotos);
            self.apply_command(Some(update), &hops)?;
        }
        Ok(())
    }

    fn apply_command(&mut self, update: Option<AnyUpdate>, hops: &[Hop]) -> Result<(), RunError> {
        let mut updates: Vec<_> = update.into_iter().collect();
        let start = self.scope.graph.start;
        let tasks = &mut [Writes { node: start, updates: &mut updates }];
        let committed = self.fold(tasks, false)?;
        self.carried.extend(committed.changes);
        self.unsaved.union_with(&committed.affected);
        self.frontier.command(&self.scope.graph.clone(), hops);
        Ok(())
    }

    fn command_hops(&self, gotos: Vec<Goto>) -> Result<Hops, RunError> {
        let graph = &self.scope.graph;
        let mut hops = Hops::new();
        match find(graph, graph.start, gotos, &mut hops).map_err(NodeError::halt) {
            Ok(()) => Ok(hops),
            Err(Halt::Failed { source, terminal }) => {
                let task = self.task_context(graph.start, TaskKind::Pull);
                Err(failure(&task, source, terminal))
            }
            Err(_) => Err(RunError::EmptyInput),
        }
    }

    /// Folds writes into the state.
    pub(super) fn fold(
        &mut self,
        tasks: &mut [Writes<'_>],
        clears: bool,
    ) -> Result<Committed, RunError> {
        let mode = self.mode(clears);
        commit::commit(&self.scope.graph, &mut *self.state, &mut self.live, tasks, mode)
    }

    pub(super) fn mode(&self, clears: bool) -> Mode {
        Mode { step: self.step, clears, records: self.stores_each_step() }
    }

    pub(super) fn cursor(&self) -> Result<Cursor, FieldError> {
        self.frontier.to_cursor(&self.scope.graph, |input| {
            let gotos = input.gotos.iter().map(|it| it.to_record(&self.scope.graph));
            let mut writes = self.state.writes(&input.update)?;
            self.strip_untracked(&mut writes);
            self.check_size(&writes)?;
            Ok(StartRecord { writes, gotos: gotos.collect::<Result<_, _>>()? })
        })
    }

    fn start_input(&self, start: &StartRecord) -> Result<StartInput, FieldError> {
        let gotos = start.gotos.iter().cloned();
        Ok(StartInput {
            update: self.state.update_from(start.writes.clone())?,
            gotos: gotos.filter_map(|it| Hop::from_record(&self.scope.graph, it)).collect(),
        })
    }
}

/// The state a checkpoint holds, and which of its fields of one step's life have a value.
pub(super) fn stored_state(
    graph: &Graph,
    checkpoint: &Checkpoint,
) -> Result<(Box<dyn ErasedState>, FieldSet), CheckpointError> {
    let mut state = graph.initial.fork();
    let present = |field: usize| checkpoint.values.contains_key(&*state.fields()[field].name);
    let live = graph.volatile.iter().filter(|it| present(*it)).collect();
    state.load(checkpoint.values.clone()).map_err(|error| damaged(&checkpoint.place, &error))?;
    Ok((state, live))
}

/// The error for a checkpoint that holds what the state cannot.
pub(super) fn damaged(place: &Place, error: &FieldError) -> CheckpointError {
    CheckpointError::Damaged {
        thread: place.thread.clone(),
        id: place.id,
        problem: error.to_string(),
    }
}

/// The updates that make these writes: more than one where a field stands twice.
pub(super) fn updates(
    state: &dyn ErasedState,
    writes: Vec<FieldWrite>,
) -> Result<smallvec::SmallVec<[AnyUpdate; 1]>, FieldError> {
    let mut groups: Vec<Vec<FieldWrite>> = Vec::new();
    for write in writes {
        match groups.last_mut() {
            Some(group) if !group.iter().any(|it| it.field == write.field) => group.push(write),
            _ => groups.push(vec![write]),
        }
    }
    groups.into_iter().map(|it| state.update_from(it)).collect()
}

/// The hops of stored gotos.
pub(super) fn stored_hops(graph: &Graph, gotos: Vec<GotoRecord>) -> Hops {
    gotos.into_iter().filter_map(|it| Hop::from_record(graph, it)).collect()
}
