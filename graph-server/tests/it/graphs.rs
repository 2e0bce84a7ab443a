//! Tests of compiled graphs served over HTTP.

use std::{path::Path, sync::Arc, time::Duration};

use graph_core::{Checkpointer, Context, MemorySaver, NodeError, START, State, StateGraph};
use graph_server::{
    Capacity, Registry, Service,
    graph::{Graphs, routes},
    http::{Guard, Metrics},
};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::{
    sync::Semaphore,
    time::{Instant, sleep},
};

use crate::web::{Server, parse_events};

#[derive(State, Clone, Debug, Default)]
struct Order {
    dish: String,
    #[reduce(append)]
    log: Vec<String>,
}

/// Semaphore that blocks the `cook` node until a permit is added.
type Gate = Arc<Semaphore>;

async fn ask(order: &Order, cx: &Context<Gate>) -> Result<OrderUpdate, NodeError> {
    cx.emit(json!({ "asking": order.dish })).await;
    let answer: String = cx.interrupt(json!({ "really": order.dish }))?;
    Ok(Order::update().log([format!("asked: {answer}")]))
}

async fn cook(order: &Order, cx: &Context<Gate>) -> Result<OrderUpdate, NodeError> {
    cx.deps().acquire().await?.forget();
    Ok(Order::update().log([format!("cooked {}", order.dish)]))
}

/// Starts a server that stores its registry in `dir` and its threads in `saver`.
async fn server(dir: &Path, saver: &Arc<MemorySaver>, gate: &Gate) -> Server {
    let graph = StateGraph::<Order, Gate>::new()
        .node(ask)
        .node(cook)
        .edge(START, ask)
        .edge(ask, cook)
        .shared_checkpointer(saver.clone());
    let registry = Registry::open(dir.join("runs.db")).unwrap();
    let deps = gate.clone();
    let graphs =
        Graphs::new(registry.clone()).add("orders", graph.compile().unwrap(), move || deps.clone());
    let service =
        Service::open(registry, Arc::new(graphs.clone()), Capacity::default()).await.unwrap();
    let metrics = Metrics::default();
    let (locked, document) = routes(graphs, service.clone(), 9, metrics.clone());
    assert_eq!(document.paths.paths.len(), 10);
    Server::start(Guard::new().wrap(axum::Router::new(), locked, metrics), service).await
}

async fn wait_until_inactive(server: &Server, id: &str) -> Value {
    for _ in 0..12_000 {
        let (_, run) = server.get(&format!("/runs/{id}")).await;
        if run["status"] != "queued" && run["status"] != "running" {
            return run;
        }
        sleep(Duration::from_millis(10)).await;
    }
    panic!("the run is still active");
}

/// Starts a run on thread `t` and answers its interrupt, so that `cook` is the next node.
async fn order_tea(server: &Server) -> String {
    let wanted = json!({ "input": { "dish": "tea" }, "thread": "t" });
    let (_, run) = server.post("/graphs/orders/runs", &wanted).await;
    let id = run["id"].as_str().unwrap().to_owned();
    wait_until_inactive(server, &id).await;
    server.post(&format!("/runs/{id}/resume"), &json!({ "answer": "yes" })).await;
    id
}

#[tokio::test]
async fn runs_are_started_interrupted_resumed_and_inspected() {
    let dir = tempfile::tempdir().unwrap();
    let (saver, gate) = (Arc::new(MemorySaver::new()), Arc::new(Semaphore::new(1)));
    let server = server(dir.path(), &saver, &gate).await;
    assert_eq!(server.get("/graphs").await, (200, json!(["orders"])));
    assert!(server.get("/graphs/orders").await.1["nodes"].as_array().unwrap().len() >= 3);
    assert_eq!(server.get("/graphs/others").await.0, 404);

    let wanted = json!({ "input": { "dish": "soup" }, "thread": "table-1" });
    let (status, run) = server.post("/graphs/orders/runs", &wanted).await;
    assert_eq!(
        (status, run["graph"].as_str(), run["thread"].as_str()),
        (202, Some("orders"), Some("table-1"))
    );
    let id = run["id"].as_str().unwrap();
    let (first, end) = server.events(&format!("/runs/{id}/events"), 0).await;
    assert_eq!(end.as_deref(), Some("waiting"));
    assert_eq!(first[0].1["event"]["custom"], json!({ "asking": "soup" }));
    let (_, state) = server.get("/graphs/orders/threads/table-1/state").await;
    assert_eq!(state["interrupts"][0]["value"], json!({ "really": "soup" }));

    let path = format!("/runs/{id}/resume");
    let (status, _) = server.post(&path, &json!({ "answers": { "missing": 1 } })).await;
    assert_eq!(status, 409, "no such interrupt is pending");
    assert_eq!(server.post(&path, &json!({ "answer": "yes" })).await.0, 202);
    let last = first.last().unwrap().0;
    let (rest, end) = server.events(&format!("/runs/{id}/events"), last).await;
    assert_eq!(end.as_deref(), Some("complete"));
    let seqs: Vec<u64> = first.iter().chain(&rest).map(|it| it.0).collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>());
    let run = wait_until_inactive(&server, id).await;
    assert_eq!(run["output"]["log"], json!(["asked: yes", "cooked soup"]));
    let (_, history) = server.get("/graphs/orders/threads/table-1/history?limit=2").await;
    assert_eq!(history.as_array().unwrap().len(), 2);
    assert_eq!(server.get("/graphs/orders/threads/nowhere/state").await.0, 404);
}

