//! Locations within a trace.

use std::fmt;

/// The location of something in a trace: a path through nested graphs, starting at the root.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TracePath {
    /// A step of the root, then a step of the graph that its task ran, and so on. Empty for anything outside of the
    /// steps: the input and the outcome.
    pub steps: Vec<StepPath>,
}

/// A step and, if the location is within one task, the task.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StepPath {
    /// The number of the graph among those the enclosing task ran, starting at 1; 1 for the root.
    pub graph: usize,
    /// The number of the step.
    pub step: i64,
    /// The task.
    pub task: Option<TaskPath>,
}

/// A task of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskPath {
    /// Its node.
    pub node: String,
    /// Its position among the tasks of the step, starting at 1.
    pub position: usize,
    /// The number of tasks in the step.
    pub n_tasks: usize,
}

impl TracePath {
    /// Returns the innermost step.
    pub fn step(&self) -> Option<i64> {
        self.steps.last().map(|it| it.step)
    }

    /// Returns the node of the innermost task, if the location is within a task.
    pub fn node(&self) -> Option<&str> {
        self.steps.last()?.task.as_ref().map(|it| it.node.as_str())
    }

    pub(crate) fn enter(&self, graph: usize, step: i64) -> Self {
        let mut steps = self.steps.clone();
        steps.push(StepPath { graph, step, task: None });
        Self { steps }
    }

    pub(crate) fn with_task(&self, node: &str, position: usize, n_tasks: usize) -> Self {
        let mut path = self.clone();
        if let Some(last) = path.steps.last_mut() {
            last.task = Some(TaskPath { node: node.to_owned(), position, n_tasks });
        }
        path
    }
}

impl fmt::Display for TracePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.steps.is_empty() {
            return f.write_str("outside of the steps");
        }
        for (depth, StepPath { graph, step, task }) in self.steps.iter().enumerate() {
            match (depth, graph) {
                (0, _) => {}
                (_, 1) => f.write_str(", subgraph ")?,
                (_, nth) => write!(f, ", {} subgraph ", ordinal(*nth))?,
            }
            write!(f, "step {step}")?;
            if let Some(TaskPath { node, position, n_tasks }) = task {
                write!(f, ", task `{node}`")?;
                if *n_tasks > 1 {
                    write!(f, " ({} of {n_tasks})", ordinal(*position))?;
                }
            }
        }
        Ok(())
    }
}

fn ordinal(nth: usize) -> String {
    let suffix = match (nth % 10, nth % 100) {
        (1, 1 | 21..) => "st",
        (2, 2 | 22..) => "nd",
        (3, 3 | 23..) => "rd",
        _ => "th",
    };
    format!("{nth}{suffix}")
}
