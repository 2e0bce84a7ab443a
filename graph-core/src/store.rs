//! Store: long-term memory that outlives threads and is shared by all runs of a graph.
//!
//! An item is a JSON object stored under a [`Namespace`] and a key. Nodes use the trait [`Store`]; [`InMemoryStore`] is
//! an implementation that needs no setup. Requests are validated when they are built, so invalid input fails before
//! anything is written.
//!
//! ```
//! use std::{sync::Arc, time::Duration};
//! use graph_core::store::{Filter, InMemoryStore, Put, Search, Store};
//! use serde_json::json;
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let store: Arc<dyn Store> = Arc::new(InMemoryStore::new());
//! store.put(&["users", "ada"], "profile", json!({"name": "Ada", "age": 36})).await?;
//!
//! let visit = Put::new(&["users", "ada"], "visit", json!({"page": "/"}))?;
//! store.put_item(visit.ttl(Duration::from_secs(3600))).await?;
//!
//! let profile = store.get(&["users", "ada"], "profile").await?.expect("the item was put");
//! assert_eq!(profile.value["name"], "Ada");
//!
//! let adults = store.search(Search::under(&["users"])?.filter(Filter::gte("age", 18))).await?;
//! assert_eq!(adults, [profile]);
//! # Ok(()) }
//! ```

pub mod backend;
pub(crate) mod batch;
pub(crate) mod error;
pub(crate) mod filter;
pub(crate) mod index;
pub(crate) mod interface;
pub(crate) mod item;
pub(crate) mod memory;
pub(crate) mod namespace;
pub(crate) mod path;
pub(crate) mod put;
pub(crate) mod query;
#[cfg(test)]
mod tests;
pub(crate) mod ttl;
mod validate;

pub use self::{
    batch::{Op, OpOutput},
    error::StoreError,
    filter::{Comparison, Filter, FilterError},
    index::{Embed, IndexConfig, similarity},
    interface::Store,
    item::Item,
    memory::InMemoryStore,
    namespace::{Address, Namespace},
    path::FieldPath,
    put::{Index, Put},
    query::{Get, ListNamespaces, Search},
    ttl::{Ttl, TtlConfig},
};
