//! Stored items.

use std::time::SystemTime;

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::store::{
    error::StoreError,
    namespace::{Address, Namespace},
};

/// A stored value with its address and timestamps.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Item {
    /// Namespace of the item.
    pub namespace: Namespace,
    /// Key of the item within the namespace.
    pub key: String,
    /// The value, always an object.
    pub value: Value,
    /// Time of the first put.
    pub created_at: SystemTime,
    /// Time of the last put.
    pub updated_at: SystemTime,
    /// Similarity to the query, from -1 to 1. `None` if there is no query or the item has no vector.
    pub score: Option<f32>,
}

impl Item {
    /// Creates an item without a score. Intended for implementations of [`Store`](super::Store).
    pub fn new(at: Address, value: Value, created_at: SystemTime, updated_at: SystemTime) -> Self {
        let Address { namespace, key } = at;
        Self { namespace, key, value, created_at, updated_at, score: None }
    }

    /// Deserialises the value as a `T`.
    pub fn value_as<T: DeserializeOwned>(&self) -> Result<T, StoreError> {
        T::deserialize(&self.value).map_err(|source| StoreError::Decode {
            at: Address { namespace: self.namespace.clone(), key: self.key.clone() },
            expected: std::any::type_name::<T>(),
            source,
        })
    }
}
