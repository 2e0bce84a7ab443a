//! Any compiled graph over HTTP.

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

use crate::web::Server;

#[derive(State, Clone, Debug, Default)]
struct Order {
    dish: String,
    #[reduce(append)]
    log: Vec<String>,
}

/// Lets the cook go on.
type Stove = Arc<Semaphore>;

async fn ask(order: &Order, cx: &Context<Stove>) -> Result<OrderUpdate, NodeError> {
    cx.emit(json!({ "asking": order.dish })).await;
    let answer: String = cx.interrupt(json!({ "really": order.dish }))?;
    Ok(Order::update().log([format!("asked: {answer}")]))
}

async fn cook(order: &Order, cx: &Context<Stove>) -> Result<OrderUpdate, NodeError> {
    cx.deps().acquire().await?.forget();
    Ok(Order::update().log([format!("cooked {}", order.dish)]))
}

/// A server whose registry lies in a folder; the threads are the saver's.
async fn server(folder: &Path, saver: &Arc<MemorySaver>, stove: &Stove) -> Server {
    let graph = StateGraph::<Order, Stove>::new()
        .node(ask)
        .node(cook)
        .edge(START, ask)
        .edge(ask, cook)
        .shared_checkpointer(saver.clone());
    let registry = Registry::open(folder.join("runs.db")).unwrap();
    let deps = stove.clone();
    let graphs =
        Graphs::new(registry.clone()).add("orders", graph.compile().unwrap(), move || deps.clone());
    let service =
        Service::open(registry, Arc::new(graphs.clone()), Capacity::default()).await.unwrap();
    let metrics = Metrics::default();
    let (locked, document) = routes(graphs, service.clone(), 9, metrics.clone());
    assert_eq!(document.paths.paths.len(), 10);
    Server::start(Guard::new().around(axum::Router::new(), locked, metrics), service).await
}

async fn rests(server: &Server, id: &str) -> Value {
    for _ in 0..500 {
        let (_, run) = server.get(&format!("/runs/{id}")).await;
        if run["status"] != "queued" && run["status"] != "running" {
            return run;
        }
        sleep(Duration::from_millis(10)).await;
    }
    panic!("it does not rest");
}

/// Orders tea on thread `t` and answers the question; the cook is about to begin then.
async fn order_tea(server: &Server) -> String {
    let wanted = json!({ "input": { "dish": "tea" }, "thread": "t" });
    let (_, run) = server.post("/graphs/orders/runs", &wanted).await;
    let id = run["id"].as_str().unwrap().to_owned();
    rests(server, &id).await;
    server.post(&format!("/runs/{id}/resume"), &json!({ "answer": "yes" })).await;
    id
}

#[tokio::test]
async fn a_graph_is_run_asked_answered_and_looked_at() {
    let folder = tempfile::tempdir().unwrap();
    let (saver, stove) = (Arc::new(MemorySaver::new()), Arc::new(Semaphore::new(1)));
    let server = server(folder.path(), &saver, &stove).await;
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
    let (status, _) = server.post(&path, &json!({ "answers": { "nobody": 1 } })).await;
    assert_eq!(status, 409, "no such question waits");
    assert_eq!(server.post(&path, &json!({ "answer": "yes" })).await.0, 202);
    let last = first.last().unwrap().0;
    let (rest, end) = server.events(&format!("/runs/{id}/events"), last).await;
    assert_eq!(end.as_deref(), Some("complete"));
    let seqs: Vec<u64> = first.iter().chain(&rest).map(|it| it.0).collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>());
    let run = rests(&server, id).await;
    assert_eq!(run["output"]["log"], json!(["asked: yes", "cooked soup"]));
    let (_, history) = server.get("/graphs/orders/threads/table-1/history?limit=2").await;
    assert_eq!(history.as_array().unwrap().len(), 2);
    assert_eq!(server.get("/graphs/orders/threads/nowhere/state").await.0, 404);
}

