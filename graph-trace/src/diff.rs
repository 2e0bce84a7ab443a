//! Compares two runs.

mod compare;
mod display;
mod field_change;
mod kind;
mod summary;

use serde_json::Value;

pub use self::{
    field_change::FieldChange,
    kind::DivergenceKind,
    summary::{DiffSummary, RouteChange},
};

use crate::{path::TracePath, trace::Trace};

/// The first difference between two runs, and a summary of all differences.
///
/// The `Display` implementation renders a human-readable explanation.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Divergence {
    /// Location at which the runs diverge.
    pub path: TracePath,
    /// Kind of the first difference at that location.
    pub kind: DivergenceKind,
    /// The value in the first run, or `None` if it has no such value.
    pub was: Option<Value>,
    /// The value in the second run, or `None` if it has no such value.
    pub now: Option<Value>,
    /// A summary of all differences.
    pub summary: DiffSummary,
}

impl Trace {
    /// Compares two traces. Returns `None` if they are equal.
    ///
    /// Timing, the identity of the graph and the version of the engine are not compared.
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
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let first = StateGraph::<Essay>::new().node_as("write", short).edge(START, "write").compile()?;
    /// let second = StateGraph::<Essay>::new().node_as("write", long).edge(START, "write").compile()?;
    /// let essay = Essay { topic: "tea".into(), ..Essay::default() };
    /// let a = record(&first, essay.clone(), (), RunOptions::new()).await;
    /// let b = record(&second, essay, (), RunOptions::new()).await;
    /// let divergence = Trace::diff(&a.trace, &b.trace).expect("the texts differ");
    /// assert_eq!(divergence.path.step(), Some(1));
    /// assert_eq!(divergence.path.node(), Some("write"));
    /// assert_eq!(divergence.summary.fields.len(), 1);
    /// println!("{divergence}");
    /// # Ok(()) }
    /// ```
    pub fn diff(a: &Self, b: &Self) -> Option<Divergence> {
        let first = compare::first_difference(a, b)?;
        let compare::Difference { path, kind, was, now } = first;
        Some(Divergence { path, kind, was, now, summary: summary::summarise(a, b) })
    }
}
