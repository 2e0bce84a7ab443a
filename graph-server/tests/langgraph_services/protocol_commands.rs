//! Commands of the event protocol for checkpoints, forks, the tree of graphs, and injected messages.

use async_trait::async_trait;
use graph_server::langgraph::{AccessRequest, Authorize, Decision};
use serde_json::{Map, Value, json};

use crate::{
    agent::add_agent,
    auth,
    protocol::{NEW_THREAD, command},
    server::Server,
};

const UNKNOWN: &str = "00000000-0000-4000-8000-000000000000";

/// Starts a run on [`NEW_THREAD`] and waits for its end. Returns its id.
async fn run(server: &Server, assistant: &str, input: Value) -> String {
    let params = json!({ "assistant_id": assistant, "input": input });
    join(server, &command(server, NEW_THREAD, "run.start", params).await).await
}

/// Waits for the end of the run that a command has started. Returns its id.
async fn join(server: &Server, answer: &Value) -> String {
    assert_eq!(answer["type"], "success", "{answer}");
    let run = answer["result"]["run_id"].as_str().unwrap();
    server.get(&format!("{NEW_THREAD}/runs/{run}/join")).await;
    run.to_owned()
}

async fn checkpoints(server: &Server, params: Value) -> Vec<Value> {
    let answer = command(server, NEW_THREAD, "state.listCheckpoints", params).await;
    answer["result"]["checkpoints"].as_array().unwrap_or_else(|| panic!("{answer}")).clone()
}

async fn tree(server: &Server, params: Value) -> Value {
    command(server, NEW_THREAD, "agent.getTree", params).await["result"]["tree"].clone()
}