#[tokio::test]
async fn a_run_goes_on_in_the_next_server_and_its_answer_is_used_once() {
    let folder = tempfile::tempdir().unwrap();
    let (saver, stove) = (Arc::new(MemorySaver::new()), Arc::new(Semaphore::new(0)));
    let first = server(folder.path(), &saver, &stove).await;
    let id = order_tea(&first).await;
    // The answer is stored once the cook is at work.
    loop {
        let (_, state) = first.get("/graphs/orders/threads/t/state").await;
        if state["next"] == json!(["cook"]) {
            break;
        }
        sleep(Duration::from_millis(5)).await;
    }
    let path = format!("/runs/{id}/events");
    let (first, path) = (Arc::new(first), path);
    let reading = tokio::spawn({
        let (first, path) = (first.clone(), path.clone());
        async move { first.events(&path, 0).await }
    });
    sleep(Duration::from_millis(50)).await;
    first.end();
    let (seen, end) = reading.await.unwrap();
    assert_eq!(end, None, "the run is not at its end");
    Arc::into_inner(first).unwrap().stop().await;

    stove.add_permits(1);
    let second = server(folder.path(), &saver, &stove).await;
    let run = rests(&second, &id).await;
    assert_eq!(
        (&run["status"], &run["output"]["log"]),
        (&json!("complete"), &json!(["asked: yes", "cooked tea"]))
    );
    let (all, _) = second.events(&path, 0).await;
    assert!(!seen.is_empty());
    assert_eq!(all[..seen.len()], seen[..], "what was seen is what is stored");
}

#[tokio::test]
async fn a_run_whose_thread_is_gone_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let (saver, stove) = (Arc::new(MemorySaver::new()), Arc::new(Semaphore::new(0)));
    let first = server(folder.path(), &saver, &stove).await;
    let id = order_tea(&first).await;
    first.stop().await;
    let second = server(folder.path(), &Arc::new(MemorySaver::new()), &stove).await;
    let run = rests(&second, &id).await;
    assert_eq!(run["status"], "error");
    assert!(run["error"].as_str().unwrap().contains("thread is gone"), "{run}");
}

#[tokio::test]
async fn a_run_answers_no_other_runs_question() {
    let folder = tempfile::tempdir().unwrap();
    let (saver, stove) = (Arc::new(MemorySaver::new()), Arc::new(Semaphore::new(9)));
    let server = server(folder.path(), &saver, &stove).await;
    let start = async |dish: &str| {
        let wanted = json!({ "input": { "dish": dish }, "thread": "t" });
        let (_, run) = server.post("/graphs/orders/runs", &wanted).await;
        let id = run["id"].as_str().unwrap().to_owned();
        rests(&server, &id).await;
        id
    };
    let (first, second) = (start("soup").await, start("tea").await);
    let (status, said) =
        server.post(&format!("/runs/{first}/resume"), &json!({ "answer": "yes" })).await;
    assert_eq!(status, 409, "{said}");
    let (status, _) =
        server.post(&format!("/runs/{second}/resume"), &json!({ "answer": "yes" })).await;
    assert_eq!(status, 202);
    let run = rests(&server, &second).await;
    assert_eq!(run["output"]["log"], json!(["asked: yes", "cooked tea"]));
}

#[tokio::test]
async fn wrong_requests_are_told_what_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let (saver, stove) = (Arc::new(MemorySaver::new()), Arc::new(Semaphore::new(0)));
    let server = server(folder.path(), &saver, &stove).await;
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
    assert_eq!(server.get("/runs/nobody").await.0, 404);
    let stream = server.ask(Method::GET, "/runs/nobody/events").send().await.unwrap();
    assert_eq!(stream.status().as_u16(), 404);
    let cancel = server.post("/runs/nobody/cancel", &json!({})).await;
    assert_eq!(cancel.0, 404);
}

#[tokio::test]
async fn a_thread_that_is_not_free_yet_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let (saver, stove) = (Arc::new(MemorySaver::new()), Arc::new(Semaphore::new(1)));
    let server = server(folder.path(), &saver, &stove).await;
    // As a run that was stopped holds it until what it queued is stored.
    let held = saver.lease("t").await.unwrap();
    let wanted = json!({ "input": { "dish": "soup" }, "thread": "t" });
    let (_, run) = server.post("/graphs/orders/runs", &wanted).await;
    let id = run["id"].as_str().unwrap();
    sleep(Duration::from_millis(200)).await;
    assert_eq!(server.get(&format!("/runs/{id}")).await.1["status"], "running");
    drop(held);
    assert_eq!(rests(&server, id).await["status"], "waiting");
}

