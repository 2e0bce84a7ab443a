//! A server that is killed: its runs continue when it starts again, and none is executed twice.
#![expect(clippy::unwrap_used, reason = "tests and their helpers may panic")]

use std::{
    env,
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
};

use reqwest::Client;
use serde_json::{Value, json};

/// A process of the example server, which is killed when the value is dropped.
struct Reference {
    process: Child,
    address: String,
}

impl Reference {
    fn command(data: &Path) -> Command {
        let test = env::current_exe().unwrap();
        // The test is `target/<profile>/deps/killed-<hash>`; examples are in `target/<profile>/examples`.
        let program = test.ancestors().nth(2).unwrap().join("examples/reference");
        let mut command = Command::new(program);
        command.args(["--port", "0", "--data"]).arg(data);
        command
    }

    fn start(data: &Path) -> Self {
        let mut process = Self::command(data).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on ").unwrap().to_owned();
        Self { process, address }
    }
}

impl Drop for Reference {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

async fn post(client: &Client, url: String, body: Value) -> Value {
    let request = client.post(url).header("content-type", "application/json");
    let response = request.body(body.to_string()).send().await.unwrap();
    assert!(response.status().is_success(), "{}", response.status());
    serde_json::from_slice(&response.bytes().await.unwrap()).unwrap()
}

async fn get(client: &Client, url: String) -> Value {
    let response = client.get(url).send().await.unwrap();
    serde_json::from_slice(&response.bytes().await.unwrap()).unwrap()
}

#[tokio::test]
async fn runs_of_a_killed_server_continue_and_none_runs_twice() {
    const THREADS: usize = 8;
    const STEPS: u64 = 30;
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = Client::builder().no_proxy().build().unwrap();
    let data = tempfile::tempdir().unwrap();
    let server = Reference::start(data.path());
    let mut paths = Vec::new();
    for _ in 0..THREADS {
        let thread = post(&client, format!("{}/threads", server.address), json!({})).await;
        let runs = format!("/threads/{}/runs", thread["thread_id"].as_str().unwrap());
        // The second run of each thread waits for the first one, and adds one tick.
        for steps in [STEPS, STEPS + 1] {
            let input = json!({ "steps": steps, "delay": 0.02 });
            let body = json!({ "assistant_id": "slow", "input": input });
            let run = post(&client, format!("{}{runs}", server.address), body).await;
            paths.push(format!("{runs}/{}", run["run_id"].as_str().unwrap()));
        }
    }
    let (thread, _) = paths[0].split_once("/runs/").unwrap();
    let state = format!("{thread}/state");
    loop {
        let state = get(&client, format!("{}{state}", server.address)).await;
        if state["values"]["ticks"].as_u64().unwrap_or(0) >= 2 {
            break;
        }
    }
    // Dropping the server kills its process without a warning.
    drop(server);

    let server = Reference::start(data.path());
    for path in &paths {
        get(&client, format!("{}{path}/join", server.address)).await;
        let run = get(&client, format!("{}{path}", server.address)).await;
        assert_eq!(run["status"], "success", "{run}");
    }
    for path in paths.iter().skip(1).step_by(2) {
        let values = get(&client, format!("{}{path}/join", server.address)).await;
        assert_eq!(values["ticks"], STEPS + 1, "each tick is counted once");
    }
}

#[tokio::test]
async fn two_servers_cannot_use_the_same_database() {
    let data = tempfile::tempdir().unwrap();
    let server = Reference::start(data.path());
    let second = Reference::command(data.path()).output().unwrap();
    assert!(!second.status.success());
    let stderr = String::from_utf8_lossy(&second.stderr);
    assert!(stderr.contains("locked by another server"), "{stderr}");
    drop(server);
    Reference::start(data.path());
}