#[tokio::test]
async fn runs_resume_in_the_next_server_and_use_their_answer_once() {
    let dir = tempfile::tempdir().unwrap();
    let (saver, gate) = (Arc::new(MemorySaver::new()), Arc::new(Semaphore::new(0)));
    let first = server(dir.path(), &saver, &gate).await;
    let id = order_tea(&first).await;
    // Waits until `cook` is the next node, because the answer has been stored by then.
    loop {
        let (_, state) = first.get("/graphs/orders/threads/t/state").await;
        if state["next"] == json!(["cook"]) {
            break;
        }
        sleep(Duration::from_millis(5)).await;
    }
    let path = format!("/runs/{id}/events");
    let mut stream = first.request(Method::GET, &path).send().await.unwrap();
    let mut text = stream.chunk().await.unwrap().unwrap().to_vec();
    first.end();
    while let Some(chunk) = stream.chunk().await.unwrap() {
        text.extend_from_slice(&chunk);
    }
    let (seen, end) = parse_events(&String::from_utf8(text).unwrap());
    assert_eq!(end, None, "the run is not finished");
    first.stop().await;

    gate.add_permits(1);
    let second = server(dir.path(), &saver, &gate).await;
    let run = wait_until_inactive(&second, &id).await;
    assert_eq!(
        (&run["status"], &run["output"]["log"]),
        (&json!("complete"), &json!(["asked: yes", "cooked tea"]))
    );
    let (all, _) = second.events(&path, 0).await;
    assert!(!seen.is_empty());
    assert_eq!(all[..seen.len()], seen[..], "events that clients received are stored");
}

#[tokio::test]
async fn resuming_a_run_without_its_thread_fails() {
    let dir = tempfile::tempdir().unwrap();
    let (saver, gate) = (Arc::new(MemorySaver::new()), Arc::new(Semaphore::new(0)));
    let first = server(dir.path(), &saver, &gate).await;
    let id = order_tea(&first).await;
    first.stop().await;
    let second = server(dir.path(), &Arc::new(MemorySaver::new()), &gate).await;
    let run = wait_until_inactive(&second, &id).await;
    assert_eq!(run["status"], "error");
    assert!(run["error"].as_str().unwrap().contains("no longer exists"), "{run}");
}

#[tokio::test]
async fn answers_do_not_apply_to_interrupts_of_other_runs() {
    let dir = tempfile::tempdir().unwrap();
    let (saver, gate) = (Arc::new(MemorySaver::new()), Arc::new(Semaphore::new(9)));
    let server = server(dir.path(), &saver, &gate).await;
    let start = async |dish: &str| {
        let wanted = json!({ "input": { "dish": dish }, "thread": "t" });
        let (_, run) = server.post("/graphs/orders/runs", &wanted).await;
        let id = run["id"].as_str().unwrap().to_owned();
        wait_until_inactive(&server, &id).await;
        id
    };
    let (first, second) = (start("soup").await, start("tea").await);
    let (status, said) =
        server.post(&format!("/runs/{first}/resume"), &json!({ "answer": "yes" })).await;
    assert_eq!(status, 409, "{said}");
    let (status, _) =
        server.post(&format!("/runs/{second}/resume"), &json!({ "answer": "yes" })).await;
    assert_eq!(status, 202);
    let run = wait_until_inactive(&server, &second).await;
    assert_eq!(run["output"]["log"], json!(["asked: yes", "cooked tea"]));
}

#[tokio::test]
async fn invalid_requests_get_explanatory_errors() {
    let dir = tempfile::tempdir().unwrap();
    let (saver, gate) = (Arc::new(MemorySaver::new()), Arc::new(Semaphore::new(0)));
    let server = server(dir.path(), &saver, &gate).await;
    for (wanted, says) in [
        (json!({ "input": { "dish": 7 } }), "dish"),
        (json!({ "input": { "plate": "x" } }), "plate"),
        (json!({ "inputs": {} }), "the body: inputs: unknown field"),
        (json!("soup"), "the body: "),
        (json!({ "thread": "../x" }), "thread"),
    ] {
        let (status, body) = server.post("/graphs/orders/runs", &wanted).await;
        let message = body["error"]["message"].as_str().unwrap();
        assert!(status == 422 && message.contains(says), "{wanted} {status} {message}");
    }
    assert_eq!(server.get("/runs?limit=0").await.0, 422);
    assert_eq!(server.get("/runs/missing").await.0, 404);
    let stream = server.request(Method::GET, "/runs/missing/events").send().await.unwrap();
    assert_eq!(stream.status().as_u16(), 404);
    let cancel = server.post("/runs/missing/cancel", &json!({})).await;
    assert_eq!(cancel.0, 404);
}

