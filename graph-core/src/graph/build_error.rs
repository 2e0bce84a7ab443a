//! Errors that occur when a graph is compiled.

use std::fmt;

use crate::{
    label::Label,
    suggestion::{list, suggestion},
};

/// The error returned when a graph cannot be compiled. It lists all problems found.
#[derive(Clone, PartialEq, Eq)]
pub struct BuildError {
    /// Name of the graph.
    pub graph: String,
    /// All problems found.
    pub problems: Vec<BuildProblem>,
}

impl std::error::Error for BuildError {}

crate::readable_debug!(BuildError);

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "graph `{}` cannot be compiled", self.graph)?;
        for problem in &self.problems {
            write!(f, "\n  - {problem}")?;
        }
        Ok(())
    }
}

/// A problem found when a graph is compiled. It is either an error or a warning.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildProblem {
    /// START has no outgoing edge.
    #[error("START has no outgoing edge; add `.edge(START, first_node)`")]
    NoEntry,
    /// Two nodes have the same name.
    #[error("two nodes are named `{0}`; rename one of them with `node_as`")]
    DuplicateNode(Label),
    /// A closure was added without a name.
    #[error("a closure has no name; add it with `node_as(\"name\", ..)`")]
    UnnamedNode,
    /// A node name is invalid.
    #[error("`{name}` is not a valid node name: {reason}")]
    InvalidName {
        /// The invalid name.
        name: Label,
        /// Why the name is invalid.
        reason: &'static str,
    },
    /// An edge starts or ends at a node that does not exist.
    #[error(
        "`{from}` leads to `{to}`, but `{missing}` is not a node{}; nodes are: {}",
        advice_for_missing(missing.as_str(), nodes), list(nodes)
    )]
    UnknownNode {
        /// Source of the edge.
        from: Label,
        /// Target of the edge.
        to: Label,
        /// The missing node.
        missing: Label,
        /// Names of the existing nodes.
        nodes: Vec<String>,
    },
    /// An edge leads out of END or into START.
    #[error("an edge cannot lead {0}")]
    InvalidEndpoint(&'static str),
    /// A static stop is set at a node that does not exist.
    #[error(
        "a static stop is set at `{0}`, which is not a node; add the node, or correct the name"
    )]
    UnknownStop(Label),
    /// An edge leads to a node that takes a payload.
    #[error(
        "`{from}` leads to `{to}` without a payload, but `{to}` takes one; use `send` instead of an edge"
    )]
    MissingPayload {
        /// Source of the edge.
        from: Label,
        /// Target of the edge.
        to: Label,
    },
    /// Two branches of one node have the same name.
    #[error("`{node}` has two branches named `{branch}`; remove or rename one of them")]
    DuplicateBranch {
        /// Name of the node.
        node: Label,
        /// Name of the branch.
        branch: Label,
    },
    /// No path leads to a node.
    #[error(
        "no path leads to `{0}`, so it never runs; add an edge or a route to it, or remove the node; if only commands \
         of a caller or of a subgraph lead to it, add the node with `.command_only()`"
    )]
    Unreachable(Label),
    /// A join waits for two sources that are alternatives of one branch.
    #[error(
        "the join into `{to}` waits for both `{first}` and `{second}`, but `{branch}` leads to only one of them, so \
         `{to}` never runs; replace the join with one edge per node"
    )]
    ExclusiveJoin {
        /// Target of the join.
        to: Label,
        /// One source.
        first: Label,
        /// The other source.
        second: Label,
        /// Node with the branch.
        branch: Label,
    },
    /// Two nodes that run in the same step declare writes to a field that accepts one write per step.
    #[error(
        "`{first}` and `{second}` run in the same step and both declare writes to `{field}`, which accepts one write \
         per step; add a reducer to the field, or run the nodes in different steps"
    )]
    ParallelWrite {
        /// Name of the field.
        field: String,
        /// One node.
        first: Label,
        /// The other node.
        second: Label,
    },
    /// A node declares that it reads or writes a field that does not exist.
    #[error(
        "`{node}` declares the field `{field}`, which is not a field of the state; correct the name in `.reads([..])` \
         or `.writes([..])`"
    )]
    UnknownField {
        /// Name of the node.
        node: Label,
        /// Name of the field.
        field: String,
    },
}

crate::readable_debug!(BuildProblem);

/// Returns how to fix an edge to a missing node: the name that the user may have meant, or how to add the node.
fn advice_for_missing(name: &str, known: &[String]) -> String {
    let similar = suggestion(name, known);
    if !similar.is_empty() {
        return similar;
    }
    let is_function = name.chars().all(|it| it.is_alphanumeric() || it == '_');
    match is_function {
        true => format!("; add it with `.node({name})`"),
        false => format!("; add it with `.node_as(\"{name}\", ..)`"),
    }
}
