//! Put: a request to write an item.

use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value};

use super::{Address, FieldPath, StoreError, Ttl};
use crate::state::guard;

/// Asks a store to write an item.
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
#[must_use = "a put does nothing until a store gets it"]
pub struct Put {
    /// Where the item is to lie.
    pub at: Address,
    /// Its value.
    pub value: Map<String, Value>,
    /// Which of its fields a query finds it by.
    pub index: Index,
    /// How long it lives.
    pub ttl: Ttl,
}

/// Says which fields of an item a query finds it by.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Index {
    /// The fields of the store's [`IndexConfig`](super::IndexConfig).
    #[default]
    Default,
    /// None: only filters find it.
    Skip,
    /// These, instead of the store's.
    Fields(Vec<FieldPath>),
}

impl Put {
    /// Puts `value` at `key`; it must serialise to an object.
    pub fn new(
        namespace: &[impl AsRef<str>],
        key: &str,
        value: impl Serialize,
    ) -> Result<Self, StoreError> {
        let at = Address::new(namespace, key)?;
        let found = match serde_json::to_value(value) {
            Ok(value) => match guard::admit("", value) {
                Ok(Value::Object(value)) => {
                    return Ok(Self { at, value, index: Index::Default, ttl: Ttl::Default });
                }
                Ok(other) => kind(&other),
                Err(_) => return Err(StoreError::TooDeep { at }),
            },
            Err(source) => return Err(StoreError::Encode { at, source }),
        };
        Err(StoreError::NotAnObject { at, found })
    }

    /// Lets the item expire `lifetime` after it was put or, if reads refresh, last read.
    pub fn ttl(mut self, lifetime: Duration) -> Self {
        self.ttl = Ttl::After(lifetime);
        self
    }

    /// Keeps the item for ever, whatever the store's default is.
    pub fn without_ttl(mut self) -> Self {
        self.ttl = Ttl::Never;
        self
    }

    /// Lets queries find the item by these fields instead of the store's.
    ///
    /// A store without an index takes no notice.
    pub fn index(mut self, paths: &[&str]) -> Result<Self, StoreError> {
        self.index = Index::Fields(FieldPath::parse_all(paths)?);
        Ok(self)
    }

    /// Hides the item from queries.
    pub fn without_index(mut self) -> Self {
        self.index = Index::Skip;
        self
    }
}

/// Names the kind of a JSON value for a message.
pub(super) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
