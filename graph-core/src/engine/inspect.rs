//! Inspect: reads a thread's state from its checkpoints and records without running anything.

use std::{future::Future, pin::Pin, sync::Arc};

use serde_json::Value;

use crate::{
    checkpoint::{
        error::CheckpointError,
        id::TaskId,
        query::Lookup,
        saver::Checkpointer,
        stored::{Checkpoint, Source},
    },
    context::task::{TaskKind, task_id},
    engine::{
        commit::{CommitOptions, GraphState},
        outcome::TaskOutput,
        plan::{Frontier, PlannedTask},
        records::{Records, TaskLog},
    },
    error::RunError,
    graph::erased::{Graph, NodeIdx},
    interrupt::Interrupt,
    namespace::{Persistence, nested_namespace, without_task_ids},
    state::{erased::ErasedState, field::FieldWrite},
};

/// Selects the contents of a snapshot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View {
    /// Whether to include the writes of finished tasks of the pending step. If false, the snapshot contains the
    /// checkpoint as it was stored.
    pub(crate) live: bool,
    /// Whether to include the state of subgraphs.
    pub(crate) subgraphs: bool,
}

/// A checkpoint with its decoded state and the tasks that follow it.
pub(crate) struct Snapshot {
    pub(crate) state: Box<dyn ErasedState>,
    pub(crate) checkpoint: Checkpoint,
    pub(crate) next: Vec<String>,
    pub(crate) tasks: Vec<TaskState>,
    pub(crate) pending_joins: Vec<(String, Vec<String>)>,
}

/// A task of the step that follows a checkpoint.
#[derive(Clone, Debug)]
pub struct TaskState {
    /// The task's id.
    pub id: TaskId,
    /// The node's name.
    pub node: String,
    /// Error message of a failed task.
    pub error: Option<String>,
    /// Pending interrupts of the task.
    pub interrupts: Vec<Interrupt>,
    /// Writes of a finished task.
    pub result: Option<Vec<FieldWrite>>,
    /// State of the task's subgraph, if the node is a subgraph and subgraph states were requested.
    pub subgraph: Option<Box<SubgraphState>>,
}

/// The state of a subgraph, with its fields as JSON.
#[derive(Clone, Debug, Default)]
pub struct SubgraphState {
    /// Fields that have a value.
    pub values: Value,
    /// Nodes that run next.
    pub next: Vec<String>,
    /// Number of the subgraph's last step.
    pub step: Option<i64>,
    /// What created the subgraph's last checkpoint.
    pub source: Option<Source>,
    /// Tasks of the subgraph's next step.
    pub tasks: Vec<TaskState>,
}

type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Builds a snapshot of the checkpoint. The future is boxed because the function recurses into subgraphs.
pub(crate) fn snapshot<'a>(
    graph: &'a Graph,
    saver: &'a Arc<dyn Checkpointer>,
    checkpoint: Checkpoint,
    view: View,
) -> Boxed<'a, Result<Snapshot, RunError>> {
    Box::pin(async move {
        let mut checkpoint = checkpoint;
        graph.migrate(&mut checkpoint)?;
        let mut state = GraphState::load(graph, &checkpoint)?;
        let planned = planned_tasks(graph, &checkpoint);
        let mut records = Records::new(checkpoint.records.clone());
        for (writes, _) in std::mem::take(&mut records.commands) {
            let mut command = TaskOutput::new(graph.start, state.updates_from(writes)?);
            state.commit(graph, [&mut command], commit_options(false))?;
        }
        let ids: Vec<_> =
            planned.iter().map(|it| planned_task_id(graph, &checkpoint, it)).collect();
        if view.live {
            let log =
                |plan: &PlannedTask, id| task_log(graph, &checkpoint, &records, plan, id, view);
            fold_finished(graph, &mut state, &planned, &ids, log).map_err(|error| match error {
                RunError::Field(error) => CheckpointError::corrupt(&checkpoint.key, &error).into(),
                error => error,
            })?;
        }
        let mut tasks = Vec::new();
        for (plan, id) in planned.iter().zip(&ids) {
            let log = task_log(graph, &checkpoint, &records, plan, *id, view);
            let mut task = task_state(graph, plan, *id, log, view);
            if view.subgraphs {
                task.subgraph = subgraph(graph, saver, &checkpoint, plan, *id).await?;
            }
            tasks.push(task);
        }
        let open = tasks.iter().filter(|it| !view.live || it.result.is_none());
        let next = open.map(|it| it.node.clone()).collect();
        let pending_joins = pending_joins(graph, &checkpoint);
        Ok(Snapshot { state: state.values, next, tasks, pending_joins, checkpoint })
    })
}

/// Returns the tasks of the step that follows a checkpoint.
pub(super) fn planned_tasks(graph: &Graph, checkpoint: &Checkpoint) -> Vec<PlannedTask> {
    let mut planned =
        Frontier::from_record(graph, &checkpoint.frontier).tasks(graph, true).into_vec();
    if checkpoint.frontier.input.is_some() {
        planned.push(PlannedTask { node: graph.start, kind: TaskKind::Pull, payload: None });
    }
    planned
}

