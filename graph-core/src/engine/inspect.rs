//! Inspect: a thread's state as its checkpoints and records tell it, without running anything.

use std::{future::Future, pin::Pin, sync::Arc};

use serde_json::Value;

use super::{
    commit::{self, Mode, Writes},
    load::{damaged, stored_state, updates},
    plan::{Frontier, Planned},
    records::{Records, TaskLog},
};
use crate::{
    FieldWrite, Interrupt, RunError,
    checkpoint::{Checkpoint, Checkpointer, Lookup, TaskId},
    context::{TaskKind, task_id},
    graph::Graph,
    state::{FieldSet, erased::ErasedState},
    subgraph::{Persistence, join, without_task_ids},
};

/// How to look at a checkpoint.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View {
    /// Whether to show how things stand now, with what finished tasks wrote, rather than the record of the step.
    pub(crate) live: bool,
    /// Whether to look into subgraphs.
    pub(crate) subgraphs: bool,
}

/// A checkpoint as it is shown.
pub(crate) struct Snapshot {
    pub(crate) state: Box<dyn ErasedState>,
    pub(crate) checkpoint: Checkpoint,
    pub(crate) next: Vec<String>,
    pub(crate) tasks: Vec<TaskState>,
    pub(crate) waiting: Vec<(String, Vec<String>)>,
}

/// A task of the step that follows a checkpoint.
#[derive(Clone, Debug)]
pub struct TaskState {
    /// The task.
    pub id: TaskId,
    /// The node.
    pub node: String,
    /// The error it failed with.
    pub error: Option<String>,
    /// What it asks.
    pub interrupts: Vec<Interrupt>,
    /// What it wrote, if it finished.
    pub result: Option<Vec<FieldWrite>>,
    /// The state of the graph inside, if it is one and that was asked for.
    pub subgraph: Option<Box<SubgraphState>>,
}

/// The state of a graph inside a task, its fields as JSON.
#[derive(Clone, Debug, Default)]
pub struct SubgraphState {
    /// The fields that have a value.
    pub values: Value,
    /// The nodes that run next.
    pub next: Vec<String>,
    /// The number of its last step.
    pub step: Option<i64>,
    /// What came to its last checkpoint.
    pub source: Option<crate::checkpoint::Source>,
    /// The tasks that run next.
    pub tasks: Vec<TaskState>,
}

type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Shows a checkpoint. Boxed, since a subgraph is shown by the same function.
pub(crate) fn snapshot<'a>(
    graph: &'a Graph,
    saver: &'a Arc<dyn Checkpointer>,
    checkpoint: Checkpoint,
    view: View,
) -> Boxed<'a, Result<Snapshot, RunError>> {
    Box::pin(async move {
        let mut checkpoint = checkpoint;
        graph.migrate(&mut checkpoint)?;
        let (mut state, mut live) = stored_state(graph, &checkpoint)?;
        let planned = planned(graph, &checkpoint);
        let mut records = Records::new(checkpoint.records.clone());
        for (writes, _) in std::mem::take(&mut records.commands) {
            let mut update = updates(&*state, writes)?;
            fold(graph, &mut *state, &mut live, &mut [(graph.start, &mut update[..])], false)?;
        }
        let ids: Vec<_> = planned.iter().map(|it| id_of(graph, &checkpoint, it)).collect();
        if view.live {
            let log = |plan: &Planned, id| log_of(graph, &checkpoint, &records, plan, id, view);
            show_finished(graph, &mut *state, &mut live, &planned, &ids, log).map_err(|error| {
                match error {
                    RunError::Field(error) => damaged(&checkpoint.place, &error).into(),
                    error => error,
                }
            })?;
        }
        let mut tasks = Vec::new();
        for (plan, id) in planned.iter().zip(&ids) {
            let log = log_of(graph, &checkpoint, &records, plan, *id, view);
            let mut task = shown(graph, plan, *id, log, view);
            if view.subgraphs {
                task.subgraph = subgraph(graph, saver, &checkpoint, plan, *id).await?;
            }
            tasks.push(task);
        }
        let open = tasks.iter().filter(|it| !view.live || it.result.is_none());
        let next = open.map(|it| it.node.clone()).collect();
        let waiting = waiting(graph, &checkpoint);
        Ok(Snapshot { state, next, tasks, waiting, checkpoint })
    })
}

/// The tasks of the step that follows a checkpoint.
pub(super) fn planned(graph: &Graph, checkpoint: &Checkpoint) -> Vec<Planned> {
    let mut planned =
        Frontier::from_cursor(graph, &checkpoint.cursor).tasks(graph, true).into_vec();
    if checkpoint.cursor.input.is_some() {
        planned.push(Planned { node: graph.start, kind: TaskKind::Pull, payload: None });
    }
    planned
}

pub(super) fn id_of(graph: &Graph, checkpoint: &Checkpoint, plan: &Planned) -> TaskId {
    let header = &checkpoint.header;
    let node = graph.node(plan.node).label.as_str();
    task_id(header.origin, &checkpoint.place.namespace, header.step + 1, node, plan.kind)
}

