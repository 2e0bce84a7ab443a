//! Dynamic graphs: graphs with a JSON state whose fields are chosen at run time.
//!
//! ```
//! use graph_core::{END, JsonFieldKind, JsonStateSchema, START, json_node};
//! use serde_json::json;
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let schema = JsonStateSchema::new([("log", JsonFieldKind::Append), ("topic", JsonFieldKind::Last)])?;
//! let graph = schema
//!     .graph()
//!     .node(json_node("greet", |input, _| async move {
//!         let topic = input.get("topic").cloned().unwrap_or_default();
//!         Ok(json!({"log": [format!("hello {topic}")]}))
//!     }))
//!     .edge(START, "greet")
//!     .edge("greet", END)
//!     .compile()?;
//! let output = graph.invoke(schema.input(json!({"topic": "rust"}))?, ()).await?;
//! assert_eq!(output.to_value(), json!({"topic": "rust", "log": ["hello \"rust\""]}));
//! # Ok(()) }
//! ```

pub(crate) mod branch;
pub(crate) mod field_kind;
pub(crate) mod input;
pub(crate) mod node;
mod slot;
pub(crate) mod state;
pub(crate) mod subgraph;
#[cfg(test)]
mod tests;

pub use self::{
    branch::{JsonBranch, UnknownLabelError},
    field_kind::{JsonFieldKind, JsonReducer, ReducedField, ReducedWrite},
    input::JsonInput,
    node::{JsonCommand, JsonNode, JsonReturn, json_node},
    slot::Decoded,
    state::{JsonState, JsonStateSchema, JsonUpdate},
    subgraph::json_subgraph,
};
