//! The trait that stores implement.

use std::fmt::Debug;

use async_trait::async_trait;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::store::{
    batch::{Op, OpOutput, unexpected_output},
    error::StoreError,
    item::Item,
    namespace::{Address, Namespace},
    put::Put,
    query::{Get, ListNamespaces, Search},
};

/// Stores and searches JSON objects by namespace and key.
///
/// A back end implements [`batch`](Self::batch), and [`sweep`](Self::sweep) if its items expire; the default
/// implementations of all other methods run a batch of one operation. `put`, `get` and `delete` are shorthands for
/// requests without options. The module [`backend`](super::backend) helps to implement a store, and the conformance
/// suite in the crate `checkpoint-testkit` tests the implementation.
///
/// A store can also wrap another one. This one rejects writes:
///
/// ```
/// use async_trait::async_trait;
/// use graph_core::store::{InMemoryStore, Op, OpOutput, Store, StoreError};
/// use serde_json::json;
///
/// #[derive(Debug)]
/// struct ReadOnly<S>(S);
///
/// #[async_trait]
/// impl<S: Store> Store for ReadOnly<S> {
///     async fn batch(&self, ops: Vec<Op>) -> Result<Vec<OpOutput>, StoreError> {
///         if ops.iter().any(|it| matches!(it, Op::Put(_) | Op::Delete(_))) {
///             return Err(StoreError::backend("the store is read-only"));
///         }
///         self.0.batch(ops).await
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), StoreError> {
/// let store = InMemoryStore::new();
/// store.put(&["cities"], "paris", json!({"country": "France"})).await?;
/// let store = ReadOnly(store);
/// assert!(store.get(&["cities"], "paris").await?.is_some());
/// assert!(store.delete(&["cities"], "paris").await.is_err());
/// # Ok(()) }
/// ```
#[async_trait]
pub trait Store: Debug + Send + Sync {
    /// Runs the operations in order. Returns one output per operation, in the variant that matches the operation.
    ///
    /// Whether a batch is atomic depends on the store.
    async fn batch(&self, ops: Vec<Op>) -> Result<Vec<OpOutput>, StoreError>;

    /// Removes expired items and returns the number of removed items.
    ///
    /// The default implementation does nothing, for stores whose items never expire.
    async fn sweep(&self) -> Result<usize, StoreError> {
        Ok(0)
    }

    /// Writes an item, replacing an existing one at the same address.
    ///
    /// A replaced item keeps its creation time.
    async fn put_item(&self, put: Put) -> Result<(), StoreError> {
        match self.batch(vec![Op::Put(put)]).await?.pop() {
            Some(OpOutput::Done) => Ok(()),
            other => Err(unexpected_output("a put", other.as_ref())),
        }
    }

    /// Returns an item, or `None` if it does not exist or has expired.
    async fn get_item(&self, get: Get) -> Result<Option<Item>, StoreError> {
        match self.batch(vec![Op::Get(get)]).await?.pop() {
            Some(OpOutput::Item(item)) => Ok(item),
            other => Err(unexpected_output("a get", other.as_ref())),
        }
    }

    /// Removes an item. Succeeds if the item does not exist.
    async fn delete_item(&self, at: Address) -> Result<(), StoreError> {
        match self.batch(vec![Op::Delete(at)]).await?.pop() {
            Some(OpOutput::Done) => Ok(()),
            other => Err(unexpected_output("a delete", other.as_ref())),
        }
    }

    /// Finds items under a namespace prefix.
    ///
    /// If the search has a query, items that have a vector also have a similarity score and are sorted by it, highest
    /// first. Items without a vector come last. Without a query, items are sorted by namespace and key.
    async fn search(&self, search: Search) -> Result<Vec<Item>, StoreError> {
        match self.batch(vec![Op::Search(search)]).await?.pop() {
            Some(OpOutput::Items(items)) => Ok(items),
            other => Err(unexpected_output("a search", other.as_ref())),
        }
    }

    /// Lists the namespaces that contain items, sorted.
    async fn list_namespaces(&self, list: ListNamespaces) -> Result<Vec<Namespace>, StoreError> {
        match self.batch(vec![Op::List(list)]).await?.pop() {
            Some(OpOutput::Namespaces(namespaces)) => Ok(namespaces),
            other => Err(unexpected_output("a listing", other.as_ref())),
        }
    }

    /// Writes an item with this value, which must be an object. Use [`put_item`](Self::put_item) to set options.
    async fn put(&self, namespace: &[&str], key: &str, value: Value) -> Result<(), StoreError> {
        self.put_item(Put::new(namespace, key, value)?).await
    }

    /// Returns the item with this key. Use [`get_item`](Self::get_item) to set options.
    async fn get(&self, namespace: &[&str], key: &str) -> Result<Option<Item>, StoreError> {
        self.get_item(Get::new(namespace, key)?).await
    }

    /// Removes the item with this key.
    async fn delete(&self, namespace: &[&str], key: &str) -> Result<(), StoreError> {
        self.delete_item(Address::new(namespace, key)?).await
    }
}

impl dyn Store {
    /// Returns the value of the item with this key, deserialised as a `T`. See also [`Item::value_as`].
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use graph_core::store::{InMemoryStore, Store};
    /// # use serde_json::json;
    /// #[derive(serde::Deserialize)]
    /// struct Profile { name: String }
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let store: Arc<dyn Store> = Arc::new(InMemoryStore::new());
    /// store.put(&["users", "ada"], "profile", json!({"name": "Ada"})).await?;
    /// let profile: Option<Profile> = store.get_as(&["users", "ada"], "profile").await?;
    /// assert_eq!(profile.expect("the item was put").name, "Ada");
    /// # Ok(()) }
    /// ```
    pub async fn get_as<T: DeserializeOwned>(
        &self,
        namespace: &[&str],
        key: &str,
    ) -> Result<Option<T>, StoreError> {
        self.get(namespace, key).await?.as_ref().map(Item::value_as).transpose()
    }
}
