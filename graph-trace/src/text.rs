//! A trace as text, to be read and compared line by line.

use std::fmt::Write;

use graph_core::FieldWrite;
use serde_json::Value;

use crate::trace::{End, GraphTrace, StepTrace, TaskTrace, Trace};

/// How much of a trace is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Detail {
    /// Which tasks ran, and where they led.
    Routes,
    /// And what they wrote, called, asked and said.
    #[default]
    Updates,
    /// And what they ran on, and the state after each step.
    Full,
}

/// How a trace is shown.
#[derive(Clone, Copy, Debug, Default)]
#[must_use]
pub struct Shape {
    detail: Detail,
    timing: bool,
}

impl Shape {
    /// So much of it.
    pub fn new(detail: Detail) -> Self {
        Self { detail, timing: false }
    }

    /// With how long each task took, which is another time in every run.
    pub fn with_timing(mut self) -> Self {
        self.timing = true;
        self
    }
}

impl Trace {
    /// The trace as text.
    pub fn text(&self, shape: Shape) -> String {
        let mut text = Text { out: String::new(), shape };
        text.line(0, format_args!("input {}", compact(&self.header.input)));
        for input in &self.header.then {
            text.line(0, format_args!("then {}", compact(input)));
        }
        text.graph(0, &self.root);
        text.line(0, format_args!("{}", end(&self.end)));
        text.out
    }
}

/// How a run ended, in words.
pub(crate) fn end(end: &End) -> String {
    match end {
        End::Done => "done".to_owned(),
        End::Asked => "waits for an answer".to_owned(),
        End::Stopped => "stopped where it was told to".to_owned(),
        End::Failed(error) => format!("failed: {}", one_line(error)),
        End::Unfinished => "unfinished".to_owned(),
    }
}

struct Text {
    out: String,
    shape: Shape,
}

impl Text {
    fn line(&mut self, depth: usize, line: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.out, "{:indent$}{line}", "", indent = 2 * depth);
    }

    fn graph(&mut self, depth: usize, graph: &GraphTrace) {
        for step in &graph.steps {
            self.step(depth, step);
        }
    }

    fn step(&mut self, depth: usize, step: &StepTrace) {
        // What START does is seen in the state alone.
        if step.tasks.is_empty() && self.shape.detail < Detail::Full {
            return;
        }
        self.line(depth, format_args!("step {}", step.step));
        for task in &step.tasks {
            self.task(depth + 1, task);
        }
        if let Some(state) = step.state.as_ref().filter(|_| self.shape.detail == Detail::Full) {
            self.line(depth + 1, format_args!("state {}", compact(state)));
        }
    }

    fn task(&mut self, depth: usize, task: &TaskTrace) {
        let took = task.timing.filter(|_| self.shape.timing).map(|it| it.end - it.start);
        let took = took.map(|it| format!(" ({:.1} ms)", it.as_secs_f64() * 1e3));
        self.line(depth, format_args!("{}{}", task.node, took.unwrap_or_default()));
        let inside = depth + 1;
        if self.shape.detail == Detail::Full && !task.input.is_null() {
            self.line(inside, format_args!("input {}", compact(&task.input)));
        }
        for retry in &task.retries {
            let error = one_line(&retry.error);
            self.line(inside, format_args!("attempt {} failed: {error}", retry.attempt));
            self.said(inside + 1, &retry.custom, &retry.messages);
        }
        if self.shape.detail >= Detail::Updates {
            for effect in &task.effects {
                let result = compact(&effect.result);
                self.line(inside, format_args!("call {} = {result}", one_line(&effect.key)));
            }
        }
        self.said(inside, &task.custom, &task.messages);
        for (nth, graph) in task.graphs.iter().enumerate() {
            let number =
                if task.graphs.len() > 1 { format!(" {}", nth + 1) } else { String::new() };
            self.line(inside, format_args!("graph{number}"));
            self.graph(inside + 1, graph);
        }
        if let Some(error) = &task.error {
            self.line(inside, format_args!("failed: {}", one_line(error)));
        }
        if task.handled {
            self.line(inside, format_args!("handled"));
        }
        if task.cached {
            self.line(inside, format_args!("known already"));
        }
        for question in &task.questions {
            self.line(inside, format_args!("asks {}", compact(question)));
        }
        if self.shape.detail >= Detail::Updates {
            for FieldWrite { field, value, overwrite } in &task.writes {
                let sign = if *overwrite { ":=" } else { "<-" };
                self.line(inside, format_args!("{field} {sign} {}", compact(value)));
            }
        }
        for route in &task.routes {
            self.line(inside, format_args!("-> {route}"));
        }
        for send in &task.sends {
            match self.shape.detail {
                Detail::Routes => self.line(inside, format_args!("=> {}", send.to)),
                _ => self.line(inside, format_args!("=> {} {}", send.to, compact(&send.payload))),
            }
        }
    }

    fn said(&mut self, depth: usize, custom: &[Value], messages: &[Value]) {
        if self.shape.detail < Detail::Updates {
            return;
        }
        for value in custom {
            self.line(depth, format_args!("says {}", compact(value)));
        }
        for value in messages {
            self.line(depth, format_args!("message {}", compact(value)));
        }
    }
}

/// A value on one line.
fn compact(value: &Value) -> String {
    value.to_string()
}

/// A text on one line: what a model or a server says may hold anything.
fn one_line(text: &str) -> String {
    text.escape_debug().to_string().replace("\\'", "'").replace("\\\"", "\"")
}
