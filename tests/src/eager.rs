//! Runs conformance cases with eager graphs, whose nodes declare the fields that their programs mention.
//!
//! All answers must be equal to the recorded ones, with three exceptions:
//!
//! - The tasks of these graphs take different times, so the order in which error handlers end is not that of the
//!   recording.
//! - A node that declares the fields it reads sees only these fields, so the inputs of its tasks contain only these.
//! - If a run ends while tasks of later steps are done, the next run uses their results and does not start them again.
//!   The answers may then differ in which run started a task: in `calls`, in `custom`, and in whether `updates` and
//!   `steps` show the task as replayed. This is accepted only if tasks ran ahead and a run ended before its graph did.

use std::fmt;

use serde_json::{Value, json};

use crate::{
    build::Mode,
    case::{Case, StopsSpec},
    compare::{self, Difference},
    declared::Declared,
    isolated::{self, CaseError},
    saver::SaverKind,
    script::Execution,
};

/// Seeds of the latencies with which each case runs.
const LATENCIES: [u64; 3] = [1, 2, 3];

/// The extent to which tasks ran ahead of their steps in a case whose answers are equal to the recorded ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Equality {
    /// Tasks ran ahead.
    RanAhead,
    /// Tasks ran ahead, and a run ended before their steps.
    RanAheadOfRun,
    /// No task ran ahead.
    InOrder(Reason),
}

/// Why no task of a case ran ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    InvalidGraph,
    /// The graph stops before or after nodes.
    Stops,
    /// No step of the root graph has two tasks.
    OneTask,
    /// All nodes read their whole input.
    WholeInput,
    /// Nodes that run concurrently write the same field, so they cannot declare what they write.
    ConflictingWrites,
    /// No task can start before all earlier tasks have ended.
    NothingAhead,
}

impl fmt::Display for Equality {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::RanAhead => "ran ahead",
            Self::RanAheadOfRun => "ran ahead, and a run ended before the steps of these tasks",
            Self::InOrder(reason) => match reason {
                Reason::InvalidGraph => "none ran ahead: the graph is invalid",
                Reason::Stops => "none ran ahead: the graph stops before or after nodes",
                Reason::OneTask => "none ran ahead: no step has two tasks",
                Reason::WholeInput => "none ran ahead: all nodes read their whole input",
                Reason::ConflictingWrites => {
                    "none ran ahead: concurrent nodes write one field, so they cannot declare it"
                }
                Reason::NothingAhead => "none ran ahead: no task can start before its step",
            },
        })
    }
}

