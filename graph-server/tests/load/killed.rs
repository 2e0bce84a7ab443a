//! A server that is killed: its runs continue when it starts again, and no step counts twice.

use std::{path::Path, time::Duration};

use futures_util::future::join_all;
use reqwest::Response;
use rusqlite::Connection;
use serde_json::{Value, json};
use test_support::{DEADLINE, is_nightly};
use tokio::time::sleep;

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
        // Dropping the server kills its process with SIGKILL.
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

/// Number of an event, and its position among the events with this number.
type EventId = (u64, u64);

/// Returns the ids and the data of the complete custom events in a part of a stream.
fn custom_events(text: &str) -> Vec<(EventId, Value)> {
    let (complete, _) = text.rsplit_once("\r\n\r\n").unwrap_or_default();
    let parse = |message: &str| {
        let field =
            |name: &str| message.lines().find_map(|it| it.strip_prefix(name)?.strip_prefix(": "));
        let (seq, part) = field("id")?.split_once('-')?;
        let id: EventId = (seq.parse().unwrap(), part.parse().unwrap());
        let is_custom = field("event") == Some("custom");
        is_custom.then(|| (id, serde_json::from_str::<Value>(field("data").unwrap()).unwrap()))
    };
    complete.split("\r\n\r\n").filter_map(parse).collect()
}

/// Waits until the server has stored the event with this number.
async fn until_stored(data: &Path, seq: u64) {
    let database = Connection::open(data.join("api.db")).unwrap();
    database.busy_timeout(DEADLINE).unwrap();
    let select = "SELECT coalesce(max(seq), 0) FROM events";
    let last = || database.query_row(select, [], |row| row.get::<_, i64>(0)).unwrap();
    while last().cast_unsigned() < seq {
        sleep(Duration::from_millis(5)).await;
    }
}

/// Returns the request of a slow run with a resumable stream.
fn resumable_run() -> Value {
    json!({
        "assistant_id": "slow",
        "input": { "steps": STEPS, "delay": 0.02 },
        "stream_mode": "custom",
        "stream_resumable": true,
    })
}

#[tokio::test]
async fn events_of_resumable_runs_survive_a_kill() {
    let data = tempfile::tempdir().unwrap();
    let server = Reference::start(data.path());
    let thread = server.new_thread().await;
    let mut stream = server.send(&format!("{thread}/runs/stream"), &resumable_run()).await;
    let run = stream.headers()["content-location"].to_str().unwrap().to_owned();
    let (mut received, mut seen) = (Vec::new(), Vec::new());
    while seen.len() < 3 {
        received.extend(stream.chunk().await.unwrap().unwrap());
        seen = custom_events(&String::from_utf8_lossy(&received));
    }
    until_stored(data.path(), seen[2].0.0).await;
    // Dropping the server kills its process with SIGKILL.
    drop(server);

    let server = Reference::start(data.path());
    let all = custom_events(&server.join(&run).await.text().await.unwrap());
    assert!(all.is_sorted_by(|a, b| a.0 < b.0), "the ids are unique and in order: {all:?}");
    assert_eq!(all[..3], seen[..3], "the events from before the kill are sent again");
    assert_eq!(all.last().unwrap().1, json!({ "tick": STEPS }), "the run has continued");
    let ((seq, part), _) = seen[2];
    let rest = server.join_after(&run, &format!("{seq}-{part}")).await.text().await.unwrap();
    assert_eq!(custom_events(&rest), all[3..]);

    // The run has ended, and its events are no longer in memory.
    drop(server);
    let server = Reference::start(data.path());
    assert_eq!(custom_events(&server.join(&run).await.text().await.unwrap()), all);
    assert_eq!(server.get(&format!("{run}/join")).await["ticks"], STEPS);
}

/// Reads a stream that has no end, until its text contains `last`.
async fn read_until(mut stream: Response, last: &str) -> String {
    let mut received = Vec::new();
    loop {
        received.extend(stream.chunk().await.unwrap().unwrap());
        let text = String::from_utf8_lossy(&received);
        if text.rsplit_once("\r\n\r\n").is_some_and(|(complete, _)| complete.contains(last)) {
            return text.into_owned();
        }
    }
}

