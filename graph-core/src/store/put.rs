//! Requests to write an item.

use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::{
    state::{field::json_type, limits},
    store::{error::StoreError, namespace::Address, path::FieldPath, ttl::Ttl},
};

/// A request to write an item.
///
/// ```
/// use std::time::Duration;
/// use graph_core::store::Put;
/// use serde_json::json;
///
/// let note = json!({"title": "Tea", "text": "Ada prefers green tea."});
/// let put = Put::new(&["users", "ada", "notes"], "tea", note)?
///     .ttl(Duration::from_secs(60))
///     .index(&["text"])?;
/// assert_eq!(put.at.to_string(), "users.ada.notes/tea");
/// # Ok::<(), graph_core::store::StoreError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
#[must_use = "a put does nothing until it is passed to a store"]
pub struct Put {
    /// Address of the item.
    pub at: Address,
    /// Value to write.
    pub value: Map<String, Value>,
    /// Selects the fields to index.
    pub index: Index,
    /// Lifetime of the item.
    pub ttl: Ttl,
}

/// The fields of an item that are indexed for searches with a query.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Index {
    /// Indexes the fields of the store's [`IndexConfig`](super::IndexConfig).
    #[default]
    Default,
    /// Indexes nothing. The item has no score in searches with a query.
    Skip,
    /// Indexes these fields instead of the fields of the store's index.
    Fields(Vec<FieldPath>),
}

impl Put {
    /// Creates a request that writes `value`, which must serialise to a JSON object.
    pub fn new(
        namespace: &[impl AsRef<str>],
        key: &str,
        value: impl Serialize,
    ) -> Result<Self, StoreError> {
        let at = Address::new(namespace, key)?;
        let found = match serde_json::to_value(value) {
            Ok(value) => match limits::ensure_depth("", value) {
                Ok(Value::Object(value)) => {
                    return Ok(Self { at, value, index: Index::Default, ttl: Ttl::Default });
                }
                Ok(other) => json_type(&other),
                Err(_) => return Err(StoreError::TooDeep { at }),
            },
            Err(source) => return Err(StoreError::Encode { at, source }),
        };
        Err(StoreError::NotAnObject { at, found })
    }

    /// Makes the item expire `lifetime` after the put or, if reads restart the lifetime, after the last read.
    pub fn ttl(mut self, lifetime: Duration) -> Self {
        self.ttl = Ttl::After(lifetime);
        self
    }

    /// Keeps the item forever, even if the store has a default lifetime.
    pub fn without_ttl(mut self) -> Self {
        self.ttl = Ttl::Never;
        self
    }

    /// Indexes these fields of the item instead of the fields of the store's index.
    ///
    /// Has no effect in a store without an index.
    pub fn index(mut self, paths: &[&str]) -> Result<Self, StoreError> {
        self.index = Index::Fields(FieldPath::parse_all(paths)?);
        Ok(self)
    }

    /// Excludes the item from the index. Searches with a query list it last, without a score.
    pub fn without_index(mut self) -> Self {
        self.index = Index::Skip;
        self
    }
}
