//! The objects of the API, as a client sees them.

use std::sync::Arc;

use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

pub(super) use super::storage::Search;
use super::{
    authorize::{Action, Resource},
    error::{ApiError, ApiResult},
    json_filter::contains_all,
    storage::{Documents, Filter, Row},
};

/// An object that is stored in the database.
pub(super) trait Document: Serialize + DeserializeOwned {
    /// Name of this kind of object.
    const KIND: &'static str;

    /// Whether objects without an owner are visible to every client.
    const SHARED: bool = false;

    /// The resources about which an authorizer decides to whom these objects are visible.
    const RESOURCES: &'static [Resource] = &[];

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

    /// Returns the metadata of the object, if objects of this kind have metadata.
    fn metadata(&self) -> Option<&Map<String, Value>> {
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
    /// Metadata that determines which objects are visible, instead of their owners.
    required: Option<Arc<RequiredMetadata>>,
}

/// Entries that the metadata of visible objects contains, for the resources that a request accesses.
#[derive(Debug)]
struct RequiredMetadata {
    entries: Map<String, Value>,
    access: &'static [(Resource, Action)],
}

impl View {
    /// Returns the view of a client that sees only the objects of its owner.
    pub(super) fn of_owner(owner: &str) -> Self {
        let owner: Arc<str> = owner.into();
        Self { filter: Some(owner.clone()), owner: Some(owner), required: None }
    }

    /// Returns the view of a client that sees the objects of all owners.
    pub(super) fn of_admin(owner: &str) -> Self {
        Self { filter: None, owner: Some(owner.into()), required: None }
    }

    /// Returns a view in which the metadata of an object determines whether it is visible, instead of its owner. This
    /// applies to the objects of the resources in `access`.
    pub(super) fn requiring(
        self,
        entries: Map<String, Value>,
        access: &'static [(Resource, Action)],
    ) -> Self {
        Self { required: Some(Arc::new(RequiredMetadata { entries, access })), ..self }
    }

    /// Returns the entries that the metadata of objects of this kind must contain, if this determines their visibility.
    fn required<T: Document>(&self) -> Option<&Map<String, Value>> {
        let required = self.required.as_deref()?;
        let is_subject = |(it, _): &(Resource, Action)| T::RESOURCES.contains(it);
        required.access.iter().any(is_subject).then_some(&required.entries)
    }

    /// Adds the entries that an object needs to be visible to the client.
    pub(super) fn add_required<T: Document>(&self, metadata: &mut Map<String, Value>) {
        metadata.extend(self.required::<T>().cloned().into_iter().flatten());
    }

    /// Returns whether an object of this kind with this owner and metadata is visible.
    pub(super) fn sees<T: Document>(
        &self,
        owner: Option<&str>,
        metadata: &Map<String, Value>,
    ) -> bool {
        match self.required::<T>() {
            Some(required) => contains_all(metadata, required),
            None => self.sees_owner(owner),
        }
    }

    fn sees_owner(&self, owner: Option<&str>) -> bool {
        self.filter.as_deref().is_none_or(|it| owner == Some(it))
    }

    /// Returns whether a document has the required metadata. Documents without metadata are found through other documents,
    /// which have it.
    fn has_required<T: Document>(&self, document: &T) -> bool {
        match (self.required::<T>(), document.metadata()) {
            (Some(required), Some(metadata)) => contains_all(metadata, required),
            _ => true,
        }
    }

    /// Returns the owner to whose objects the view is restricted.
    pub(super) fn restricted_to(&self) -> Option<&str> {
        self.filter.as_deref()
    }

    /// Returns the owner of new objects.
    pub(super) fn owner(&self) -> Option<&str> {
        self.owner.as_deref()
    }

    /// Returns the owner to whose documents of this kind the view is restricted.
    fn owner_filter<T: Document>(&self) -> Option<&str> {
        self.restricted_to().filter(|_| self.required::<T>().is_none())
    }

    fn filter<T: Document>(&self) -> Filter<'_> {
        let (owner, metadata) = (self.owner_filter::<T>(), self.required::<T>());
        Filter { owner, shared: T::SHARED, metadata }
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
        if self.view.required::<T>().is_some() && self.is_hidden::<T>(&document.id()).await? {
            return Err(ApiError::id_in_use());
        }
        let row = to_row(document, self.view.owner())?;
        self.documents.put(row, self.view.owner_filter::<T>()).await
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
        match self.owner_of::<T>(id).await? {
            Some(owner) => Ok(!self.sees::<T>(id, owner.as_deref()).await?),
            None => Ok(false),
        }
    }

    /// Returns whether the client sees the document with this id and owner.
    pub(super) async fn sees<T: Document>(&self, id: &str, owner: Option<&str>) -> ApiResult<bool> {
        match self.view.required::<T>() {
            Some(_) => Ok(self.get::<T>(id).await?.is_some()),
            None => Ok(self.view.sees_owner(owner)),
        }
    }

    /// Counts the documents of this kind by status.
    pub(super) async fn count_by_status<T: Document>(&self) -> ApiResult<Vec<(String, u64)>> {
        self.documents.count_by_status(T::KIND).await
    }

    /// Returns the document with this id.
    pub(super) async fn get<T: Document>(&self, id: &str) -> ApiResult<Option<T>> {
        let data = self.documents.get(T::KIND, id, self.view.filter::<T>()).await?;
        let document: Option<T> = data.as_deref().map(from_data).transpose()?;
        Ok(document.filter(|it| self.view.has_required(it)))
    }

    /// Deletes the document with this id. Returns whether it existed.
    pub(super) async fn delete<T: Document>(&self, id: &str) -> ApiResult<bool> {
        if self.view.required::<T>().is_some() && self.is_hidden::<T>(id).await? {
            return Ok(false);
        }
        self.documents.delete(T::KIND, id, self.view.owner_filter::<T>()).await
    }

    /// Deletes the documents of this kind that belong to `parent`.
    pub(super) async fn delete_children<T: Document>(&self, parent: &str) -> ApiResult<()> {
        self.documents.delete_children(T::KIND, parent, self.view.owner_filter::<T>()).await
    }

    /// Returns the documents of this kind that belong to `parent`, or all of them, oldest first.
    pub(super) async fn list<T: Document>(&self, parent: Option<&str>) -> ApiResult<Vec<T>> {
        let found = self.documents.list(T::KIND, parent, self.view.filter::<T>()).await?;
        let mut documents = found.iter().map(|it| from_data(it)).collect::<ApiResult<Vec<T>>>()?;
        documents.retain(|it| self.view.has_required(it));
        Ok(documents)
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