#[tokio::test]
async fn a_run_that_waits_can_be_given_up_and_gone_on_with() {
    let folder = tempfile::tempdir().unwrap();
    let (saver, stove) = (Arc::new(MemorySaver::new()), Arc::new(Semaphore::new(1)));
    let server = server(folder.path(), &saver, &stove).await;
    let wanted = json!({ "input": { "dish": "soup" } });
    let (_, run) = server.post("/graphs/orders/runs", &wanted).await;
    let id = run["id"].as_str().unwrap();
    assert_eq!(rests(&server, id).await["status"], "waiting");
    let (status, run) = server.post(&format!("/runs/{id}/cancel"), &json!({})).await;
    assert_eq!((status, &run["status"]), (202, &json!("cancelled")));
    let (status, said) = server.post(&format!("/runs/{id}/cancel"), &json!({})).await;
    assert_eq!(status, 409, "{said}");
    assert_eq!(
        server.post(&format!("/runs/{id}/resume"), &json!({ "answer": "yes" })).await.0,
        202
    );
    assert_eq!(rests(&server, id).await["output"]["log"], json!(["asked: yes", "cooked soup"]));
}

#[tokio::test]
async fn what_a_browser_saw_last_goes_before_where_it_began() {
    let folder = tempfile::tempdir().unwrap();
    let (saver, stove) = (Arc::new(MemorySaver::new()), Arc::new(Semaphore::new(1)));
    let server = server(folder.path(), &saver, &stove).await;
    let modes = json!({ "modes": ["tasks", "values"], "input": { "dish": "soup" } });
    let (_, run) = server.post("/graphs/orders/runs", &modes).await;
    let path = format!("/runs/{}/events", run["id"].as_str().unwrap());
    let numbers = async |path: &str, seen: &str| -> Vec<u64> {
        let request = server.ask(Method::GET, path).header("last-event-id", seen);
        let text = request.send().await.unwrap().text().await.unwrap();
        text.lines().filter_map(|it| it.strip_prefix("id: ")?.parse().ok()).collect()
    };
    let all = numbers(&path, "0").await;
    assert!(all.len() > 2, "{all:?}");
    // A browser that comes back asks for the same address again.
    assert_eq!(numbers(&format!("{path}?after=1"), "2").await, all[2..]);
    let asked = server.ask(Method::GET, &format!("{path}?after=1")).send().await.unwrap();
    assert!(asked.text().await.unwrap().starts_with("id: 2\n"));
    for (path, seen) in [(path.clone(), "soup"), (format!("{path}?after=-1"), "0")] {
        let wrong = server.ask(Method::GET, &path).header("last-event-id", seen);
        assert_eq!(wrong.send().await.unwrap().status().as_u16(), 422, "{path} {seen}");
    }
}

/// Time is passed by the runtime whenever nothing else is to be done.
#[tokio::test(start_paused = true)]
async fn a_stream_on_which_nothing_happens_gives_signs_of_life() {
    let folder = tempfile::tempdir().unwrap();
    let (saver, stove) = (Arc::new(MemorySaver::new()), Arc::new(Semaphore::new(0)));
    let server = server(folder.path(), &saver, &stove).await;
    let (_, run) = server.post("/graphs/orders/runs", &json!({ "thread": "t" })).await;
    let id = run["id"].as_str().unwrap();
    rests(&server, id).await;
    // The cook has no stove, so nothing happens.
    server.post(&format!("/runs/{id}/resume"), &json!({ "answer": "yes" })).await;
    let mut stream = server.ask(Method::GET, &format!("/runs/{id}/events")).send().await.unwrap();
    let (mut beats, begun) = (0, Instant::now());
    while beats < 3 {
        let chunk = stream.chunk().await.unwrap().unwrap();
        beats += String::from_utf8_lossy(&chunk).matches(": beat").count();
    }
    let waited = begun.elapsed();
    assert!((Duration::from_secs(10)..Duration::from_secs(25)).contains(&waited), "{waited:?}");
}
