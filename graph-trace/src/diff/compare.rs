//! Finds the first difference between two traces.
//!
//! Tasks are compared in order. Within a task, its input, calls, writes and routes are compared in the order in
//! which they happen. The first difference is therefore a cause and not a consequence of another difference.

use serde::Serialize;
use serde_json::{Value, json};

use super::{
    field_change::{FieldChange, changed_fields},
    kind::DivergenceKind,
};
use crate::{
    path::TracePath,
    trace::{GraphTrace, StepTrace, TaskTrace, Trace},
};

/// A difference between two traces.
pub(super) struct Difference {
    pub(super) path: TracePath,
    pub(super) kind: DivergenceKind,
    pub(super) was: Option<Value>,
    pub(super) now: Option<Value>,
}

/// Finds the first difference between two traces.
pub(super) fn first_difference(a: &Trace, b: &Trace) -> Option<Difference> {
    let root = TracePath::default();
    let inputs = |it: &Trace| {
        let mut inputs = vec![it.header.input.clone()];
        inputs.extend(it.header.later_inputs.iter().cloned());
        inputs
    };
    compare_items(&root, DivergenceKind::Input, &inputs(a), &inputs(b))
        .or_else(|| compare_graphs(&root, 1, &a.root, &b.root))
        .or_else(|| compare_values(&root, DivergenceKind::End, &a.end, &b.end))
}

/// Finds the first difference between the actions of two tasks, ignoring their inputs.
pub(super) fn compare_actions(
    path: &TracePath,
    a: &TaskTrace,
    b: &TaskTrace,
) -> Option<Difference> {
    compare_items(path, DivergenceKind::Attempt, &a.retries, &b.retries)
        .or_else(|| compare_items(path, DivergenceKind::Effect, &a.effects, &b.effects))
        .or_else(|| compare_items(path, DivergenceKind::StreamItem, &a.custom, &b.custom))
        .or_else(|| compare_items(path, DivergenceKind::StreamItem, &a.messages, &b.messages))
        .or_else(|| compare_subgraphs(path, a, b))
        .or_else(|| compare_values(path, DivergenceKind::Error, &a.error, &b.error))
        .or_else(|| compare_values(path, DivergenceKind::Error, &a.handled, &b.handled))
        .or_else(|| compare_values(path, DivergenceKind::Task, &a.cached, &b.cached))
        .or_else(|| compare_items(path, DivergenceKind::Interrupt, &a.interrupts, &b.interrupts))
        .or_else(|| compare_writes(path, a, b))
        .or_else(|| compare_items(path, DivergenceKind::Route, &a.routes, &b.routes))
        .or_else(|| compare_items(path, DivergenceKind::Send, &a.sends, &b.sends))
}

fn compare_graphs(
    outer: &TracePath,
    nth: usize,
    a: &GraphTrace,
    b: &GraphTrace,
) -> Option<Difference> {
    for at in 0..a.steps.len().max(b.steps.len()) {
        let found = match (a.steps.get(at), b.steps.get(at)) {
            (Some(a), Some(b)) if a.step == b.step => {
                compare_steps(&outer.enter(nth, a.step), a, b)
            }
            (a, b) => {
                // Steps are sorted by number, so the step with the lower number exists in only one of the two runs.
                let number = a.iter().chain(&b).map(|it| it.step).min().unwrap_or_default();
                let nodes = |it: Option<&StepTrace>| it.filter(|it| it.step == number).map(nodes);
                let path = outer.enter(nth, number);
                Some(Difference { path, kind: DivergenceKind::Graph, was: nodes(a), now: nodes(b) })
            }
        };
        if found.is_some() {
            return found;
        }
    }
    None
}

fn nodes(step: &StepTrace) -> Value {
    step.tasks.iter().map(|it| it.node.as_str()).collect()
}

fn compare_steps(path: &TracePath, a: &StepTrace, b: &StepTrace) -> Option<Difference> {
    for at in 0..a.tasks.len().max(b.tasks.len()) {
        let (was, now) = (a.tasks.get(at), b.tasks.get(at));
        let n_tasks = if now.is_some() { b.tasks.len() } else { a.tasks.len() };
        let node = now.or(was).map(|it| it.node.as_str()).unwrap_or_default();
        let path = path.with_task(node, at + 1, n_tasks);
        let found = match (was, now) {
            (Some(a), Some(b)) if a.node == b.node => {
                compare_values(&path, DivergenceKind::Input, &a.input, &b.input)
                    .or_else(|| compare_actions(&path, a, b))
            }
            (was, now) => {
                let node = |it: Option<&TaskTrace>| it.map(|it| json!(it.node));
                Some(Difference {
                    path,
                    kind: DivergenceKind::Task,
                    was: node(was),
                    now: node(now),
                })
            }
        };
        if found.is_some() {
            return found;
        }
    }
    compare_states(path, a.state.as_ref(), b.state.as_ref())
}

fn compare_states(path: &TracePath, a: Option<&Value>, b: Option<&Value>) -> Option<Difference> {
    let FieldChange { field, was, now } = changed_fields(a, b).into_iter().next()?;
    Some(Difference { path: path.clone(), kind: DivergenceKind::State(field), was, now })
}

fn compare_subgraphs(path: &TracePath, a: &TaskTrace, b: &TaskTrace) -> Option<Difference> {
    let both = a.graphs.iter().zip(&b.graphs).enumerate();
    let found = both.map(|(nth, (a, b))| compare_graphs(path, nth + 1, a, b)).find_map(|it| it);
    found.or_else(|| compare_values(path, DivergenceKind::Graph, &a.graphs.len(), &b.graphs.len()))
}

fn compare_writes(path: &TracePath, a: &TaskTrace, b: &TaskTrace) -> Option<Difference> {
    let at = (0..a.writes.len().max(b.writes.len()))
        .find(|at| a.writes.get(*at) != b.writes.get(*at))?;
    let (was, now) = (a.writes.get(at), b.writes.get(at));
    let field = now.or(was).map(|it| it.field.clone()).unwrap_or_default();
    let mut shown =
        [was, now].map(|it| it.filter(|it| it.field == field).map(|it| it.value.clone()));
    if shown[0] == shown[1] {
        // The values are equal, so the writes differ in whether they replace the field.
        shown = [was, now]
            .map(|it| it.map(|it| json!({ "overwrite": it.overwrite, "value": it.value })));
    }
    let [was, now] = shown;
    Some(Difference { path: path.clone(), kind: DivergenceKind::Write(field), was, now })
}

/// Finds the first pair of items that differ.
fn compare_items<T: PartialEq + Serialize>(
    path: &TracePath,
    kind: DivergenceKind,
    a: &[T],
    b: &[T],
) -> Option<Difference> {
    let at = (0..a.len().max(b.len())).find(|at| a.get(*at) != b.get(*at))?;
    Some(Difference {
        path: path.clone(),
        kind,
        was: a.get(at).map(to_json),
        now: b.get(at).map(to_json),
    })
}

fn compare_values<T: PartialEq + Serialize>(
    path: &TracePath,
    kind: DivergenceKind,
    a: &T,
    b: &T,
) -> Option<Difference> {
    let shown = |it: &T| Some(to_json(it)).filter(|it| !it.is_null());
    (a != b).then(|| Difference { path: path.clone(), kind, was: shown(a), now: shown(b) })
}

fn to_json<T: Serialize>(item: &T) -> Value {
    serde_json::to_value(item).unwrap_or_default()
}
