//! The objects of the API, as a client sees them.

use std::sync::Arc;

use serde::{Serialize, de::DeserializeOwned};

pub(super) use super::storage::Search;
use super::{
    error::{ApiError, ApiResult},
    storage::{Documents, Filter, Row},
};

/// An object that is stored in the database.
pub(super) trait Document: Serialize + DeserializeOwned {
    /// Name of this kind of object.
    const KIND: &'static str;

    /// Whether objects without an owner are visible to every client.
    const SHARED: bool = false;

    /// Returns the id, which is unique among objects of this kind.
    fn id(&self) -> String;

    /// Returns the id of the object that this one belongs to.
    fn parent(&self) -> Option<String> {
        None
    }

    /// Returns the status by which objects can be selected.
    fn status(&self) -> Option<String> {
        None
    }
}

/// Converts an object to the form in which it is stored. A new object belongs to `owner`.
pub(super) fn to_row<T: Document>(document: &T, owner: Option<&str>) -> ApiResult<Row> {
    Ok(Row {
        kind: T::KIND,
        id: document.id(),
        parent: document.parent(),
        status: document.status(),
        data: serde_json::to_string(document).map_err(|error| ApiError::internal(&error))?,
        owner: owner.map(str::to_owned),
    })
}

/// Restores an object from its stored form.
pub(super) fn from_data<T: Document>(data: &str) -> ApiResult<T> {
    serde_json::from_str(data).map_err(|error| ApiError::internal(&error))
}

/// The objects that a client sees, and the owner of the objects that it creates.
#[derive(Debug, Clone, Default)]
pub(super) struct View {
    /// Only the objects of this owner. `None`: the objects of all owners.
    filter: Option<Arc<str>>,
    /// Owner of new objects.
    owner: Option<Arc<str>>,
}

impl View {
    /// Returns the view of a client that sees only the objects of its owner.
    pub(super) fn of_owner(owner: &str) -> Self {
        let owner: Arc<str> = owner.into();
        Self { filter: Some(owner.clone()), owner: Some(owner) }
    }

    /// Returns the view of a client that sees the objects of all owners.
    pub(super) fn of_admin(owner: &str) -> Self {
        Self { filter: None, owner: Some(owner.into()) }
    }

    /// Returns whether objects of this owner are visible.
    pub(super) fn sees(&self, owner: Option<&str>) -> bool {
        self.filter.as_deref().is_none_or(|it| owner == Some(it))
    }

    /// Returns the owner to whose objects the view is restricted.
    pub(super) fn restricted_to(&self) -> Option<&str> {
        self.filter.as_deref()
    }

    /// Returns the owner of new objects.
    pub(super) fn owner(&self) -> Option<&str> {
        self.owner.as_deref()
    }

    fn filter<T: Document>(&self) -> Filter<'_> {
        Filter { owner: self.restricted_to(), shared: T::SHARED }
    }
}

/// The database, as a client sees it.
#[derive(Debug, Clone)]
pub(super) struct Database {
    documents: Arc<dyn Documents>,
    view: View,
}

impl Database {
    /// Creates a database that shows all objects.
    pub(super) fn new(documents: Arc<dyn Documents>) -> Self {
        Self { documents, view: View::default() }
    }

    /// Returns the same database as another client sees it.
    pub(super) fn with_view(&self, view: View) -> Self {
        Self { documents: self.documents.clone(), view }
    }

    /// Returns what the client of this database sees.
    pub(super) fn view(&self) -> &View {
        &self.view
    }

    /// Stores a document, replacing an earlier one with the same id. A new document belongs to the owner of the view.
    /// Fails if the id belongs to a document that the client may not change.
    pub(super) async fn put<T: Document>(&self, document: &T) -> ApiResult<()> {
        let row = to_row(document, self.view.owner())?;
        self.documents.put(row, self.view.restricted_to()).await
    }

    /// Replaces a document if it was not changed since it was read. Returns whether it was replaced.
    pub(super) async fn replace<T: Document>(&self, document: &T, read: &T) -> ApiResult<bool> {
        let read = to_row(read, None)?.data;
        self.documents.replace(to_row(document, None)?, &read).await
    }

    /// Returns the owner of a document, whether or not the client sees it. The outer option is `None` if the document
    /// does not exist.
    pub(super) async fn owner_of<T: Document>(
        &self,
        id: &str,
    ) -> ApiResult<Option<Option<String>>> {
        self.documents.owner_of(T::KIND, id).await
    }

    /// Returns whether a document with this id exists that the client may not see.
    pub(super) async fn is_hidden<T: Document>(&self, id: &str) -> ApiResult<bool> {
        let owner = self.owner_of::<T>(id).await?;
        Ok(owner.is_some_and(|it| !self.view.sees(it.as_deref())))
    }

    /// Counts the documents of this kind by status.
    pub(super) async fn count_by_status<T: Document>(&self) -> ApiResult<Vec<(String, u64)>> {
        self.documents.count_by_status(T::KIND).await
    }

    /// Returns the document with this id.
    pub(super) async fn get<T: Document>(&self, id: &str) -> ApiResult<Option<T>> {
        let data = self.documents.get(T::KIND, id, self.view.filter::<T>()).await?;
        data.as_deref().map(from_data).transpose()
    }

    /// Deletes the document with this id. Returns whether it existed.
    pub(super) async fn delete<T: Document>(&self, id: &str) -> ApiResult<bool> {
        self.documents.delete(T::KIND, id, self.view.restricted_to()).await
    }

    /// Deletes the documents of this kind that belong to `parent`.
    pub(super) async fn delete_children<T: Document>(&self, parent: &str) -> ApiResult<()> {
        self.documents.delete_children(T::KIND, parent, self.view.restricted_to()).await
    }

    /// Returns the documents of this kind that belong to `parent`, or all of them, oldest first.
    pub(super) async fn list<T: Document>(&self, parent: Option<&str>) -> ApiResult<Vec<T>> {
        let found = self.documents.list(T::KIND, parent, self.view.filter::<T>()).await?;
        found.iter().map(|it| from_data(it)).collect()
    }

    /// Searches for documents. Returns the requested page, and the total number of matching documents.
    pub(super) async fn search<T: Document>(
        &self,
        search: &Search<'_>,
    ) -> ApiResult<(Vec<T>, usize)> {
        let found = self.documents.search(T::KIND, search, self.view.filter::<T>()).await?;
        let documents = found.documents.iter().map(|it| from_data(it));
        Ok((documents.collect::<ApiResult<_>>()?, found.total))
    }

    /// Searches for documents like [`Self::search`], and returns the ids of all of them.
    pub(super) async fn search_ids<T: Document>(
        &self,
        search: &Search<'_>,
    ) -> ApiResult<Vec<String>> {
        let search = Search { ids_only: true, limit: usize::MAX, ..*search };
        Ok(self.documents.search(T::KIND, &search, self.view.filter::<T>()).await?.documents)
    }
}
