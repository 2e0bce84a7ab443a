//! Item: what a store gives back.

use std::time::SystemTime;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Address, Namespace, StoreError};

/// One stored value, where it lies and when it was written.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Item {
    /// The namespace it lies in.
    pub namespace: Namespace,
    /// Its name there.
    pub key: String,
    /// The value, always an object.
    pub value: Value,
    /// When it was first put.
    pub created_at: SystemTime,
    /// When it was last put.
    pub updated_at: SystemTime,
    /// How similar it is to the query, from -1 to 1; `None` without a query or a vector.
    pub score: Option<f32>,
}

impl Item {
    /// Makes an item that no query has scored, for a back end to give out.
    pub fn new(at: Address, value: Value, created_at: SystemTime, updated_at: SystemTime) -> Self {
        let Address { namespace, key } = at;
        Self { namespace, key, value, created_at, updated_at, score: None }
    }

    /// Reads the value as a `T`.
    pub fn value_as<T: DeserializeOwned>(&self) -> Result<T, StoreError> {
        T::deserialize(&self.value).map_err(|source| StoreError::Decode {
            at: Address { namespace: self.namespace.clone(), key: self.key.clone() },
            wanted: std::any::type_name::<T>(),
            source,
        })
    }
}
