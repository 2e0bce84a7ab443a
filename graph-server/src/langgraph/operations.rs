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
    get(SYSTEM, "/ok", "Check that the server runs").open().query(&[("check_db", "Flag")]),
    get(SYSTEM, "/info", "Read the version and the features of the server").open(),
    get(SYSTEM, "/metrics", "Read metrics in the Prometheus text format")
        .answer(Answer::Text)
        .query(&[("format", "MetricsFormat")]),
    post(ASSISTANTS, "/assistants", "Create an assistant")
        .body("AssistantCreate")
        .answer(Answer::Object("Assistant")),
    post(ASSISTANTS, "/assistants/search", "Search assistants")
        .body("AssistantSearch")
        .action(Search),
    post(ASSISTANTS, "/assistants/count", "Count assistants")
        .body("AssistantSearch")
        .answer(Answer::Count)
        .action(Search),
    get(ASSISTANTS, "/assistants/{assistant_id}", "Read an assistant")
        .answer(Answer::Object("Assistant")),
    post(ASSISTANTS, "/assistants/{assistant_id}", "Change an assistant")
        .body("AssistantUpdate")
        .answer(Answer::Object("Assistant"))
        .method("patch", Update),
    delete(ASSISTANTS, "/assistants/{assistant_id}", "Delete an assistant")
        .query(&[("delete_threads", "Flag")]),
    get(ASSISTANTS, "/assistants/{assistant_id}/graph", "Read the nodes and edges of the graph")
        .query(&[("xray", "Xray")]),
    get(ASSISTANTS, "/assistants/{assistant_id}/schemas", "Read the schemas of the graph"),
    get(ASSISTANTS, "/assistants/{assistant_id}/subgraphs", "Read the schemas of the subgraphs")
        .query(&[("recurse", "Flag")]),
    get(
        ASSISTANTS,
        "/assistants/{assistant_id}/subgraphs/{namespace}",
        "Read the schemas of a subgraph",
    )
    .query(&[("recurse", "Flag")]),
    post(ASSISTANTS, "/assistants/{assistant_id}/versions", "List the versions of an assistant")
        .body("VersionSearch")
        .answer(Answer::List("Assistant"))
        .action(Read),
    post(
        ASSISTANTS, "/assistants/{assistant_id}/latest",
        "Select the current version of an assistant",
    )
    .body("VersionSelect")
    .answer(Answer::Object("Assistant"))
    .action(Update),
    post(THREADS, "/threads", "Create a thread")
        .body("ThreadCreate")
        .answer(Answer::Object("Thread")),
    post(THREADS, "/threads/search", "Search threads").body("ThreadSearch").action(Search),
    post(THREADS, "/threads/count", "Count threads")
        .body("ThreadSearch")
        .answer(Answer::Count)
        .action(Search),
    post(THREADS, "/threads/prune", "Delete threads or their old checkpoints")
        .body("ThreadPrune")
        .action(Delete),
    get(THREADS, "/threads/{thread_id}", "Read a thread")
        .answer(Answer::Object("Thread"))
        .query(&[("include", "ThreadExtra")]),
    post(THREADS, "/threads/{thread_id}", "Change the metadata or the time to live of a thread")
        .body("ThreadUpdate")
        .answer(Answer::ObjectOrEmpty("Thread"))
        .method("patch", Update),
    delete(THREADS, "/threads/{thread_id}", "Delete a thread"),
    post(THREADS, "/threads/{thread_id}/copy", "Copy a thread").answer(Answer::Object("Thread")),
    get(THREADS, "/threads/{thread_id}/state", "Read the state of a thread")
        .answer(Answer::Object("State"))
        .query(STATE_QUERY),
    post(THREADS, "/threads/{thread_id}/state", "Edit the state of a thread")
        .body("StateUpdate")
        .action(Update),
    post(
        THREADS,
        "/threads/{thread_id}/state",
        "Change the metadata or the time to live of a thread",
    )
    .body("ThreadUpdate")
    .answer(Answer::ObjectOrEmpty("Thread"))
    .method("patch", Update),
    get(THREADS, "/threads/{thread_id}/state/{checkpoint_id}", "Read the state at a checkpoint")
        .answer(Answer::Object("State"))
        .query(STATE_QUERY),
    post(THREADS, "/threads/{thread_id}/state/checkpoint", "Read the state at a checkpoint")
        .body("StateRead")
        .answer(Answer::Object("State"))
        .action(Read),
    get(THREADS, "/threads/{thread_id}/history", "List the states of a thread")
        .answer(Answer::List("State"))
        .query(&[("limit", "Limit"), ("before", "Uuid"), ("select", "StateFields")]),
    post(THREADS, "/threads/{thread_id}/history", "List the states of a thread")
        .body("HistorySearch")
        .answer(Answer::List("State"))
        .action(Read),
    get(THREADS, "/threads/{thread_id}/stream", "Stream the events of a thread")
        .answer(Answer::Events)
        .query(&[("stream_modes", "ThreadStreamModes")]),
    get(RUNS, "/threads/{thread_id}/runs", "List the runs of a thread").action(Search).query(&[
        ("limit", "Limit"),
        ("offset", "Offset"),
        ("status", "RunStatus"),
        ("select", "RunFields"),
    ]),
    post(RUNS, "/threads/{thread_id}/runs", "Start a run")
        .body("RunCreate")
        .answer(Answer::Object("Run")),
    post(RUNS, "/threads/{thread_id}/runs/wait", "Start a run and wait for its output")
        .body("RunCreate"),
    post(RUNS, "/threads/{thread_id}/runs/stream", "Start a run and stream its events")
        .body("RunCreate")
        .answer(Answer::Events),
    get(RUNS, "/threads/{thread_id}/runs/{run_id}", "Read a run").answer(Answer::Object("Run")),
    delete(RUNS, "/threads/{thread_id}/runs/{run_id}", "Delete a run"),
    post(RUNS, "/threads/{thread_id}/runs/{run_id}/cancel", "Cancel a run")
        .answer(Answer::AnyOrAccepted)
        .action(Update)
        .query(&[("wait", "Flag"), ("action", "CancelAction")]),
    get(RUNS, "/threads/{thread_id}/runs/{run_id}/join", "Wait for the output of a run")
        .query(&[("cancel_on_disconnect", "Flag")]),
    get(RUNS, "/threads/{thread_id}/runs/{run_id}/stream", "Stream the events of a run")
        .answer(Answer::Events)
        .query(JOIN_QUERY),
    post(RUNS, "/runs/cancel", "Cancel several runs")
        .body("RunsCancel")
        .answer(Answer::Empty)
        .action(Update)
        .query(&[("action", "CancelAction")]),
    post(STATELESS, "/runs", "Start a run on a new thread")
        .body("RunCreate")
        .answer(Answer::Object("Run")),
    post(STATELESS, "/runs/wait", "Start a run on a new thread and wait for its output")
        .body("RunCreate"),
    post(STATELESS, "/runs/stream", "Start a run on a new thread and stream its events")
        .body("RunCreate")
        .answer(Answer::Events),
    post(STATELESS, "/runs/batch", "Start several runs")
        .body("RunBatch")
        .answer(Answer::List("Run")),
    get(STATELESS, "/runs/{run_id}/stream", "Stream the events of a recent run")
        .answer(Answer::Events)
        .query(JOIN_QUERY),
    post(CRONS, "/runs/crons", "Start runs on a schedule")
        .body("CronCreate")
        .answer(Answer::Object("Cron")),
    post(CRONS, "/threads/{thread_id}/runs/crons", "Start runs of a thread on a schedule")
        .body("CronCreate")
        .answer(Answer::Object("Cron")),
    post(CRONS, "/runs/crons/search", "Search crons").body("CronSearch").action(Search),
    post(CRONS, "/runs/crons/count", "Count crons")
        .body("CronSearch")
        .answer(Answer::Count)
        .action(Search),
    get(CRONS, "/runs/crons/{cron_id}", "Read a cron").answer(Answer::Object("Cron")),
    post(CRONS, "/runs/crons/{cron_id}", "Change a cron")
        .body("CronUpdate")
        .answer(Answer::Object("Cron"))
        .method("patch", Update),
    delete(CRONS, "/runs/crons/{cron_id}", "Delete a cron"),
    get(STORE, "/store/items", "Read an item").query(&[
        ("namespace", "Text"),
        ("key", "Text"),
        ("refresh_ttl", "Flag"),
    ]),
    post(STORE, "/store/items", "Write an item")
        .body("ItemPut")
        .answer(Answer::Empty)
        .method("put", Update),
    post(STORE, "/store/items", "Delete an item")
        .body("ItemDelete")
        .answer(Answer::Empty)
        .method("delete", Delete),
    post(STORE, "/store/items/search", "Search items").body("ItemSearch").action(Search),
    post(STORE, "/store/namespaces", "List namespaces").body("NamespaceSearch").action(Search),
    post(
        EVENTS,
        "/threads/{thread_id}/commands",
        "Start or fork a run, answer an interrupt, or read the state",
    )
    .body("ProtocolCommand")
    .action(Update),
    post(EVENTS, "/threads/{thread_id}/stream/events", "Stream the events of a thread")
        .body("EventSelection")
        .answer(Answer::Events)
        .action(Read),
    post(TOOLS, "/mcp", "Call graphs as tools").body("RpcRequest").answer(Answer::AnyOrAccepted),
    post(TOOLS, "/a2a/{assistant_id}", "Call an assistant as an agent").body("RpcRequest"),
    get(TOOLS, "/.well-known/agent-card.json", "Describe an assistant as an agent")
        .access(Assistants, Read)
        .query(&[("assistant_id", "Text")]),
    post(INTERFACES, "/ag-ui/{assistant_id}", "Run an assistant for an AG-UI client")
        .body("AgUiRun")
        .answer(Answer::Events),
    post(INTERFACES, "/ai-sdk/{assistant_id}", "Run an assistant for a chat of the AI SDK")
        .body("AiSdkChat")
        .answer(Answer::Events),
    get(INTERFACES, "/ai-sdk/{assistant_id}/{chat_id}/stream", "Stream the active run of a chat")
        .answer(Answer::EventsOrEmpty),
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
