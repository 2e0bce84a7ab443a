//! The operations of the API.

/// An operation.
pub(super) struct Operation {
    pub(super) method: &'static str,
    pub(super) path: &'static str,
    pub(super) tag: &'static str,
    pub(super) summary: &'static str,
    /// Query parameters and their schemas.
    pub(super) query: &'static [(&'static str, &'static str)],
    /// Schema of the body.
    pub(super) body: Option<&'static str>,
    pub(super) answer: Answer,
}

/// Response to a request that succeeds.
pub(super) enum Answer {
    /// An object with this schema.
    Object(&'static str),
    /// An object with this schema, or no content with the status 204 if the client prefers a minimal response.
    ObjectOrEmpty(&'static str),
    /// A list of objects with this schema.
    List(&'static str),
    /// Any JSON value.
    Any,
    /// Any JSON value, or no content with the status 202.
    AnyOrAccepted,
    Count,
    Events,
    /// A stream of events, or no content with the status 204.
    EventsOrEmpty,
    Text,
    /// No content.
    Empty,
}

impl Answer {
    pub(super) fn status(&self) -> &'static str {
        match self {
            Self::Empty => "204",
            _ => "200",
        }
    }
}

const fn get(
    tag: &'static str,
    path: &'static str,
    answer: Answer,
    summary: &'static str,
) -> Operation {
    Operation { method: "get", path, tag, summary, query: &[], body: None, answer }
}

const fn post(
    tag: &'static str,
    path: &'static str,
    body: &'static str,
    answer: Answer,
    summary: &'static str,
) -> Operation {
    Operation { method: "post", path, tag, summary, query: &[], body: Some(body), answer }
}

const fn delete(tag: &'static str, path: &'static str, summary: &'static str) -> Operation {
    Operation {
        method: "delete",
        path,
        tag,
        summary,
        query: &[],
        body: None,
        answer: Answer::Empty,
    }
}

impl Operation {
    const fn query(mut self, query: &'static [(&'static str, &'static str)]) -> Self {
        self.query = query;
        self
    }

    const fn method(mut self, method: &'static str) -> Self {
        self.method = method;
        self
    }

    const fn without_body(mut self) -> Self {
        self.body = None;
        self
    }
}

const ASSISTANTS: &str = "Assistants";
const THREADS: &str = "Threads";
const RUNS: &str = "Runs";
const STATELESS: &str = "Stateless runs";
const CRONS: &str = "Crons";
const STORE: &str = "Store";
const EVENTS: &str = "Event protocol";
const TOOLS: &str = "MCP and A2A";
const INTERFACES: &str = "User interfaces";
const SYSTEM: &str = "System";

const STATE_QUERY: &[(&str, &str)] =
    &[("subgraphs", "Flag"), ("checkpoint_ns", "Text"), ("select", "StateFields")];

const JOIN_QUERY: &[(&str, &str)] =
    &[("stream_mode", "StreamModes"), ("cancel_on_disconnect", "Flag")];

/// All operations.
pub(super) const OPERATIONS: &[Operation] = &[
    get(SYSTEM, "/ok", Answer::Any, "Check that the server runs").query(&[("check_db", "Flag")]),
    get(SYSTEM, "/info", Answer::Any, "Read the version and the features of the server"),
    get(SYSTEM, "/metrics", Answer::Text, "Read metrics in the Prometheus text format")
        .query(&[("format", "MetricsFormat")]),
    post(
        ASSISTANTS,
        "/assistants",
        "AssistantCreate",
        Answer::Object("Assistant"),
        "Create an assistant",
    ),
    post(ASSISTANTS, "/assistants/search", "AssistantSearch", Answer::Any, "Search assistants"),
    post(ASSISTANTS, "/assistants/count", "AssistantSearch", Answer::Count, "Count assistants"),
    get(ASSISTANTS, "/assistants/{assistant_id}", Answer::Object("Assistant"), "Read an assistant"),
    post(
        ASSISTANTS,
        "/assistants/{assistant_id}",
        "AssistantUpdate",
        Answer::Object("Assistant"),
        "Change an assistant",
    )
    .method("patch"),
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
    ),
    post(
        ASSISTANTS,
        "/assistants/{assistant_id}/latest",
        "VersionSelect",
        Answer::Object("Assistant"),
        "Select the current version of an assistant",
    ),
    post(THREADS, "/threads", "ThreadCreate", Answer::Object("Thread"), "Create a thread"),
    post(THREADS, "/threads/search", "ThreadSearch", Answer::Any, "Search threads"),
    post(THREADS, "/threads/count", "ThreadSearch", Answer::Count, "Count threads"),
    post(
        THREADS,
        "/threads/prune",
        "ThreadPrune",
        Answer::Any,
        "Delete threads or their old checkpoints",
    ),
    get(THREADS, "/threads/{thread_id}", Answer::Object("Thread"), "Read a thread")
        .query(&[("include", "ThreadExtra")]),
    post(
        THREADS,
        "/threads/{thread_id}",
        "ThreadUpdate",
        Answer::ObjectOrEmpty("Thread"),
        "Change the metadata or the time to live of a thread",
    )
    .method("patch"),
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
    ),
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
    ),
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
    ),
    get(THREADS, "/threads/{thread_id}/stream", Answer::Events, "Stream the events of a thread")
        .query(&[("stream_modes", "ThreadStreamModes")]),
    get(RUNS, "/threads/{thread_id}/runs", Answer::Any, "List the runs of a thread").query(&[
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
    post(CRONS, "/runs/crons/search", "CronSearch", Answer::Any, "Search crons"),
    post(CRONS, "/runs/crons/count", "CronSearch", Answer::Count, "Count crons"),
    get(CRONS, "/runs/crons/{cron_id}", Answer::Object("Cron"), "Read a cron"),
    post(CRONS, "/runs/crons/{cron_id}", "CronUpdate", Answer::Object("Cron"), "Change a cron")
        .method("patch"),
    delete(CRONS, "/runs/crons/{cron_id}", "Delete a cron"),
    get(STORE, "/store/items", Answer::Any, "Read an item").query(&[
        ("namespace", "Text"),
        ("key", "Text"),
        ("refresh_ttl", "Flag"),
    ]),
    post(STORE, "/store/items", "ItemPut", Answer::Empty, "Write an item").method("put"),
    post(STORE, "/store/items", "ItemDelete", Answer::Empty, "Delete an item").method("delete"),
    post(STORE, "/store/items/search", "ItemSearch", Answer::Any, "Search items"),
    post(STORE, "/store/namespaces", "NamespaceSearch", Answer::Any, "List namespaces"),
    post(
        EVENTS,
        "/threads/{thread_id}/commands",
        "ProtocolCommand",
        Answer::Any,
        "Start or fork a run, answer an interrupt, or read the state",
    ),
    post(
        EVENTS,
        "/threads/{thread_id}/stream/events",
        "EventSelection",
        Answer::Events,
        "Stream the events of a thread",
    ),
    post(TOOLS, "/mcp", "RpcRequest", Answer::AnyOrAccepted, "Call graphs as tools"),
    post(TOOLS, "/a2a/{assistant_id}", "RpcRequest", Answer::Any, "Call an assistant as an agent"),
    get(TOOLS, "/.well-known/agent-card.json", Answer::Any, "Describe an assistant as an agent")
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
