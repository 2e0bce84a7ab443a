//! Permissions of the client that sent a request, and the objects that it sees.

use std::sync::Arc;

use axum::{
    body::Body,
    extract::{FromRequestParts, Request, State},
    http::{Method, Uri, request::Parts},
    middleware::Next,
    response::{IntoResponse, Response},
};
use serde_json::Value;

use super::{
    authorize::{AccessRequest, Action, Authorize, Decision, Resource},
    error::{ApiError, ApiResult},
    manager::Manager,
    operations::find_operation,
    request::query::Query,
    required_access::required_access,
    store_area::requested_namespace,
    trace_context::trace_parent,
    view::View,
};
use crate::http::{Client, Scope, read_json};

/// Extracts the manager as the client of a request sees it. Fails if the client's scope or the authorizer does not
/// allow the request.
///
/// All handlers use this extractor, so none can see the objects of another owner. Requests without a client come from
/// the operator, or from a server without authentication, and see everything.
pub(super) struct Access(pub(super) Arc<Manager>);

impl FromRequestParts<Arc<Manager>> for Access {
    type Rejection = ApiError;

    async fn from_request_parts(
        parts: &mut Parts,
        manager: &Arc<Manager>,
    ) -> Result<Self, ApiError> {
        let parts = &*parts;
        check_query(&parts.method, &parts.uri)?;
        let manager = match trace_parent(&parts.headers) {
            Some(trace_parent) => manager.with_trace_parent(trace_parent),
            None => manager.clone(),
        };
        let Some(client) = parts.extensions.get::<Client>() else {
            return Ok(Self(manager));
        };
        // The scope does not depend on the body, which is read only for an authorizer.
        let needed = needed_scope(required_access(&parts.method, &parts.uri, &Value::Null));
        if client.scope < needed {
            let detail = format!(
                "this request requires the scope `{}`; use credentials with that scope",
                name(needed)
            );
            return Err(ApiError::forbidden(detail));
        }
        let view = match client.scope {
            Scope::Admin => View::of_admin(&client.owner),
            Scope::Read | Scope::Write => View::of_owner(&client.owner),
        };
        Ok(Self(manager.with_view(authorize(parts, client, view).await?)))
    }
}

/// Fails if a request has query parameters although its operation has none. Otherwise, the handler checks them.
fn check_query(method: &Method, uri: &Uri) -> ApiResult<()> {
    match find_operation(method, uri) {
        Some(operation) if operation.query.is_empty() => Query::of_uri(uri)?.finish(),
        _ => Ok(()),
    }
}

/// Returns the scope that a request with this access needs.
fn needed_scope(required: &[(Resource, Action)]) -> Scope {
    let reads = |(_, action): &(_, Action)| matches!(action, Action::Read | Action::Search);
    match required {
        [(Resource::Metrics, _)] => Scope::Admin,
        [_, ..] if required.iter().all(reads) => Scope::Read,
        _ => Scope::Write,
    }
}

/// The authorizer of the API, and the body of the request that it checks.
#[derive(Clone)]
struct Authorization {
    authorizer: Arc<dyn Authorize>,
    body: Arc<Value>,
}

/// Adds the authorizer and the parsed body to the extensions of a request.
pub(super) async fn add_authorizer(
    State(authorizer): State<Arc<dyn Authorize>>,
    mut request: Request,
    next: Next,
) -> Response {
    let mut body = Value::Null;
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let (parts, unread) = request.into_parts();
        let bytes = match read_json(Request::from_parts(parts.clone(), unread), &()).await {
            Ok(bytes) => bytes,
            Err(problem) => return ApiError::from(problem).into_response(),
        };
        // The handler rejects a body that is not JSON.
        body = serde_json::from_slice(&bytes).unwrap_or_default();
        request = Request::from_parts(parts, Body::from(bytes));
    }
    request.extensions_mut().insert(Authorization { authorizer, body: Arc::new(body) });
    next.run(request).await
}