/// What is known of a task. Where its handler took over, the handler's questions are among the task's, and how things
/// stand now is how they stand with the handler.
fn log_of(
    graph: &Graph,
    checkpoint: &Checkpoint,
    records: &Records,
    plan: &Planned,
    id: TaskId,
    view: View,
) -> TaskLog {
    let mut log = records.tasks.get(&id).cloned().unwrap_or_default();
    if log.is_handled() {
        let handler = Planned { kind: TaskKind::Handler(id), ..plan.clone() };
        let handler = records.tasks.get(&id_of(graph, checkpoint, &handler));
        let handler = handler.cloned().unwrap_or_default();
        if view.live {
            log.done = handler.done;
            log.asked.clear();
        }
        log.asked.extend(handler.asked);
    }
    log
}

fn shown(graph: &Graph, plan: &Planned, id: TaskId, log: TaskLog, view: View) -> TaskState {
    TaskState {
        id,
        node: graph.node(plan.node).label.to_string(),
        error: log.failed.map(|it| it.0),
        interrupts: if view.live && log.done.is_some() { Vec::new() } else { log.asked },
        result: log.done.map(|it| it.0),
        subgraph: None,
    }
}

/// Folds what the finished tasks of an open step wrote.
///
/// Writes that conflict are left out: the state stays readable, and the run that goes on will say what is wrong.
fn show_finished(
    graph: &Graph,
    state: &mut dyn ErasedState,
    live: &mut FieldSet,
    planned: &[Planned],
    ids: &[TaskId],
    log: impl Fn(&Planned, TaskId) -> TaskLog,
) -> Result<(), RunError> {
    let mut done = Vec::new();
    for (plan, id) in planned.iter().zip(ids) {
        if let Some((writes, _)) = log(plan, *id).done {
            done.push((plan.kind != TaskKind::Pull, plan.node, updates(state, writes)?));
        }
    }
    if done.is_empty() {
        return Ok(());
    }
    done.sort_by_key(|(pushed, node, _)| (*pushed, if *pushed { 0 } else { *node }));
    let mut tasks: Vec<_> = done.iter_mut().map(|(_, node, it)| (*node, &mut it[..])).collect();
    match fold(graph, state, live, &mut tasks, true) {
        Err(RunError::Conflict(_)) => {}
        result => result?,
    }
    // As in LangGraph, this view shows nothing that lives for one step.
    for field in live.iter() {
        state.clear(field);
    }
    Ok(())
}

fn fold(
    graph: &Graph,
    state: &mut dyn ErasedState,
    live: &mut FieldSet,
    tasks: &mut [(crate::graph::NodeIdx, &mut [crate::node::AnyUpdate])],
    clears: bool,
) -> Result<(), RunError> {
    let mut writes: Vec<_> =
        tasks.iter_mut().map(|(node, updates)| Writes { node: *node, updates }).collect();
    let mode = Mode { step: 0, clears, records: false };
    commit::commit(graph, state, live, &mut writes, mode)?;
    Ok(())
}

async fn subgraph(
    graph: &Graph,
    saver: &Arc<dyn Checkpointer>,
    checkpoint: &Checkpoint,
    plan: &Planned,
    id: TaskId,
) -> Result<Option<Box<SubgraphState>>, RunError> {
    let entry = graph.node(plan.node);
    let Some(inner) = entry.body.as_ref().and_then(|it| it.0.subgraph()) else { return Ok(None) };
    let outer = &checkpoint.place.namespace;
    let namespace = match inner.persistence {
        Persistence::Thread => join(&without_task_ids(outer), entry.label.as_str()),
        _ => join(outer, &format!("{}:{id}", entry.label)),
    };
    let lookup = Lookup::head(&checkpoint.place.thread, namespace);
    let Some(head) = saver.get(&lookup).await? else {
        return Ok(Some(Box::new(SubgraphState {
            values: Value::Object(Default::default()),
            ..SubgraphState::default()
        })));
    };
    let view = View { live: true, subgraphs: true };
    let shown = snapshot(inner.graph, saver, head, view).await?;
    Ok(Some(Box::new(SubgraphState {
        values: shown.state.json(|_| true)?,
        next: shown.next,
        step: Some(shown.checkpoint.header.step),
        source: Some(shown.checkpoint.header.source),
        tasks: shown.tasks,
    })))
}

/// The joins that have seen some of their sources, with those they wait for.
fn waiting(graph: &Graph, checkpoint: &Checkpoint) -> Vec<(String, Vec<String>)> {
    let frontier = Frontier::from_cursor(graph, &checkpoint.cursor);
    let name = |node: crate::graph::NodeIdx| graph.node(node).label.to_string();
    let waiting = frontier.waiting(graph).into_iter();
    let shown = waiting.filter_map(|(join, missing)| {
        let target = graph.joins[join].target?;
        Some((name(target), missing.into_iter().map(name).collect()))
    });
    shown.collect()
}
