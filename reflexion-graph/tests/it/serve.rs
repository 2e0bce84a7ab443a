//! Tests the HTTP server over real connections.

#[path = "../../../consulting-graph/tests/document/rules.rs"]
mod openapi_rules;

use std::{
    fs,
    path::Path,
    process::{Command as StdCommand, Stdio},
    time::Duration,
};

use llm::testkit::FakeProvider;
use reflexion_graph::offline;
use reqwest::{Client, Method};
use serde_json::{Value, json};
use test_support::langgraph_sdk;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
    task::spawn_blocking,
    time::{sleep, timeout},
};

use crate::PROGRAM;

/// Timeout for every request. It is exceeded only if the server hangs.
const TIMEOUT: Duration = Duration::from_secs(300);

/// A server in a separate process.
struct Server {
    child: Child,
    address: String,
    client: Client,
}

impl Server {
    async fn start(dir: &Path, more: &str) -> Self {
        Self::start_with(dir, more, &[]).await
    }

    async fn start_with(dir: &Path, more: &str, variables: &[(&str, &str)]) -> Self {
        Self::launch(&mut Self::command(dir, more, variables)).await
    }

    fn command(dir: &Path, more: &str, variables: &[(&str, &str)]) -> Command {
        let mut command = Command::new(PROGRAM);
        for key in ["ANTHROPIC", "OPENAI", "GEMINI", "GROQ", "OPENROUTER"] {
            command.env_remove(format!("{key}_API_KEY"));
        }
        // The default timeout is so short that programs reach it on a busy machine.
        let line = format!("serve --address 127.0.0.1:0 --rate 1000000 --timeout 60 {more}");
        command.envs(variables.iter().copied());
        command.args(line.split_whitespace()).current_dir(dir).kill_on_drop(true);
        command
    }

    async fn launch(command: &mut Command) -> Self {
        let mut child = command.env("RUST_LOG", "warn").stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let address = loop {
            let line = timeout(TIMEOUT, lines.next_line()).await.unwrap().unwrap().unwrap();
            if let Some(rest) = line.split("Serving at ").nth(1) {
                break rest.split(". ").next().unwrap().to_owned();
            }
        };
        // Keep reading the output, so that the server does not block on a full pipe.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        let client = llm::http_client(&address.parse().unwrap()).unwrap();
        Self { child, address, client }
    }

    async fn request(&self, method: Method, path: &str, body: Option<Value>) -> (u16, Value) {
        let mut request = self.client.request(method, format!("{}{path}", self.address));
        if let Some(body) = body {
            request = request.header("content-type", "application/json").body(body.to_string());
        }
        let response = timeout(TIMEOUT, request.send()).await.unwrap().unwrap();
        let status = response.status().as_u16();
        (status, serde_json::from_str(&response.text().await.unwrap()).unwrap_or(Value::Null))
    }

    async fn get(&self, path: &str) -> Value {
        let (status, value) = self.request(Method::GET, path, None).await;
        assert_eq!(status, 200, "{path}: {value}");
        value
    }

    async fn execute(&self, body: Value) -> String {
        let (status, accepted) = self.request(Method::POST, "/execute", Some(body)).await;
        assert_eq!(status, 202, "{accepted}");
        accepted["job_id"].as_str().unwrap().to_owned()
    }

    /// Reads the job's event stream to its end.
    async fn follow(&self, id: &str) -> String {
        let url = format!("{}/jobs/{id}/stream", self.address);
        let response = self.client.get(url).send().await.unwrap();
        timeout(TIMEOUT, response.text()).await.unwrap().unwrap()
    }
}

#[tokio::test]
async fn clients_of_langgraph_submit_jobs() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), "--pool 1").await;
    let submit = async |input: Value| {
        let body = json!({ "assistant_id": "reflexion", "input": input });
        server.request(Method::POST, "/langgraph/runs/wait", Some(body)).await.1
    };
    let output = submit(json!({ "task": "Calculate fibonacci(10)" })).await;
    assert_eq!(output["status"], "complete", "{output}");
    let job = server.get(&format!("/jobs/{}", output["run_id"].as_str().unwrap())).await;
    assert_eq!(job["result"]["success"], output["outcome"]["success"], "{job} {output}");
    let refused = submit(json!({ "task": "Calculate fibonacci(10)", "memory": 1_000_000 })).await;
    let message = refused["__error__"]["message"].as_str().unwrap();
    assert!(message.contains("memory limit"), "{refused}");
}

