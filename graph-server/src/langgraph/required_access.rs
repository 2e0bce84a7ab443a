//! The objects that a request accesses, and its actions on them.

use axum::{
    extract::Query,
    http::{Method, Uri},
};
use serde_json::Value;

use super::authorize::{
    Action::{self, Create, Delete, Read, Search, Update},
    Resource::{self, Assistants, Crons, Metrics, Runs, Store, Threads},
};

/// Access that all commands of the event protocol need together. A WebSocket can carry every command.
const ALL_COMMANDS: &[(Resource, Action)] = &[(Threads, Read), (Threads, Update), (Runs, Create)];

/// Returns the access that a request needs. Some requests need more if their `body` is unknown, which is null then.
/// Returns an empty list for a request that no route answers.
pub(super) fn required_access(
    method: &Method,
    uri: &Uri,
    body: &Value,
) -> &'static [(Resource, Action)] {
    let method = if *method == Method::HEAD { "GET" } else { method.as_str() };
    let segments: Vec<_> = uri.path().trim_matches('/').split('/').collect();
    let called = body["method"].as_str().unwrap_or_default();
    match (method, segments.as_slice()) {
        ("GET", ["metrics"]) => &[(Metrics, Read)],

        ("POST", ["assistants"]) => &[(Assistants, Create)],
        ("POST", ["assistants", "search" | "count"]) => &[(Assistants, Search)],
        ("GET", [".well-known", "agent-card.json"] | ["assistants", _, ..])
        | ("POST", ["assistants", _, "versions"]) => &[(Assistants, Read)],
        ("PATCH", ["assistants", _]) | ("POST", ["assistants", _, "latest"]) => {
            &[(Assistants, Update)]
        }
        ("DELETE", ["assistants", _]) if has_flag(uri, "delete_threads") => {
            &[(Assistants, Delete), (Threads, Delete)]
        }
        ("DELETE", ["assistants", _]) => &[(Assistants, Delete)],

        ("POST", ["threads"] | ["threads", _, "copy"]) => &[(Threads, Create)],
        ("POST", ["threads", "search" | "count"]) => &[(Threads, Search)],
        (
            "GET",
            ["threads", _]
            | ["threads", _, "state" | "history" | "stream"]
            | ["threads", _, "state", _],
        )
        | (
            "POST",
            ["threads", _, "history"]
            | ["threads", _, "state", "checkpoint"]
            | ["threads", _, "stream", "events"],
        ) => &[(Threads, Read)],
        ("PATCH", ["threads", _]) | ("POST", ["threads", _, "state"]) => &[(Threads, Update)],
        ("DELETE", ["threads", _]) | ("POST", ["threads", "prune"]) => &[(Threads, Delete)],
        ("POST", ["threads", _, "commands"]) => of_command(called),
        ("GET", ["threads", _, "stream", "events"]) => ALL_COMMANDS,

        ("POST", ["runs", "crons"] | ["threads", _, "runs", "crons"]) => &[(Crons, Create)],
        ("POST", ["runs", "crons", "search" | "count"]) => &[(Crons, Search)],
        ("GET", ["runs", "crons", _]) => &[(Crons, Read)],
        ("PATCH", ["runs", "crons", _]) => &[(Crons, Update)],
        ("DELETE", ["runs", "crons", _]) => &[(Crons, Delete)],

        ("POST", ["a2a", _]) => of_a2a(called),
        (
            "POST",
            ["mcp"]
            | ["ag-ui" | "ai-sdk", _]
            | ["runs"]
            | ["runs", "wait" | "stream" | "batch"]
            | ["threads", _, "runs"]
            | ["threads", _, "runs", "wait" | "stream"],
        ) => &[(Runs, Create)],
        ("GET", ["threads", _, "runs"]) => &[(Runs, Search)],
        (
            "GET",
            ["threads", _, "runs", _]
            | ["threads", _, "runs", _, "join" | "stream"]
            | ["runs", _, "stream"]
            | ["ai-sdk", _, _, "stream"],
        ) => match has_flag(uri, "cancel_on_disconnect") {
            true => &[(Runs, Read), (Runs, Update)],
            false => &[(Runs, Read)],
        },
        ("POST", ["runs", "cancel"] | ["threads", _, "runs", _, "cancel"]) => &[(Runs, Update)],
        ("DELETE", ["threads", _, "runs", _]) => &[(Runs, Delete)],

        ("GET", ["store", "items"]) => &[(Store, Read)],
        ("PUT", ["store", "items"]) => &[(Store, Update)],
        ("DELETE", ["store", "items"]) => &[(Store, Delete)],
        ("POST", ["store", "items", "search"] | ["store", "namespaces"]) => &[(Store, Search)],

        _ => &[],
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

/// Returns whether a query parameter may have the value `true`.
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
    use crate::langgraph::openapi::document;

    /// The documented operations, and the access that they need if their body is unknown.
    const TABLE: &[(&str, &str, &[(Resource, Action)])] = &[
        ("get", "/metrics", &[(Metrics, Read)]),
        ("post", "/assistants", &[(Assistants, Create)]),
        ("post", "/assistants/search", &[(Assistants, Search)]),
        ("post", "/assistants/count", &[(Assistants, Search)]),
        ("get", "/assistants/{assistant_id}", &[(Assistants, Read)]),
        ("patch", "/assistants/{assistant_id}", &[(Assistants, Update)]),
        ("delete", "/assistants/{assistant_id}", &[(Assistants, Delete)]),
        ("get", "/assistants/{assistant_id}/graph", &[(Assistants, Read)]),
        ("get", "/assistants/{assistant_id}/schemas", &[(Assistants, Read)]),
        ("get", "/assistants/{assistant_id}/subgraphs", &[(Assistants, Read)]),
        ("get", "/assistants/{assistant_id}/subgraphs/{namespace}", &[(Assistants, Read)]),
        ("post", "/assistants/{assistant_id}/versions", &[(Assistants, Read)]),
        ("post", "/assistants/{assistant_id}/latest", &[(Assistants, Update)]),
        ("post", "/threads", &[(Threads, Create)]),
        ("post", "/threads/search", &[(Threads, Search)]),
        ("post", "/threads/count", &[(Threads, Search)]),
        ("post", "/threads/prune", &[(Threads, Delete)]),
        ("get", "/threads/{thread_id}", &[(Threads, Read)]),
        ("patch", "/threads/{thread_id}", &[(Threads, Update)]),
        ("delete", "/threads/{thread_id}", &[(Threads, Delete)]),
        ("post", "/threads/{thread_id}/copy", &[(Threads, Create)]),
        ("get", "/threads/{thread_id}/state", &[(Threads, Read)]),
        ("post", "/threads/{thread_id}/state", &[(Threads, Update)]),
        ("get", "/threads/{thread_id}/state/{checkpoint_id}", &[(Threads, Read)]),
        ("post", "/threads/{thread_id}/state/checkpoint", &[(Threads, Read)]),
        ("get", "/threads/{thread_id}/history", &[(Threads, Read)]),
        ("post", "/threads/{thread_id}/history", &[(Threads, Read)]),
        ("get", "/threads/{thread_id}/stream", &[(Threads, Read)]),
        ("get", "/threads/{thread_id}/runs", &[(Runs, Search)]),
        ("post", "/threads/{thread_id}/runs", &[(Runs, Create)]),
        ("post", "/threads/{thread_id}/runs/wait", &[(Runs, Create)]),
        ("post", "/threads/{thread_id}/runs/stream", &[(Runs, Create)]),
        ("get", "/threads/{thread_id}/runs/{run_id}", &[(Runs, Read)]),
        ("delete", "/threads/{thread_id}/runs/{run_id}", &[(Runs, Delete)]),
        ("post", "/threads/{thread_id}/runs/{run_id}/cancel", &[(Runs, Update)]),
        ("get", "/threads/{thread_id}/runs/{run_id}/join", &[(Runs, Read)]),
        ("get", "/threads/{thread_id}/runs/{run_id}/stream", &[(Runs, Read)]),
        ("post", "/runs/cancel", &[(Runs, Update)]),
        ("post", "/runs", &[(Runs, Create)]),
        ("post", "/runs/wait", &[(Runs, Create)]),
        ("post", "/runs/stream", &[(Runs, Create)]),
        ("post", "/runs/batch", &[(Runs, Create)]),
        ("get", "/runs/{run_id}/stream", &[(Runs, Read)]),
        ("post", "/runs/crons", &[(Crons, Create)]),
        ("post", "/threads/{thread_id}/runs/crons", &[(Crons, Create)]),
        ("post", "/runs/crons/search", &[(Crons, Search)]),
        ("post", "/runs/crons/count", &[(Crons, Search)]),
        ("get", "/runs/crons/{cron_id}", &[(Crons, Read)]),
        ("patch", "/runs/crons/{cron_id}", &[(Crons, Update)]),
        ("delete", "/runs/crons/{cron_id}", &[(Crons, Delete)]),
        ("get", "/store/items", &[(Store, Read)]),
        ("put", "/store/items", &[(Store, Update)]),
        ("delete", "/store/items", &[(Store, Delete)]),
        ("post", "/store/items/search", &[(Store, Search)]),
        ("post", "/store/namespaces", &[(Store, Search)]),
        ("post", "/threads/{thread_id}/commands", ALL_COMMANDS),
        ("post", "/threads/{thread_id}/stream/events", &[(Threads, Read)]),
        ("post", "/mcp", &[(Runs, Create)]),
        ("post", "/a2a/{assistant_id}", &[(Runs, Create)]),
        ("get", "/.well-known/agent-card.json", &[(Assistants, Read)]),
        ("post", "/ag-ui/{assistant_id}", &[(Runs, Create)]),
        ("post", "/ai-sdk/{assistant_id}", &[(Runs, Create)]),
        ("get", "/ai-sdk/{assistant_id}/{chat_id}/stream", &[(Runs, Read)]),
    ];

    fn required(method: &str, uri: &str, body: &Value) -> &'static [(Resource, Action)] {
        let method = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
        required_access(&method, &uri.parse().unwrap(), body)
    }

    #[test]
    fn every_operation_needs_the_access_of_the_table() {
        for (method, path, expected) in TABLE {
            // A name of a graph can be the same as a part of another path.
            for id in ["x", "search"] {
                let segment = |it: &str| (if it.starts_with('{') { id } else { it }).to_owned();
                let path = path.split('/').map(segment).collect::<Vec<_>>().join("/");
                assert_eq!(required(method, &path, &Value::Null), *expected, "{method} {path}");
            }
        }
    }

    #[test]
    fn every_documented_operation_is_in_the_table() {
        for (path, methods) in document()["paths"].as_object().unwrap() {
            for method in methods.as_object().unwrap().keys() {
                let is_listed = TABLE.iter().any(|it| it.0 == method && it.1 == path);
                let is_open = ["/ok", "/info"].contains(&path.as_str());
                assert!(is_listed || is_open, "{method} {path}");
            }
        }
    }

    #[test]
    fn bodies_and_flags_select_the_access() {
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
