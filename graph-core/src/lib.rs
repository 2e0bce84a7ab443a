//! A graph engine for LLM agents.
//!
//! Nodes are plain async functions, the state is a plain struct, and a run is a sequence of supersteps. Runs can be
//! checkpointed, interrupted, streamed and replayed; graphs can be drawn.
//!
//! ```
//! use graph_core::{END, Route, START, State, StateGraph};
//!
//! #[derive(State, Clone, Debug, Default)]
//! struct Essay {
//!     topic: String,
//!     #[reduce(append)]
//!     drafts: Vec<String>,
//! }
//!
//! async fn write(essay: &Essay) -> EssayUpdate {
//!     Essay::update().drafts([format!("On {}", essay.topic)])
//! }
//!
//! #[derive(Route)]
//! enum Verdict {
//!     #[to(write)]
//!     Again,
//!     #[to(END)]
//!     Good,
//! }
//!
//! fn review(essay: &Essay) -> Verdict {
//!     if essay.drafts.len() < 3 { Verdict::Again } else { Verdict::Good }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let graph = StateGraph::<Essay>::new()
//!     .node(write)
//!     .edge(START, write)
//!     .branch(write, review)
//!     .compile()?;
//! let essay = graph.invoke(Essay { topic: "rust".into(), ..Default::default() }, ()).await?;
//! assert_eq!(essay.drafts.len(), 3);
//! # Ok(()) }
//! ```
//!
//! # Concepts
//!
//! - The **state** is one value that all nodes of a graph share. A node returns an **update** to some fields of the
//!   state, and each field has a **reducer** that combines the writes of one step. See [`State`].
//! - A run is a sequence of **supersteps**. All **tasks** of a superstep run concurrently: one for each node that an
//!   edge leads to, and one for each payload that was sent. Writes become visible when the step ends. They are folded
//!   in task order, not in order of completion, so runs are deterministic. See [`StateGraph`].
//! - A **thread** is a state that a [`Checkpointer`] stores across runs. It can be resumed after a failure, an
//!   interrupt ([`Context::interrupt`]) or a crash. It can also be edited, and rewound to an earlier checkpoint. See
//!   [`Thread`].
//! - An **effect** is an external call whose result is journaled, so a node that runs again does not repeat the call.
//!   See [`Context::task`].
//! - A **stream** delivers the events of a run as they happen. See [`RunStream`].
//!
//! # Guide
//!
//! The book has a chapter on each subject. The links work after `cargo xtask book`, which renders the book beside this
//! documentation; the text is in `book/chapters`.
//!
//! | chapter | main items |
//! |---|---|
//! | [Getting started](../book/getting-started.html), [Coming from LangGraph](../book/from-langgraph.html) | [`StateGraph`], [`CompiledGraph`] |
//! | [State and reducers](../book/state.html) | [`State`], [`reduce`], [`Overwrite`], [`Migrations`], [`json`] |
//! | [Nodes, edges, routes, sends](../book/nodes.html) | [`node`], [`Route`], [`Command`], [`send`], [`goto`](goto()) |
//! | [Eager graphs](../book/eager.html) | [`StateGraph::eager`], [`NodeExt`] |
//! | [Subgraphs](../book/subgraphs.html) | [`subgraph`](subgraph()), [`Persistence`] |
//! | [Threads, checkpoints, durability](../book/threads.html) | [`Thread`], [`Checkpointer`], [`Durability`] |
//! | [Interrupts and human review](../book/interrupts.html) | [`Context::interrupt`], [`RunOutcome`], [`Stops`] |
//! | [Time travel](../book/time-travel.html) | [`Thread::at`], [`Thread::history`], [`AsNode`] |
//! | [Streaming](../book/streaming.html) | [`RunStream`], [`StreamMode`], [`RunControl`] |
//! | [Functional API](../book/functional.html) | [`Entrypoint`] |
//! | [Store and memory](../book/store.html) | [`store`] |
//! | [Errors, retries, timeouts, caching](../book/errors.html) | [`NodeError`], [`RunError`], [`NodeExt`], [`RetryPolicy`], [`cache`] |
//! | [Effects and idempotency](../book/effects.html) | [`Context::task`], [`EffectInterceptor`] |
//!
//! These chapters are about the crates that build on this one. The links to the crates work after `cargo doc --no-deps
//! --workspace`.
//!
//! | chapter | crate |
//! |---|---|
//! | [Traces and snapshot tests](../book/traces.html) | [`graph_trace`](../graph_trace/index.html) |
//! | [Models](../book/models.html) | [`llm`](../llm/index.html) |
//! | [Agents](../book/agents.html), [Tools](../book/tools.html), [Middleware](../book/middleware.html), [Several agents](../book/several-agents.html), [MCP](../book/mcp.html) | [`graph_agents`](../graph_agents/index.html) |
//! | [Sandboxes](../book/sandboxes.html) | [`sandbox_vm`](../sandbox_vm/index.html) |
//! | [Studio](../book/studio.html), [Serving graphs](../book/serving.html), [Using LangGraph's clients](../book/clients.html) | [`graph_server`](../graph_server/index.html) |
//! | [Running on several machines](../book/cluster.html) | [`graph_cluster`](../graph_cluster/index.html) |
//! | [Operating it](../book/operations.html) | [`graph_store`](../graph_store/index.html) and others |
//! | [Case study: the consulting pipeline](../book/consulting.html), [Does debating help?](../book/ablation.html), [Benchmarks](../book/benchmarks.html), [Threat model](../book/threat-model.html), [Open issues of LangGraph](../book/langgraph-issues.html) | |
#![forbid(unsafe_code)]

