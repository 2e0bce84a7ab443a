//! Stored objects of the API, as JSON documents.

use std::fmt;

use async_trait::async_trait;
use serde_json::{Map, Value};

use crate::langgraph::error::ApiResult;

/// A document with the columns by which it is found.
#[derive(Debug, Clone)]
pub(in crate::langgraph) struct Row {
    pub(in crate::langgraph) kind: &'static str,
    pub(in crate::langgraph) id: String,
    pub(in crate::langgraph) parent: Option<String>,
    pub(in crate::langgraph) status: Option<String>,
    pub(in crate::langgraph) data: String,
    /// Owner of a new document. An existing document keeps its owner.
    pub(in crate::langgraph) owner: Option<String>,
}

/// A search for documents of one kind. A document must meet all conditions. Documents with the same value of `sort_by`
/// are sorted by age.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::langgraph) struct Search<'a> {
    /// Only documents with one of these ids.
    pub(in crate::langgraph) ids: Option<&'a [String]>,
    /// Only documents with this parent.
    pub(in crate::langgraph) parent: Option<&'a str>,
    /// Only documents whose field `status` has this value.
    pub(in crate::langgraph) status: Option<&'a str>,
    /// Only documents whose fields have these values, which must be strings or booleans.
    pub(in crate::langgraph) fields: Option<&'a Map<String, Value>>,
    /// Only documents whose field `name` contains this text, ignoring case. PostgreSQL uses the database's locale.
    pub(in crate::langgraph) name: Option<&'a str>,
    /// Only documents whose field `metadata` contains these entries; see
    /// [`contains_all`](crate::langgraph::json_filter::contains_all).
    pub(in crate::langgraph) metadata: Option<&'a Map<String, Value>>,
    /// No documents whose field `metadata` contains all entries of one of these objects.
    pub(in crate::langgraph) excluded: &'a [Map<String, Value>],
    /// Only documents whose field `values` contains these entries.
    pub(in crate::langgraph) values: Option<&'a Map<String, Value>>,
    /// Field by which the documents are sorted. It must be a string or null. Null is greater than every string.
    pub(in crate::langgraph) sort_by: &'a str,
    pub(in crate::langgraph) descending: bool,
    /// Maximum number of documents to return.
    pub(in crate::langgraph) limit: usize,
    /// Number of documents to skip.
    pub(in crate::langgraph) offset: usize,
    /// Whether to return the ids of the documents instead of their contents.
    pub(in crate::langgraph) ids_only: bool,
}

/// The documents that a search returns.
#[derive(Debug)]
pub(in crate::langgraph) struct Found {
    /// Contents or ids of the documents.
    pub(in crate::langgraph) documents: Vec<String>,
    /// Total number of documents that meet the conditions.
    pub(in crate::langgraph) total: usize,
}

/// Restricts an operation to some documents, such as those that a client sees. Each operation checks it in the same
/// statement in which it reads or changes the documents.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::langgraph) struct Filter<'a> {
    /// Only documents of this owner. `None`: documents of all owners.
    pub(in crate::langgraph) owner: Option<&'a str>,
    /// Whether documents without an owner are included.
    pub(in crate::langgraph) shared: bool,
    /// Only documents whose field `metadata` contains these entries.
    pub(in crate::langgraph) metadata: Option<&'a Map<String, Value>>,
}

/// Stores documents. Each operation is one transaction.
#[async_trait]
pub(in crate::langgraph) trait Documents: fmt::Debug + Send + Sync {
    /// Stores a document, replacing an earlier one with the same kind and id. Fails if the filter excludes that one.
    async fn put(&self, row: Row, filter: Filter<'_>) -> ApiResult<()>;

    /// Stores the document `first` and, as [`put`](Self::put) does, the document `second`, in one transaction. Stores
    /// neither if a document with the kind and id of `first` exists. Returns whether they were stored.
    async fn add(&self, first: Row, second: Row, filter: Filter<'_>) -> ApiResult<bool>;

    /// Replaces the content of a document and stores `added`, if the content is still `expected`. Returns whether it
    /// was replaced.
    async fn replace(&self, row: Row, expected: &str, added: Option<Row>) -> ApiResult<bool>;

    /// Returns the content of a document.
    async fn get(&self, kind: &str, id: &str, filter: Filter<'_>) -> ApiResult<Option<String>>;

    /// Returns the contents of the documents that belong to `parent`, or of all documents, oldest first.
    async fn list(
        &self,
        kind: &str,
        parent: Option<&str>,
        filter: Filter<'_>,
    ) -> ApiResult<Vec<String>>;

    /// Searches for documents. The database filters the documents and sorts only their row numbers, so only the
    /// returned documents are in memory. The duration of a search grows with the number of documents of this kind that
    /// the client can access.
    async fn search(&self, kind: &str, search: &Search<'_>, filter: Filter<'_>)
    -> ApiResult<Found>;

    /// Returns the owner of a document. The outer option is `None` if the document does not exist.
    async fn owner_of(&self, kind: &str, id: &str) -> ApiResult<Option<Option<String>>>;

    /// Returns whether a document exists that the filter excludes.
    async fn is_excluded(&self, kind: &str, id: &str, filter: Filter<'_>) -> ApiResult<bool>;

    /// Deletes a document. Returns whether it existed.
    async fn delete(&self, kind: &str, id: &str, filter: Filter<'_>) -> ApiResult<bool>;

    /// Deletes the documents that belong to `parent`.
    async fn delete_children(&self, kind: &str, parent: &str, filter: Filter<'_>) -> ApiResult<()>;

    /// Counts the documents by status.
    async fn count_by_status(&self, kind: &str) -> ApiResult<Vec<(String, u64)>>;
}
