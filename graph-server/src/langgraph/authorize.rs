//! The interface of authorizers, which allow, restrict or reject the requests of clients.

use async_trait::async_trait;
use serde_json::{Map, Value};

use crate::http::Client;

/// Decides which requests clients may send, in addition to the rules of scopes and owners.
///
/// The server calls it for each request of a client whose scope allows the request, but not for requests of the
/// operator, who has a key of [`Guard::key`](crate::http::Guard::key), or for the runs that crons start.
///
/// ```
/// use graph_server::{
///     http::Client,
///     langgraph::{AccessRequest, Action, Authorize, Decision, Resource},
/// };
///
/// /// Clients share the threads of their team, and cannot delete threads.
/// #[derive(Debug)]
/// struct Teams;
///
/// #[async_trait::async_trait]
/// impl Authorize for Teams {
///     async fn authorize(&self, request: &AccessRequest<'_>) -> Decision {
///         let team = request.client.owner.split('/').next().unwrap_or_default();
///         match (request.resource, request.action) {
///             (Resource::Threads, Action::Delete) => {
///                 Decision::Deny("threads cannot be deleted".to_owned())
///             }
///             (Resource::Threads | Resource::Runs, _) => Decision::AllowAs(team.to_owned()),
///             _ => Decision::Allow,
///         }
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let ada = Client::new("science/ada");
/// let search = AccessRequest::new(&ada, Resource::Threads, Action::Search);
/// assert_eq!(Teams.authorize(&search).await, Decision::AllowAs("science".to_owned()));
/// # }
/// ```
#[async_trait]
pub trait Authorize: std::fmt::Debug + Send + Sync {
    /// Returns the decision about a request.
    async fn authorize(&self, request: &AccessRequest<'_>) -> Decision;
}

/// A request of a client, as an [`Authorize`] sees it.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct AccessRequest<'a> {
    /// The client that sent the request.
    pub client: &'a Client,
    /// Kind of objects that the request accesses.
    pub resource: Resource,
    /// Action of the request on these objects.
    pub action: Action,
    /// Path of the request, with its query parameters.
    pub uri: &'a str,
    /// Namespace that a request to the store specifies: the namespace of an item, or the prefix of a search or a list.
    /// Empty if the request specifies no namespace, or is not a request to the store.
    pub namespace: &'a [String],
    /// JSON body of the request, with fields such as `metadata` and `assistant_id`. Null if the request has no JSON
    /// body. For a batch of runs, the authorizer is called for each run, and the body contains the parameters of this
    /// run, with its `thread_id` if it has one.
    pub body: &'a Value,
}

static NO_BODY: Value = Value::Null;

impl<'a> AccessRequest<'a> {
    /// Creates a request without a path, a namespace and a body, for the tests of an [`Authorize`].
    pub fn new(client: &'a Client, resource: Resource, action: Action) -> Self {
        Self { client, resource, action, uri: "", namespace: &[], body: &NO_BODY }
    }
}

/// A kind of objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Resource {
    /// Assistants and their versions.
    Assistants,
    /// Threads, with their states and events.
    Threads,
    /// Runs, on threads and without.
    Runs,
    /// Crons.
    Crons,
    /// Items of the long-term store.
    Store,
    /// Metrics of the server.
    Metrics,
}

/// An action of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Action {
    /// Creates an object, copies a thread, or starts a run.
    Create,
    /// Reads an object or its events.
    Read,
    /// Changes an object, edits the state of a thread, writes a store item, or cancels a run.
    Update,
    /// Deletes or prunes objects.
    Delete,
    /// Searches, lists or counts objects.
    Search,
}

/// The decision about a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// The request accesses the objects of the client's owner, or those of all owners if the client is an admin.
    Allow,
    /// The request accesses only the objects of this owner, who also becomes the owner of new objects.
    AllowAs(String),
    /// The request accesses all objects whose metadata contains these entries, regardless of their owner. The entries
    /// are added to the metadata of objects that the request creates or changes. An object inside the entries matches
    /// any object that contains it; all other values must be equal.
    ///
    /// This applies to the objects of the request's [`Resource`]. A request about runs also finds their threads, and a
    /// request about threads also finds their runs. A run is not found if its thread does not have the entries. Other
    /// objects that the request uses, such as the assistant of a run, are found as with [`Allow`](Self::Allow).
    ///
    /// Store items have no metadata: a request about them accesses those that were stored with the same entries.
    /// Requests for the metrics fail.
    AllowWhere(Map<String, Value>),
    /// The request accesses this namespace of the store, instead of the one that it
    /// [specifies](AccessRequest::namespace). The namespaces are those that graphs use, so clients and graphs share the
    /// items. Requests about other resources fail.
    ///
    /// ```
    /// use graph_server::{
    ///     http::Client,
    ///     langgraph::{AccessRequest, Action, Authorize, Decision, Resource},
    /// };
    ///
    /// /// Clients access only the namespaces that start with their name.
    /// #[derive(Debug)]
    /// struct OwnMemories;
    ///
    /// #[async_trait::async_trait]
    /// impl Authorize for OwnMemories {
    ///     async fn authorize(&self, request: &AccessRequest<'_>) -> Decision {
    ///         let user = &request.client.owner;
    ///         match request.resource {
    ///             Resource::Store if request.namespace.first() == Some(user) => {
    ///                 Decision::AllowNamespace(request.namespace.to_vec())
    ///             }
    ///             Resource::Store => {
    ///                 Decision::AllowNamespace([std::slice::from_ref(user), request.namespace].concat())
    ///             }
    ///             _ => Decision::Allow,
    ///         }
    ///     }
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// let ada = Client::new("ada");
    /// let mut search = AccessRequest::new(&ada, Resource::Store, Action::Search);
    /// let memories = ["memories".to_owned()];
    /// search.namespace = &memories;
    /// let expected = vec!["ada".to_owned(), "memories".to_owned()];
    /// assert_eq!(OwnMemories.authorize(&search).await, Decision::AllowNamespace(expected));
    /// # }
    /// ```
    AllowNamespace(Vec<String>),
    /// The request is rejected with the status 403 and this reason.
    Deny(String),
}