/// Compiles and runs the README's examples as documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;

pub mod cache;
#[doc(hidden)]
pub mod checked;
pub mod checkpoint;
pub mod command;
mod context;
mod control;
mod effects;
mod engine;
mod entrypoint;
mod error;
#[doc(hidden)]
pub mod error_chain;
mod goto;
mod graph;
mod interrupt;
pub mod json;
mod label;
mod namespace;
pub mod node;
mod policy;
mod random;
pub mod remote;
mod run;
mod runs_graph;
mod shared;
mod spans;
pub mod state;
pub mod store;
pub mod stream;
mod subgraph;
mod suggestion;
mod sync;

pub use cache::MemoryCache;
pub use checkpoint::{memory::MemorySaver, saver::Checkpointer, writer::Durability};
pub use command::{
    Command,
    route::{NoRoute, Route},
    target::{goto, send},
};
pub use context::{Context, ResumeValueError, journal::JournalError, task::NodeFailure};
pub use control::RunControl;
pub use effects::{DivergenceError, EffectCall, EffectDecision, EffectInterceptor, RecordedError};
pub use engine::{
    edit::AsNode,
    thread_state::{TaskState, ThreadState},
};
pub use entrypoint::{CompiledEntrypoint, Entrypoint, EntrypointOutcome, EntrypointThread, Final};
pub use error::{
    IgnoredInterruptError, NodeError, NodePanicError, NodeTimeoutError, RunError, Terminal,
    UndeclaredError, UnknownTargetError, WriteConflictError,
};
pub use goto::Goto;
pub use graph::{
    build::StateGraph,
    build_error::{BuildError, BuildProblem},
    compiled::CompiledGraph,
    draw,
    into_node::{IntoErrorHandler, IntoNode, NodeShape},
    run_options::RunOptions,
    stops::Stops,
};
/// ```
/// use graph_core::{END, Route, State};
///
/// #[derive(State, Clone, Debug, Default)]
/// struct Essay {
///     drafts: u32,
/// }
///
/// async fn write(essay: &Essay) -> EssayUpdate {
///     Essay::update().drafts(essay.drafts + 1)
/// }
///
/// #[derive(Route)]
/// enum Verdict {
///     #[to(write)]
///     Again,
///     #[to(END)]
///     Good,
/// }
///
/// /// A branch: `graph.branch(write, review)`.
/// fn review(essay: &Essay) -> Verdict {
///     if essay.drafts < 3 { Verdict::Again } else { Verdict::Good }
/// }
/// ```
pub use graph_macros::Route;
/// ```
/// use graph_core::State;
///
/// #[derive(State, Clone, Debug, Default)]
/// struct Essay {
///     topic: String,
///     #[reduce(append)]
///     drafts: Vec<String>,
/// }
///
/// /// A node: it replaces the topic and appends a draft.
/// async fn write(essay: &Essay) -> EssayUpdate {
///     Essay::update().topic("tea").drafts([format!("Draft {}", essay.drafts.len() + 1)])
/// }
/// ```
pub use graph_macros::State;
pub use interrupt::{Interrupt, ResumeValue, StopReason};
pub use json::{
    field_kind::JsonFieldKind,
    node::json_node,
    state::{JsonState, JsonStateSchema},
};
pub use label::{END, End, Label, START, Start};
pub use namespace::Persistence;
pub use node::{named::named, options::NodeExt};
pub use policy::{CachePolicy, RetryPolicy, TaskOptions};
pub use run::{
    future::RunFuture,
    history::HistoryFilter,
    input::{Input, IntoInput},
    outcome::RunOutcome,
    stream::RunStream,
    subgraph_thread::SubgraphThread,
    thread::{StateEdit, Thread},
};
pub use runs_graph::{RunsGraph, runs_graph};
pub use shared::IntoShared;
pub use state::{
    State, field::FieldWrite, fold::Overwrite, migrate::Migrations, reduce, reduce::Reducer,
};
pub use stream::{Event, EventKind, StreamMode};
pub use subgraph::{SubgraphNode, SubgraphSource, subgraph, subgraph_on_payload};

#[doc(hidden)]
pub use serde_json;

/// The engine's version, as recorded in traces.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
