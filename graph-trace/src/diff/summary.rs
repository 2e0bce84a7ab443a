//! Summarises all differences between two traces.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    compare::compare_actions,
    field_change::{FieldChange, changed_fields},
};
use crate::{
    path::TracePath,
    trace::{GraphTrace, RunStatus, TaskTrace, Trace},
};

/// A summary of all differences between two runs.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct DiffSummary {
    /// Number of supersteps of the root graph in which at least one task acted differently.
    pub steps: usize,
    /// Number of tasks that acted differently or exist in only one run. A task whose only difference is its input
    /// does not count, because that is a consequence of an earlier difference.
    pub tasks: usize,
    /// Tasks that routed or sent to different nodes.
    pub routes: Vec<RouteChange>,
    /// Fields of the final state that differ.
    pub fields: Vec<FieldChange>,
    /// Number of external calls in the first and in the second run.
    pub effects: (usize, usize),
    /// How each run ended, if the endings differ.
    pub ends: Option<(RunStatus, RunStatus)>,
}

/// A task that routed or sent to different nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RouteChange {
    /// Location of the task.
    pub path: TracePath,
    /// Nodes that the task routed or sent to in the first run.
    pub was: Vec<String>,
    /// Nodes that the task routed or sent to in the second run.
    pub now: Vec<String>,
}

pub(super) fn summarise(a: &Trace, b: &Trace) -> DiffSummary {
    let mut summary = DiffSummary {
        fields: changed_fields(last_state(a), last_state(b)),
        effects: (count_effects(&a.root), count_effects(&b.root)),
        ends: (a.end != b.end).then(|| (a.end.clone(), b.end.clone())),
        ..DiffSummary::default()
    };
    summary.graphs(&TracePath::default(), 1, &a.root, &b.root, true);
    summary
}

fn last_state(trace: &Trace) -> Option<&Value> {
    trace.root.steps.iter().rev().find_map(|it| it.state.as_ref())
}

fn count_effects(graph: &GraphTrace) -> usize {
    let tasks = graph.steps.iter().flat_map(|it| &it.tasks);
    tasks.map(|it| it.effects.len() + it.graphs.iter().map(count_effects).sum::<usize>()).sum()
}

impl DiffSummary {
    fn graphs(
        &mut self,
        outer: &TracePath,
        nth: usize,
        a: &GraphTrace,
        b: &GraphTrace,
        root: bool,
    ) {
        let tasks_of = |graph: &GraphTrace, number: i64| {
            let step = graph.steps.iter().find(|it| it.step == number);
            step.map(|it| it.tasks.clone()).unwrap_or_default()
        };
        let numbers: BTreeSet<_> = a.steps.iter().chain(&b.steps).map(|it| it.step).collect();
        for number in numbers {
            let (was, now) = (tasks_of(a, number), tasks_of(b, number));
            let before = self.tasks;
            for at in 0..was.len().max(now.len()) {
                let n_tasks = was.len().max(now.len());
                let node = now.get(at).or(was.get(at)).map(|it| it.node.as_str());
                let path =
                    outer.enter(nth, number).with_task(node.unwrap_or_default(), at + 1, n_tasks);
                self.task(&path, was.get(at), now.get(at));
            }
            self.steps += usize::from(root && self.tasks > before);
        }
    }

    fn task(&mut self, path: &TracePath, a: Option<&TaskTrace>, b: Option<&TaskTrace>) {
        let (Some(a), Some(b)) = (a, b) else {
            self.tasks += 1;
            return;
        };
        if a.node != b.node {
            self.tasks += 1;
            return;
        }
        if compare_actions(path, a, b).is_none() {
            return;
        }
        let before = self.tasks;
        for (nth, (a, b)) in a.graphs.iter().zip(&b.graphs).enumerate() {
            self.graphs(path, nth + 1, a, b, false);
        }
        // Counts the task itself if its own actions differ, or if no task inside it was counted.
        let without_graphs = |it: &TaskTrace| TaskTrace { graphs: Vec::new(), ..it.clone() };
        if self.tasks == before
            || compare_actions(path, &without_graphs(a), &without_graphs(b)).is_some()
        {
            self.tasks += 1;
        }
        let (was, now) = (targets(a), targets(b));
        if was != now {
            self.routes.push(RouteChange { path: path.clone(), was, now });
        }
    }
}

fn targets(task: &TaskTrace) -> Vec<String> {
    task.routes.iter().chain(task.sends.iter().map(|it| &it.to)).cloned().collect()
}
