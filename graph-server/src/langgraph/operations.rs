//! The operations of the API: the access that they need, and their descriptions.

mod operation;

use axum::http::{Method, Uri};

pub(super) use self::operation::{Answer, Operation};
use self::operation::{Tag, delete, get, post, tag};
use super::authorize::{
    Action::{Delete, Read, Search, Update},
    Resource::{Assistants, Crons, Metrics, Runs, Store, Threads},
};

const ASSISTANTS: Tag = tag("Assistants", Assistants);
const THREADS: Tag = tag("Threads", Threads);
const RUNS: Tag = tag("Runs", Runs);
const STATELESS: Tag = tag("Stateless runs", Runs);
const CRONS: Tag = tag("Crons", Crons);
const STORE: Tag = tag("Store", Store);
const EVENTS: Tag = tag("Event protocol", Threads);
const TOOLS: Tag = tag("MCP and A2A", Runs);
const INTERFACES: Tag = tag("User interfaces", Runs);
const SYSTEM: Tag = tag("System", Metrics);

const STATE_QUERY: &[(&str, &str)] =
    &[("subgraphs", "Flag"), ("checkpoint_ns", "Text"), ("select", "StateFields")];

const JOIN_QUERY: &[(&str, &str)] =
    &[("stream_mode", "StreamModes"), ("cancel_on_disconnect", "Flag")];

