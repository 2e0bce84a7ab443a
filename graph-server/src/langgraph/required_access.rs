//! The objects that a request accesses, and its actions on them.

use axum::{
    extract::Query,
    http::{Method, Uri},
};
use serde_json::Value;

use super::{
    authorize::{
        Action::{self, Create, Delete, Read, Update},
        Resource::{self, Assistants, Runs, Threads},
    },
    operations::find_operation,
};

/// The access that covers every command of the event protocol. A WebSocket needs it, because it can carry any command.
const ALL_COMMANDS: &[(Resource, Action)] = &[(Threads, Read), (Threads, Update), (Runs, Create)];

/// Returns the access that a request needs, or an empty list if no route answers the request. A null `body` means that
/// the body is unknown; the result then covers every possible body.
pub(super) fn required_access(
    method: &Method,
    uri: &Uri,
    body: &Value,
) -> &'static [(Resource, Action)] {
    let segments: Vec<_> = uri.path().trim_matches('/').split('/').collect();
    let called = body["method"].as_str().unwrap_or_default();
    match (method.as_str(), segments.as_slice()) {
        // A WebSocket, which the OpenAPI document does not describe.
        ("GET" | "HEAD", ["threads", _, "stream", "events"]) => return ALL_COMMANDS,
        ("POST", ["threads", _, "commands"]) => return of_command(called),
        ("POST", ["a2a", _]) => return of_a2a(called),
        _ => {}
    }
    let Some(operation) = find_operation(method, uri) else { return &[] };
    match operation.access.as_slice() {
        [(Assistants, Delete)] if has_flag(uri, "delete_threads") => {
            &[(Assistants, Delete), (Threads, Delete)]
        }
        [(Runs, Read)] if has_flag(uri, "cancel_on_disconnect") => &[(Runs, Read), (Runs, Update)],
        access => access,
    }
}

/// Returns the access that a command of the event protocol needs.
fn of_command(method: &str) -> &'static [(Resource, Action)] {
    match method {
        "run.start" | "input.respond" | "input.inject" => &[(Runs, Create)],
        "state.get" | "state.listCheckpoints" | "agent.getTree" => &[(Threads, Read)],
        "state.fork" => &[(Threads, Update)],
        _ => ALL_COMMANDS,
    }
}

/// Returns the access that a method of A2A needs.
fn of_a2a(method: &str) -> &'static [(Resource, Action)] {
    match method {
        "tasks/get" => &[(Runs, Read)],
        "tasks/cancel" => &[(Runs, Update)],
        _ => &[(Runs, Create)],
    }
}

/// Returns whether a query parameter may be set to true. Every value except `0` and `false` counts as true. Also
/// returns `true` if the query cannot be parsed.
fn has_flag(uri: &Uri, flag: &str) -> bool {
    let parameters = Query::<Vec<(String, String)>>::try_from_uri(uri);
    parameters.map_or(true, |Query(parameters)| {
        let is_set = |(name, value): &(String, String)| {
            name == flag && !["0", "false"].contains(&value.to_ascii_lowercase().as_str())
        };
        parameters.iter().any(is_set)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::langgraph::authorize::{
        Action::Search,
        Resource::{Crons, Metrics, Store},
    };

    fn required(method: &str, uri: &str, body: &Value) -> &'static [(Resource, Action)] {
        let method = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
        required_access(&method, &uri.parse().unwrap(), body)
    }

    #[test]
    fn operations_need_access_to_their_resource() {
        let needed = |method, path: &str| required(method, path, &Value::Null);
        assert_eq!(needed("get", "/metrics"), [(Metrics, Read)]);
        assert_eq!(needed("post", "/assistants/search"), [(Assistants, Search)]);
        assert_eq!(needed("post", "/assistants/a/versions"), [(Assistants, Read)]);
        assert_eq!(needed("patch", "/assistants/a"), [(Assistants, Update)]);
        assert_eq!(needed("get", "/.well-known/agent-card.json"), [(Assistants, Read)]);
        assert_eq!(needed("post", "/threads/t/copy"), [(Threads, Create)]);
        assert_eq!(needed("post", "/threads/t/state"), [(Threads, Update)]);
        assert_eq!(needed("post", "/threads/t/history"), [(Threads, Read)]);
        assert_eq!(needed("post", "/threads/prune"), [(Threads, Delete)]);
        assert_eq!(needed("get", "/threads/t/runs"), [(Runs, Search)]);
        assert_eq!(needed("post", "/threads/t/runs/wait"), [(Runs, Create)]);
        assert_eq!(needed("post", "/threads/t/runs/r/cancel"), [(Runs, Update)]);
        assert_eq!(needed("post", "/ag-ui/search"), [(Runs, Create)]);
        assert_eq!(needed("post", "/threads/t/runs/crons"), [(Crons, Create)]);
        assert_eq!(needed("put", "/store/items"), [(Store, Update)]);
        assert_eq!(needed("delete", "/store/items"), [(Store, Delete)]);
        assert_eq!(needed("post", "/store/namespaces"), [(Store, Search)]);
        assert_eq!(needed("post", "/threads/t/commands"), ALL_COMMANDS);
        assert!(needed("get", "/info").is_empty());
    }

    #[test]
    fn the_required_access_depends_on_bodies_and_flags() {
        let called =
            |path: &str, method: &str| required("post", path, &json!({ "method": method }));
        assert_eq!(called("/threads/t/commands", "run.start"), [(Runs, Create)]);
        assert_eq!(called("/threads/t/commands", "state.get"), [(Threads, Read)]);
        assert_eq!(called("/threads/t/commands", "state.fork"), [(Threads, Update)]);
        assert_eq!(called("/threads/t/commands", "other"), ALL_COMMANDS);
        assert_eq!(called("/a2a/a", "message/send"), [(Runs, Create)]);
        assert_eq!(called("/a2a/a", "tasks/get"), [(Runs, Read)]);
        assert_eq!(called("/a2a/a", "tasks/cancel"), [(Runs, Update)]);
        let null = Value::Null;
        assert_eq!(required("get", "/threads/t/stream/events", &null), ALL_COMMANDS);
        assert_eq!(required("post", "/mcp/", &null), [(Runs, Create)]);
        assert_eq!(required("head", "/threads/t", &null), [(Threads, Read)]);
        let joined = "/threads/t/runs/r/join?cancel_on_disconnect=1";
        assert_eq!(required("get", joined, &null), [(Runs, Read), (Runs, Update)]);
        let deleted = "/assistants/a?delete_threads=true";
        assert_eq!(required("delete", deleted, &null), [(Assistants, Delete), (Threads, Delete)]);
        assert!(required("get", "/mcp", &null).is_empty());
    }
}
