//! What can go wrong with a store.

use std::error::Error;

use super::{Address, FilterError, Namespace, Outcome};

/// Says why a store did not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// An item was to be kept under no label at all.
    #[error(r#"the namespace is empty; give it at least one label, such as ["users", "ada"]"#)]
    EmptyNamespace,
    /// A label is the empty text.
    #[error("label {position} of namespace {labels:?} is empty; fill it or leave it out")]
    EmptyLabel {
        /// The labels as they were given.
        labels: Vec<String>,
        /// Which label it is, from 0.
        position: usize,
    },
    /// A label has a character that joins or ends labels in a back end.
    #[error(
        "label {label:?} of namespace {labels:?} contains {character:?}; \
         replace it, or make two labels of it"
    )]
    BadLabel {
        /// The labels as they were given.
        labels: Vec<String>,
        /// The label at fault.
        label: String,
        /// The character it must not contain.
        character: char,
    },
    /// The first label belongs to the engine.
    #[error("namespace {labels:?} starts with a reserved label; start it with another one")]
    ReservedRoot {
        /// The labels as they were given.
        labels: Vec<String>,
    },
    /// An item was given no key.
    #[error("the key under namespace `{namespace}` is empty; give the item a name")]
    EmptyKey {
        /// The namespace it was given with.
        namespace: Namespace,
    },
    /// A value is not a JSON object.
    #[error(r#"the value of `{at}` is {found}; wrap it in an object, such as {{"value": ..}}"#)]
    NotAnObject {
        /// Where it was to be put.
        at: Address,
        /// What it is instead.
        found: &'static str,
    },
    /// A value cannot be written as JSON.
    #[error("the value for `{at}` cannot be written as JSON")]
    Encode {
        /// Where it was to be put.
        at: Address,
        /// What serde says.
        source: serde_json::Error,
    },
    /// A value has more levels than can be stored and read back.
    #[error("the value of `{at}` is nested too deeply to be stored; make it flatter")]
    TooDeep {
        /// Where it was to be put.
        at: Address,
    },
    /// A value is not of the type it was asked as.
    #[error("the value of `{at}` is no `{wanted}`; read it as JSON or put it again")]
    Decode {
        /// Where it lies.
        at: Address,
        /// The type that was asked for.
        wanted: &'static str,
        /// What serde says.
        source: serde_json::Error,
    },
    /// An option that counts something is 0.
    #[error("`{option}` is 0, so nothing can be found; give at least 1 or leave it out")]
    Zero {
        /// The option's name.
        option: &'static str,
    },
    /// A filter in JSON form cannot be read.
    #[error(transparent)]
    Filter(#[from] FilterError),
    /// The path of an indexed field cannot be read.
    #[error(
        "field path {path:?} {problem}; write paths like `text`, `a.b`, `items[*].text`, or `$`"
    )]
    BadPath {
        /// The path as it was given.
        path: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// A search has a query and the store has no vectors.
    #[error(
        "the store has no index to search for {query:?}; \
         give it an `IndexConfig`, or search with a filter only"
    )]
    NoIndex {
        /// The text that was searched for.
        query: String,
    },
    /// The embedder failed.
    #[error("the embedder failed")]
    Embed(#[source] Box<dyn Error + Send + Sync>),
    /// The embedder left texts out, or added some.
    #[error("the embedder gave {vectors} vectors for {texts} texts; it must give one for each")]
    VectorCount {
        /// How many texts it was given.
        texts: usize,
        /// How many vectors came back.
        vectors: usize,
    },
    /// A vector is not as long as the index says.
    #[error(
        "the vector of {text:?} has {found} dimensions and the index {expected}; \
         set `dims` to what the embedder gives"
    )]
    Dims {
        /// The text it stands for.
        text: String,
        /// The index's dimensions.
        expected: usize,
        /// The vector's dimensions.
        found: usize,
    },
    /// A vector has a component that is infinite or no number.
    #[error(
        "the vector of {text:?} has {component} at {position}; \
         the embedder must give finite numbers"
    )]
    NotFinite {
        /// The text it stands for.
        text: String,
        /// Where in the vector, from 0.
        position: usize,
        /// What stands there.
        component: f32,
    },
    /// The database, file or service behind the store failed.
    #[error("the store's back end failed")]
    Backend(#[source] Box<dyn Error + Send + Sync>),
}

impl StoreError {
    /// Wraps an embedder's own error.
    pub fn embed(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Embed(error.into())
    }

    /// A store's batch gave something else than was asked for: the values are left out, they are not for logs.
    pub(super) fn wrong_outcome(asked: &str, given: Option<&Outcome>) -> Self {
        let given = match given {
            None => "no outcome",
            Some(Outcome::Done) => "only that it was done",
            Some(Outcome::Item(_)) => "an item",
            Some(Outcome::Items(_)) => "items",
            Some(Outcome::Namespaces(_)) => "namespaces",
        };
        Self::backend(format!(
            "its `batch` gave {given} for {asked}; report it to the store's makers"
        ))
    }

    /// Wraps a back end's own error.
    pub fn backend(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Backend(error.into())
    }
}
