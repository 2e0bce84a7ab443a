//! Tests of the server over real connections.
#![expect(clippy::unwrap_used, reason = "test code, including helper functions")]

mod canned;
mod document;

use std::{
    path::Path,
    process::{Command as StdCommand, Stdio},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use app_support::lock::DirLock;
use consulting_graph::config::DEFAULT;
use llm::testkit::FakeProvider;
use reqwest::{Client, Method, Response};
use rustix::process::{Pid, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;
use test_support::langgraph_sdk;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
    task::spawn_blocking,
    time::{sleep, timeout},
};

/// Command-line options of the server that most tests use.
const IN_PROCESS: &str = "--sandbox in-process --isolation off";

/// Token limit that suffices to score only one of two moves.
const LIMIT_FOR_ONE_MOVE: u64 = 75_000;

/// Timeout of each operation. It is far longer than any operation takes.
const TIMEOUT: Duration = Duration::from_secs(240);

/// A server in its own process.
struct Server {
    child: Child,
    address: String,
    client: Client,
}

impl Server {
    /// Starts a server on a free port with a configuration of two moves and three rounds.
    async fn start(folder: &Path, options: &str, provider: Option<&FakeProvider>) -> Self {
        let config = folder.join("small.toml");
        if !config.exists() {
            let mut table: toml::Table = DEFAULT.parse().unwrap();
            table["rounds"] = 3.into();
            table["moves_per_analyst"] = 1.into();
            table["analysts"].as_array_mut().unwrap().truncate(2);
            std::fs::write(&config, table.to_string()).unwrap();
        }
        let mut command = Command::new(env!("CARGO_BIN_EXE_consulting"));
        for key in ["ANTHROPIC", "OPENAI", "GEMINI", "GROQ", "OPENROUTER", "CONSULTING"] {
            command.env_remove(format!("{key}_API_KEY"));
        }
        let line =
            format!("serve --address 127.0.0.1:0 --config small.toml --as-of 2026-03-01 {options}");
        command.args(line.split_whitespace()).current_dir(folder).kill_on_drop(true);
        if let Some(provider) = provider {
            command.args(["--provider", "openai-compatible", "--model", "board"]);
            command.env("OPENAI_COMPATIBLE_BASE_URL", provider.address());
        }
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut said = Vec::new();
        let address = loop {
            let line = timeout(TIMEOUT, lines.next_line()).await.unwrap().unwrap();
            let line = line.unwrap_or_else(|| panic!("it ended: {said:?}"));
            if let Some(rest) = line.split("Serving at ").nth(1) {
                break rest.split(". ").next().unwrap().to_owned();
            }
            said.push(line);
        };
        // Drains stderr, so that the server does not block on a full pipe.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        let client = llm::http_client(&address.parse().unwrap()).unwrap();
        Self { child, address, client }
    }

    async fn send(&self, method: Method, path: &str, body: Option<Value>) -> Response {
        let mut request = self.client.request(method, self.at(path));
        if let Some(body) = body {
            request = request.header("content-type", "application/json").body(body.to_string());
        }
        timeout(TIMEOUT, request.send()).await.unwrap().unwrap()
    }

    async fn get(&self, path: &str) -> (u16, Value) {
        read(self.send(Method::GET, path, None).await).await
    }

    async fn post(&self, path: &str, body: Value) -> (u16, Value) {
        read(self.send(Method::POST, path, Some(body)).await).await
    }

    fn at(&self, path: &str) -> String {
        format!("{}{path}", self.address)
    }

    /// Kills the server and waits until it is gone. A server that is merely dropped can hold its locks a little longer.
    async fn kill(mut self) {
        self.child.kill().await.unwrap();
    }

    /// Sends the signal that Ctrl-C sends to the server process.
    fn interrupt(&self) {
        let id = Pid::from_raw(self.child.id().unwrap().try_into().unwrap()).unwrap();
        kill_process(id, rustix::process::Signal::INT).unwrap();
    }

    /// Starts a run and returns its id.
    async fn analyze(&self, body: Value) -> String {
        let (status, started) = self.post("/api/analyze", body).await;
        assert_eq!(status, 202, "{started}");
        let id = started["analysis_id"].as_str().unwrap().to_owned();
        assert_eq!(started["sse_url"], json!(format!("/api/stream/{id}")));
        id
    }

    /// Returns all events of a run and its final status.
    async fn follow(&self, id: &str) -> (Vec<Value>, String) {
        let mut events = Vec::new();
        let status = collect(&self.client, &self.address, id, &mut events).await;
        (events, status.unwrap())
    }
}

async fn read(response: Response) -> (u16, Value) {
    let status = response.status().as_u16();
    (status, serde_json::from_str(&response.text().await.unwrap()).unwrap_or(Value::Null))
}

/// Appends the events that follow those in `events` until the stream ends. Returns the status in the last message of
/// the stream.
async fn collect(
    client: &Client,
    address: &str,
    id: &str,
    events: &mut Vec<Value>,
) -> Option<String> {
    let request = client
        .get(format!("{address}/api/stream/{id}"))
        .header("last-event-id", events.len().to_string());
    let response = request.send().await.ok()?;
    // The run ended, and all its events were received.
    if response.status() == 204 {
        return Some("complete".to_owned());
    }
    let mut response = Some(response).filter(|it| it.status() == 200)?;
    // Collects bytes, because a chunk may end in the middle of a character.
    let mut received = Vec::new();
    while let Some(chunk) = timeout(TIMEOUT, response.chunk()).await.unwrap().ok()? {
        received.extend_from_slice(&chunk);
        while let Some(at) = received.windows(2).position(|it| it == b"\n\n") {
            let message = String::from_utf8(received.drain(..at + 2).collect()).unwrap();
            let field = |name: &str| {
                message.lines().find_map(|it| it.strip_prefix(name)?.strip_prefix(": "))
            };
            let Some(data) = field("data") else { continue };
            let data: Value = serde_json::from_str(data).unwrap();
            if field("event") == Some("end") {
                return data["status"].as_str().map(str::to_owned);
            }
            assert_eq!(field("event"), data["type"].as_str());
            assert!(data["at"].as_str().is_some_and(|it| it.ends_with('Z')), "{data}");
            assert_eq!(field("id").unwrap(), data["seq"].to_string());
            assert_eq!(data["seq"], json!(events.len() + 1), "no event is missing or repeated");
            events.push(data);
        }
    }
    None
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_of_langgraph_start_runs() {
    let folder = TempDir::new().unwrap();
    let server = Server::start(folder.path(), IN_PROCESS, None).await;
    let run = |input: Value| json!({ "assistant_id": "consulting", "input": input });
    let body = run(json!({ "ticker": "NVDA", "rounds": 1 }));
    let (status, output) = server.post("/langgraph/runs/wait", body).await;
    assert_eq!((status, &output["status"]), (200, &json!("complete")), "{output}");
    let id = output["run_id"].as_str().unwrap();
    let (_, results) = server.get(&format!("/api/results/{id}")).await;
    assert_eq!((&results["ticker"], &results["status"]), (&json!("NVDA"), &json!("complete")));

    let (_, refused) = server.post("/langgraph/runs/wait", run(json!({ "ticker": "?" }))).await;
    let message = refused["__error__"]["message"].as_str().unwrap();
    assert!(message.contains("`ticker`"), "{refused}");
    let (status, _) = server.get("/langgraph/info").await;
    assert_eq!(status, 200);
    let card = "/langgraph/.well-known/agent-card.json?assistant_id=consulting";
    let (_, card) = server.get(card).await;
    let url = card["url"].as_str().unwrap();
    assert!(url.starts_with(&server.at("/langgraph/a2a/")), "{card}");
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_of_langgraph_answer_the_review_of_a_run() {
    let folder = TempDir::new().unwrap();
    let server = Server::start(folder.path(), IN_PROCESS, None).await;
    let (_, thread) = server.post("/langgraph/threads", json!({})).await;
    let wait = format!("/langgraph/threads/{}/runs/wait", thread["thread_id"].as_str().unwrap());
    let input = json!({ "ticker": "NVDA", "rounds": 1, "review": true });
    let body = json!({ "assistant_id": "consulting", "input": input });
    let (_, waiting) = server.post(&wait, body).await;
    let question = &waiting["__interrupt__"][0]["value"];
    let id = question["run_id"].as_str().unwrap();
    let first = question["moves"][0].clone();
    let resume =
        |answer: Value| json!({ "assistant_id": "consulting", "command": { "resume": answer } });
    let (_, refused) = server.post(&wait, resume(json!({ "moves": [] }))).await;
    let message = refused["__error__"]["message"].as_str().unwrap();
    assert!(message.contains("keep at least one"), "{refused}");
    let (_, output) = server.post(&wait, resume(json!({ "moves": [first] }))).await;
    assert_eq!(
        (&output["run_id"], &output["status"]),
        (&json!(id), &json!("complete")),
        "{output}"
    );
}

/// Runs a suite of LangGraph's official clients against the server.
async fn run_clients(server: &Server, mut suite: StdCommand) {
    let (url, input) = (server.at("/langgraph"), json!({ "ticker": "NVDA", "rounds": 1 }));
    suite.env("PROGRAM_GRAPH", "consulting").env("PROGRAM_INPUT", input.to_string());
    spawn_blocking(move || langgraph_sdk::run(&mut suite, &url)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn official_clients_of_langgraph_follow_runs_and_answer_reviews() {
    let Some(clients) = langgraph_sdk::find() else { return };
    let folder = TempDir::new().unwrap();
    let server = Server::start(folder.path(), IN_PROCESS, None).await;
    let files = ["program_runs.py", "program_review.py"];
    run_clients(&server, langgraph_sdk::python(&clients, &files)).await;
    run_clients(&server, langgraph_sdk::javascript(&clients, &["program_runs.test.mjs"])).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn official_clients_of_langgraph_cancel_runs() {
    let Some(clients) = langgraph_sdk::find() else { return };
    let folder = TempDir::new().unwrap();
    // The runs do not end before they are cancelled.
    let options = format!("{IN_PROCESS} --answer-ms 600000");
    let server = Server::start(folder.path(), &options, None).await;
    run_clients(&server, langgraph_sdk::python(&clients, &["program_cancel.py"])).await;
    let cancelled = async {
        while server.get("/api/runs").await.1["runs"][0]["status"] != "cancelled" {
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(TIMEOUT, cancelled).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_killed_ten_times_repeats_no_call_and_loses_no_event() {
    const KILLS: usize = 10;
    let folder = TempDir::new().unwrap();
    let provider = FakeProvider::start(canned::model()).await.unwrap();
    let mut server = Server::start(folder.path(), "", Some(&provider)).await;
    // Counts the calls of an uninterrupted run.
    let (id, ()) = tokio::join!(server.analyze(json!({ "ticker": "NVDA" })), provider.hold(1));
    provider.sync_with_recording(&folder.path().join(format!("runs/{id}/calls.jsonl")));
    provider.release();
    let (events, status) = server.follow(&id).await;
    assert_eq!(status, "complete");
    let calls = provider.answered();

    // Starts a new provider, which counts the calls of the second run only.
    server.child.kill().await.unwrap();
    let provider = FakeProvider::start(canned::model()).await.unwrap();
    server = Server::start(folder.path(), "", Some(&provider)).await;
    let (id, ()) = tokio::join!(server.analyze(json!({ "ticker": "NVDA" })), provider.hold(1));
    provider.sync_with_recording(&folder.path().join(format!("runs/{id}/calls.jsonl")));
    let current = Arc::new(Mutex::new(server.address.clone()));
    let reader = tokio::spawn({
        let (client, current, id) = (server.client.clone(), current.clone(), id.clone());
        async move {
            let mut events = Vec::new();
            loop {
                let address = current.lock().unwrap().clone();
                if let Some(status) = collect(&client, &address, &id, &mut events).await {
                    return (events, status);
                }
                sleep(Duration::from_millis(20)).await;
            }
        }
    });
    for kill in 0..KILLS {
        provider.hold(1 + kill * calls / KILLS).await;
        server.child.kill().await.unwrap();
        provider.wait_for_disconnect().await;
        server = Server::start(folder.path(), "", Some(&provider)).await;
        current.lock().unwrap().clone_from(&server.address);
    }
    provider.release();
    let (collected, status) = timeout(TIMEOUT, reader).await.unwrap().unwrap();
    assert_eq!(status, "complete");
    assert_eq!(provider.answered(), calls, "no call is paid for twice");
    let (_, stored) = server.get(&format!("/api/runs/{id}/events")).await;
    assert_eq!(stored["events"], json!(collected));
    assert_eq!(collected.len(), events.len());
    let runs = |it: &Value| it["type"] == "pipeline_complete";
    assert_eq!(
        collected.iter().find(|it| runs(it)).map(|it| &it["recommended"]),
        events.iter().find(|it| runs(it)).map(|it| &it["recommended"])
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_are_started_watched_read_compared_and_forked() {
    let folder = TempDir::new().unwrap();
    let server = Server::start(folder.path(), IN_PROCESS, None).await;
    let (_, setup) = server.get("/api/setup").await;
    assert_eq!((&setup["provider"], &setup["needs_key"]), (&json!("scripted"), &json!(false)));

    // Two concurrent runs do not affect each other.
    let (a, b) = tokio::join!(
        server.analyze(json!({ "ticker": "NVDA" })),
        server.analyze(json!({ "ticker": "BRK.B", "seed": 5, "concurrency": 2 })),
    );
    let ((first, _), (second, status)) = tokio::join!(server.follow(&a), server.follow(&b));
    assert_eq!(status, "complete");
    assert_ne!(first, second);
    let (_, alone) = server.get(&format!("/api/results/{b}")).await;
    assert_eq!((&alone["ticker"], &alone["status"]), (&json!("BRK.B"), &json!("complete")));
    let result = &alone["result"];
    assert_eq!(result["recommended_moves"].as_array().unwrap().len(), 2);
    assert!(result["recommended_moves"][0]["move_document"].as_str().unwrap().contains("BRK.B"));
    assert!(result["conversation_logs"]["m1"]["i1"].as_array().unwrap().len() == 6);
    let (_, detail) = server.get(&format!("/api/runs/{b}")).await;
    assert_eq!(detail["planned_calls"], json!(44));
    assert!(detail["usage"]["calls"].as_u64().unwrap() >= 44);

    // A client that reconnects after the last event receives the status that ends reconnecting.
    let stream = server.client.get(server.at(&format!("/api/stream/{b}")));
    let stream = stream.header("last-event-id", second.len().to_string()).send().await.unwrap();
    assert_eq!(stream.status(), 204);
    // Every announced artifact is a file.
    for event in second.iter().filter(|it| it["type"] == "layer_complete") {
        assert_eq!(event["status"], "done", "{event}");
        for name in event["artifacts"].as_array().unwrap().iter().filter_map(Value::as_str) {
            assert_eq!(server.get(&format!("/api/runs/{b}/files/{name}")).await.0, 200, "{name}");
        }
    }

    // A fork can be compared with its origin.
    let wanted = json!({ "at": "m2:r3", "set": ["critic.persona=You are kind."], "only": true });
    let (status, forked) = server.post(&format!("/api/runs/{b}/fork"), wanted).await;
    assert_eq!(status, 202, "{forked}");
    let fork = forked["analysis_id"].as_str().unwrap();
    let (branched, status) = server.follow(fork).await;
    assert_eq!(status, "complete");
    // The meters of a fork count only its own calls.
    let (_, detail) = server.get(&format!("/api/runs/{fork}")).await;
    let calls = detail["usage"]["calls"].as_u64().unwrap();
    assert!((1..20).contains(&calls), "{calls}");
    let (_, difference) = server.get(&format!("/api/compare?a={b}&b={fork}")).await;
    assert!(difference["settings"].to_string().contains("critic"), "{difference}");
    let (_, list) = server.get("/api/runs?limit=2").await;
    assert_eq!((&list["runs"][0]["id"], &list["runs"][0]["from"]), (&json!(fork), &json!(b)));
    let (_, older) =
        server.get(&format!("/api/runs?before={}", list["next"].as_str().unwrap())).await;
    assert_eq!(older["runs"].as_array().unwrap().len(), 1);

    // Only public files can be read, as attachments.
    let report = server.send(Method::GET, &format!("/api/runs/{b}/files/report.html"), None).await;
    assert!(report.headers()["content-disposition"].to_str().unwrap().starts_with("attachment"));
    assert_eq!(report.headers()["content-security-policy"], "sandbox");
    for name in ["state.db", "calls.jsonl", "..%2f..%2fsmall.toml", "m9.md"] {
        assert_eq!(server.get(&format!("/api/runs/{b}/files/{name}")).await.0, 404, "{name}");
    }
    let counts = server.send(Method::GET, "/metrics", None).await;
    let kind = counts.headers()["content-type"].to_str().unwrap().to_owned();
    assert!(kind.starts_with("application/openmetrics-text"), "{kind}");
    let sent = first.len() + second.len() + branched.len();
    let sent = format!("events_sent_total {sent}");
    let lines = [
        "runs{status=\"complete\"} 3",
        "runs{status=\"running\"} 0",
        "event_streams 0",
        &sent,
        "http_requests_total{method=\"POST\",route=\"/api/analyze\",status=\"202\"} 2",
        "http_requests_total{method=\"GET\",route=\"/api/runs/{id}/files/{name}\",status=\"404\"} 4",
        "http_request_seconds_count{route=\"/api/compare\"} 1",
        "# EOF",
    ];
    // The server counts a stream as open until it has noticed that the client has closed it.
    let started = Instant::now();
    loop {
        let counts = server.send(Method::GET, "/metrics", None).await.text().await.unwrap();
        let missing = lines.iter().find(|line| counts.lines().all(|it| it != **line));
        let Some(line) = missing else { break };
        assert!(started.elapsed() < TIMEOUT, "{line}\n{counts}");
        sleep(Duration::from_millis(200)).await;
    }
    let (_, trace) = server.get(&format!("/api/runs/{a}/trace")).await;
    let tasks = trace["steps"].as_array().unwrap().iter().flat_map(|it| it["tasks"].as_array());
    let debates = tasks.flatten().filter(|it| it["node"] == "sandbox_debate");
    assert!(debates.clone().all(|it| !it["graphs"][0]["steps"].is_null()), "{trace}");
    assert_eq!(debates.count(), 2);

    // Invalid requests are rejected with a message.
    for (path, body, expected) in [
        ("/api/analyze", json!({ "ticker": "../x" }), 422),
        ("/api/analyze", json!({ "ticker": " NVDA" }), 422),
        ("/api/analyze", json!({ "ticker": "A", "rounds": 0 }), 422),
        ("/api/analyze", json!({ "ticker": "A", "max_dollars": -1 }), 422),
        ("/api/analyze", json!({ "ticker": "A", "wat": 1 }), 422),
        ("/api/runs/nobody/resume", json!({}), 404),
        ("/api/runs/nobody/fork", json!({ "at": "m1" }), 404),
        (&format!("/api/runs/{b}/fork"), json!({ "at": "m77" }), 422),
        (&format!("/api/runs/{b}/cancel"), json!({}), 409),
        (&format!("/api/runs/{b}/resume"), json!({}), 409),
    ] {
        let (status, said) = server.post(path, body).await;
        assert_eq!(status, expected, "{path} {said}");
        assert!(said["error"]["message"].as_str().is_some_and(|it| !it.is_empty()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_are_deleted_on_request_and_after_their_retention_period() {
    let folder = TempDir::new().unwrap();
    // The runs do not end before they are cancelled.
    let options = format!("{IN_PROCESS} --answer-ms 600000");
    let server = Server::start(folder.path(), &options, None).await;
    let delete = async |server: &Server, id: &str| {
        let answer = server.send(Method::DELETE, &format!("/api/runs/{id}"), None).await;
        answer.status().as_u16()
    };
    let id = server.analyze(json!({ "ticker": "NVDA" })).await;
    assert_eq!(delete(&server, &id).await, 409, "the run is active");
    assert_eq!(server.post(&format!("/api/runs/{id}/cancel"), json!({})).await.0, 202);
    let other = server.analyze(json!({ "ticker": "AMD" })).await;
    assert_eq!(server.post(&format!("/api/runs/{other}/cancel"), json!({})).await.0, 202);
    assert_eq!(delete(&server, &id).await, 204);
    assert_eq!(delete(&server, &id).await, 404);
    assert_eq!(server.get(&format!("/api/runs/{id}")).await.0, 404);
    let dirs = || {
        let entries = std::fs::read_dir(folder.path().join("runs")).unwrap();
        let dirs = entries.map(Result::unwrap).filter(|it| it.path().is_dir());
        dirs.map(|it| it.file_name().into_string().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(dirs(), [other.as_str()]);
    server.kill().await;

    // An interrupted deletion is completed by the next start.
    std::fs::create_dir(folder.path().join("runs/.deleted-x")).unwrap();
    let server = Server::start(folder.path(), &options, None).await;
    assert_eq!(server.get(&format!("/api/runs/{other}")).await.0, 200);
    assert_eq!(dirs(), [other.as_str()]);
    server.kill().await;
    let server = Server::start(folder.path(), &format!("{options} --keep-days 0"), None).await;
    assert_eq!(server.get(&format!("/api/runs/{other}")).await.0, 404);
    assert_eq!(dirs(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_respect_the_time_limits_of_the_server() {
    let folder = TempDir::new().unwrap();
    let provider = FakeProvider::start(canned::model()).await.unwrap();
    let options = format!("{IN_PROCESS} --first-byte-timeout 1 --retries 0");
    let server = Server::start(folder.path(), &options, Some(&provider)).await;
    // The provider answers no call.
    let (id, ()) = tokio::join!(server.analyze(json!({ "ticker": "NVDA" })), provider.hold(1));
    assert_eq!(server.follow(&id).await.1, "error");
    let (_, detail) = server.get(&format!("/api/runs/{id}")).await;
    assert!(detail["error"].as_str().is_some_and(|it| it.contains("within 1s")), "{detail}");
}

#[tokio::test(flavor = "multi_thread")]
async fn excess_runs_are_queued_and_the_server_keeps_answering() {
    let folder = TempDir::new().unwrap();
    // The runs do not end.
    let options = format!("{IN_PROCESS} --answer-ms 600000");
    let server = Server::start(folder.path(), &options, None).await;
    let cores = std::thread::available_parallelism().unwrap().get();
    for _ in 0..48 {
        server.analyze(json!({ "ticker": "NVDA", "rounds": 1 })).await;
        assert_eq!(server.send(Method::GET, "/health", None).await.status(), 200);
    }
    let running = loop {
        let counts = server.send(Method::GET, "/metrics", None).await.text().await.unwrap();
        let running = counts.lines().find_map(|it| it.strip_prefix("runs{status=\"running\"} "));
        let running: usize = running.unwrap().parse().unwrap();
        if running > 0 {
            break running;
        }
        sleep(Duration::from_millis(200)).await;
    };
    assert!(running <= 2 * cores, "{running} runs on {cores} cores");
}

#[tokio::test(flavor = "multi_thread")]
async fn reviewed_moves_are_debated_and_never_become_markup() {
    let folder = TempDir::new().unwrap();
    let server = Server::start(folder.path(), IN_PROCESS, None).await;
    let id = server.analyze(json!({ "ticker": "NVDA", "review": true, "rounds": 1 })).await;
    assert_eq!(server.follow(&id).await.1, "waiting");
    let (_, review) = server.get(&format!("/api/runs/{id}/review")).await;
    let mut moves = review["moves"].as_array().unwrap().clone();
    moves.truncate(1);
    moves[0]["title"] = json!("<script>alert(1)</script>");
    let path = format!("/api/runs/{id}/resume");
    assert_eq!(server.post(&path, json!({})).await.0, 422);
    assert_eq!(server.post(&path, json!({ "moves": [] })).await.0, 422);
    // A run that is waiting for a review can be cancelled and resumed.
    let (status, cancelled) = server.post(&format!("/api/runs/{id}/cancel"), json!({})).await;
    assert_eq!((status, &cancelled["status"]), (202, &json!("cancelled")));
    assert_eq!(server.post(&path, json!({ "moves": moves })).await.0, 202);
    assert_eq!(server.follow(&id).await.1, "complete");
    let results = server.send(Method::GET, &format!("/api/results/{id}"), None).await;
    assert_eq!(results.headers()["content-type"], "application/json");
    let results: Value = serde_json::from_str(&results.text().await.unwrap()).unwrap();
    assert_eq!(results["result"]["recommended_moves"][0]["title"], "<script>alert(1)</script>");
    let html = server.send(Method::GET, &format!("/api/runs/{id}/files/report.html"), None).await;
    assert!(!html.text().await.unwrap().contains("<script>alert"));
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_runs_resume_and_a_lost_registry_is_rebuilt() {
    let folder = TempDir::new().unwrap();
    let provider = FakeProvider::start(canned::model()).await.unwrap();
    let server = Server::start(folder.path(), "", Some(&provider)).await;
    let (id, ()) = tokio::join!(server.analyze(json!({ "ticker": "NVDA" })), provider.hold(1));
    let (status, stopped) = server.post(&format!("/api/runs/{id}/cancel"), json!({})).await;
    assert_eq!((status, &stopped["status"]), (202, &json!("cancelled")));
    provider.sync_with_recording(&folder.path().join(format!("runs/{id}/calls.jsonl")));
    provider.release();
    assert_eq!(server.post(&format!("/api/runs/{id}/resume"), json!({})).await.0, 202);
    assert_eq!(server.follow(&id).await.1, "complete");
    // A second server in the same directory does not start, because it would treat the runs of the first one as
    // abandoned.
    let mut second = Command::new(env!("CARGO_BIN_EXE_consulting"));
    second.args(["serve", "--address", "127.0.0.1:0"]).current_dir(folder.path());
    let refused = second.output().await.unwrap();
    assert!(String::from_utf8_lossy(&refused.stderr).contains("another server"), "{refused:?}");
    server.kill().await;
    // A lost registry is rebuilt from the run directories.
    std::fs::remove_file(folder.path().join("runs/runs.db")).unwrap();
    let server = Server::start(folder.path(), "", None).await;
    let (_, runs) = server.get("/api/runs").await;
    assert_eq!(
        (&runs["runs"][0]["id"], &runs["runs"][0]["status"]),
        (&json!(id), &json!("complete"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_spending_limit_of_the_server_applies_to_every_run() {
    let folder = TempDir::new().unwrap();
    let shown = async |server: &Server, id: &str| {
        server.get(&format!("/api/runs/{id}")).await.1["settings"]["max_tokens"].clone()
    };
    let fork = async |server: &Server, id: &str, body: Value| {
        let (status, forked) = server.post(&format!("/api/runs/{id}/fork"), body).await;
        assert_eq!(status, 202, "{forked}");
        let fork = forked["analysis_id"].as_str().unwrap().to_owned();
        let ended = server.follow(&fork).await.1;
        (fork, ended)
    };
    let server = Server::start(folder.path(), IN_PROCESS, None).await;
    let high_limit = server.analyze(json!({ "ticker": "NVDA", "max_tokens": 5_000_000 })).await;
    let no_limit = server.analyze(json!({ "ticker": "NVDA", "review": true })).await;
    assert_eq!(server.follow(&high_limit).await.1, "complete");
    assert_eq!(server.follow(&no_limit).await.1, "waiting");
    let (_, review) = server.get(&format!("/api/runs/{no_limit}/review")).await;
    // The limit in a fork request takes precedence over the limit of the run that is forked.
    let at = |options: Value| {
        let mut at = json!({ "at": "layer_2", "set": ["critic.persona=You are kind."] });
        at.as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
        at
    };
    let (same, ended) = fork(&server, &high_limit, at(json!({}))).await;
    assert_eq!((ended.as_str(), shown(&server, &same).await), ("complete", json!(5_000_000)));
    let (low_limit, ended) = fork(&server, &high_limit, at(json!({ "max_tokens": 1000 }))).await;
    assert_eq!((ended.as_str(), shown(&server, &low_limit).await), ("error", json!(1000)));
    server.kill().await;

    let server =
        Server::start(folder.path(), &format!("{IN_PROCESS} --max-tokens 2000"), None).await;
    let (forked, ended) = fork(&server, &high_limit, at(json!({}))).await;
    assert_eq!((ended.as_str(), shown(&server, &forked).await), ("error", json!(2000)));
    let path = format!("/api/runs/{no_limit}/resume");
    let asked = json!({ "moves": review["moves"], "max_tokens": 9_000_000 });
    assert_eq!(server.post(&path, asked).await.0, 422, "exceeds the limit of the server");
    assert_eq!(server.post(&path, json!({ "moves": review["moves"] })).await.0, 202);
    assert_eq!(server.follow(&no_limit).await.1, "error");
    assert_eq!(shown(&server, &no_limit).await, json!(2000));
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_cut_short_by_their_budget_resume_on_the_server_and_on_the_command_line() {
    let folder = TempDir::new().unwrap();
    let server = Server::start(folder.path(), IN_PROCESS, None).await;
    let limited = json!({ "ticker": "NVDA", "max_tokens": LIMIT_FOR_ONE_MOVE, "concurrency": 1 });
    let (on_server, on_terminal) =
        tokio::join!(server.analyze(limited.clone()), server.analyze(limited));
    let exhausted = server.analyze(json!({ "ticker": "NVDA", "max_tokens": 1 })).await;
    let recommended = async |id: &str| {
        let (_, list) = server.get("/api/runs").await;
        let run = list["runs"].as_array().unwrap().iter().find(|it| it["id"] == json!(id)).unwrap();
        (run["status"].clone(), run["recommended"].as_array().unwrap().len())
    };
    let trace = async |id: &str| server.get(&format!("/api/runs/{id}/trace")).await;
    for id in [&on_server, &on_terminal] {
        assert_eq!(server.follow(id).await.1, "complete");
        assert_eq!(recommended(id).await, (json!("complete"), 1), "one move has no score");
    }
    assert_eq!(server.follow(&exhausted).await.1, "error");
    let before = [trace(&on_server).await, trace(&on_terminal).await];

    let path = format!("/api/runs/{on_server}/resume");
    assert_eq!(server.post(&path, json!({ "max_tokens": 9_000_000 })).await.0, 202);
    assert_eq!(server.follow(&on_server).await.1, "complete");
    let (status, said) = server.post(&path, json!({ "max_tokens": 9_000_001 })).await;
    assert_eq!(status, 409, "nothing left to resume: {said}");
    // The server imports the results of `consulting resume`, which completes runs while the server is running.
    for id in [&on_terminal, &exhausted] {
        let mut resume = Command::new(env!("CARGO_BIN_EXE_consulting"));
        let line = format!("resume {id} --max-tokens 9000000 --isolation off --quiet");
        resume.args(line.split_whitespace()).current_dir(folder.path());
        let resumed = resume.output().await.unwrap();
        assert!(resumed.status.success(), "{resumed:?}");
    }
    for id in [&on_server, &on_terminal, &exhausted] {
        assert_eq!(recommended(id).await, (json!("complete"), 2), "{id}");
    }
    let (_, detail) = server.get(&format!("/api/runs/{exhausted}")).await;
    assert_eq!((&detail["status"], &detail["error"]), (&json!("complete"), &Value::Null));
    for (before, id) in before.into_iter().zip([&on_server, &on_terminal]) {
        let after = trace(id).await;
        assert_eq!((before.0, after.0), (200, 200));
        assert!(before.1 != after.1, "the trace is updated after a resume");
        assert_eq!(after, trace(id).await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_and_traces_of_a_run_can_be_read() {
    let folder = TempDir::new().unwrap();
    let server = Server::start(folder.path(), IN_PROCESS, None).await;
    let id = server.analyze(json!({ "ticker": "NVDA", "rounds": 1 })).await;
    assert_eq!(server.follow(&id).await.1, "complete");
    let at = |path: &str| format!("/api/runs/{id}/{path}");

    // No trace is made while another process executes the run.
    let lock = DirLock::exclusive(&folder.path().join("runs").join(&id)).unwrap();
    assert_eq!(server.get(&at("trace")).await.0, 409);
    drop(lock);
    for (name, title) in [("pipeline", "NVDA, pipeline"), ("m1", "NVDA, debate of m1")] {
        let page = server.send(Method::GET, &at(&format!("trace/{name}")), None).await;
        assert_eq!(page.status(), 200, "{name}");
        assert!(page.text().await.unwrap().contains(title), "{name}");
    }
    assert_eq!(server.get(&at("trace/m77")).await.0, 404);

    let (_, detail) = server.get(&format!("/api/runs/{id}")).await;
    let critic = detail["config"]["critic"]["id"].as_str().unwrap();
    let analyst = detail["config"]["analysts"][0]["id"].as_str().unwrap();
    let (_, list) = server.get(&at(&format!("calls?agent={critic}&move=m1"))).await;
    let calls = list["calls"].as_array().unwrap();
    assert!(!calls.is_empty() && calls.iter().all(|it| it["answer"] != ""), "{list}");
    assert!(calls.iter().all(|it| it["prompt"].to_string().contains("move m1")), "{list}");
    let (_, list) = server.get(&at(&format!("calls?agent={analyst}"))).await;
    assert!(!list["calls"].as_array().unwrap().is_empty(), "{list}");
    for (query, expected) in [
        ("agent=nobody".to_owned(), 404),
        (format!("agent={critic}"), 422),
        (format!("agent={analyst}&move=m1"), 422),
    ] {
        assert_eq!(server.get(&at(&format!("calls?{query}"))).await.0, expected, "{query}");
    }
}

/// Waiting requests must not hold a blocking thread, or the server would deadlock. This test sends more requests than
/// tokio has blocking threads.
#[tokio::test(flavor = "multi_thread")]
async fn many_trace_and_fork_requests_do_not_block_others() {
    const REQUESTS: usize = 600;
    let folder = TempDir::new().unwrap();
    let server = Server::start(folder.path(), &format!("{IN_PROCESS} --rate 100000"), None).await;
    let id = server.analyze(json!({ "ticker": "NVDA", "rounds": 1 })).await;
    assert_eq!(server.follow(&id).await.1, "complete");
    for (method, path, body) in [
        (Method::GET, format!("/api/runs/{id}/trace"), None),
        (Method::POST, format!("/api/runs/{id}/fork"), Some(json!({ "at": "m2", "only": true }))),
    ] {
        let requests: Vec<_> = (0..REQUESTS)
            .map(|_| {
                let request = server.client.request(method.clone(), server.at(&path));
                let request = match &body {
                    Some(body) => {
                        request.header("content-type", "application/json").body(body.to_string())
                    }
                    None => request,
                };
                tokio::spawn(async move { request.send().await.map(|it| it.status().as_u16()) })
            })
            .collect();
        sleep(Duration::from_secs(2)).await;
        // Fails after a timeout if other requests are not answered.
        assert_eq!(server.get("/ready").await.0, 200, "{path}");
        for it in requests {
            it.abort();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn responses_contain_no_host_paths_and_report_missing_directories() {
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("secret-place");
    std::fs::create_dir(&data).unwrap();
    let options = format!("{IN_PROCESS} --data dir --data-dir {}", data.display());
    let server = Server::start(folder.path(), &options, None).await;
    std::fs::remove_dir(&data).unwrap();
    let id = server.analyze(json!({ "ticker": "NVDA" })).await;
    let (events, status) = server.follow(&id).await;
    assert_eq!(status, "error");
    let (_, results) = server.get(&format!("/api/results/{id}")).await;
    let said = format!("{results} {events:?}");
    assert!(!said.contains("secret-place") && said.contains("the data directory"), "{said}");
    let run = folder.path().join(format!("runs/{id}"));
    assert!(!said.contains(run.to_str().unwrap()), "{said}");

    std::fs::remove_dir_all(run).unwrap();
    for path in ["", "/files", "/trace"] {
        let (status, said) = server.get(&format!("/api/runs/{id}{path}")).await;
        assert!((400..500).contains(&status), "{path}: {status} {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_stops_the_server_immediately() {
    let folder = TempDir::new().unwrap();
    let provider = FakeProvider::start(canned::model()).await.unwrap();
    let mut server = Server::start(folder.path(), "--grace 1000", Some(&provider)).await;
    let (id, ()) = tokio::join!(server.analyze(json!({ "ticker": "NVDA" })), provider.hold(1));
    server.interrupt();
    while server.get("/ready").await.0 != 503 {
        sleep(Duration::from_millis(20)).await;
    }
    let (status, said) = server.post("/api/analyze", json!({ "ticker": "NVDA" })).await;
    assert_eq!((status, &said["error"]["code"]), (503, &json!("closing")));
    assert_eq!(server.get(&format!("/api/runs/{id}")).await.1["status"], "running");
    server.interrupt();
    let ended = timeout(TIMEOUT, server.child.wait()).await.unwrap().unwrap();
    assert_eq!(ended.code(), Some(130));
}

#[tokio::test(flavor = "multi_thread")]
async fn public_addresses_require_a_key_that_is_never_shown() {
    let folder = TempDir::new().unwrap();
    let mut refused = Command::new(env!("CARGO_BIN_EXE_consulting"));
    refused.args(["serve", "--address", "0.0.0.0:0"]).current_dir(folder.path());
    let refused = refused.env_remove("CONSULTING_API_KEY").output().await.unwrap();
    assert_eq!(refused.status.code(), Some(2));
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("CONSULTING_API_KEY"), "{said}");
    for (arguments, expected) in [
        (&["serve"][..], "openssl rand"),
        (&["serve", "--max-tokens", "0"], "1.."),
        (&["serve", "--address", "localhost:8000"], "127.0.0.1:8000"),
        (&["run", "NVDA", "--max-tokens", "0"], "1.."),
    ] {
        let mut refused = Command::new(env!("CARGO_BIN_EXE_consulting"));
        refused.args(arguments).current_dir(folder.path()).env("CONSULTING_API_KEY", "short");
        let refused = refused.output().await.unwrap();
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(refused.status.code() == Some(2) && said.contains(expected), "{said}");
    }

    let hash = "sha256:2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";
    let server = Server::start(folder.path(), &format!("--key-hash {hash}"), None).await;
    assert_eq!(server.get("/api/runs").await.0, 401);
    let setup = server.get("/api/setup").await;
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(setup, (200, json!({ "needs_key": true, "version": version })), "and nothing else");
    let with_key = async |path: &str| {
        let request = server.client.get(format!("{}{path}", server.address)).bearer_auth("secret");
        read(request.send().await.unwrap()).await
    };
    assert_eq!(with_key("/api/runs").await.0, 200);
    let (_, setup) = with_key("/api/setup").await;
    assert_eq!((&setup["needs_key"], &setup["provider"]), (&json!(true), &json!("scripted")));
    assert!(setup["config"]["critic"]["name"].is_string() && !setup.to_string().contains("2bb80d"));
    let (_, document) = server.get("/openapi.json").await;
    document::rules::check(&document);
    let either = json!([{ "bearer": [] }, { "api_key": [] }]);
    assert_eq!(document["paths"]["/api/analyze"]["post"]["security"], either);
    assert_eq!(document["paths"]["/api/setup"]["get"]["security"], Value::Null);
    assert_eq!(document["components"]["securitySchemes"]["bearer"]["scheme"], "bearer");
    for path in ["/health", "/ready", "/openapi.json", "/"] {
        assert_eq!(server.get(path).await.0, 200, "{path}");
    }
    assert_eq!(server.get("/metrics").await.0, 401);
}
