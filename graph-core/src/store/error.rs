//! Errors returned by stores.

use std::error::Error;

use crate::store::{
    filter::FilterError,
    namespace::{Address, Namespace},
};

/// The error returned when a store operation fails.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The namespace has no labels.
    #[error(r#"the namespace is empty; it needs at least one label, such as ["users", "ada"]"#)]
    EmptyNamespace,
    /// A label is an empty string.
    #[error(
        "label {position} of namespace {labels:?} is empty; remove it or use a non-empty label"
    )]
    EmptyLabel {
        /// The labels as passed by the caller.
        labels: Vec<String>,
        /// Index of the empty label, counted from 0.
        position: usize,
    },
    /// A label contains `.`, which back ends use as a separator, or NUL, which PostgreSQL cannot store.
    #[error(
        "label {label:?} of namespace {labels:?} contains {character:?}, which is not allowed; \
         remove the character or split the label in two"
    )]
    InvalidLabel {
        /// The labels as passed by the caller.
        labels: Vec<String>,
        /// The invalid label.
        label: String,
        /// The character that is not allowed.
        character: char,
    },
    /// The first label is reserved for the engine.
    #[error("namespace {labels:?} starts with a reserved label; use another first label")]
    ReservedRoot {
        /// The labels as passed by the caller.
        labels: Vec<String>,
    },
    /// The key is an empty string.
    #[error("the key in namespace `{namespace}` is empty; use a non-empty key")]
    EmptyKey {
        /// The namespace of the item.
        namespace: Namespace,
    },
    /// A value is not a JSON object.
    #[error(
        r#"the value for `{at}` is {found}, not an object; wrap it in an object, such as {{"value": ..}}"#
    )]
    NotAnObject {
        /// Address of the item.
        at: Address,
        /// The JSON type of the value, such as "an array".
        found: &'static str,
    },
    /// A value cannot be serialised to JSON.
    #[error("the value for `{at}` cannot be serialised to JSON")]
    Encode {
        /// Address of the item.
        at: Address,
        /// The cause.
        source: serde_json::Error,
    },
    /// A value is nested too deeply to be stored and read back.
    #[error("the value for `{at}` is nested too deeply to be stored; flatten it")]
    TooDeep {
        /// Address of the item.
        at: Address,
    },
    /// A stored value cannot be deserialised as the requested type.
    #[error(
        "the value of `{at}` cannot be deserialised as `{expected}`; read it as JSON or store a new value"
    )]
    Decode {
        /// Address of the item.
        at: Address,
        /// Name of the requested type.
        expected: &'static str,
        /// The cause.
        source: serde_json::Error,
    },
    /// An option that must be at least 1 is 0.
    #[error("`{option}` is 0, so nothing can be found; set it to at least 1 or omit it")]
    ZeroOption {
        /// Name of the option.
        option: &'static str,
    },
    /// A filter in JSON form is invalid.
    #[error(transparent)]
    Filter(#[from] FilterError),
    /// The path of an indexed field is invalid.
    #[error(
        "field path {path:?} is invalid: {problem}; valid paths look like `text`, `a.b`, `items[*].text` or `$`"
    )]
    InvalidPath {
        /// The path as passed by the caller.
        path: String,
        /// Description of the problem.
        problem: &'static str,
    },
    /// A search has a query, but the store has no index.
    #[error(
        "cannot search for {query:?}: the store has no index; \
         configure one with `IndexConfig`, or search by filter only"
    )]
    NoIndex {
        /// Text of the query.
        query: String,
    },
    /// The embedder failed.
    #[error("the embedder failed")]
    Embed(#[source] Box<dyn Error + Send + Sync>),
    /// The embedder returned too few or too many vectors.
    #[error(
        "the number of vectors that the embedder returned ({vectors}) differs from the number of texts ({texts}); \
         the embedder must return one vector per text"
    )]
    VectorCount {
        /// Number of texts passed to the embedder.
        texts: usize,
        /// Number of vectors returned.
        vectors: usize,
    },
    /// The number of dimensions of a vector differs from that of the index.
    #[error(
        "the vector for {text:?} has {found} dimensions, but the index has {expected}; \
         set `dims` to the embedder's dimensions"
    )]
    DimensionMismatch {
        /// The embedded text.
        text: String,
        /// Number of dimensions of the index.
        expected: usize,
        /// Number of dimensions of the vector.
        found: usize,
    },
    /// A vector contains an infinite number or NaN.
    #[error(
        "the vector for {text:?} contains {component} at position {position}; \
         the embedder must return finite numbers"
    )]
    NotFinite {
        /// The embedded text.
        text: String,
        /// Index of the component in the vector, counted from 0.
        position: usize,
        /// Value of the component.
        component: f32,
    },
    /// The database, file or service behind the store failed.
    #[error("the store's back end failed")]
    Backend(#[source] Box<dyn Error + Send + Sync>),
}

crate::readable_debug!(StoreError);

impl StoreError {
    /// Wraps an error returned by an embedder.
    pub fn embed(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Embed(error.into())
    }

    /// Wraps an error returned by a back end.
    pub fn backend(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Backend(error.into())
    }
}
