//! Permissions of the client that sent a request, and the objects that it sees.

use std::sync::Arc;

use axum::{
    extract::{FromRequestParts, Query},
    http::{Method, Uri, request::Parts},
};

use super::{
    database::View,
    error::{ApiError, ApiResult},
    manager::Manager,
};
use crate::http::{Client, Scope};

/// Extracts the manager as the client of a request sees it. Fails if the client's scope does not allow the request.
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
        let Some(client) = parts.extensions.get::<Client>() else {
            return Ok(Self(manager.clone()));
        };
        let needed = needed_scope(&parts.method, &parts.uri);
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
        Ok(Self(manager.with_view(view)))
    }
}

/// Path suffixes of POST requests that only read.
const READS: [&str; 7] = [
    "/search",
    "/count",
    "/history",
    "/versions",
    "/state/checkpoint",
    "/store/namespaces",
    "/stream/events",
];

/// Returns the scope that a request needs.
fn needed_scope(method: &Method, uri: &Uri) -> Scope {
    let path = uri.path();
    // With this parameter, a client cancels the run when it disconnects.
    let parameters = Query::<Vec<(String, String)>>::try_from_uri(uri);
    let cancels = parameters.map_or(true, |Query(parameters)| {
        let cancels = |(name, value): &(String, String)| {
            name == "cancel_on_disconnect"
                && !["0", "false"].contains(&value.to_ascii_lowercase().as_str())
        };
        parameters.iter().any(cancels)
    });
    // These paths end with the name of an assistant.
    let is_named = ["/a2a/", "/ag-ui/", "/ai-sdk/"].iter().any(|it| path.starts_with(it));
    let reads = !is_named && READS.iter().any(|it| path.ends_with(it));
    match *method {
        Method::GET | Method::HEAD if path == "/metrics" => Scope::Admin,
        // Needs write access, because the WebSocket at this path also carries commands.
        Method::GET if path.ends_with("/stream/events") => Scope::Write,
        Method::GET | Method::HEAD if !cancels => Scope::Read,
        Method::POST if reads => Scope::Read,
        _ => Scope::Write,
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
    pub(super) async fn check_change<T: super::database::Document>(
        &self,
        id: &str,
    ) -> ApiResult<()> {
        match self.database.is_hidden::<T>(id).await? {
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
        let needed = |method: Method, uri: &str| needed_scope(&method, &uri.parse().unwrap());
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
        // Messages to an agent with the name `search`.
        for path in ["/a2a/search", "/ag-ui/search", "/ai-sdk/search"] {
            assert_eq!(needed(Method::POST, path), Scope::Write, "{path}");
        }
    }
}
