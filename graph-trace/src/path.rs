//! Locations within a trace.

use std::fmt;

/// A location in a trace, given as a path through nested graphs that starts at the root.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TracePath {
    /// One step per nested graph, from the root to the innermost graph. Each step except the first belongs to a graph
    /// that the task in the previous step ran. Empty if the location is not in a step, such as the input or the outcome
    /// of the run.
    pub steps: Vec<StepPath>,
}

/// A step and, if the location is within a single task, that task.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StepPath {
    /// Position of the graph among the graphs that the enclosing task ran, starting at 1. The root has position 1.
    pub graph: usize,
    /// The number of the step.
    pub step: i64,
    /// The task, if the location is within a single task.
    pub task: Option<TaskPath>,
}

/// A task in a step.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskPath {
    /// Name of the task's node.
    pub node: String,
    /// Position of the task among the tasks in the step, starting at 1.
    pub position: usize,
    /// Number of tasks in the step.
    pub n_tasks: usize,
}

impl TracePath {
    /// Returns the number of the innermost step.
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
