//! Load: reads the checkpoint that a run starts from, and checks the values that it is resumed with.

use std::{collections::BTreeSet, sync::Arc};

use serde_json::Value;

use crate::{
    checkpoint::{
        error::CheckpointError,
        id::CheckpointId,
        query::{HistoryQuery, Lookup},
        saver::Checkpointer,
        stored::{Checkpoint, CheckpointKey, Source},
    },
    context::{
        resume::{Replay, ResumeValues},
        subgraph_start::SubgraphStart,
        task::{Scope, TaskContext},
    },
    engine::{
        input::{CommandInput, Resume, RunInput},
        records::Records,
    },
    error::RunError,
    graph::erased::Graph,
    state::limits,
};

/// The checkpoint that a run starts from.
#[derive(Debug, Default)]
pub(super) struct Loaded {
    pub(super) checkpoint: Option<Checkpoint>,
    /// The namespace's newest checkpoint.
    pub(super) head: Option<CheckpointId>,
    /// Whether the caller addressed the checkpoint by id.
    addressed: bool,
    /// Whether the checkpoint was migrated from an older state version.
    pub(super) migrated: bool,
}

impl Loaded {
    /// Drops the checkpoint but keeps the head, because the next checkpoint must be stored after the head.
    pub(super) fn without_checkpoint(self) -> Self {
        Self { head: self.head, ..Self::default() }
    }

    /// Returns whether the caller addressed the checkpoint by id.
    pub(super) fn is_addressed(&self) -> bool {
        self.addressed
    }

    /// Returns whether the checkpoint was created in the step that `task` belongs to.
    pub(super) fn was_started_by(&self, task: &TaskContext) -> bool {
        let parents = self.checkpoint.as_ref().map(|it| &it.header.parents);
        parents.and_then(|it| it.get(&task.scope.namespace)) == Some(&task.checkpoint())
    }

    /// Returns whether the caller addressed a checkpoint that is not the head.
    pub(super) fn is_superseded(&self) -> bool {
        self.addressed && self.checkpoint.as_ref().map(|it| it.key.id) != self.head
    }

    /// Returns whether the run travels in time, that is, starts again from the addressed checkpoint instead of
    /// continuing the thread.
    pub(super) fn is_time_travel(&self, input: &RunInput) -> bool {
        let resumes = matches!(input, RunInput::Command(it) if it.resume.is_some());
        self.addressed && (!resumes || self.is_superseded())
    }

    /// Returns the time-travel data for subgraphs, if the graph travels in time. `outer` is the data of the enclosing
    /// graph.
    pub(super) fn replay(&self, input: &RunInput, outer: Option<&Replay>) -> Option<Arc<Replay>> {
        let checkpoint = self.checkpoint.as_ref()?;
        if !self.is_time_travel(input) || matches!(input, RunInput::Fresh(_)) {
            return None;
        }
        // A checkpoint created by an edit is newer than the subgraph checkpoints of the edited step, so its parent is
        // the bound.
        let edited = matches!(checkpoint.header.source, Source::Update | Source::Fork);
        let bound = checkpoint.header.parent.filter(|_| edited).unwrap_or(checkpoint.key.id);
        Some(Arc::new(match outer {
            Some(outer) => outer.with_bound(bound),
            None => Replay::new(bound, BTreeSet::new()),
        }))
    }
}

