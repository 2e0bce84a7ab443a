//! Inspect: reads a thread's state from its checkpoints and records without running anything.

use std::{future::Future, pin::Pin, sync::Arc};

use serde_json::Value;

use crate::{
    checkpoint::{
        error::CheckpointError, id::TaskId, query::Lookup, saver::Checkpointer, stored::Checkpoint,
    },
    context::task::{TaskKind, task_id},
    engine::{
        commit::{CommitOptions, GraphState},
        outcome::TaskOutput,
        plan::{Frontier, PlannedTask},
        records::{Records, TaskLog},
        thread_state::{TaskState, ThreadState},
    },
    error::RunError,
    graph::erased::{Graph, NodeIdx},
    namespace::nested_namespace,
    state::{erased::ErasedState, field::FieldError},
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
pub(crate) type Snapshot = ThreadState<Box<dyn ErasedState>>;

impl Snapshot {
    /// Returns the state with the fields that have a value, as JSON.
    pub(crate) fn into_json(self) -> Result<ThreadState<Value>, FieldError> {
        let values = self.values.json(|_| true)?;
        Ok(self.map_values(|_| values))
    }
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
            task.subgraph_namespace =
                subgraph_namespace(graph, &checkpoint.key.namespace, plan.node, *id);
            if view.subgraphs {
                task.subgraph = subgraph(graph, saver, &checkpoint, plan, &task).await?;
            }
            tasks.push(task);
        }
        let open = tasks.iter().filter(|it| !view.live || it.result.is_none());
        let next = open.map(|it| it.node.clone()).collect();
        let pending_joins = pending_joins(graph, &checkpoint);
        let Checkpoint { key, header, .. } = checkpoint;
        Ok(ThreadState {
            values: state.values,
            next,
            tasks,
            namespace: key.namespace,
            id: key.id,
            parent: header.parent,
            enclosing: header.parents,
            step: header.step,
            source: header.source,
            created_at: header.created_at,
            run: header.run,
            metadata: header.metadata,
            pending_joins,
        })
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
    let payload_index = match plan.kind {
        TaskKind::Push(index) => Some(index),
        TaskKind::Pull | TaskKind::Handler(_) => None,
    };
    TaskState {
        id,
        node: graph.node(plan.node).label.to_string(),
        payload_index,
        error: log.failed.map(|it| it.0),
        interrupts: if view.live && log.done.is_some() { Vec::new() } else { log.interrupts },
        result: log.done.map(|it| it.0),
        subgraph_namespace: None,
        subgraph: None,
    }
}

/// Folds the writes of the pending step's finished tasks into the state.
///
/// If the writes conflict or a reducer rejects one, all of them are ignored so that the state stays readable. The next
/// run reports the problem, unless it starts with new input.
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
    let before = state.fork();
    let outputs = finished.iter_mut().map(|(_, output)| output);
    match state.commit(graph, outputs, commit_options(true)) {
        Ok(_) => {}
        Err(RunError::Conflict(_) | RunError::Field(_)) => *state = before,
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

/// Returns the namespace of the subgraph that a task runs in the graph with namespace `outer`. Returns `None` if the
/// node is not a subgraph.
pub(super) fn subgraph_namespace(
    graph: &Graph,
    outer: &str,
    node: NodeIdx,
    task: TaskId,
) -> Option<String> {
    let entry = graph.node(node);
    let persistence = entry.subgraph.as_ref()?.persistence;
    Some(persistence.namespace(nested_namespace(outer, &format!("{}:{task}", entry.label))))
}

/// Reads the newest state of a task's subgraph.
async fn subgraph(
    graph: &Graph,
    saver: &Arc<dyn Checkpointer>,
    checkpoint: &Checkpoint,
    plan: &PlannedTask,
    task: &TaskState,
) -> Result<Option<Box<ThreadState<Value>>>, RunError> {
    let inner = &graph.node(plan.node).subgraph;
    let (Some(inner), Some(namespace)) = (inner, &task.subgraph_namespace) else { return Ok(None) };
    let lookup = Lookup::head(&checkpoint.key.thread, namespace);
    let Some(head) = saver.get(&lookup).await? else { return Ok(None) };
    let view = View { live: true, subgraphs: true };
    let snapshot = snapshot(&inner.graph, saver, head, view).await?;
    Ok(Some(Box::new(snapshot.into_json()?)))
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