/// The error returned when the answers of a case with eager graphs are not equal to the recorded ones.
#[derive(Debug, thiserror::Error)]
pub enum EagerError {
    #[error(transparent)]
    Case(#[from] CaseError),
    #[error("{difference}\n  with the latencies {latencies}")]
    Differs {
        difference: Difference,
        /// Seed of the latencies.
        latencies: u64,
    },
}

/// Runs a case with eager graphs, once for each of several latencies.
pub fn check(case: &Case, saver: SaverKind) -> Result<Equality, EagerError> {
    let mut equality = Equality::InOrder(reason(case));
    for latencies in LATENCIES {
        equality = equality.min(check_once(case, saver, latencies)?);
    }
    Ok(equality)
}

fn check_once(case: &Case, saver: SaverKind, latencies: u64) -> Result<Equality, EagerError> {
    let invalid = [json!({ "error": "invalid_graph" })];
    let run = |declares_writes| {
        let mode = Mode::Eager { declares_writes, latencies };
        isolated::run(case, saver, mode, &Execution::Engine)
    };
    let mut answers = run(true)?;
    let conflicts = answers.values == invalid && case.expect != invalid;
    if conflicts {
        answers = run(false)?;
    }
    let mut expected = with_declared_inputs(case, &answers.values);
    expected.expect.iter_mut().chain(&mut answers.values).for_each(sort_handlers);
    let differs = |difference| EagerError::Differs { difference, latencies };
    let Some(difference) = compare::compare(&expected, &answers.values) else {
        return Ok(match answers.ran_ahead {
            true => Equality::RanAhead,
            false if conflicts => Equality::InOrder(Reason::ConflictingWrites),
            false => Equality::InOrder(reason(case)),
        });
    };
    let mut pairs = case.expect.iter().zip(&answers.values);
    let ran_ahead = answers.ran_ahead || pairs.any(|(expected, got)| starts_more(expected, got));
    if !ran_ahead || !case.expect.iter().any(ends_before_graph) {
        return Err(differs(difference));
    }
    for (expected, got) in expected.expect.iter_mut().zip(&mut answers.values) {
        remove_starts(expected, got);
    }
    match compare::compare(&expected, &answers.values) {
        Some(difference) => Err(differs(difference)),
        None => Ok(Equality::RanAheadOfRun),
    }
}

/// Returns the case with the recorded inputs of tasks restricted to the fields that their nodes declare as read. Inputs
/// that the engine has not restricted in this way are kept.
fn with_declared_inputs(case: &Case, got: &[Value]) -> Case {
    let mut case = case.clone();
    for (expected, got) in case.expect.iter_mut().zip(got) {
        let pairs = tasks_mut(expected).zip(tasks(got));
        for (expected, got) in pairs {
            let node =
                expected["name"].as_str().and_then(|it| Some((it, case.graph.nodes.get(it)?)));
            let Some((name, node)) = node else { continue };
            let Some(reads) = Declared::new(&case.graph, name, node).reads else { continue };
            let Some(input) = expected.get("input").and_then(Value::as_object) else { continue };
            let mut visible = input.clone();
            visible.retain(|field, _| reads.contains(field));
            if got["input"].as_object() == Some(&visible) {
                expected["input"] = Value::Object(visible);
            }
        }
    }
    case
}

fn tasks(answer: &Value) -> impl Iterator<Item = &Value> {
    let steps = answer.get("steps").and_then(Value::as_array).into_iter().flatten();
    steps.filter_map(|it| it.get("tasks")?.as_array()).flatten()
}

fn tasks_mut(answer: &mut Value) -> impl Iterator<Item = &mut Value> {
    let steps = answer.get_mut("steps").and_then(Value::as_array_mut).into_iter().flatten();
    steps.filter_map(|it| it.get_mut("tasks")?.as_array_mut()).flatten()
}

/// Returns whether the answer is from a run that ended before its graph was done.
fn ends_before_graph(answer: &Value) -> bool {
    let is_pending = |it: &Value| it.as_array().is_some_and(|it| !it.is_empty());
    answer.get("steps").is_some()
        && (!answer["error"].is_null() || answer.get("next").is_some_and(is_pending))
}

/// Returns whether a run started a task that the recorded run did not start.
fn starts_more(expected: &Value, got: &Value) -> bool {
    let mut calls = got["calls"].as_object().into_iter().flatten();
    calls.any(|(node, count)| count.as_u64() > expected["calls"][node].as_u64())
}

/// Sorts the error handlers of each step, which are listed in the order in which they ended.
fn sort_handlers(answer: &mut Value) {
    for step in answer.get_mut("steps").and_then(Value::as_array_mut).into_iter().flatten() {
        let Some(tasks) = step.get_mut("tasks").and_then(Value::as_array_mut) else { continue };
        let name = |it: &Value| it["name"].as_str().unwrap_or_default().to_owned();
        tasks.sort_by_cached_key(|it| Some(name(it)).filter(|it| it.starts_with("on_error:")));
    }
}

/// Removes the parts of two answers that depend on whether the run started a task or replayed it.
fn remove_starts(expected: &mut Value, got: &mut Value) {
    for run in [&mut *expected, &mut *got] {
        let Some(run) = run.as_object_mut().filter(|it| it.contains_key("steps")) else { return };
        run.remove("calls");
        run.remove("custom");
        for update in run.get_mut("updates").and_then(Value::as_array_mut).into_iter().flatten() {
            for task in update.as_array_mut().into_iter().flatten() {
                task.as_object_mut().map(|it| it.remove("__cached__"));
            }
        }
    }
    // A replayed task has the result `null`. `updates` contains what it wrote.
    for (expected, got) in tasks_mut(expected).zip(tasks_mut(got)) {
        if expected["result"].is_null() || got["result"].is_null() {
            expected["result"] = Value::Null;
            got["result"] = Value::Null;
        }
    }
}

fn reason(case: &Case) -> Reason {
    let stops = |it: &Option<StopsSpec>| it.as_ref().is_some_and(|it| !it.is_empty());
    let compile = &case.graph.compile;
    let stops = stops(&compile.interrupt_before)
        || stops(&compile.interrupt_after)
        || case.script.iter().any(|it| stops(&it.interrupt_before) || stops(&it.interrupt_after));
    let has_parallel_tasks = |answer: &Value| {
        let steps = answer.get("steps").and_then(Value::as_array).into_iter().flatten();
        steps.filter_map(|it| it["tasks"].as_array()).any(|it| it.len() > 1)
    };
    let reads_all = |(name, node)| Declared::new(&case.graph, name, node).reads.is_none();
    if case.expect == [json!({ "error": "invalid_graph" })] {
        Reason::InvalidGraph
    } else if stops {
        Reason::Stops
    } else if !case.expect.iter().any(has_parallel_tasks) {
        Reason::OneTask
    } else if case.graph.nodes.iter().map(|(name, node)| (name.as_str(), node)).all(reads_all) {
        Reason::WholeInput
    } else {
        Reason::NothingAhead
    }
}