/// Runs a suite of LangGraph's official clients against the server.
async fn run_clients(server: &Server, mut suite: StdCommand) {
    let url = format!("{}/langgraph", server.address);
    let input = json!({ "task": "Calculate fibonacci(10)" }).to_string();
    suite.env("PROGRAM_GRAPH", "reflexion").env("PROGRAM_INPUT", input);
    spawn_blocking(move || langgraph_sdk::run(&mut suite, &url)).await.unwrap();
}

#[tokio::test]
async fn official_clients_of_langgraph_follow_jobs() {
    let Some(clients) = langgraph_sdk::find() else { return };
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), "--pool 1").await;
    run_clients(&server, langgraph_sdk::python(&clients, &["program_runs.py"])).await;
    run_clients(&server, langgraph_sdk::javascript(&clients, &["program_runs.test.mjs"])).await;
}

#[tokio::test]
async fn official_clients_of_langgraph_cancel_jobs() {
    let Some(clients) = langgraph_sdk::find() else { return };
    let dir = tempfile::tempdir().unwrap();
    // The model does not answer before the job is cancelled.
    let provider = FakeProvider::start(offline::model()).await.unwrap();
    drop(provider.hold(1));
    let variables = [("OPENAI_COMPATIBLE_BASE_URL", provider.address())];
    let options = "--pool 1 --provider openai-compatible --model coder";
    let server = Server::start_with(dir.path(), options, &variables).await;
    run_clients(&server, langgraph_sdk::python(&clients, &["program_cancel.py"])).await;
    let cancelled = async {
        while server.get("/jobs").await[0]["status"] != "cancelled" {
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(TIMEOUT, cancelled).await.unwrap();
}

#[tokio::test]
async fn job_is_accepted_streamed_and_completed() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), "--pool 2 --max-tokens 20000 --cpu-time 30").await;
    let health = server.get("/health").await;
    assert_eq!((&health["status"], &health["isolation"]), (&"ok".into(), &"process".into()));
    assert_eq!(health["provider"], "scripted");

    let task = "Read data from users.json and print usernames";
    let id = server.execute(json!({ "task": task, "max_attempts": 2 })).await;
    let stream = server.follow(&id).await;
    for kind in ["started", "generating", "execution_result", "critique", "retrying", "complete"] {
        assert!(stream.contains(&format!("\"type\":\"{kind}\"")), "{kind}\n{stream}");
    }
    assert!(stream.contains("event: end"), "{stream}");
    let job = server.get(&format!("/jobs/{id}")).await;
    assert_eq!((&job["status"], &job["result"]["success"]), (&"complete".into(), &true.into()));
    assert_eq!(job["result"]["output"], "alice\nbob\ncharlie\n");
    assert_eq!(server.get("/jobs").await[0]["outcome"]["attempts"], 2);

    // The server's CPU time limit applies even if a client requests a longer timeout.
    let id = server.execute(json!({ "task": "Calculate fibonacci(10)", "timeout": 60 })).await;
    assert!(server.follow(&id).await.contains("\"isolation\":\"process\""));
    let text = fs::read_to_string(dir.path().join(format!("runs/{id}/run.json"))).unwrap();
    let given: Value = serde_json::from_str(&text).unwrap();
    let limits = json!({ "timeout": 60.0, "cpu_time": 30.0, "memory": 256 });
    assert_eq!(given["job"]["limits"], limits);

    // A client may set a lower limit than that of the server.
    let id = server.execute(json!({ "task": task, "max_tokens": 100 })).await;
    assert!(server.follow(&id).await.contains("the budget is spent"));
    let job = server.get(&format!("/jobs/{id}")).await;
    assert_eq!((&job["status"], &job["result"]["success"]), (&"complete".into(), &false.into()));

    let stats = server.get("/stats").await;
    assert_eq!((&stats["jobs"]["complete"], &stats["pool"]["executions"]), (&3.into(), &3.into()));
    let document = server.get("/openapi.json").await;
    assert!(document["paths"]["/execute"].is_object());
    openapi_rules::check(&document);
    for (body, status) in [
        (json!({ "task": " " }), 422),
        (json!({ "task": "x", "memory": 4096 }), 422),
        (json!({ "task": "x", "unknown": 1 }), 422),
        (json!({ "task": "x", "timeout": 1e9 }), 422),
        (json!({ "task": "x", "expect": "x".repeat(100_001) }), 422),
        (json!({ "task": "x", "max_tokens": 20_001 }), 422),
        (json!({ "task": "x", "max_tokens": 0 }), 422),
        (json!({ "task": "x", "max_dollars": -1 }), 422),
    ] {
        let (seen, response) = server.request(Method::POST, "/execute", Some(body)).await;
        assert_eq!(seen, status, "{response}");
    }
    for path in ["/jobs/nobody", "/missing", "/assets/missing.js"] {
        assert_eq!(server.request(Method::GET, path, None).await.0, 404, "{path}");
    }
    assert_eq!(server.request(Method::POST, &format!("/jobs/{id}/cancel"), None).await.0, 409);
}

