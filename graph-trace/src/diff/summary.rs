//! What differs between two traces, all in all.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::compare;
use crate::{
    place::Place,
    trace::{End, GraphTrace, TaskTrace, Trace},
};

/// What differs between two runs from where they part to their end.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Summary {
    /// How many steps have a task that did something else. Those of graphs inside tasks count with the task.
    pub steps: usize,
    /// How many tasks did something else, or are in one run only. What they were given does not count: it follows from
    /// what was done before them.
    pub tasks: usize,
    /// The tasks that led elsewhere, or sent something else.
    pub routes: Vec<RouteChange>,
    /// The fields of the last state that differ.
    pub fields: Vec<FieldChange>,
    /// How many outside calls each run made.
    pub effects: (usize, usize),
    /// How each run ended, where that differs.
    pub ends: Option<(End, End)>,
}

/// A task that led elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RouteChange {
    /// The task.
    pub place: Place,
    /// The nodes that it led to and sent to.
    pub was: Vec<String>,
    /// The nodes that it leads to and sends to.
    pub now: Vec<String>,
}

/// A field that has another value.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct FieldChange {
    /// The field.
    pub field: String,
    /// What it was; `None` if it was not there.
    pub was: Option<Value>,
    /// What it is; `None` if it is not there.
    pub now: Option<Value>,
}

pub(super) fn summarise(a: &Trace, b: &Trace) -> Summary {
    let mut summary = Summary {
        fields: fields(last_state(a), last_state(b)),
        effects: (count_effects(&a.root), count_effects(&b.root)),
        ends: (a.end != b.end).then(|| (a.end.clone(), b.end.clone())),
        ..Summary::default()
    };
    summary.graphs(&Place::default(), 1, &a.root, &b.root, true);
    summary
}

/// The fields of two states that differ.
pub(super) fn fields(a: Option<&Value>, b: Option<&Value>) -> Vec<FieldChange> {
    let none = Map::new();
    let object =
        |it: Option<&Value>| it.and_then(Value::as_object).cloned().unwrap_or(none.clone());
    let (a, b) = (object(a), object(b));
    let names: BTreeSet<_> = a.keys().chain(b.keys()).collect();
    let change = |it: &&String| FieldChange {
        field: (*it).clone(),
        was: a.get(*it).cloned(),
        now: b.get(*it).cloned(),
    };
    names.iter().map(change).filter(|it| it.was != it.now).collect()
}

fn last_state(trace: &Trace) -> Option<&Value> {
    trace.root.steps.iter().rev().find_map(|it| it.state.as_ref())
}

fn count_effects(graph: &GraphTrace) -> usize {
    let tasks = graph.steps.iter().flat_map(|it| &it.tasks);
    tasks.map(|it| it.effects.len() + it.graphs.iter().map(count_effects).sum::<usize>()).sum()
}

impl Summary {
    fn graphs(&mut self, outer: &Place, nth: usize, a: &GraphTrace, b: &GraphTrace, root: bool) {
        let tasks_of = |graph: &GraphTrace, number: i64| {
            let step = graph.steps.iter().find(|it| it.step == number);
            step.map(|it| it.tasks.clone()).unwrap_or_default()
        };
        let numbers: BTreeSet<_> = a.steps.iter().chain(&b.steps).map(|it| it.step).collect();
        for number in numbers {
            let (was, now) = (tasks_of(a, number), tasks_of(b, number));
            let before = self.tasks;
            for at in 0..was.len().max(now.len()) {
                let of = was.len().max(now.len());
                let node = now.get(at).or(was.get(at)).map(|it| it.node.as_str());
                let place = outer.enter(nth, number).at_task(node.unwrap_or_default(), at + 1, of);
                self.task(&place, was.get(at), now.get(at));
            }
            self.steps += usize::from(root && self.tasks > before);
        }
    }

    fn task(&mut self, place: &Place, a: Option<&TaskTrace>, b: Option<&TaskTrace>) {
        let (Some(a), Some(b)) = (a, b) else {
            self.tasks += 1;
            return;
        };
        if a.node != b.node {
            self.tasks += 1;
            return;
        }
        if compare::doing(place, a, b).is_none() {
            return;
        }
        let before = self.tasks;
        for (nth, (a, b)) in a.graphs.iter().zip(&b.graphs).enumerate() {
            self.graphs(place, nth + 1, a, b, false);
        }
        // A task counts besides the tasks inside it if it did something else itself.
        let alone = |it: &TaskTrace| TaskTrace { graphs: Vec::new(), ..it.clone() };
        if self.tasks == before || compare::doing(place, &alone(a), &alone(b)).is_some() {
            self.tasks += 1;
        }
        let (was, now) = (ways(a), ways(b));
        if was != now {
            self.routes.push(RouteChange { place: place.clone(), was, now });
        }
    }
}

fn ways(task: &TaskTrace) -> Vec<String> {
    task.routes.iter().chain(task.sends.iter().map(|it| &it.to)).cloned().collect()
}