#[tokio::test]
async fn thread_streams_are_resumed_after_a_kill() {
    let data = tempfile::tempdir().unwrap();
    let server = Reference::start(data.path());
    let thread = server.new_thread().await;
    let run = server.post(&format!("{thread}/runs"), &resumable_run()).await;
    let run = format!("{thread}/runs/{}", run["run_id"].as_str().unwrap());
    let text = read_until(server.join_after(&thread, "-1").await, "{\"tick\":3}").await;
    let seen = custom_events(&text);
    until_stored(data.path(), seen[2].0.0).await;
    drop(server);

    let server = Reference::start(data.path());
    let (seq, part) = seen[0].0;
    let after_first = format!("{seq}-{part}");
    let text = read_until(server.join_after(&thread, &after_first).await, "run_done").await;
    let rest = custom_events(&text);
    assert_eq!(rest[..2], seen[1..3], "the events from before the kill are sent again");
    assert_eq!(rest.last().unwrap().1, json!({ "tick": STEPS }), "the run has continued");
    assert_eq!(server.get(&format!("{run}/join")).await["ticks"], STEPS);

    // The run has ended, and its events are no longer in memory.
    drop(server);
    let server = Reference::start(data.path());
    let text = read_until(server.join_after(&thread, &after_first).await, "run_done").await;
    assert_eq!(custom_events(&text), rest);
}

/// Returns the numbers and the payloads of the custom events in a stream of the event protocol.
fn protocol_events(text: &str) -> Vec<(u64, Value)> {
    let (complete, _) = text.rsplit_once("\r\n\r\n").unwrap_or_default();
    let data = complete.lines().filter_map(|it| it.strip_prefix("data: "));
    let events = data.map(|it| serde_json::from_str::<Value>(it).unwrap());
    let custom = events.filter(|it| it["method"] == "custom");
    custom
        .map(|it| (it["seq"].as_u64().unwrap(), it["params"]["data"]["payload"].clone()))
        .collect()
}

#[tokio::test]
async fn protocol_streams_are_resumed_after_a_kill() {
    let data = tempfile::tempdir().unwrap();
    let server = Reference::start(data.path());
    let thread = server.new_thread().await;
    let input = json!({ "steps": STEPS, "delay": 0.02 });
    let params = json!({ "assistant_id": "slow", "input": input });
    let command = json!({ "id": 1, "method": "run.start", "params": params });
    let answer = server.post(&format!("{thread}/commands"), &command).await;
    assert_eq!(answer["type"], "success", "{answer}");
    let path = format!("{thread}/stream/events");
    let channels = json!(["custom", "lifecycle"]);
    let stream = server.send(&path, &json!({ "channels": channels })).await;
    let seen = protocol_events(&read_until(stream, "{\"tick\":3}").await);
    until_stored(data.path(), seen[2].0).await;
    drop(server);

    // The run continues in the second process, and has ended in the third.
    let mut received = Vec::new();
    for _ in 0..2 {
        let server = Reference::start(data.path());
        let body = json!({ "channels": channels, "since": seen[0].0 });
        let text = read_until(server.send(&path, &body).await, "\"completed\"").await;
        received.push(protocol_events(&text));
    }
    let rest = &received[0];
    assert_eq!(rest[..2], seen[1..3], "the events from before the kill are sent again");
    assert_eq!(rest.last().unwrap().1, json!({ "tick": STEPS }), "the run has continued");
    assert_eq!(received[1], *rest, "the events of the run that has ended are sent again");
}

#[tokio::test]
async fn pending_runs_can_be_joined_right_after_a_kill() {
    let data = tempfile::tempdir().unwrap();
    let server = Reference::start(data.path());
    let [_, second] = start_runs(&server).await;
    drop(server);
    let server = Reference::start(data.path());
    let values = server.get(&format!("{second}/join")).await;
    assert_eq!(values["ticks"], STEPS + 1);
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