#[tokio::test]
async fn clients_continue_after_their_last_event() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), "--pool 1").await;
    let id = server.execute(json!({ "task": "Calculate fibonacci(10)" })).await;
    let stream = server.follow(&id).await;
    let all = server.get(&format!("/jobs/{id}/events")).await;
    let last = all["last"].as_u64().unwrap();
    assert_eq!(all["events"].as_array().unwrap().len() as u64, last, "{all}");
    assert!(last > 2 && stream.contains(&format!("id: {last}\n")), "{stream}");
    let page = server.get(&format!("/jobs/{id}/events?after=1&limit=1")).await;
    assert_eq!((&page["events"][0], &page["last"]), (&all["events"][1], &2.into()), "{page}");

    let resume = async |after: u64| {
        let request = server.client.get(format!("{}/jobs/{id}/stream", server.address));
        let response = request.header("last-event-id", after).send().await.unwrap();
        (response.status().as_u16(), timeout(TIMEOUT, response.text()).await.unwrap().unwrap())
    };
    let (status, rest) = resume(last - 1).await;
    assert_eq!((status, rest.matches("id: ").count()), (200, 1), "{rest}");
    assert!(rest.contains("event: end"), "{rest}");
    assert_eq!(resume(last).await, (204, String::new()));
    for (query, expected) in [("limit=0", 422), ("after=x", 422), ("unknown=1", 422)] {
        let path = format!("/jobs/{id}/events?{query}");
        assert_eq!(server.request(Method::GET, &path, None).await.0, expected, "{query}");
    }
    assert_eq!(server.request(Method::GET, "/jobs/nobody/events", None).await.0, 404);
}

