//! The first difference of two traces.
//!
//! Tasks are compared in their order, each in the order in which it goes about its work: what it is given, what it
//! calls, what it writes, where it leads. So what is found is a cause, not what followed from it.

use serde::Serialize;
use serde_json::{Value, json};

use super::Part;
use crate::{
    place::Place,
    trace::{GraphTrace, StepTrace, TaskTrace, Trace},
};

/// A difference.
pub(super) struct Found {
    pub(super) place: Place,
    pub(super) part: Part,
    pub(super) was: Option<Value>,
    pub(super) now: Option<Value>,
}

/// The first difference of two traces.
pub(super) fn first(a: &Trace, b: &Trace) -> Option<Found> {
    let nowhere = Place::default();
    let given = |it: &Trace| {
        let mut given = vec![it.header.input.clone()];
        given.extend(it.header.then.iter().cloned());
        given
    };
    items(&nowhere, Part::Input, &given(a), &given(b))
        .or_else(|| graphs(&nowhere, 1, &a.root, &b.root))
        .or_else(|| one(&nowhere, Part::End, &a.end, &b.end))
}

/// The first difference of what a task did, whatever it was given.
pub(super) fn doing(place: &Place, a: &TaskTrace, b: &TaskTrace) -> Option<Found> {
    items(place, Part::Attempt, &a.retries, &b.retries)
        .or_else(|| items(place, Part::Effect, &a.effects, &b.effects))
        .or_else(|| items(place, Part::Said, &a.custom, &b.custom))
        .or_else(|| items(place, Part::Said, &a.messages, &b.messages))
        .or_else(|| inside(place, a, b))
        .or_else(|| one(place, Part::Error, &a.error, &b.error))
        .or_else(|| one(place, Part::Error, &a.handled, &b.handled))
        .or_else(|| one(place, Part::Task, &a.cached, &b.cached))
        .or_else(|| items(place, Part::Question, &a.questions, &b.questions))
        .or_else(|| writes(place, a, b))
        .or_else(|| items(place, Part::Route, &a.routes, &b.routes))
        .or_else(|| items(place, Part::Send, &a.sends, &b.sends))
}

fn graphs(outer: &Place, nth: usize, a: &GraphTrace, b: &GraphTrace) -> Option<Found> {
    for at in 0..a.steps.len().max(b.steps.len()) {
        let found = match (a.steps.get(at), b.steps.get(at)) {
            (Some(a), Some(b)) if a.step == b.step => steps(&outer.enter(nth, a.step), a, b),
            (a, b) => {
                // The one that comes first is the one that the other run does not have.
                let number = a.iter().chain(&b).map(|it| it.step).min().unwrap_or_default();
                let nodes = |it: Option<&StepTrace>| it.filter(|it| it.step == number).map(nodes);
                let place = outer.enter(nth, number);
                Some(Found { place, part: Part::Graph, was: nodes(a), now: nodes(b) })
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

fn steps(place: &Place, a: &StepTrace, b: &StepTrace) -> Option<Found> {
    for at in 0..a.tasks.len().max(b.tasks.len()) {
        let (was, now) = (a.tasks.get(at), b.tasks.get(at));
        let of = if now.is_some() { b.tasks.len() } else { a.tasks.len() };
        let node = now.or(was).map(|it| it.node.as_str()).unwrap_or_default();
        let place = place.at_task(node, at + 1, of);
        let found = match (was, now) {
            (Some(a), Some(b)) if a.node == b.node => {
                one(&place, Part::Input, &a.input, &b.input).or_else(|| doing(&place, a, b))
            }
            (was, now) => {
                let node = |it: Option<&TaskTrace>| it.map(|it| json!(it.node));
                Some(Found { place, part: Part::Task, was: node(was), now: node(now) })
            }
        };
        if found.is_some() {
            return found;
        }
    }
    states(place, a.state.as_ref(), b.state.as_ref())
}

fn states(place: &Place, a: Option<&Value>, b: Option<&Value>) -> Option<Found> {
    let (field, was, now) =
        super::summary::fields(a, b).into_iter().next().map(|it| (it.field, it.was, it.now))?;
    Some(Found { place: place.clone(), part: Part::State(field), was, now })
}

fn inside(place: &Place, a: &TaskTrace, b: &TaskTrace) -> Option<Found> {
    let both = a.graphs.iter().zip(&b.graphs).enumerate();
    let found = both.map(|(nth, (a, b))| graphs(place, nth + 1, a, b)).find_map(|it| it);
    found.or_else(|| one(place, Part::Graph, &a.graphs.len(), &b.graphs.len()))
}

fn writes(place: &Place, a: &TaskTrace, b: &TaskTrace) -> Option<Found> {
    let at = (0..a.writes.len().max(b.writes.len()))
        .find(|at| a.writes.get(*at) != b.writes.get(*at))?;
    let (was, now) = (a.writes.get(at), b.writes.get(at));
    let field = now.or(was).map(|it| it.field.clone()).unwrap_or_default();
    let mut shown =
        [was, now].map(|it| it.filter(|it| it.field == field).map(|it| it.value.clone()));
    if shown[0] == shown[1] {
        // The value is the same: what differs is whether it replaces the field.
        shown = [was, now]
            .map(|it| it.map(|it| json!({ "overwrite": it.overwrite, "value": it.value })));
    }
    let [was, now] = shown;
    Some(Found { place: place.clone(), part: Part::Write(field), was, now })
}

/// The first of the items that differs.
fn items<T: PartialEq + Serialize>(place: &Place, part: Part, a: &[T], b: &[T]) -> Option<Found> {
    let at = (0..a.len().max(b.len())).find(|at| a.get(*at) != b.get(*at))?;
    Some(Found { place: place.clone(), part, was: a.get(at).map(value), now: b.get(at).map(value) })
}

fn one<T: PartialEq + Serialize>(place: &Place, part: Part, a: &T, b: &T) -> Option<Found> {
    let shown = |it: &T| Some(value(it)).filter(|it| !it.is_null());
    (a != b).then(|| Found { place: place.clone(), part, was: shown(a), now: shown(b) })
}

fn value<T: Serialize>(item: &T) -> Value {
    serde_json::to_value(item).unwrap_or_default()
}
