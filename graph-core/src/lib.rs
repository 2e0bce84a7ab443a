//! A graph engine for LLM agents: nodes are plain async functions, the state is a plain struct, and a run is a
//! sequence of supersteps that can be stored, interrupted, streamed, replayed and drawn.
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
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let graph = StateGraph::<Essay>::new()
//!     .node(write)
//!     .edge(START, write)
//!     .branch(write, review)
//!     .compile()?;
//! let essay = graph.run(Essay { topic: "rust".into(), ..Default::default() }, ()).await?;
//! assert_eq!(essay.drafts.len(), 3);
//! # Ok(())
//! # }
//! ```
//!
//! # The words
//!
//! - The **state** is one value that all nodes of a graph share; a node returns an **update** of some of its fields,
//!   and each field has a **reducer** that says what becomes of several writes in one step. See [`State`].
//! - A run is a sequence of **supersteps**. In each, all **tasks** run at once: the nodes that edges lead to, and one
//!   task for each payload that was sent. Nothing a task writes is visible before the step ends, and writes are
//!   folded in the order of the tasks' names, so a run gives the same result twice. See [`StateGraph`].
//! - A **thread** is a run's state kept by a [`Checkpointer`]: it can go on after a failure, a question
//!   ([`Context::interrupt`]) or a crash, be edited, and be gone back in. See [`Thread`].
//! - An **effect** is an outside call that is journaled, so that a node which runs again does not repeat it. See
//!   [`Context::task`].
//! - A **stream** is a run's events as they happen. See [`RunStream`].
#![forbid(unsafe_code)]

/// The README's program is compiled and run with the documentation's examples.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;

pub mod cache;
pub mod checkpoint;
pub mod command;
mod context;
mod effects;
mod engine;
mod entrypoint;
mod error;
mod graph;
pub mod json;
mod label;
pub mod node;
mod random;
mod router;
mod run;
#[cfg(feature = "schema")]
mod schema;
mod spans;
pub mod state;
pub mod store;
pub mod stream;
mod subgraph;

pub use cache::MemoryCache;
pub use checkpoint::{Checkpointer, MemorySaver};
pub use command::{Command, Goto, Route, goto, send};
pub use context::{BadAnswer, BadEffect, Context, Failure};
pub use effects::{Diverged, EffectCall, Effects, Recall, RecordedError};
pub use engine::{
    Durability,
    edit::AsNode,
    inspect::{SubgraphState, TaskState},
};
pub use entrypoint::{CompiledEntrypoint, EntryExit, EntryThread, Entrypoint, Final};
pub use error::{
    BuildError, Conflict, Interrupt, NodeError, NodePanic, NodeTimeout, Problem, RunError, Stop,
    Terminal, UnknownTarget,
};
pub use graph::{StateGraph, Stops, draw};
pub use graph_macros::{Route, State};
pub use json::{JsonKind, JsonSchema, JsonState, json_node};
pub use label::{END, End, Label, START, Start};
pub use node::options::{CachePolicy, Configure, Retry};
pub use run::{
    CompiledGraph, Control, Edit, Exit, Input, RunOptions, RunStream, Thread, ThreadState,
};
pub use state::{FieldWrite, Overwrite, State, migrate::Migrations, reduce};
pub use stream::{Event, EventKind, Mode};
pub use subgraph::{Persistence, SubgraphNode, subgraph, subgraph_on};

#[doc(hidden)]
pub use serde_json;

/// The engine's version, as it stands in traces.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
