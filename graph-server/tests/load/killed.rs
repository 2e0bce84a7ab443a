//! A server that is killed: its runs continue when it starts again, and no step counts twice.

use futures_util::future::join_all;
use graph_tests::crash::is_nightly;
use serde_json::{Value, json};

use crate::reference::Reference;

const STEPS: u64 = 30;

/// Starts two runs on a new thread, and returns their paths. The second one waits for the first one, and adds one tick.
async fn start_runs(server: &Reference) -> [String; 2] {
    let runs = format!("{}/runs", server.new_thread().await);
    let start = async |steps: u64| {
        let input = json!({ "steps": steps, "delay": 0.02 });
        let run = server.post(&runs, &json!({ "assistant_id": "slow", "input": input })).await;
        format!("{runs}/{}", run["run_id"].as_str().unwrap())
    };
    [start(STEPS).await, start(STEPS + 1).await]
}

fn ticks(state: &Value) -> u64 {
    state["values"]["ticks"].as_u64().unwrap_or(0)
}

#[tokio::test]
async fn runs_of_a_killed_server_continue_and_none_runs_twice() {
    let (threads, kills) = if is_nightly() { (200, 5) } else { (8, 1) };
    let data = tempfile::tempdir().unwrap();
    let mut server = Reference::start(data.path());
    let runs = join_all((0..threads).map(|_| start_runs(&server))).await;
    let (thread, _) = runs[0][0].split_once("/runs/").unwrap();
    let state = format!("{thread}/state");
    let mut seen = 0;
    for _ in 0..kills {
        // Every server makes progress before it is killed.
        seen = loop {
            let ticks = ticks(&server.get(&state).await);
            if ticks >= seen + 2 || ticks > STEPS {
                break ticks;
            }
        };
        // The process is killed without a warning.
        drop(server);
        server = Reference::start(data.path());
    }
    for [first, second] in &runs {
        for path in [first, second] {
            server.get(&format!("{path}/join")).await;
            let run = server.get(path).await;
            assert_eq!(run["status"], "success", "{run}");
        }
        let values = server.get(&format!("{second}/join")).await;
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
