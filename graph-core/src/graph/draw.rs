//! Drawings of compiled graphs as data, JSON, Mermaid and DOT.
//!
//! A drawing shows the declared structure. Command targets that are only known at run time are not included.

mod dot;
mod drawing;
mod mermaid;
#[cfg(test)]
mod tests;

use serde_json::{Value, json};
use xxhash_rust::xxh3::xxh3_128;

use crate::{graph::compiled::CompiledGraph, state::State};

pub use self::drawing::{Drawing, DrawnEdge, DrawnKind, DrawnNode};

impl<S: State, C: Send + Sync + 'static> CompiledGraph<S, C> {
    /// Returns the structure of the graph as data, with subgraphs expanded to `depth` levels.
    pub fn drawing(&self, depth: usize) -> Drawing {
        Drawing::of(self.erased(), depth)
    }

    /// Draws the graph as a Mermaid flowchart, with subgraphs collapsed: see
    /// [`mermaid_expanded`](Self::mermaid_expanded).
    ///
    /// Dotted edges are conditional; thick edges belong to joins. The label of a subgraph that runs elsewhere, such as
    /// in a sandbox, says where.
    ///
    /// ```
    /// use graph_core::{END, START, State, StateGraph};
    ///
    /// #[derive(State, Clone, Debug, Default)]
    /// struct Essay {
    ///     topic: String,
    /// }
    ///
    /// async fn write(_: &Essay) {}
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let graph = StateGraph::<Essay>::new().node(write).edge(START, write).edge(write, END).compile()?;
    /// let expected = r#"flowchart TD
    ///     n0(["__start__"])
    ///     n1["write"]
    ///     n2(["__end__"])
    ///     n0 --> n1
    ///     n1 --> n2
    /// "#;
    /// assert_eq!(graph.mermaid(), expected);
    /// # Ok(()) }
    /// ```
    pub fn mermaid(&self) -> String {
        self.mermaid_expanded(0)
    }

    /// Draws the graph as a Mermaid flowchart like [`mermaid`](Self::mermaid), with subgraphs expanded to `depth`
    /// levels.
    pub fn mermaid_expanded(&self, depth: usize) -> String {
        mermaid::text(&self.drawing(depth))
    }

    /// Draws the graph in Graphviz's DOT language, with subgraphs expanded to `depth` levels.
    pub fn dot(&self, depth: usize) -> String {
        dot::text(&self.drawing(depth))
    }

    /// Returns a hash of the graph's structure: its nodes, edges, branches and subgraphs, and the fields of its state.
    ///
    /// The hash is stable across builds. It depends neither on the code of the nodes nor on where subgraphs run.
    pub fn fingerprint(&self) -> String {
        let fields = self.erased().initial.fields().iter().map(|it| it.name.to_string());
        let mut graph = self.drawing(32);
        graph.nodes.iter_mut().for_each(|it| it.runs_in = None);
        let declared = json!({ "graph": graph, "fields": fields.collect::<Vec<_>>() });
        format!("{:032x}", xxh3_128(declared.to_string().as_bytes()))
    }

    /// Draws the graph as JSON, in the format of LangGraph's `to_json`, with subgraphs expanded to `depth` levels.
    pub fn to_json(&self, depth: usize) -> Value {
        let drawing = self.drawing(depth);
        json!({
            "nodes": drawing.nodes.iter().map(DrawnNode::to_json).collect::<Vec<_>>(),
            "edges": drawing.edges.iter().map(DrawnEdge::to_json).collect::<Vec<_>>(),
        })
    }
}
