//! Where two runs part, and what came of it.

mod compare;
mod shown;
mod summary;

use serde_json::Value;

pub use summary::{FieldChange, RouteChange, Summary};

use crate::{place::Place, trace::Trace};

/// Where two runs part, and what came of it.
///
/// It prints as an explanation for people.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Divergence {
    /// Where they part.
    pub place: Place,
    /// What differs there first.
    pub part: Part,
    /// What it was in the first run; `None` if there was nothing.
    pub was: Option<Value>,
    /// What it is in the second run; `None` if there is nothing.
    pub now: Option<Value>,
    /// What differs after all, from there to the end.
    pub after: Summary,
}

/// What of a step or a task differs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Part {
    /// What the run or the task was given.
    Input,
    /// Which task it is, or whether there is one.
    Task,
    /// An attempt that failed.
    Attempt,
    /// An outside call: its name and key, or its result.
    Effect,
    /// What it said, as a custom event or a message.
    Said,
    /// Whether it ran a graph, or went through as many steps.
    Graph,
    /// Its error, or who handled it.
    Error,
    /// What it asked.
    Question,
    /// What it wrote to this field.
    Write(String),
    /// Where it led.
    Route,
    /// What it sent.
    Send,
    /// This field of the state after the step.
    State(String),
    /// How the run ended.
    End,
}

impl Trace {
    /// Where `b` parts from `a` first, and what differs after that; `None` if they are the same.
    ///
    /// Times are not compared, nor are the graph's identity and the engine's version.
    ///
    /// ```
    /// use graph_core::{RunOptions, START, State, StateGraph};
    /// use graph_trace::{Trace, record};
    ///
    /// #[derive(State, Clone, Debug, Default)]
    /// struct Essay {
    ///     topic: String,
    ///     text: String,
    /// }
    ///
    /// async fn short(essay: &Essay) -> EssayUpdate {
    ///     Essay::update().text(format!("On {}", essay.topic))
    /// }
    ///
    /// async fn long(essay: &Essay) -> EssayUpdate {
    ///     Essay::update().text(format!("All about {}", essay.topic))
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let first = StateGraph::<Essay>::new().node_as("write", short).edge(START, "write").compile()?;
    /// let second = StateGraph::<Essay>::new().node_as("write", long).edge(START, "write").compile()?;
    /// let essay = Essay { topic: "tea".into(), ..Essay::default() };
    /// let a = record(&first, essay.clone(), (), RunOptions::new()).await;
    /// let b = record(&second, essay, (), RunOptions::new()).await;
    /// let divergence = Trace::diff(&a.trace, &b.trace).expect("they write other texts");
    /// assert_eq!(divergence.place.step(), Some(1));
    /// assert_eq!(divergence.place.node(), Some("write"));
    /// assert_eq!(divergence.after.fields.len(), 1);
    /// println!("{divergence}");
    /// # Ok(())
    /// # }
    /// ```
    pub fn diff(a: &Self, b: &Self) -> Option<Divergence> {
        let first = compare::first(a, b)?;
        let compare::Found { place, part, was, now } = first;
        Some(Divergence { place, part, was, now, after: summary::summarise(a, b) })
    }
}
