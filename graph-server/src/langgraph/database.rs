//! The objects of the API, as a client sees them.

use std::sync::Arc;

use super::{
    document::{Document, from_data, to_row},
    error::ApiResult,
    storage::{Documents, Search},
    view::View,
};

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

    /// Returns a handle to the same database for a client with another view.
    pub(super) fn with_view(&self, view: View) -> Self {
        Self { documents: self.documents.clone(), view }
    }

    /// Returns the view of the client that uses this database.
    pub(super) fn view(&self) -> &View {
        &self.view
    }

    /// Stores a document, replacing an earlier one with the same id. A new document belongs to the owner of the view.
    /// Fails if the id belongs to a document that the client may not change.
    pub(super) async fn put<T: Document>(&self, document: &T) -> ApiResult<()> {
        let row = to_row(document, self.view.owner())?;
        self.documents.put(row, self.view.change_filter::<T>()).await
    }

    /// Stores a new document and, as [`put`](Self::put) does, the document `second`, in one transaction. Stores neither
    /// if the id of the new document is in use. Returns whether they were stored.
    pub(super) async fn add<A: Document, B: Document>(
        &self,
        new: &A,
        second: &B,
    ) -> ApiResult<bool> {
        let owner = self.view.owner();
        let (new, second) = (to_row(new, owner)?, to_row(second, owner)?);
        self.documents.add(new, second, self.view.change_filter::<B>()).await
    }

    /// Replaces a document if it was not changed since it was read. Returns whether it was replaced.
    pub(super) async fn replace<T: Document>(&self, document: &T, read: &T) -> ApiResult<bool> {
        let read = to_row(read, None)?.data;
        self.documents.replace(to_row(document, None)?, &read, None).await
    }

    /// Replaces a document as [`replace`](Self::replace) does, and stores `added` for the same owner, in one
    /// transaction.
    pub(super) async fn replace_and_add<T: Document, A: Document>(
        &self,
        document: &T,
        read: &T,
        added: &A,
    ) -> ApiResult<bool> {
        let owner = self.owner_of::<T>(&document.id()).await?.flatten();
        let (read, added) = (to_row(read, None)?.data, to_row(added, owner.as_deref())?);
        self.documents.replace(to_row(document, None)?, &read, Some(added)).await
    }

    /// Returns the owner of a document, whether or not the client sees it. The outer option is `None` if the document
    /// does not exist.
    pub(super) async fn owner_of<T: Document>(
        &self,
        id: &str,
    ) -> ApiResult<Option<Option<String>>> {
        self.documents.owner_of(T::KIND, id).await
    }

    /// Returns whether a document with this id exists that the client may not change.
    pub(super) async fn is_protected<T: Document>(&self, id: &str) -> ApiResult<bool> {
        self.documents.is_excluded(T::KIND, id, self.view.change_filter::<T>()).await
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
        data.as_deref().map(from_data).transpose()
    }

    /// Deletes the document with this id, unless the client may not change it. Returns whether it was deleted.
    pub(super) async fn delete<T: Document>(&self, id: &str) -> ApiResult<bool> {
        self.documents.delete(T::KIND, id, self.view.change_filter::<T>()).await
    }

    /// Deletes the documents of this kind that belong to `parent`.
    pub(super) async fn delete_children<T: Document>(&self, parent: &str) -> ApiResult<()> {
        self.documents.delete_children(T::KIND, parent, self.view.change_filter::<T>()).await
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::{Map, Value, json};

    use super::*;
    use crate::langgraph::{
        authorize::{Action, Resource},
        id::new_id,
        records::Thread,
        storage::{self, Storage},
    };

    fn team(name: &str) -> Map<String, Value> {
        Map::from_iter([("team".to_owned(), json!(name))])
    }

    /// Returns the database of a client that sees the threads of the team `east`.
    fn east(database: &Database) -> Database {
        let access = &[(Resource::Threads, Action::Update)];
        database.with_view(View::of_owner("ada").requiring(team("east"), access))
    }

    /// Moves a thread to another team while a client of its team changes or deletes it, many times.
    async fn move_and_change_concurrently(storage: Storage) {
        let database = Database::new(storage.documents);
        let client = east(&database);
        for round in 0..200 {
            let thread = Thread::new(new_id(), team("east"));
            let moved = Thread { metadata: team("west"), ..thread.clone() };
            database.put(&thread).await.unwrap();
            let moving = tokio::spawn({
                let (database, moved) = (database.clone(), moved.clone());
                async move { database.put(&moved).await }
            });
            let id = thread.thread_id.to_string();
            if round % 2 == 0 {
                client.delete::<Thread>(&id).await.unwrap();
            } else {
                // Fails if the thread has already been moved.
                let _ = client.put(&thread).await;
            }
            moving.await.unwrap().unwrap();
            // The client changed nothing after the thread was moved.
            assert_eq!(database.get::<Thread>(&id).await.unwrap(), Some(moved));
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn access_is_checked_in_the_statement_that_changes_a_document() {
        move_and_change_concurrently(storage::open(Path::new(":memory:")).unwrap()).await;
    }

    #[cfg(feature = "postgres")]
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn access_is_checked_in_the_statement_that_changes_a_document_in_postgres() {
        let Some(url) = graph_tests::postgres::fresh_database() else { return };
        move_and_change_concurrently(storage::connect(&url).await.unwrap()).await;
    }

    /// Checks that a client neither reads nor changes the documents of another team.
    async fn check_all_operations(storage: Storage) {
        let database = Database::new(storage.documents);
        let client = east(&database);
        let lists = json!({ "team": "west", "tags": ["a\u{0}", { "b": [1, 2] }] });
        let hidden = Thread::new(new_id(), lists.as_object().unwrap().clone());
        let own = Thread::new(new_id(), team("east"));
        for thread in [&hidden, &own] {
            database.put(thread).await.unwrap();
        }
        let (hidden_id, own_id) = (hidden.thread_id.to_string(), own.thread_id.to_string());
        assert_eq!(client.get::<Thread>(&hidden_id).await.unwrap(), None);
        assert_eq!(client.list::<Thread>(None).await.unwrap(), std::slice::from_ref(&own));
        assert!(client.is_protected::<Thread>(&hidden_id).await.unwrap());
        assert!(!client.is_protected::<Thread>(&own_id).await.unwrap());
        assert!(!client.is_protected::<Thread>("missing").await.unwrap());
        assert!(client.put(&hidden).await.is_err());
        assert!(!client.delete::<Thread>(&hidden_id).await.unwrap());
        let new = Thread::new(new_id(), team("east"));
        let id = new.thread_id.to_string();
        assert!(client.add(&new, &hidden).await.is_err());
        assert_eq!(client.get::<Thread>(&id).await.unwrap(), None, "none was stored");
        let changed = Thread { updated_at: "later".to_owned(), ..own.clone() };
        assert!(client.add(&new, &changed).await.unwrap());
        assert_eq!(client.list::<Thread>(None).await.unwrap(), [changed.clone(), new.clone()]);
        for existing in [&Thread { updated_at: "later".to_owned(), ..new.clone() }, &hidden] {
            assert!(!client.add(existing, &own).await.unwrap());
        }
        assert_eq!(client.list::<Thread>(None).await.unwrap(), [changed, new]);
        assert!(client.delete::<Thread>(&own_id).await.unwrap());
        assert!(client.delete::<Thread>(&id).await.unwrap());
        check_replacement(&database).await;
        // The entries of the filter can be lists and objects.
        let entries = hidden.metadata.clone();
        let access = &[(Resource::Threads, Action::Update)];
        let west = database.with_view(View::of_owner("bob").requiring(entries, access));
        assert_eq!(west.get(&hidden_id).await.unwrap(), Some(hidden));
        assert!(west.delete::<Thread>(&hidden_id).await.unwrap());
        assert!(database.list::<Thread>(None).await.unwrap().is_empty());
    }

    /// Checks that a document that was changed since it was read is not replaced.
    async fn check_replacement(database: &Database) {
        let ada = database.with_view(View::of_owner("ada"));
        let read = Thread::new(new_id(), team("east"));
        ada.put(&read).await.unwrap();
        let changed = Thread { metadata: team("west"), ..read.clone() };
        let added = Thread::new(new_id(), team("west"));
        assert!(database.replace_and_add(&changed, &read, &added).await.unwrap());
        let late = Thread::new(new_id(), team("north"));
        assert!(!database.replace_and_add(&read, &read, &late).await.unwrap());
        let stored = ada.list::<Thread>(None).await.unwrap();
        assert_eq!(stored, [changed, added], "both belong to the owner of the first");
        for thread in stored {
            database.delete::<Thread>(&thread.id()).await.unwrap();
        }
    }

    #[tokio::test]
    async fn operations_exclude_documents_with_other_metadata() {
        check_all_operations(storage::open(Path::new(":memory:")).unwrap()).await;
    }

    #[cfg(feature = "postgres")]
    #[tokio::test]
    async fn operations_exclude_documents_with_other_metadata_in_postgres() {
        let Some(url) = graph_tests::postgres::fresh_database() else { return };
        check_all_operations(storage::connect(&url).await.unwrap()).await;
    }
}
