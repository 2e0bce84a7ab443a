//! A typed StateGraph engine for agents.
#![forbid(unsafe_code)]

pub mod cache;
pub mod checkpoint;
pub mod command;
mod context;
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
pub mod state;
pub mod store;
pub mod stream;
mod subgraph;

pub use cache::MemoryCache;
pub use checkpoint::{Checkpointer, MemorySaver};
pub use command::{Command, Goto, Route, goto, send};
pub use context::{BadAnswer, BadEffect, Context, Failure};
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
