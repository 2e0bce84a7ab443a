//! Converts the events of a run and the states of a thread to answers in the conformance format.

use std::collections::BTreeMap;

use graph_core::{
    Event, EventKind, FieldWrite, JsonState, TaskState, ThreadState, checkpoint::TaskId,
    stream::writes_to_json,
};
use serde_json::{Map, Value, json};

use crate::counters::Counters;

/// Events that were collected from a run.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    values: Vec<Value>,
    updates: BTreeMap<i64, Vec<Value>>,
    steps: BTreeMap<i64, Vec<TaskTrace>>,
    custom: Vec<Value>,
    output: Option<Value>,
}

/// Events that were collected from one task.
#[derive(Debug)]
struct TaskTrace {
    id: Option<TaskId>,
    name: String,
    handler: bool,
    input: Option<Value>,
    finish: Option<TaskResult>,
}

#[derive(Debug)]
struct TaskResult {
    result: Value,
    error: Option<String>,
    interrupts: Vec<Value>,
}

impl Trace {
    /// Records an event, which must belong to the root graph.
    pub(crate) fn record(&mut self, event: Event) {
        let node = event.node.as_deref().unwrap_or_default();
        let name =
            |handler: bool| if handler { format!("on_error:{node}") } else { node.to_owned() };
        match event.kind {
            EventKind::Values(values) => {
                if values.touches_output() {
                    let state = values.get::<JsonState>().map(JsonState::to_value);
                    self.output = Some(state.unwrap_or_else(|| values.output_json()));
                }
                let full = values.get().map(JsonState::to_full_value);
                self.values.push(full.unwrap_or_else(|| values.to_json()));
            }
            EventKind::Update { writes, cached, handler, .. } => {
                let mut shown = Map::from_iter([(name(handler), update(&writes))]);
                if cached {
                    shown.insert("__cached__".to_owned(), Value::Bool(true));
                }
                self.updates.entry(event.step).or_default().push(Value::Object(shown));
            }
            EventKind::Custom(value) => self.custom.push(value),
            EventKind::TaskStarted { input, .. } => {
                let task = TaskTrace {
                    id: event.task,
                    name: name(false),
                    handler: false,
                    input: Some(input),
                    finish: None,
                };
                self.steps.entry(event.step).or_default().push(task);
            }
            EventKind::TaskFinished { writes, error, interrupts, handler, .. } => {
                let interrupts = interrupts.into_iter().map(|it| it.value).collect();
                let finish = TaskResult { result: writes_to_json(&writes), error, interrupts };
                let name = name(handler);
                self.finished(event.step, event.task, name, handler, finish);
            }
            _ => {}
        }
    }

    fn finished(
        &mut self,
        step: i64,
        id: Option<TaskId>,
        name: String,
        handler: bool,
        finish: TaskResult,
    ) {
        let tasks = self.steps.entry(step).or_default();
        match tasks.iter_mut().find(|it| it.id == id && it.handler == handler) {
            Some(task) => task.finish = Some(finish),
            None => {
                tasks.push(TaskTrace { id, name, handler, input: None, finish: Some(finish) });
            }
        }
    }

    /// Returns the last output that the run emitted.
    pub(crate) fn take_output(&mut self) -> Option<Value> {
        self.output.take()
    }

    /// Returns the entries that the events contribute to the answer to a run call.
    pub(crate) fn answer(self, counters: &Counters) -> Map<String, Value> {
        let steps = self.steps.into_iter().map(|(step, tasks)| {
            let (mut handlers, nodes): (Vec<_>, Vec<_>) =
                tasks.into_iter().partition(|it| it.handler);
            // Handlers on different workers finish in any order.
            handlers.sort_by_key(|handler| {
                nodes.iter().position(|it| handler.name.strip_prefix("on_error:") == Some(&it.name))
            });
            let tasks = nodes.into_iter().chain(handlers).map(|it| it.answer(counters));
            json!({ "step": step, "tasks": tasks.collect::<Vec<_>>() })
        });
        Map::from_iter([
            ("values".to_owned(), Value::from(self.values)),
            ("updates".to_owned(), self.updates.into_values().collect()),
            ("steps".to_owned(), steps.collect()),
            ("custom".to_owned(), Value::from(self.custom)),
        ])
    }
}

impl TaskTrace {
    fn answer(self, counters: &Counters) -> Value {
        let mut task = Map::from_iter([("name".to_owned(), Value::from(self.name))]);
        if let Some(input) = self.input {
            task.insert("input".to_owned(), input);
        }
        let Some(TaskResult { result, error, interrupts }) = self.finish else {
            task.insert("result".to_owned(), Value::Null);
            return Value::Object(task);
        };
        task.insert("result".to_owned(), result);
        if let Some(error) = error {
            task.insert("error".to_owned(), Value::from(counters.error_code(&error)));
        }
        if !interrupts.is_empty() {
            task.insert("interrupts".to_owned(), Value::from(interrupts));
        }
        Value::Object(task)
    }
}

/// Formats a task's update as it appears in the updates stream.
pub(crate) fn update(writes: &[FieldWrite]) -> Value {
    let written_twice =
        |it: &FieldWrite| writes.iter().filter(|other| other.field == it.field).count() > 1;
    if writes.is_empty() {
        Value::Null
    } else if writes.iter().any(written_twice) {
        writes.iter().map(|it| writes_to_json(std::slice::from_ref(it))).collect()
    } else {
        writes_to_json(writes)
    }
}

/// Formats the state of a thread. `subgraphs` states whether it was read with the states of subgraphs.
pub(crate) fn state(state: &ThreadState<JsonState>, counters: &Counters, subgraphs: bool) -> Value {
    state_with(state, &state.values.to_full_value(), counters, subgraphs)
}

fn state_with<S>(
    state: &ThreadState<S>,
    values: &Value,
    counters: &Counters,
    subgraphs: bool,
) -> Value {
    json!({
        "values": values,
        "next": state.next,
        "step": state.step,
        "source": state.source.as_str(),
        "tasks": state.tasks.iter().map(|it| task(it, counters, subgraphs)).collect::<Value>(),
    })
}

/// Returns the state of a thread that has never run.
pub(crate) fn no_state() -> Value {
    json!({ "values": {}, "next": [], "step": null, "source": null, "tasks": [] })
}

fn task(task: &TaskState, counters: &Counters, subgraphs: bool) -> Value {
    let mut shown = json!({
        "name": task.node,
        "error": task.error.as_deref().map(|it| counters.error_code(it)),
        "interrupts": task.interrupts.iter().map(|it| &it.value).collect::<Vec<_>>(),
        "result": task.result.as_deref().map(writes_to_json),
    });
    if subgraphs && task.subgraph_namespace.is_some() {
        let state = task.subgraph.as_deref();
        shown["state"] =
            state.map_or_else(no_state, |it| state_with(it, &it.values, counters, subgraphs));
    }
    shown
}

/// Replaces the task ids in a namespace with `<task>`.
pub(crate) fn without_task_ids(namespace: &str) -> String {
    let part = |part: &str| match part.rsplit_once(':') {
        Some((node, id)) if id.len() == 32 && id.bytes().all(|it| it.is_ascii_hexdigit()) => {
            format!("{node}:<task>")
        }
        _ => part.to_owned(),
    };
    namespace.split('|').map(part).collect::<Vec<_>>().join("|")
}