#[tokio::test]
async fn health_says_whether_memory_is_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = Server::command(dir.path(), "--pool 1", &[]);
    let is_nobody = crate::run_as_nobody(&mut command, dir.path());
    let health = Server::launch(&mut command).await.get("/health").await;
    let is_bounded = health["memory_bounded"].as_bool().unwrap();
    assert!(!(is_nobody && is_bounded), "{health}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_concurrent_jobs_complete_within_the_pool_size() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), "--pool 5 --cpus 2").await;
    let tasks = ["Calculate fibonacci(10)", "Read data from users.json and print usernames"];
    let mut taken = tokio::task::JoinSet::new();
    for number in 0..200 {
        let (client, address) = (server.client.clone(), server.address.clone());
        let body = json!({ "task": tasks[number % 2] }).to_string();
        taken.spawn(async move {
            let request = client.post(format!("{address}/execute"));
            let request = request.header("content-type", "application/json").body(body);
            let response = request.send().await.unwrap();
            assert_eq!(response.status(), 202);
            let taken: Value = serde_json::from_str(&response.text().await.unwrap()).unwrap();
            (number, taken["job_id"].as_str().unwrap().to_owned())
        });
    }
    let jobs: Vec<(usize, String)> = taken.join_all().await;
    let mut most = 0;
    let finished = async {
        loop {
            let stats = server.get("/stats").await;
            most = most.max(stats["pool"]["alive"].as_u64().unwrap());
            if stats["jobs"]["complete"] == 200 {
                break stats;
            }
            sleep(Duration::from_millis(50)).await;
        }
    };
    let stats = timeout(3 * TIMEOUT, finished).await.unwrap();
    assert!(most <= 5 && stats["pool"]["most_in_use"].as_u64().unwrap() <= 5, "{most} {stats}");
    // 100 jobs execute one program each, and 100 jobs execute two.
    assert_eq!(stats["pool"]["executions"], 300);
    for (number, id) in jobs {
        let job = server.get(&format!("/jobs/{id}")).await;
        let wanted = ["55\n", "alice\nbob\ncharlie\n"][number % 2];
        assert_eq!(job["result"]["output"], wanted, "{job}");
    }
    // Peak memory of the server process.
    let status =
        fs::read_to_string(format!("/proc/{}/status", server.child.id().unwrap())).unwrap();
    let peak = status.lines().find_map(|it| it.strip_prefix("VmHWM:")).unwrap();
    let peak: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(peak < 200_000, "{peak} kB");
}

#[tokio::test]
async fn killed_server_resumes_its_jobs_after_restart() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::start(dir.path(), "--pool 1 --max-jobs 1").await;
    let mut ids = Vec::new();
    for _ in 0..6 {
        ids.push(server.execute(json!({ "task": "Calculate fibonacci(10)" })).await);
    }
    server.child.kill().await.unwrap();
    let server = Server::start(dir.path(), "--pool 1").await;
    for id in ids {
        assert!(server.follow(&id).await.contains("\"status\":\"complete\""));
        assert_eq!(server.get(&format!("/jobs/{id}")).await["result"]["output"], "55\n");
    }
}

#[tokio::test]
async fn second_server_in_the_same_directory_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), "").await;
    let mut second = Command::new(PROGRAM);
    second.args(["serve", "--address", "127.0.0.1:0"]).current_dir(dir.path()).kill_on_drop(true);
    let output = timeout(TIMEOUT, second.output()).await.unwrap().unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{message}");
    assert!(message.contains("another server is using runs; stop it"), "{message}");
    drop(server);
}

#[tokio::test]
async fn errors_of_jobs_do_not_contain_paths_of_the_host() {
    let dir = tempfile::tempdir().unwrap();
    let runs = dir.path().join("runs");
    let provider = FakeProvider::start(offline::model()).await.unwrap();
    let held = provider.hold(1);
    let more = "--max-jobs 1 --provider openai-compatible --model coder --runs";
    let variables = [("OPENAI_COMPATIBLE_BASE_URL", provider.address())];
    let more = format!("{more} {}", runs.display());
    let server = Server::start_with(dir.path(), &more, &variables).await;
    let task = json!({ "task": "Calculate fibonacci(10)" });
    server.execute(task.clone()).await;
    held.await;
    // The first job waits for its model, and the second job waits in the queue, so it is cancelled before it starts.
    let id = server.execute(task).await;
    server.request(Method::POST, &format!("/jobs/{id}/cancel"), None).await;
    server.follow(&id).await;
    fs::write(runs.join(&id).join("run.json"), "{").unwrap();
    let (status, accepted) =
        server.request(Method::POST, &format!("/jobs/{id}/resume"), None).await;
    assert_eq!(status, 202, "{accepted}");
    provider.release();
    server.follow(&id).await;
    let job = server.get(&format!("/jobs/{id}")).await;
    let error = job["error"].as_str().unwrap();
    assert!(error.starts_with("cannot access the job's directory/run.json: "), "{error}");
}
