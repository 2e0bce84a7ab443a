//! A compiled graph of a case.

use graph_core::{CompiledGraph, JsonState, JsonStateSchema, Persistence};

/// A compiled graph with its schema.
pub(crate) struct BuiltGraph {
    pub(crate) graph: CompiledGraph<JsonState>,
    pub(crate) schema: JsonStateSchema,
}

/// Converts the option `checkpointer` of a subgraph to the persistence of the subgraph.
pub(crate) fn persistence(checkpointer: Option<bool>) -> Persistence {
    match checkpointer {
        None => Persistence::Invocation,
        Some(true) => Persistence::Thread,
        Some(false) => Persistence::None,
    }
}