pub(super) fn planned_task_id(
    graph: &Graph,
    checkpoint: &Checkpoint,
    plan: &PlannedTask,
) -> TaskId {
    let header = &checkpoint.header;
    let node = graph.node(plan.node).label.as_str();
    task_id(header.origin, &checkpoint.key.namespace, header.step + 1, node, plan.kind)
}

/// Returns the records of a task. If the task's error handler took over, a live view contains the handler's result and
/// interrupts instead of the task's. Any other view contains the interrupts of both.
fn task_log(
    graph: &Graph,
    checkpoint: &Checkpoint,
    records: &Records,
    plan: &PlannedTask,
    id: TaskId,
    view: View,
) -> TaskLog {
    let mut log = records.tasks.get(&id).cloned().unwrap_or_default();
    if log.is_handled() {
        let handler = PlannedTask { kind: TaskKind::Handler(id), ..plan.clone() };
        let handler = records.tasks.get(&planned_task_id(graph, checkpoint, &handler));
        let handler = handler.cloned().unwrap_or_default();
        if view.live {
            log.done = handler.done;
            log.interrupts.clear();
        }
        log.interrupts.extend(handler.interrupts);
    }
    log
}

fn task_state(
    graph: &Graph,
    plan: &PlannedTask,
    id: TaskId,
    log: TaskLog,
    view: View,
) -> TaskState {
    TaskState {
        id,
        node: graph.node(plan.node).label.to_string(),
        error: log.failed.map(|it| it.0),
        interrupts: if view.live && log.done.is_some() { Vec::new() } else { log.interrupts },
        result: log.done.map(|it| it.0),
        subgraph: None,
    }
}

/// Folds the writes of the pending step's finished tasks into the state.
///
/// If the writes conflict, all of them are ignored so that the state stays readable. The next run reports the
/// conflict.
fn fold_finished(
    graph: &Graph,
    state: &mut GraphState,
    planned: &[PlannedTask],
    ids: &[TaskId],
    log: impl Fn(&PlannedTask, TaskId) -> TaskLog,
) -> Result<(), RunError> {
    let mut finished = Vec::new();
    for (plan, id) in planned.iter().zip(ids) {
        if let Some((writes, _)) = log(plan, *id).done {
            let output = TaskOutput::new(plan.node, state.updates_from(writes)?);
            finished.push((plan.order(), output));
        }
    }
    if finished.is_empty() {
        return Ok(());
    }
    finished.sort_by_key(|(order, _)| *order);
    let outputs = finished.iter_mut().map(|(_, output)| output);
    match state.commit(graph, outputs, commit_options(true)) {
        Ok(_) | Err(RunError::Conflict(_)) => {}
        Err(error) => return Err(error),
    }
    // As in LangGraph, this view leaves out step-scoped fields.
    for field in state.live.iter() {
        state.values.clear(field);
    }
    Ok(())
}

fn commit_options(clear_step_scoped: bool) -> CommitOptions {
    CommitOptions { step: 0, clear_step_scoped, collect_changes: false }
}

async fn subgraph(
    graph: &Graph,
    saver: &Arc<dyn Checkpointer>,
    checkpoint: &Checkpoint,
    plan: &PlannedTask,
    id: TaskId,
) -> Result<Option<Box<SubgraphState>>, RunError> {
    let entry = graph.node(plan.node);
    let Some(inner) = &entry.subgraph else { return Ok(None) };
    let outer = &checkpoint.key.namespace;
    let namespace = match inner.persistence {
        Persistence::Thread => nested_namespace(&without_task_ids(outer), entry.label.as_str()),
        _ => nested_namespace(outer, &format!("{}:{id}", entry.label)),
    };
    let lookup = Lookup::head(&checkpoint.key.thread, namespace);
    let Some(head) = saver.get(&lookup).await? else {
        return Ok(Some(Box::new(SubgraphState {
            values: Value::Object(Default::default()),
            ..SubgraphState::default()
        })));
    };
    let view = View { live: true, subgraphs: true };
    let snapshot = snapshot(&inner.graph, saver, head, view).await?;
    Ok(Some(Box::new(SubgraphState {
        values: snapshot.state.json(|_| true)?,
        next: snapshot.next,
        step: Some(snapshot.checkpoint.header.step),
        source: Some(snapshot.checkpoint.header.source),
        tasks: snapshot.tasks,
    })))
}

/// Returns the joins that are still waiting for some of their sources, each as a pair of its target node and its
/// missing sources.
fn pending_joins(graph: &Graph, checkpoint: &Checkpoint) -> Vec<(String, Vec<String>)> {
    let frontier = Frontier::from_record(graph, &checkpoint.frontier);
    let name = |node: NodeIdx| graph.node(node).label.to_string();
    let pending_joins = frontier.pending_joins(graph).into_iter();
    let shown = pending_joins.filter_map(|(join, missing)| {
        let target = graph.joins[join].target?;
        Some((name(target), missing.into_iter().map(name).collect()))
    });
    shown.collect()
}