/// Checks that the server answers each command with this error.
async fn assert_rejected<const N: usize>(
    server: &Server,
    method: &str,
    cases: [(Value, &'static str); N],
) {
    for (params, error) in cases {
        let answer = command(server, NEW_THREAD, method, params.clone()).await;
        assert_eq!(answer["error"], error, "{params}: {answer}");
    }
}

#[tokio::test]
async fn checkpoints_are_listed_in_pages_with_their_nodes() {
    let server = Server::start().await;
    run(&server, "tiny", json!({ "value": "x" })).await;
    let all = checkpoints(&server, json!({})).await;
    let steps: Vec<_> =
        all.iter().map(|it| (it["step"].as_i64().unwrap(), it["node_name"].as_str())).collect();
    assert_eq!(steps, [(2, Some("b")), (1, Some("a")), (0, Some("__start__")), (-1, None)]);
    let (_, history) = server.get(&format!("{NEW_THREAD}/history")).await;
    for (checkpoint, state) in all.iter().zip(history.as_array().unwrap()) {
        assert_eq!(checkpoint["id"], state["checkpoint_id"]);
        assert_eq!(checkpoint["timestamp"], state["created_at"]);
        assert_eq!(checkpoint["metadata"], state["metadata"]);
    }
    // The node is known although its checkpoint is not on the page.
    let page = json!({ "limit": 1, "before": all[1]["id"], "namespace": [] });
    assert_eq!(checkpoints(&server, page).await, [all[2].clone()]);

    let rejected = [
        (json!({ "limit": 0 }), "invalid_argument"),
        (json!({ "limit": "all" }), "invalid_argument"),
        (json!({ "before": "first" }), "invalid_argument"),
        (json!({ "surprise": 1 }), "invalid_argument"),
        (json!({ "namespace": ["surprise:1"] }), "no_such_namespace"),
    ];
    assert_rejected(&server, "state.listCheckpoints", rejected).await;
    let other = format!("/threads/{UNKNOWN}");
    let missing = command(&server, &other, "state.listCheckpoints", json!({})).await;
    assert_eq!(missing["error"], "invalid_argument", "{missing}");
}

#[tokio::test]
async fn a_fork_continues_from_its_checkpoint_on_the_same_thread() {
    let server = Server::start().await;
    run(&server, "tiny", json!({ "value": "x" })).await;
    let first = checkpoints(&server, json!({})).await[1]["id"].clone();
    let values = async || {
        command(&server, NEW_THREAD, "state.get", json!({})).await["result"]["values"].clone()
    };

    let fork = json!({ "checkpoint_id": first, "input": { "value": "y" } });
    let answer = command(&server, NEW_THREAD, "state.fork", fork).await;
    assert_eq!(format!("/threads/{}", answer["result"]["thread_id"].as_str().unwrap()), NEW_THREAD);
    let forked = join(&server, &answer).await;
    assert_eq!(values().await, json!({ "value": "yab", "log": ["a", "a", "b"], "count": 3 }));
    assert_eq!(checkpoints(&server, json!({})).await[0]["metadata"]["run_id"], json!(forked));

    // Without an input, the remaining node runs again.
    let config = json!({ "configurable": { "checkpoint_id": UNKNOWN } });
    let fork = json!({ "checkpoint_id": first, "config": config });
    join(&server, &command(&server, NEW_THREAD, "state.fork", fork).await).await;
    assert_eq!(values().await, json!({ "value": "xab", "log": ["a", "b"], "count": 2 }));

    let unknown_subgraph = json!({ "configurable": { "checkpoint_ns": "surprise:1" } });
    let rejected = [
        (json!({}), "invalid_argument"),
        (json!({ "checkpoint_id": "first" }), "invalid_argument"),
        (json!({ "checkpoint_id": first, "config": { "configurable": 1 } }), "invalid_argument"),
        (json!({ "checkpoint_id": first, "surprise": 1 }), "invalid_argument"),
        (json!({ "checkpoint_id": UNKNOWN }), "no_such_checkpoint"),
        (json!({ "checkpoint_id": first, "config": unknown_subgraph }), "no_such_namespace"),
    ];
    assert_rejected(&server, "state.fork", rejected).await;
    let (_, runs) = server.get(&format!("{NEW_THREAD}/runs")).await;
    assert_eq!(runs.as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn the_tree_contains_the_statuses_of_subgraphs() {
    let server = Server::start().await;
    let first = run(&server, "parent", json!({ "log": [] })).await;
    let root = tree(&server, json!({})).await;
    assert_eq!(root["namespace"], json!([]));
    assert_eq!((&root["graph_name"], &root["status"]), (&json!("parent"), &json!("completed")));
    let [child] = root["children"].as_array().unwrap().as_slice() else { panic!("{root}") };
    assert_eq!((&child["graph_name"], &child["status"]), (&json!("child"), &json!("completed")));
    assert!(child["namespace"][0].as_str().unwrap().starts_with("child:"), "{child}");
    assert!(child.get("children").is_none(), "{child}");

    run(&server, "parent", json!({ "log": [] })).await;
    assert_ne!(tree(&server, json!({})).await, root, "the latest run");
    assert_eq!(tree(&server, json!({ "run_id": first })).await, root);

    let rejected = [
        (json!({ "run_id": "first" }), "invalid_argument"),
        (json!({ "surprise": 1 }), "invalid_argument"),
        (json!({ "run_id": UNKNOWN }), "no_such_run"),
    ];
    assert_rejected(&server, "agent.getTree", rejected).await;
    let other = format!("/threads/{}", server.new_thread().await);
    for params in [json!({}), json!({ "run_id": first })] {
        let answer = command(&server, &other, "agent.getTree", params).await;
        assert_eq!(answer["error"], "no_such_run", "{answer}");
    }
}

#[tokio::test]
async fn the_tree_shows_that_a_run_was_interrupted() {
    let server = Server::start().await;
    run(&server, "approval", json!({ "topic": "cats" })).await;
    let expected = json!({ "namespace": [], "status": "interrupted", "graph_name": "approval" });
    assert_eq!(tree(&server, json!({})).await, expected);
}

#[tokio::test]
async fn the_tree_shows_that_a_run_is_active() {
    let server = Server::start().await;
    let input = json!({ "steps": 1, "delay": 3600 });
    let params = json!({ "assistant_id": "slow", "input": input });
    let answer = command(&server, NEW_THREAD, "run.start", params).await;
    let run = json!({ "run_id": answer["result"]["run_id"] });
    while tree(&server, run.clone()).await["status"] == "started" {
        tokio::task::yield_now().await;
    }
    assert_eq!(tree(&server, run).await["status"], "running");
}

/// The client `bob` sees the threads and runs of the team `west`. Other clients are not restricted.
#[derive(Debug)]
struct WestForBob;

#[async_trait]
impl Authorize for WestForBob {
    async fn authorize(&self, request: &AccessRequest<'_>) -> Decision {
        match request.client.owner == "bob" {
            true => Decision::AllowWhere(Map::from_iter([("team".to_owned(), json!("west"))])),
            false => Decision::Allow,
        }
    }
}

#[tokio::test]
async fn the_tree_is_that_of_the_latest_run_that_the_client_sees() {
    let server = Server::start_authorized(auth::guard(), WestForBob).await;
    let (ada, bob) = (auth::user(&server, "ada"), auth::user(&server, "bob"));
    let (_, thread) = ada.post("/threads", json!({ "metadata": { "team": "west" } })).await;
    let thread = format!("/threads/{}", thread["thread_id"].as_str().unwrap());
    for (graph, input, team) in
        [("parent", json!({ "log": [] }), "west"), ("tiny", json!({ "value": "x" }), "east")]
    {
        let metadata = json!({ "team": team });
        let run = json!({ "assistant_id": graph, "input": input, "metadata": metadata });
        assert_eq!(ada.post(&format!("{thread}/runs/wait"), run).await.0, 200);
    }
    let body = json!({ "id": 1, "method": "agent.getTree", "params": {} });
    for (client, graph) in [(ada, "tiny"), (bob, "parent")] {
        let (_, answer) = client.post(&format!("{thread}/commands"), body.clone()).await;
        assert_eq!(answer["result"]["tree"]["graph_name"], graph, "{answer}");
    }
}

#[tokio::test]
async fn an_injected_message_is_answered_after_the_active_run() {
    let server = Server::start().await;
    let message = |role: &str, text: &str| json!({ "role": role, "content": text });
    let params =
        json!({ "assistant_id": "chat", "input": { "messages": [message("user", "hi")] } });
    command(&server, NEW_THREAD, "run.start", params).await;
    for (role, text) in [("user", "more"), ("system", "less")] {
        let params = json!({ "namespace": [], "message": message(role, text) });
        join(&server, &command(&server, NEW_THREAD, "input.inject", params).await).await;
    }
    let answer = command(&server, NEW_THREAD, "state.get", json!({})).await;
    let messages = answer["result"]["values"]["messages"].as_array().unwrap();
    let texts: Vec<_> = messages.iter().map(|it| it["content"].as_str().unwrap()).collect();
    assert_eq!(texts, ["hi", "you said hi", "more", "you said more", "less", "you said less"]);
    assert_eq!((&messages[2]["type"], &messages[4]["type"]), (&json!("human"), &json!("system")));

    let text = json!({ "role": "user", "content": "hi" });
    let rejected = [
        (json!({ "namespace": [] }), "invalid_argument"),
        (json!({ "message": { "role": "user" } }), "invalid_argument"),
        (json!({ "message": { "role": "assistant", "content": "hi" } }), "invalid_argument"),
        (json!({ "message": text, "surprise": 1 }), "invalid_argument"),
        (json!({ "message": text, "namespace": ["model:1"] }), "not_supported"),
    ];
    assert_rejected(&server, "input.inject", rejected).await;
    let other = format!("/threads/{}", server.new_thread().await);
    let params = json!({ "message": text });
    let answer = command(&server, &other, "input.inject", params.clone()).await;
    assert_eq!(answer["error"], "no_such_run", "{answer}");
    let start = json!({ "assistant_id": "tiny", "input": { "value": "x" } });
    command(&server, &other, "run.start", start).await;
    let answer = command(&server, &other, "input.inject", params).await;
    assert_eq!(answer["error"], "not_supported", "the graph has no messages: {answer}");
}

#[tokio::test]
async fn no_message_is_injected_into_a_thread_that_waits_for_an_answer() {
    let server = Server::start_with_graphs(add_agent).await;
    let message = json!({ "role": "user", "content": "mail" });
    run(&server, "agent", json!({ "messages": [message] })).await;
    let params = json!({ "message": message });
    let answer = command(&server, NEW_THREAD, "input.inject", params).await;
    assert_eq!(answer["error"], "invalid_argument", "{answer}");
    assert!(answer["message"].as_str().unwrap().contains("input.respond"), "{answer}");
}

#[tokio::test]
async fn commands_for_threads_and_runs_of_other_owners_fail() {
    let server = auth::server().await;
    let (ada, bob) = (auth::user(&server, "ada"), auth::user(&server, "bob"));
    let commands = format!("{NEW_THREAD}/commands");
    let body = |method: &str, params: Value| json!({ "id": 1, "method": method, "params": params });
    let message = json!({ "role": "user", "content": "hi" });
    let params = json!({ "assistant_id": "chat", "input": { "messages": [message] } });
    let (_, started) = ada.post(&commands, body("run.start", params.clone())).await;
    let run = started["result"]["run_id"].as_str().unwrap();
    assert_eq!(ada.status(&format!("{NEW_THREAD}/runs/{run}/join")).await, 200);
    let (_, listed) = ada.post(&commands, body("state.listCheckpoints", json!({}))).await;
    let checkpoint = &listed["result"]["checkpoints"][1]["id"];
    for (method, params) in [
        ("state.listCheckpoints", json!({})),
        ("state.fork", json!({ "checkpoint_id": checkpoint })),
        ("agent.getTree", json!({ "run_id": run })),
        ("input.inject", json!({ "message": message })),
    ] {
        let (status, answer) = bob.post(&commands, body(method, params.clone())).await;
        assert_eq!(status, 404, "{method}: {answer}");
        let (_, answer) = ada.post(&commands, body(method, params)).await;
        assert_eq!(answer["type"], "success", "{method}: {answer}");
    }
    let own = format!("/threads/{UNKNOWN}/commands");
    let (_, started) = bob.post(&own, body("run.start", params)).await;
    assert_eq!(started["type"], "success", "{started}");
    for (method, params, error) in [
        ("agent.getTree", json!({ "run_id": run }), "no_such_run"),
        ("state.fork", json!({ "checkpoint_id": checkpoint }), "no_such_checkpoint"),
    ] {
        let (_, answer) = bob.post(&own, body(method, params)).await;
        assert_eq!(answer["error"], error, "{method}: {answer}");
    }
}