/// All operations.
pub(super) const OPERATIONS: &[Operation] = &[
    get(SYSTEM, "/ok", Answer::Any, "Check that the server runs")
        .open()
        .query(&[("check_db", "Flag")]),
    get(SYSTEM, "/info", Answer::Any, "Read the version and the features of the server").open(),
    get(SYSTEM, "/metrics", Answer::Text, "Read metrics in the Prometheus text format")
        .query(&[("format", "MetricsFormat")]),
    post(
        ASSISTANTS,
        "/assistants",
        "AssistantCreate",
        Answer::Object("Assistant"),
        "Create an assistant",
    ),
    post(ASSISTANTS, "/assistants/search", "AssistantSearch", Answer::Any, "Search assistants")
        .action(Search),
    post(ASSISTANTS, "/assistants/count", "AssistantSearch", Answer::Count, "Count assistants")
        .action(Search),
    get(ASSISTANTS, "/assistants/{assistant_id}", Answer::Object("Assistant"), "Read an assistant"),
    post(
        ASSISTANTS,
        "/assistants/{assistant_id}",
        "AssistantUpdate",
        Answer::Object("Assistant"),
        "Change an assistant",
    )
    .method("patch", Update),
    delete(ASSISTANTS, "/assistants/{assistant_id}", "Delete an assistant")
        .query(&[("delete_threads", "Flag")]),
    get(
        ASSISTANTS,
        "/assistants/{assistant_id}/graph",
        Answer::Any,
        "Read the nodes and edges of the graph",
    )
    .query(&[("xray", "Xray")]),
    get(
        ASSISTANTS,
        "/assistants/{assistant_id}/schemas",
        Answer::Any,
        "Read the schemas of the graph",
    ),
    get(
        ASSISTANTS,
        "/assistants/{assistant_id}/subgraphs",
        Answer::Any,
        "Read the schemas of the subgraphs",
    )
    .query(&[("recurse", "Flag")]),
    get(
        ASSISTANTS,
        "/assistants/{assistant_id}/subgraphs/{namespace}",
        Answer::Any,
        "Read the schemas of a subgraph",
    )
    .query(&[("recurse", "Flag")]),
    post(
        ASSISTANTS,
        "/assistants/{assistant_id}/versions",
        "VersionSearch",
        Answer::List("Assistant"),
        "List the versions of an assistant",
    )
    .action(Read),
    post(
        ASSISTANTS,
        "/assistants/{assistant_id}/latest",
        "VersionSelect",
        Answer::Object("Assistant"),
        "Select the current version of an assistant",
    )
    .action(Update),
    post(THREADS, "/threads", "ThreadCreate", Answer::Object("Thread"), "Create a thread"),
    post(THREADS, "/threads/search", "ThreadSearch", Answer::Any, "Search threads").action(Search),
    post(THREADS, "/threads/count", "ThreadSearch", Answer::Count, "Count threads").action(Search),
    post(
        THREADS,
        "/threads/prune",
        "ThreadPrune",
        Answer::Any,
        "Delete threads or their old checkpoints",
    )
    .action(Delete),
    get(THREADS, "/threads/{thread_id}", Answer::Object("Thread"), "Read a thread")
        .query(&[("include", "ThreadExtra")]),
    post(
        THREADS,
        "/threads/{thread_id}",
        "ThreadUpdate",
        Answer::ObjectOrEmpty("Thread"),
        "Change the metadata or the time to live of a thread",
    )
    .method("patch", Update),
    delete(THREADS, "/threads/{thread_id}", "Delete a thread"),
    post(THREADS, "/threads/{thread_id}/copy", "Empty", Answer::Object("Thread"), "Copy a thread")
        .without_body(),
    get(
        THREADS,
        "/threads/{thread_id}/state",
        Answer::Object("State"),
        "Read the state of a thread",
    )
    .query(STATE_QUERY),
    post(
        THREADS,
        "/threads/{thread_id}/state",
        "StateUpdate",
        Answer::Any,
        "Edit the state of a thread",
    )
    .action(Update),
    post(
        THREADS,
        "/threads/{thread_id}/state",
        "ThreadUpdate",
        Answer::ObjectOrEmpty("Thread"),
        "Change the metadata or the time to live of a thread",
    )
    .method("patch", Update),
    get(
        THREADS,
        "/threads/{thread_id}/state/{checkpoint_id}",
        Answer::Object("State"),
        "Read the state at a checkpoint",
    )
    .query(STATE_QUERY),
    post(
        THREADS,
        "/threads/{thread_id}/state/checkpoint",
        "StateRead",
        Answer::Object("State"),
        "Read the state at a checkpoint",
    )
    .action(Read),
    get(
        THREADS,
        "/threads/{thread_id}/history",
        Answer::List("State"),
        "List the states of a thread",
    )
    .query(&[("limit", "Limit"), ("before", "Uuid"), ("select", "StateFields")]),
    post(
        THREADS,
        "/threads/{thread_id}/history",
        "HistorySearch",
        Answer::List("State"),
        "List the states of a thread",
    )
    .action(Read),
    get(THREADS, "/threads/{thread_id}/stream", Answer::Events, "Stream the events of a thread")
        .query(&[("stream_modes", "ThreadStreamModes")]),
    get(RUNS, "/threads/{thread_id}/runs", Answer::Any, "List the runs of a thread")
        .action(Search)
        .query(&[
            ("limit", "Limit"),
            ("offset", "Offset"),
            ("status", "RunStatus"),
            ("select", "RunFields"),
        ]),
    post(RUNS, "/threads/{thread_id}/runs", "RunCreate", Answer::Object("Run"), "Start a run"),
    post(
        RUNS,
        "/threads/{thread_id}/runs/wait",
        "RunCreate",
        Answer::Any,
        "Start a run and wait for its output",
    ),
    post(
        RUNS,
        "/threads/{thread_id}/runs/stream",
        "RunCreate",
        Answer::Events,
        "Start a run and stream its events",
    ),
    get(RUNS, "/threads/{thread_id}/runs/{run_id}", Answer::Object("Run"), "Read a run"),
    delete(RUNS, "/threads/{thread_id}/runs/{run_id}", "Delete a run"),
    post(
        RUNS,
        "/threads/{thread_id}/runs/{run_id}/cancel",
        "Empty",
        Answer::AnyOrAccepted,
        "Cancel a run",
    )
    .action(Update)
    .without_body()
    .query(&[("wait", "Flag"), ("action", "CancelAction")]),
    get(
        RUNS,
        "/threads/{thread_id}/runs/{run_id}/join",
        Answer::Any,
        "Wait for the output of a run",
    )
    .query(&[("cancel_on_disconnect", "Flag")]),
    get(
        RUNS,
        "/threads/{thread_id}/runs/{run_id}/stream",
        Answer::Events,
        "Stream the events of a run",
    )
    .query(JOIN_QUERY),
    post(RUNS, "/runs/cancel", "RunsCancel", Answer::Empty, "Cancel several runs")
        .action(Update)
        .query(&[("action", "CancelAction")]),
    post(STATELESS, "/runs", "RunCreate", Answer::Object("Run"), "Start a run on a new thread"),
    post(
        STATELESS,
        "/runs/wait",
        "RunCreate",
        Answer::Any,
        "Start a run on a new thread and wait for its output",
    ),
    post(
        STATELESS,
        "/runs/stream",
        "RunCreate",
        Answer::Events,
        "Start a run on a new thread and stream its events",
    ),
    post(STATELESS, "/runs/batch", "RunBatch", Answer::List("Run"), "Start several runs"),
    get(STATELESS, "/runs/{run_id}/stream", Answer::Events, "Stream the events of a recent run")
        .query(JOIN_QUERY),
    post(CRONS, "/runs/crons", "CronCreate", Answer::Object("Cron"), "Start runs on a schedule"),
    post(
        CRONS,
        "/threads/{thread_id}/runs/crons",
        "CronCreate",
        Answer::Object("Cron"),
        "Start runs of a thread on a schedule",
    ),
    post(CRONS, "/runs/crons/search", "CronSearch", Answer::Any, "Search crons").action(Search),
    post(CRONS, "/runs/crons/count", "CronSearch", Answer::Count, "Count crons").action(Search),
    get(CRONS, "/runs/crons/{cron_id}", Answer::Object("Cron"), "Read a cron"),
    post(CRONS, "/runs/crons/{cron_id}", "CronUpdate", Answer::Object("Cron"), "Change a cron")
        .method("patch", Update),
    delete(CRONS, "/runs/crons/{cron_id}", "Delete a cron"),
    get(STORE, "/store/items", Answer::Any, "Read an item").query(&[
        ("namespace", "Text"),
        ("key", "Text"),
        ("refresh_ttl", "Flag"),
    ]),
    post(STORE, "/store/items", "ItemPut", Answer::Empty, "Write an item").method("put", Update),
    post(STORE, "/store/items", "ItemDelete", Answer::Empty, "Delete an item")
        .method("delete", Delete),
    post(STORE, "/store/items/search", "ItemSearch", Answer::Any, "Search items").action(Search),
    post(STORE, "/store/namespaces", "NamespaceSearch", Answer::Any, "List namespaces")
        .action(Search),
    post(
        EVENTS,
        "/threads/{thread_id}/commands",
        "ProtocolCommand",
        Answer::Any,
        "Start or fork a run, answer an interrupt, or read the state",
    )
    .action(Update),
    post(
        EVENTS,
        "/threads/{thread_id}/stream/events",
        "EventSelection",
        Answer::Events,
        "Stream the events of a thread",
    )
    .action(Read),
    post(TOOLS, "/mcp", "RpcRequest", Answer::AnyOrAccepted, "Call graphs as tools"),
    post(TOOLS, "/a2a/{assistant_id}", "RpcRequest", Answer::Any, "Call an assistant as an agent"),
    get(TOOLS, "/.well-known/agent-card.json", Answer::Any, "Describe an assistant as an agent")
        .access(Assistants, Read)
        .query(&[("assistant_id", "Text")]),
    post(
        INTERFACES,
        "/ag-ui/{assistant_id}",
        "AgUiRun",
        Answer::Events,
        "Run an assistant for an AG-UI client",
    ),
    post(
        INTERFACES,
        "/ai-sdk/{assistant_id}",
        "AiSdkChat",
        Answer::Events,
        "Run an assistant for a chat of the AI SDK",
    ),
    get(
        INTERFACES,
        "/ai-sdk/{assistant_id}/{chat_id}/stream",
        Answer::EventsOrEmpty,
        "Stream the active run of a chat",
    ),
];