/// Calls the authorizer, if there is one, and returns the view of the request. `view` is the view that the request has
/// without an authorizer.
async fn authorize(parts: &Parts, client: &Client, view: View) -> ApiResult<View> {
    let Some(Authorization { authorizer, body }) = parts.extensions.get::<Authorization>() else {
        return Ok(view);
    };
    // The authorizer is called for each element of a batch.
    let bodies = match &**body {
        Value::Array(bodies) if !bodies.is_empty() => bodies.as_slice(),
        body => std::slice::from_ref(body),
    };
    let uri = parts.uri.path_and_query().map_or("", |it| it.as_str());
    let required = required_access(&parts.method, &parts.uri, body);
    let mut decisions = Vec::new();
    for &(resource, action) in required {
        for body in bodies {
            let namespace = match resource {
                Resource::Store => requested_namespace(&parts.method, &parts.uri, body)?,
                _ => Vec::new(),
            };
            let request = AccessRequest {
                uri,
                namespace: &namespace,
                body,
                ..AccessRequest::new(client, resource, action)
            };
            let problem = match (authorizer.authorize(&request).await, resource) {
                (Decision::Deny(reason), _) => return Err(ApiError::forbidden(reason)),
                (Decision::AllowWhere(_), Resource::Metrics) => {
                    "the authorizer returned `AllowWhere` for the metrics, which have no metadata; return `Allow` or \
                     `Deny`"
                }
                (Decision::AllowNamespace(_), it) if it != Resource::Store => {
                    "the authorizer returned `AllowNamespace` for a resource other than the store; return another \
                     decision"
                }
                (decision, _) => {
                    decisions.push(decision);
                    continue;
                }
            };
            return Err(ApiError::internal(problem));
        }
    }
    decisions.dedup();
    match <[_; 1]>::try_from(decisions) {
        Ok([Decision::Allow]) => Ok(view),
        Ok([Decision::AllowAs(owner)]) => Ok(View::of_owner(&owner)),
        Ok([Decision::AllowWhere(entries)]) => Ok(view.requiring(entries, required)),
        Ok([Decision::AllowNamespace(namespace)]) => Ok(view.in_namespace(namespace)),
        // A handler has only one view, so all decisions about a request must be equal.
        Ok([Decision::Deny(_)]) | Err(_) => Err(ApiError::forbidden(
            "the authorizer returned different decisions for parts of this request; send the parts as separate \
             requests",
        )),
    }
}

fn name(scope: Scope) -> &'static str {
    match scope {
        Scope::Read => "read",
        Scope::Write => "write",
        Scope::Admin => "admin",
    }
}

impl Manager {
    /// Fails if the client may not change an object that it sees, such as the assistant of a graph.
    pub(super) async fn check_change<T: super::document::Document>(
        &self,
        id: &str,
    ) -> ApiResult<()> {
        match self.database.is_protected::<T>(id).await? {
            true => Err(ApiError::forbidden(format!(
                "`{id}` belongs to the server; only admins may change it"
            ))),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_that_only_read_need_the_read_scope() {
        let needed = |method: Method, uri: &str| {
            needed_scope(required_access(&method, &uri.parse().unwrap(), &Value::Null))
        };
        assert_eq!(needed(Method::GET, "/threads/t"), Scope::Read);
        assert_eq!(needed(Method::GET, "/metrics"), Scope::Admin);
        assert_eq!(needed(Method::POST, "/threads/search"), Scope::Read);
        assert_eq!(needed(Method::POST, "/threads/t/stream/events"), Scope::Read);
        assert_eq!(needed(Method::GET, "/threads/t/stream/events"), Scope::Write);
        assert_eq!(needed(Method::POST, "/threads/t/state"), Scope::Write);
        assert_eq!(needed(Method::POST, "/threads"), Scope::Write);
        assert_eq!(needed(Method::DELETE, "/threads/search"), Scope::Write);
        let joined = "/threads/t/runs/r/join?cancel_on_disconnect=true";
        assert_eq!(needed(Method::GET, joined), Scope::Write);
        assert_eq!(needed(Method::GET, &joined.replace("true", "0")), Scope::Read);
        for disguised in ["cancel_on_disconnect=True", "cancel%5Fon_disconnect=1"] {
            let joined = format!("/threads/t/runs/r/join?{disguised}");
            assert_eq!(needed(Method::GET, &joined), Scope::Write, "{disguised}");
        }
        // These paths send messages to an agent named `search`; they do not search.
        for path in ["/a2a/search", "/ag-ui/search", "/ai-sdk/search"] {
            assert_eq!(needed(Method::POST, path), Scope::Write, "{path}");
        }
    }
}
