//! The progress of a run: earlier events that later events refer to.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use graph_core::{Event, EventKind, checkpoint::CheckpointId};
use serde_json::Value;

use super::item::{Body, Item};
use crate::langgraph::id::wire_id;

/// The progress of the graphs of a run.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Progress of each graph that is running, by namespace.
    graphs: HashMap<Arc<str>, GraphProgress>,
}

/// The progress of a graph.
#[derive(Debug, Default)]
struct GraphProgress {
    /// Number of the step that started last.
    step: i64,
    /// The step's tasks, by their ids on the wire.
    tasks: HashMap<String, StartedTask>,
    /// Number of tasks of the step that received a payload.
    n_payloads: u32,
    /// The current checkpoint.
    checkpoint: Option<CheckpointId>,
}

/// A task that has started.
#[derive(Debug)]
struct StartedTask {
    /// The event of the start.
    event: Arc<Item>,
    /// Index of the payload that was sent to the node, among the payloads of the step.
    payload_index: Option<u32>,
}

impl Progress {
    /// Adds the next event of the run.
    pub(super) fn add(&mut self, item: &Arc<Item>) {
        let Body::Engine(event) = &item.body else { return };
        match (&event.kind, event.task) {
            (EventKind::TaskStarted { sent, .. }, Some(task)) => {
                let GraphProgress { tasks, n_payloads, .. } = self.enter_step(event);
                // A task starts again if the run continues after a restart of the server.
                tasks.entry(wire_id(task)).or_insert_with(|| {
                    // The tasks with payloads start in the order in which the payloads were sent.
                    let payload_index = sent.then_some(*n_payloads);
                    *n_payloads += u32::from(*sent);
                    StartedTask { event: item.clone(), payload_index }
                });
            }
            (EventKind::Checkpoint { id, .. }, _) => {
                self.graphs.entry(event.namespace.clone()).or_default().checkpoint = Some(*id);
            }
            _ => {}
        }
    }

    /// Returns the current checkpoints of the graphs that enclose a subgraph, by namespace.
    pub(super) fn enclosing_checkpoints(&self, namespace: &str) -> BTreeMap<String, CheckpointId> {
        let ends = namespace.match_indices('|').map(|(end, _)| end);
        let root = (!namespace.is_empty()).then_some(0);
        let enclosing = root.into_iter().chain(ends).map(|end| &namespace[..end]);
        let entry = |it: &str| Some((it.to_owned(), self.graphs.get(it)?.checkpoint?));
        enclosing.filter_map(entry).collect()
    }

    /// Returns the input of a task in the current step of a graph.
    pub(super) fn input(&self, namespace: &str, task: &str) -> Option<&Value> {
        let Body::Engine(event) = &self.task(namespace, task)?.event.body else { return None };
        match &event.kind {
            EventKind::TaskStarted { input, .. } => Some(input),
            _ => None,
        }
    }

    /// Returns the index of a task's payload among the payloads of the graph's current step, if the task has a payload.
    pub(super) fn payload_index(&self, namespace: &str, task: &str) -> Option<u32> {
        self.task(namespace, task)?.payload_index
    }

    fn task(&self, namespace: &str, task: &str) -> Option<&StartedTask> {
        self.graphs.get(namespace)?.tasks.get(task)
    }

    /// Moves a graph to the step in which a task has started, and returns the graph's progress. If the task is the
    /// first of its step, drops the tasks of the earlier step with their subgraphs.
    fn enter_step(&mut self, event: &Event) -> &mut GraphProgress {
        let outer = &event.namespace;
        if self.graphs.get(outer).is_some_and(|it| it.step != event.step) {
            self.graphs.retain(|it, _| !is_inside(it, outer));
        }
        let graph = self.graphs.entry(outer.clone()).or_default();
        if graph.step != event.step {
            graph.step = event.step;
            graph.tasks.clear();
            graph.n_payloads = 0;
        }
        graph
    }
}

/// Returns whether the graph with the namespace `inner` is a direct or indirect subgraph of the one with `outer`.
fn is_inside(inner: &str, outer: &str) -> bool {
    match inner.strip_prefix(outer) {
        Some(rest) if outer.is_empty() => !rest.is_empty(),
        Some(rest) => rest.starts_with('|'),
        None => false,
    }
}