/// Returns the operation that answers a request.
pub(super) fn find_operation(method: &Method, uri: &Uri) -> Option<&'static Operation> {
    let method = if *method == Method::HEAD { "GET" } else { method.as_str() };
    let path: Vec<_> = uri.path().trim_matches('/').split('/').collect();
    let has_method = |it: &&Operation| it.method.eq_ignore_ascii_case(method);
    let matching = OPERATIONS.iter().filter(has_method).filter(|it| has_path(it, &path));
    // As in the router, fixed segments have precedence over parameters.
    matching.min_by_key(|it| it.path.matches('{').count())
}

fn has_path(operation: &Operation, path: &[&str]) -> bool {
    let mut expected = operation.path.trim_start_matches('/').split('/');
    let has_next =
        |it: &&str| expected.next().is_some_and(|own| own.starts_with('{') || own == *it);
    path.iter().all(has_next) && expected.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(method: &str, uri: &str) -> Option<&'static str> {
        let method = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
        find_operation(&method, &uri.parse().unwrap()).map(|it| it.path)
    }

    #[test]
    fn every_operation_is_found_by_its_path() {
        for operation in OPERATIONS {
            // A name of a graph can be the same as a part of another path.
            for id in ["x", "search"] {
                let segment = |it: &'static str| if it.starts_with('{') { id } else { it };
                let path: Vec<_> = operation.path.split('/').map(segment).collect();
                let path = path.join("/");
                let found = find(operation.method, &path);
                assert_eq!(found, Some(operation.path), "{} {path}", operation.method);
            }
        }
        assert_eq!(find("head", "/threads/x?include=ttl"), Some("/threads/{thread_id}"));
        assert_eq!(find("get", "/threads/x/missing"), None);
        assert_eq!(find("get", "/threads/x/state/y/z"), None);
        assert_eq!(find("get", "/threads"), None);
    }
}