#[tokio::test]
async fn runs_wait_for_the_lease_of_their_thread() {
    let dir = tempfile::tempdir().unwrap();
    let (saver, gate) = (Arc::new(MemorySaver::new()), Arc::new(Semaphore::new(1)));
    let server = server(dir.path(), &saver, &gate).await;
    // Holds the lease on the thread, like a cancelled run whose queued writes are not stored yet.
    let lease = saver.lease("t").await.unwrap();
    let wanted = json!({ "input": { "dish": "soup" }, "thread": "t" });
    let (_, run) = server.post("/graphs/orders/runs", &wanted).await;
    let id = run["id"].as_str().unwrap();
    let path = format!("/runs/{id}");
    while server.get(&path).await.1["status"] == "queued" {
        sleep(Duration::from_millis(10)).await;
    }
    sleep(Duration::from_millis(200)).await;
    assert_eq!(server.get(&path).await.1["status"], "running");
    drop(lease);
    assert_eq!(wait_until_inactive(&server, id).await["status"], "waiting");
}

#[tokio::test]
async fn waiting_runs_can_be_cancelled_and_resumed() {
    let dir = tempfile::tempdir().unwrap();
    let (saver, gate) = (Arc::new(MemorySaver::new()), Arc::new(Semaphore::new(1)));
    let server = server(dir.path(), &saver, &gate).await;
    let wanted = json!({ "input": { "dish": "soup" } });
    let (_, run) = server.post("/graphs/orders/runs", &wanted).await;
    let id = run["id"].as_str().unwrap();
    assert_eq!(wait_until_inactive(&server, id).await["status"], "waiting");
    let (status, run) = server.post(&format!("/runs/{id}/cancel"), &json!({})).await;
    assert_eq!((status, &run["status"]), (202, &json!("cancelled")));
    let (status, said) = server.post(&format!("/runs/{id}/cancel"), &json!({})).await;
    assert_eq!(status, 409, "{said}");
    assert_eq!(
        server.post(&format!("/runs/{id}/resume"), &json!({ "answer": "yes" })).await.0,
        202
    );
    assert_eq!(
        wait_until_inactive(&server, id).await["output"]["log"],
        json!(["asked: yes", "cooked soup"])
    );
}

#[tokio::test]
async fn last_event_id_takes_precedence_over_the_query() {
    let dir = tempfile::tempdir().unwrap();
    let (saver, gate) = (Arc::new(MemorySaver::new()), Arc::new(Semaphore::new(1)));
    let server = server(dir.path(), &saver, &gate).await;
    let modes = json!({ "modes": ["tasks", "values"], "input": { "dish": "soup" } });
    let (_, run) = server.post("/graphs/orders/runs", &modes).await;
    let path = format!("/runs/{}/events", run["id"].as_str().unwrap());
    let numbers = async |path: &str, seen: &str| -> Vec<u64> {
        let request = server.request(Method::GET, path).header("last-event-id", seen);
        let text = request.send().await.unwrap().text().await.unwrap();
        text.lines().filter_map(|it| it.strip_prefix("id: ")?.parse().ok()).collect()
    };
    let all = numbers(&path, "0").await;
    assert!(all.len() > 2, "{all:?}");
    // When browsers reconnect, they use the same URL, so `Last-Event-ID` must take precedence over `after`.
    assert_eq!(numbers(&format!("{path}?after=1"), "2").await, all[2..]);
    let asked = server.request(Method::GET, &format!("{path}?after=1")).send().await.unwrap();
    assert!(asked.text().await.unwrap().starts_with("id: 2\n"));
    for (path, seen) in [(path.clone(), "soup"), (format!("{path}?after=-1"), "0")] {
        let wrong = server.request(Method::GET, &path).header("last-event-id", seen);
        assert_eq!(wrong.send().await.unwrap().status().as_u16(), 422, "{path} {seen}");
    }
}

/// Time is paused, so the runtime advances it to the next timer whenever all tasks are idle.
#[tokio::test(start_paused = true)]
async fn idle_streams_send_keep_alive_messages() {
    let dir = tempfile::tempdir().unwrap();
    let (saver, gate) = (Arc::new(MemorySaver::new()), Arc::new(Semaphore::new(0)));
    let server = server(dir.path(), &saver, &gate).await;
    let (_, run) = server.post("/graphs/orders/runs", &json!({ "thread": "t" })).await;
    let id = run["id"].as_str().unwrap();
    wait_until_inactive(&server, id).await;
    // The `cook` node has no permit, so the run does not send any events.
    server.post(&format!("/runs/{id}/resume"), &json!({ "answer": "yes" })).await;
    let mut stream =
        server.request(Method::GET, &format!("/runs/{id}/events")).send().await.unwrap();
    let (mut beats, begun) = (0, Instant::now());
    while beats < 3 {
        let chunk = stream.chunk().await.unwrap().unwrap();
        beats += String::from_utf8_lossy(&chunk).matches(": beat").count();
    }
    let waited = begun.elapsed();
    assert!((Duration::from_secs(10)..Duration::from_secs(25)).contains(&waited), "{waited:?}");
}
