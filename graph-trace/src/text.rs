//! Renders a trace as text that can be read and compared line by line.

use std::fmt::Write;

use graph_core::FieldWrite;
use serde_json::Value;

use crate::trace::{GraphTrace, RunStatus, StepTrace, TaskTrace, Trace};

/// The level of detail of a rendered trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Detail {
    /// Shows which tasks ran and which nodes they routed to.
    Routes,
    /// Also shows writes, external calls, interrupts and stream output.
    #[default]
    Updates,
    /// Also shows the inputs of tasks and the state after each step.
    Full,
}

/// Options for rendering a trace.
///
/// ```
/// use graph_core::{RunOptions, START, State, StateGraph};
/// use graph_trace::{Detail, TextOptions, record};
///
/// #[derive(State, Clone, Debug, Default)]
/// struct Essay {
///     topic: String,
///     text: String,
/// }
///
/// async fn write(essay: &Essay) -> EssayUpdate {
///     Essay::update().text(format!("On {}", essay.topic))
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let graph = StateGraph::<Essay>::new().node(write).edge(START, write).compile()?;
/// let essay = Essay { topic: "tea".into(), ..Essay::default() };
/// let trace = record(&graph, essay, (), RunOptions::new()).await.trace;
/// assert_eq!(
///     trace.text(TextOptions::new(Detail::Routes)),
///     r#"input {"text":"","topic":"tea"}
/// step 1
///   write
/// done
/// "#
/// );
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[must_use]
pub struct TextOptions {
    detail: Detail,
    timing: bool,
}

impl TextOptions {
    /// Creates options with this level of detail, without timing.
    pub fn new(detail: Detail) -> Self {
        Self { detail, timing: false }
    }

    /// Shows the duration of each task, which differs from run to run.
    pub fn with_timing(mut self) -> Self {
        self.timing = true;
        self
    }
}

impl Trace {
    /// Renders the trace as text.
    pub fn text(&self, options: TextOptions) -> String {
        let mut text = Text { out: String::new(), options };
        text.line(0, format_args!("input {}", compact(&self.header.input)));
        for input in &self.header.later_inputs {
            text.line(0, format_args!("then {}", compact(input)));
        }
        text.graph(0, &self.root);
        text.line(0, format_args!("{}", outcome_text(&self.end)));
        text.out
    }
}

/// Returns a description of how a run ended.
pub(crate) fn outcome_text(outcome: &RunStatus) -> String {
    match outcome {
        RunStatus::Done => "done".to_owned(),
        RunStatus::Interrupted => "waits for an answer".to_owned(),
        RunStatus::Stopped => "stopped at a configured stop".to_owned(),
        RunStatus::Failed(error) => format!("failed: {}", one_line(error)),
        RunStatus::Unfinished => "unfinished".to_owned(),
    }
}

struct Text {
    out: String,
    options: TextOptions,
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
        // START only changes the state, so its step is shown only if states are shown.
        if step.tasks.is_empty() && self.options.detail < Detail::Full {
            return;
        }
        self.line(depth, format_args!("step {}", step.step));
        for task in &step.tasks {
            self.task(depth + 1, task);
        }
        if let Some(state) = step.state.as_ref().filter(|_| self.options.detail == Detail::Full) {
            self.line(depth + 1, format_args!("state {}", compact(state)));
        }
    }

    fn task(&mut self, depth: usize, task: &TaskTrace) {
        let took = task.timing.filter(|_| self.options.timing).map(|it| it.end - it.start);
        let took = took.map(|it| format!(" ({:.1} ms)", it.as_secs_f64() * 1e3));
        self.line(depth, format_args!("{}{}", task.node, took.unwrap_or_default()));
        let inside = depth + 1;
        if self.options.detail == Detail::Full && !task.input.is_null() {
            self.line(inside, format_args!("input {}", compact(&task.input)));
        }
        for retry in &task.retries {
            let error = one_line(&retry.error);
            self.line(inside, format_args!("attempt {} failed: {error}", retry.attempt));
            self.stream_items(inside + 1, &retry.custom, &retry.messages);
        }
        if self.options.detail >= Detail::Updates {
            for effect in &task.effects {
                let result = compact(&effect.result);
                self.line(inside, format_args!("call {} = {result}", one_line(&effect.key)));
            }
        }
        self.stream_items(inside, &task.custom, &task.messages);
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
        for interrupt in &task.interrupts {
            self.line(inside, format_args!("asks {}", compact(interrupt)));
        }
        if self.options.detail >= Detail::Updates {
            for FieldWrite { field, value, overwrite } in &task.writes {
                let sign = if *overwrite { ":=" } else { "<-" };
                self.line(inside, format_args!("{field} {sign} {}", compact(value)));
            }
        }
        for route in &task.routes {
            self.line(inside, format_args!("-> {route}"));
        }
        for send in &task.sends {
            match self.options.detail {
                Detail::Routes => self.line(inside, format_args!("=> {}", send.to)),
                _ => self.line(inside, format_args!("=> {} {}", send.to, compact(&send.payload))),
            }
        }
    }

    fn stream_items(&mut self, depth: usize, custom: &[Value], messages: &[Value]) {
        if self.options.detail < Detail::Updates {
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

/// Renders a value on one line.
fn compact(value: &Value) -> String {
    value.to_string()
}

/// Escapes a text so that it fits on one line. Texts from models and servers may contain any character.
pub(crate) fn one_line(text: &str) -> String {
    text.escape_debug().to_string().replace("\\'", "'").replace("\\\"", "\"")
}

/// Returns the number with a noun in the singular or plural.
pub(crate) fn plural(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}
