//! Store: long-term memory that outlives a thread, shared by all runs of a graph.
//!
//! An item is a JSON object under a [`Namespace`] and a key.
//! [`Store`] is what a node sees; [`InMemoryStore`] is the one that needs no set-up.
//! Requests check their input when they are made, so a store only ever receives
//! valid ones: an error comes before anything is written.
//!
//! ```
//! use std::{sync::Arc, time::Duration};
//! use graph_core::store::{Filter, InMemoryStore, Put, Search, Store};
//! use serde_json::json;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let store: Arc<dyn Store> = Arc::new(InMemoryStore::new());
//! store.put(&["users", "ada"], "profile", json!({"name": "Ada", "age": 36})).await?;
//!
//! let visit = Put::new(&["users", "ada"], "visit", json!({"page": "/"}))?;
//! store.put_item(visit.ttl(Duration::from_secs(3600))).await?;
//!
//! let profile = store.get(&["users", "ada"], "profile").await?.expect("it was put");
//! assert_eq!(profile.value["name"], "Ada");
//!
//! let adults = store.search(Search::under(&["users"])?.filter(Filter::gte("age", 18))).await?;
//! assert_eq!(adults, [profile]);
//! # Ok(())
//! # }
//! ```

pub mod backend;
mod batch;
mod error;
mod filter;
mod index;
mod item;
mod memory;
mod namespace;
mod path;
mod put;
mod query;
#[cfg(feature = "testkit")]
pub mod testkit;
#[cfg(test)]
mod tests;
mod ttl;

use std::fmt::Debug;

use async_trait::async_trait;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use self::{
    batch::{Op, Outcome},
    error::StoreError,
    filter::{Comparison, Filter, FilterError},
    index::{Embed, IndexConfig, similarity},
    item::Item,
    memory::InMemoryStore,
    namespace::{Address, Namespace},
    path::FieldPath,
    put::{Index, Put},
    query::{Get, ListNamespaces, Search},
    ttl::{Ttl, TtlConfig},
};

/// Keeps JSON objects under namespaces and keys, and finds them again.
///
/// A back end writes [`batch`](Self::batch), and [`sweep`](Self::sweep) if its items expire; all the others are
/// batches of one. `put`, `get` and `delete` are the short forms for requests without options.
/// [`backend`] has what most back ends need, and an implementation passes the suite in
/// [`testkit`](crate::store) (feature `testkit`).
#[async_trait]
pub trait Store: Debug + Send + Sync {
    /// Runs operations in the order given, with one outcome for each, of the kind that belongs to it.
    ///
    /// Whether they are done whole or not at all is the store's to promise.
    async fn batch(&self, ops: Vec<Op>) -> Result<Vec<Outcome>, StoreError>;

    /// Removes the items that have expired, and says how many.
    ///
    /// By default there is nothing to do: not every store has items that expire.
    async fn sweep(&self) -> Result<usize, StoreError> {
        Ok(0)
    }

    /// Writes an item, replacing the one at the same address.
    ///
    /// The time of creation is that of the first put.
    async fn put_item(&self, put: Put) -> Result<(), StoreError> {
        match self.batch(vec![Op::Put(put)]).await?.pop() {
            Some(Outcome::Done) => Ok(()),
            other => Err(StoreError::wrong_outcome("a put", other.as_ref())),
        }
    }

    /// Reads one item; `None` if there is none or it has expired.
    async fn get_item(&self, get: Get) -> Result<Option<Item>, StoreError> {
        match self.batch(vec![Op::Get(get)]).await?.pop() {
            Some(Outcome::Item(item)) => Ok(item),
            other => Err(StoreError::wrong_outcome("a get", other.as_ref())),
        }
    }

    /// Removes one item; a missing one is no error.
    async fn delete_item(&self, at: Address) -> Result<(), StoreError> {
        match self.batch(vec![Op::Delete(at)]).await?.pop() {
            Some(Outcome::Done) => Ok(()),
            other => Err(StoreError::wrong_outcome("a delete", other.as_ref())),
        }
    }

    /// Finds items under a namespace prefix.
    ///
    /// With a query, the most similar come first and carry a score, and items that
    /// have no vector follow; otherwise the order is that of namespace and key.
    async fn search(&self, search: Search) -> Result<Vec<Item>, StoreError> {
        match self.batch(vec![Op::Search(search)]).await?.pop() {
            Some(Outcome::Items(items)) => Ok(items),
            other => Err(StoreError::wrong_outcome("a search", other.as_ref())),
        }
    }

    /// Lists the namespaces that hold items, in order.
    async fn list_namespaces(&self, list: ListNamespaces) -> Result<Vec<Namespace>, StoreError> {
        match self.batch(vec![Op::List(list)]).await?.pop() {
            Some(Outcome::Namespaces(namespaces)) => Ok(namespaces),
            other => Err(StoreError::wrong_outcome("a listing", other.as_ref())),
        }
    }

    /// Writes `value`, which must be an object; [`Put`] has the options.
    async fn put(&self, namespace: &[&str], key: &str, value: Value) -> Result<(), StoreError> {
        self.put_item(Put::new(namespace, key, value)?).await
    }

    /// Reads the item at `key`; [`Get`] has the options.
    async fn get(&self, namespace: &[&str], key: &str) -> Result<Option<Item>, StoreError> {
        self.get_item(Get::new(namespace, key)?).await
    }

    /// Removes the item at `key`.
    async fn delete(&self, namespace: &[&str], key: &str) -> Result<(), StoreError> {
        self.delete_item(Address::new(namespace, key)?).await
    }
}

impl dyn Store {
    /// Reads the value at `key` as a `T`; see also [`Item::value_as`].
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use graph_core::store::{InMemoryStore, Store};
    /// # use serde_json::json;
    /// #[derive(serde::Deserialize)]
    /// struct Profile { name: String }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let store: Arc<dyn Store> = Arc::new(InMemoryStore::new());
    /// store.put(&["users", "ada"], "profile", json!({"name": "Ada"})).await?;
    /// let profile: Option<Profile> = store.get_as(&["users", "ada"], "profile").await?;
    /// assert_eq!(profile.expect("it was put").name, "Ada");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn get_as<T: DeserializeOwned>(
        &self,
        namespace: &[&str],
        key: &str,
    ) -> Result<Option<T>, StoreError> {
        self.get(namespace, key).await?.as_ref().map(Item::value_as).transpose()
    }
}
