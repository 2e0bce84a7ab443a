//! Graphs. A graph is declared with [`StateGraph`](crate::StateGraph); `compile` validates it and makes it immutable.

pub(crate) mod branch;
pub(crate) mod build;
pub(crate) mod build_error;
pub(crate) mod compiled;
mod declaration;
pub mod draw;
pub(crate) mod endpoint;
pub(crate) mod erased;
pub(crate) mod fields;
pub(crate) mod find_subgraph;
pub(crate) mod into_node;
mod migrate;
mod paths;
pub(crate) mod run_options;
#[cfg(feature = "schema")]
mod schema;
pub(crate) mod stops;
mod validate;
