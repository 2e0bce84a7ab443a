//! Conformance cases as stored in the fixtures; see `fixtures/conformance/FORMAT.md`.
//!
//! Unknown keys are rejected, so that the driver cannot silently ignore a feature of the format.

mod call;
mod stops;
mod targets;

use std::collections::BTreeMap;

use graph_core::JsonFieldKind;
use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::Value;

pub use self::{
    call::{Call, EditSpec, InputCommand},
    stops::StopsSpec,
    targets::{TargetSpec, Targets},
};

use crate::expr::Expr;

/// A graph, a script of calls on the graph, and LangGraph's answers to these calls.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    pub id: String,
    pub about: String,
    pub graph: GraphSpec,
    /// Calls on the graph, in order.
    pub script: Vec<Call>,
    /// Answers recorded from LangGraph, one per call.
    pub expect: Vec<Value>,
}

impl Case {
    /// Returns whether a node of the case runs a graph itself. If the task of such a node is sent to another process,
    /// the node starts twice, so the answers contain an additional call.
    pub fn runs_graphs_in_nodes(&self) -> bool {
        // The operation may be in any graph and in any handler.
        format!("{:?}", self.graph).contains("Call {")
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GraphSpec {
    /// State fields and their kinds. Their order is that of the schema.
    pub state: IndexMap<String, Kind>,
    /// Fields of the input schema. `None` means all fields.
    pub input: Option<Vec<String>>,
    /// Fields of the output schema. `None` means all fields.
    pub output: Option<Vec<String>>,
    pub nodes: BTreeMap<String, NodeSpec>,
    /// Plain edges and joins.
    pub edges: Vec<(Sources, String)>,
    /// Conditional edges.
    #[serde(default)]
    pub branches: Vec<BranchSpec>,
    #[serde(default)]
    pub compile: CompileSpec,
}

/// Determines how a field combines writes.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    Last,
    Append,
    Sum,
    Merge,
    Max,
    Concat,
    Any,
    Ephemeral,
    Untracked,
    Topic,
    TopicAcc,
    IsLastStep,
    RemainingSteps,
}

impl From<Kind> for JsonFieldKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Last => Self::Last,
            Kind::Append => Self::Append,
            Kind::Sum => Self::Sum,
            Kind::Merge => Self::Merge,
            Kind::Max => Self::Max,
            Kind::Concat => Self::Concat,
            Kind::Any => Self::Any,
            Kind::Ephemeral => Self::Ephemeral,
            Kind::Untracked => Self::Untracked,
            Kind::Topic => Self::Topic,
            Kind::TopicAcc => Self::TopicAccumulate,
            Kind::IsLastStep => Self::IsLastStep,
            Kind::RemainingSteps => Self::RemainingSteps,
        }
    }
}

/// The source of an edge: one node, or several nodes that are joined.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Sources {
    /// The edge is a plain edge from this node.
    One(String),
    /// The edge is a join of these nodes.
    All(Vec<String>),
}

/// A node, which is either a list of operations or a subgraph.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NodeSpec {
    /// Operations of the node's body.
    pub ops: Vec<Op>,
    /// The subgraph, if the node is a subgraph.
    pub graph: Option<GraphSpec>,
    /// Whether the node runs only when no other node is left to run.
    pub defer: bool,
    pub retry: Option<u32>,
    /// Operations of the node's error handler.
    pub on_error: Option<Vec<Op>>,
    /// Fields that the node reads. `None` means all fields.
    pub reads: Option<Vec<String>>,
    /// Whether the results of the node are cached.
    pub cache: bool,
    /// Which history a subgraph has: one per visit (`None`), one per thread (`true`) or none (`false`).
    pub checkpointer: Option<bool>,
}

/// An operation that a node executes.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum Op {
    Write {
        write: IndexMap<String, Expr>,
    },
    Goto {
        goto: Targets,
    },
    GotoParent {
        goto_parent: Targets,
    },
    Commands {
        commands: Vec<CommandSpec>,
    },
    Interrupt {
        interrupt: Expr,
        r#as: String,
    },
    Fail {
        fail: String,
        times: u32,
        #[serde(default)]
        fatal: bool,
    },
    Emit {
        emit: Expr,
    },
    Sleep {
        sleep_ms: u64,
    },
    Call {
        call: Box<GraphSpec>,
        with: Expr,
        read: String,
        r#as: String,
        checkpointer: Option<bool>,
    },
    Raw {
        raw: Expr,
    },
}

/// A command in a list that a node returns.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommandSpec {
    pub update: Option<IndexMap<String, Expr>>,
    pub goto: Option<Targets>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BranchSpec {
    pub from: String,
    /// Rules of the branch. The first rule that is true determines the targets.
    pub rules: Vec<Rule>,
    /// Targets that are used if no rule is true.
    #[serde(default)]
    pub r#else: Targets,
    /// The targets that the branch may return.
    pub ends: Option<Vec<String>>,
    /// Map from labels to the names of nodes.
    pub map: Option<BTreeMap<String, String>>,
    /// Error message of the failure that the branch simulates.
    pub fail: Option<String>,
    /// Number of times that the branch fails.
    #[serde(default)]
    pub times: u32,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    pub r#if: Expr,
    /// Targets if the condition is true.
    pub to: Targets,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CompileSpec {
    pub interrupt_before: Option<StopsSpec>,
    pub interrupt_after: Option<StopsSpec>,
    /// Whether the graph has a checkpointer. The default is true.
    pub checkpointer: Option<bool>,
    /// Whether the graph has a cache.
    pub cache: bool,
}
