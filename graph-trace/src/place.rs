//! Where in a trace something is.

use std::fmt;

/// Where in a trace something is: the way through its graphs, from the outermost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Place {
    /// A step of the root, a step of the graph that its task ran, and so on. Empty before the first step and after the
    /// last.
    pub way: Vec<StepPlace>,
}

/// A step, and where it is one task's affair, the task.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StepPlace {
    /// Which of the graphs that the task around it ran: 1 for the first, and for the root.
    pub graph: usize,
    /// The step's number.
    pub step: i64,
    /// The task.
    pub task: Option<TaskPlace>,
}

/// A task among those of its step.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskPlace {
    /// Its node.
    pub node: String,
    /// Which of the step's tasks it is: 1 for the first.
    pub nth: usize,
    /// How many tasks the step has.
    pub of: usize,
}

impl Place {
    /// The innermost step.
    pub fn step(&self) -> Option<i64> {
        self.way.last().map(|it| it.step)
    }

    /// The innermost task's node, where it is one task's affair.
    pub fn node(&self) -> Option<&str> {
        self.way.last()?.task.as_ref().map(|it| it.node.as_str())
    }

    pub(crate) fn enter(&self, graph: usize, step: i64) -> Self {
        let mut way = self.way.clone();
        way.push(StepPlace { graph, step, task: None });
        Self { way }
    }

    pub(crate) fn at_task(&self, node: &str, nth: usize, of: usize) -> Self {
        let mut place = self.clone();
        if let Some(last) = place.way.last_mut() {
            last.task = Some(TaskPlace { node: node.to_owned(), nth, of });
        }
        place
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.way.is_empty() {
            return f.write_str("outside all steps");
        }
        for (depth, StepPlace { graph, step, task }) in self.way.iter().enumerate() {
            match (depth, graph) {
                (0, _) => {}
                (_, 1) => f.write_str(", inside it ")?,
                (_, nth) => write!(f, ", inside its {} graph ", ordinal(*nth))?,
            }
            write!(f, "step {step}")?;
            if let Some(TaskPlace { node, nth, of }) = task {
                write!(f, ", task `{node}`")?;
                if *of > 1 {
                    write!(f, " ({} of {of})", ordinal(*nth))?;
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