/// Reads the checkpoint that a run starts from, and migrates it to the current state version.
pub(super) async fn load(
    graph: &Graph,
    saver: &Arc<dyn Checkpointer>,
    thread: &str,
    namespace: &str,
    at: Option<CheckpointId>,
) -> Result<Loaded, CheckpointError> {
    let head = saver.get(&Lookup::head(thread, namespace)).await?;
    let head_id = head.as_ref().map(|it| it.key.id);
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

/// Reads the checkpoint that a subgraph starts from. The second returned value is `true` if the run travels in time.
pub(super) async fn load_nested(
    graph: &Graph,
    saver: &Arc<dyn Checkpointer>,
    thread: &str,
    namespace: &str,
    scope: &Scope,
) -> Result<(Loaded, bool), CheckpointError> {
    let mut loaded = load(graph, saver, thread, namespace, None).await?;
    let chosen = scope.subgraph_start.as_ref().and_then(|it| it.enter(namespace));
    let first_bound = scope.replay.as_ref().and_then(|it| it.enter(namespace));
    if let Some((stored_in, id)) = chosen {
        // If the enclosing graphs do not travel in time, the newest checkpoint of the subgraph is continued as usual.
        if scope.replay.is_some() || stored_in != namespace || loaded.head != Some(id) {
            let at = load(graph, saver, thread, stored_in, Some(id)).await?;
            loaded = Loaded { head: loaded.head, ..at };
        }
        return Ok((loaded, scope.replay.is_some()));
    }
    if scope.replay.is_none() {
        return Ok((loaded, false));
    }
    if let Some(bound) = first_bound {
        let older = HistoryQuery::new(thread, namespace).before(bound).limit(1);
        loaded.checkpoint = saver.list(&older).await?.into_iter().next();
        loaded.migrated = loaded.checkpoint.as_mut().map_or(Ok(false), |it| graph.migrate(it))?;
    }
    Ok((loaded, true))
}

/// Reads the subgraph checkpoint that a run starts from, and checks that the checkpoints of the enclosing graphs are
/// stored. Returns the data for the enclosing graphs, and the checkpoint of the top-level graph.
pub(super) async fn load_subgraph_start(
    saver: &Arc<dyn Checkpointer>,
    key: CheckpointKey,
) -> Result<(SubgraphStart, CheckpointId), RunError> {
    let CheckpointKey { thread, namespace, id } = key;
    let Some(checkpoint) = saver.get(&Lookup::exact(&*thread, &*namespace, id)).await? else {
        return Err(CheckpointError::UnknownCheckpoint { thread, namespace, id }.into());
    };
    let error =
        |problem| RunError::SubgraphStart { namespace: namespace.clone(), checkpoint: id, problem };
    let start = SubgraphStart::new(&checkpoint).ok_or_else(|| {
        error("it does not name a checkpoint of the thread's own graph; choose another checkpoint")
    })?;
    for (enclosing, id) in &checkpoint.header.parents {
        if saver.get(&Lookup::exact(&*thread, &**enclosing, *id)).await?.is_none() {
            return Err(error(
                "the checkpoint of an enclosing graph is not stored; with `Durability::Exit`, only \
                 the last checkpoint of a run is stored; choose another checkpoint",
            ));
        }
    }
    Ok(start)
}

/// Checks that the graph has every node that the checkpoint continues with.
pub(super) fn check_nodes(graph: &Graph, checkpoint: &Checkpoint) -> Result<(), RunError> {
    let frontier = &checkpoint.frontier;
    let names = [&frontier.scheduled, &frontier.deferred, &frontier.released];
    let names = names.into_iter().flatten().chain(frontier.sends.iter().map(|it| &it.node));
    match names.into_iter().find(|it| graph.find(it).is_none()) {
        None => Ok(()),
        Some(node) => Err(RunError::MissingNode {
            thread: checkpoint.key.thread.clone(),
            node: node.clone(),
            graph: graph.name.clone(),
            nodes: graph.node_names(),
        }),
    }
}

/// Returns the resume values of an input, after checking them against the pending interrupts.
pub(super) fn resume_values(
    input: &RunInput,
    saved: &Loaded,
    thread: Option<&str>,
    max_bytes: usize,
) -> Result<ResumeValues, RunError> {
    let RunInput::Command(CommandInput { resume: Some(resume), .. }) = input else {
        return Ok(ResumeValues::default());
    };
    let check = |value: &Value| limits::check_storable("resume value", value, max_bytes);
    let Some(checkpoint) = &saved.checkpoint else {
        return Err(RunError::NothingToResume {
            thread: thread.unwrap_or_default().to_owned(),
            problem: "has no checkpoint; start it with `Thread::run`",
        });
    };
    let records = Records::new(checkpoint.records.clone());
    let pending = records.pending_interrupts().map(|it| (it.id.clone(), it.namespace.clone()));
    let namespaces = pending.collect();
    match resume {
        Resume::Single(value) => {
            check(value)?;
            let pending = records.pending_interrupts().count();
            if pending > 1 {
                return Err(RunError::AmbiguousResume { pending });
            }
            Ok(ResumeValues::new(Some(value.clone()), Default::default(), namespaces))
        }
        Resume::ById(values) => {
            values.values().try_for_each(check)?;
            let known = |id: &String| records.pending_interrupts().any(|it| it.id == *id);
            // In time travel, an interrupt may already have been resumed, so its id need not be pending.
            if let Some(id) = values.keys().find(|it| !saved.is_superseded() && !known(it)) {
                return Err(RunError::UnknownInterrupt { id: id.clone() });
            }
            Ok(ResumeValues::new(None, values.clone(), namespaces))
        }
    }
}
