//! The cases as they stand in the files: see `fixtures/conformance/FORMAT.md`.
//!
//! Unknown keys are refused: a word of the format that the driver does not know must not pass for one that it does.

mod call;

use std::{collections::BTreeMap, fmt, marker::PhantomData};

use graph_core::{JsonKind, Stops};
use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::Value;

pub use call::{Call, DurabilitySpec, EditSpec, InputCommand};

use crate::expr::Expr;

/// A graph, a script of calls on it, and what LangGraph answered.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Its name.
    pub id: String,
    /// What it is about.
    pub about: String,
    /// The graph.
    pub graph: GraphSpec,
    /// The calls.
    pub script: Vec<Call>,
    /// The answers to them.
    pub expect: Vec<Value>,
}

/// A graph as data.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GraphSpec {
    /// The fields and their kinds.
    pub state: InOrder<Kind>,
    /// The fields taken from an input, if not all are.
    pub input: Option<Vec<String>>,
    /// The fields that come out, if not all do.
    pub output: Option<Vec<String>>,
    /// The nodes by name.
    pub nodes: BTreeMap<String, NodeSpec>,
    /// The plain edges and the joins.
    pub edges: Vec<(Sources, String)>,
    /// The conditional edges.
    #[serde(default)]
    pub branches: Vec<BranchSpec>,
    /// What is said at compile.
    #[serde(default)]
    pub compile: CompileSpec,
}

/// The entries of an object, in the order of the text: it is the order of a schema, and of a node's writes.
#[derive(Clone, Debug)]
pub struct InOrder<V>(pub Vec<(String, V)>);

impl<'de, V: Deserialize<'de>> Deserialize<'de> for InOrder<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries<V>(PhantomData<V>);
        impl<'de, V: Deserialize<'de>> Visitor<'de> for Entries<V> {
            type Value = InOrder<V>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(InOrder(entries))
            }
        }
        deserializer.deserialize_map(Entries(PhantomData))
    }
}

/// What a field does with writes.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the words of the format, explained there")]
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

impl From<Kind> for JsonKind {
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
            Kind::TopicAcc => Self::TopicKept,
            Kind::IsLastStep => Self::IsLastStep,
            Kind::RemainingSteps => Self::RemainingSteps,
        }
    }
}

/// Where an edge comes from: a node, or all of several.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Sources {
    /// A plain edge.
    One(String),
    /// A join.
    All(Vec<String>),
}

/// A node: ops, or a graph.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NodeSpec {
    /// What its body does.
    pub ops: Vec<Op>,
    /// The graph, where the node is one.
    pub graph: Option<GraphSpec>,
    /// Whether it runs only when nothing else would.
    pub defer: bool,
    /// How many attempts it has in all.
    pub retry: Option<u32>,
    /// What its error handler does.
    pub on_error: Option<Vec<Op>>,
    /// The fields it sees, if not all.
    pub reads: Option<Vec<String>>,
    /// Whether its results are cached.
    pub cache: bool,
    /// What a graph keeps: its own history each visit, one a thread (true), or nothing (false).
    pub checkpointer: Option<bool>,
}

/// One thing that a node does.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
#[expect(missing_docs, reason = "the words of the format, explained there")]
pub enum Op {
    Write {
        write: InOrder<Expr>,
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

/// A command that a node returns among others.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommandSpec {
    /// What it writes.
    pub update: Option<InOrder<Expr>>,
    /// Where it goes.
    pub goto: Option<Targets>,
}

/// Places to go to; null is what a branch answers that answers nothing.
pub type Targets = Option<Vec<Option<TargetSpec>>>;

/// One place to go to.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum TargetSpec {
    /// A node, END, or a label of the branch's map.
    Name(String),
    /// A Send, or one for each item of a list.
    Send {
        /// The node.
        send: String,
        /// The list.
        each: Option<Expr>,
        /// What is sent.
        arg: Expr,
    },
}

/// A conditional edge.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BranchSpec {
    /// The node it follows.
    pub from: String,
    /// The first that holds gives the targets.
    pub rules: Vec<Rule>,
    /// The targets where none holds.
    #[serde(default)]
    pub r#else: Targets,
    /// Where it can lead.
    pub ends: Option<Vec<String>>,
    /// Labels and the nodes they stand for.
    pub map: Option<BTreeMap<String, String>>,
    /// What it fails with.
    pub fail: Option<String>,
    /// How often it fails.
    #[serde(default)]
    pub times: u32,
}

/// One rule of a branch.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// When it holds.
    pub r#if: Expr,
    /// Where it leads.
    pub to: Targets,
}

/// What is said at compile.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CompileSpec {
    /// The static stops before nodes.
    pub interrupt_before: Option<StopsSpec>,
    /// The static stops after nodes.
    pub interrupt_after: Option<StopsSpec>,
    /// Whether there is a checkpointer; there is unless it is said.
    pub checkpointer: Option<bool>,
    /// Whether there is a cache.
    pub cache: bool,
}

/// Nodes to stop at: a list, or `"*"`.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum StopsSpec {
    /// These.
    At(Vec<String>),
    /// All of them.
    Everywhere(Star),
}

/// The text `*`.
#[derive(Clone, Copy, Debug, Deserialize)]
pub enum Star {
    /// It.
    #[serde(rename = "*")]
    Star,
}

impl StopsSpec {
    /// Whether it names no node at all.
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::At(nodes) if nodes.is_empty())
    }
}

impl From<&StopsSpec> for Stops {
    fn from(stops: &StopsSpec) -> Self {
        match stops {
            StopsSpec::At(nodes) => Self::at(nodes.clone()),
            StopsSpec::Everywhere(Star::Star) => Self::Everywhere,
        }
    }
}
