//! A server of LangGraph's API whose runs are executed by a worker.

mod api;
mod talk_cluster;

use std::time::Duration;

use graph_cluster::RunStatus;
use serde_json::{Value, json};
use test_support::DEADLINE;
use tokio::time::timeout;

use self::{
    api::{Api, SseEvent, names_and_data},
    talk_cluster::TalkCluster,
};
use crate::cluster::Cluster;

fn talk(topic: &str) -> Value {
    json!({
        "assistant_id": "talk",
        "input": { "topic": topic, "unknown": 1 },
        "stream_mode": ["values", "updates", "messages-tuple", "custom", "events"],
    })
}

pub(crate) async fn streams_equal_those_of_a_local_run_and_can_be_resumed(cluster: &Cluster) {
    let cluster = TalkCluster::start(cluster).await;
    let (local, remote) = (Api::local().await, Api::on_cluster(&cluster).await);
    let mut streams = Vec::new();
    for api in [&local, &remote] {
        let thread = api.new_thread().await;
        let events = api.stream(&format!("{thread}/runs/stream"), &talk("tea")).await;
        // In LangGraph's API, a new run of the thread passes the answer.
        let answer = json!({ "assistant_id": "talk", "command": { "resume": "yes" }, "stream_mode": "values" });
        let resumed = api.stream(&format!("{thread}/runs/stream"), &answer).await;
        let run = api.get(&format!("{thread}/runs")).await[1]["run_id"].clone();
        let path = format!("{thread}/runs/{}/stream", run.as_str().unwrap_or_default());
        for (position, event) in events.iter().enumerate() {
            let rest = api.stream_after(&path, &event.id).await;
            assert_eq!(rest, events[position + 1..], "after event {position}");
        }
        let state = api.get(&format!("{thread}/state")).await;
        assert_eq!(state["values"]["lines"], json!(["On tea", "yes"]), "{state}");
        let history = api.get(&format!("{thread}/history")).await;
        let length = history.as_array().map(Vec::len);
        streams.push((names_and_data(&events), names_and_data(&resumed), length));
    }
    assert!(streams[0].0.iter().any(|(name, _)| name == "messages"), "{:#?}", streams[0].0);
    assert_eq!(streams[0], streams[1]);
}

pub(crate) async fn interrupts_errors_and_forks_equal_those_of_a_local_run(cluster: &Cluster) {
    let cluster = TalkCluster::start(cluster).await;
    let (local, remote) = (Api::local().await, Api::on_cluster(&cluster).await);
    let mut outcomes = Vec::new();
    for api in [&local, &remote] {
        let thread = api.new_thread().await;
        let wait = format!("{thread}/runs/wait");
        let asked = api.post(&wait, &talk("tea")).await;
        assert_eq!(asked["__interrupt__"][0]["value"], "publish tea?", "{asked}");
        let command = json!({ "update": { "topic": "milk" }, "goto": "write" });
        let command = json!({ "assistant_id": "talk", "command": command });
        let moved = api.post(&wait, &command).await;
        // Runs again from the checkpoint before `write`.
        let history = api.get(&format!("{thread}/history")).await;
        let states = history.as_array().cloned().unwrap_or_default();
        let before_write = states.iter().rfind(|it| it["next"] == json!(["write"]));
        let checkpoint = before_write.map(|it| it["checkpoint_id"].clone());
        let fork = json!({ "assistant_id": "talk", "checkpoint_id": checkpoint });
        let forked = api.post(&wait, &fork).await;
        let wrong = json!({ "resume": { "0123456789abcdef0123456789abcdef": "yes" } });
        let wrong = json!({ "assistant_id": "talk", "command": wrong });
        let mut values = vec![moved, forked, api.post(&wait, &wrong).await];
        let broken = api.new_thread().await;
        values.push(api.post(&format!("{broken}/runs/wait"), &talk("broken")).await);
        values.push(api.get(&broken).await["status"].clone());
        // Answers the interrupt again. It has another id in the new branch.
        let thread = api.new_thread().await;
        let wait = format!("{thread}/runs/wait");
        api.post(&wait, &talk("tea")).await;
        let checkpoint = api.get(&format!("{thread}/state")).await["checkpoint_id"].clone();
        let answer = json!({ "assistant_id": "talk", "command": { "resume": "no" } });
        api.post(&wait, &answer).await;
        let command = json!({ "resume": "yes" });
        let again =
            json!({ "assistant_id": "talk", "checkpoint_id": checkpoint, "command": command });
        values.push(api.post(&wait, &again).await);
        values.iter_mut().for_each(api::mask_ids);
        outcomes.push(values);
    }
    assert_eq!(outcomes[0][3]["__error__"]["error"], "ValueError", "{:#?}", outcomes[0]);
    assert_eq!(outcomes[0][1]["lines"], json!(["On tea"]), "{:#?}", outcomes[0]);
    assert_eq!(outcomes[0][5]["lines"], json!(["On tea", "yes"]), "{:#?}", outcomes[0]);
    assert_eq!(outcomes[0], outcomes[1]);
}

pub(crate) async fn sleeping_thread_has_no_interrupts(cluster: &Cluster) {
    let cluster = TalkCluster::start(cluster).await;
    let api = Api::on_cluster(&cluster).await;
    let thread = api.new_thread().await;
    let run = api.post(&format!("{thread}/runs"), &talk("late")).await;
    let id = run["run_id"].as_str().expect("the run has an id");
    let asleep = async {
        loop {
            match cluster.client.run(id).await {
                Ok(run) if run.leg > 0 => break run,
                _ => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
    };
    let asleep = timeout(DEADLINE, asleep).await.expect("the run sleeps");
    assert_eq!((asleep.status, asleep.outcome.interrupts), (RunStatus::Queued, Vec::new()));
    assert_eq!(api.get(&thread).await["status"], "busy");
    let state = api.get(&format!("{thread}/state")).await;
    assert_eq!(state["next"], json!(["review"]), "{state}");
    let history = api.get(&format!("{thread}/history")).await;
    for state in [&state, &history[0]] {
        assert_eq!(state["interrupts"], json!([]), "{state}");
        assert_eq!(state["tasks"][0]["interrupts"], json!([]), "{state}");
    }
}

pub(crate) async fn cancelling_a_run_cancels_it_on_its_worker(cluster: &Cluster) {
    let cluster = TalkCluster::start(cluster).await;
    let api = Api::on_cluster(&cluster).await;
    let thread = api.new_thread().await;
    let run = api.post(&format!("{thread}/runs"), &talk("slow")).await;
    let id = run["run_id"].as_str().expect("the run has an id").to_owned();
    api.read_until(&format!("{thread}/runs/{id}/stream"), "custom").await;
    api.post(&format!("{thread}/runs/{id}/cancel?wait=1"), &json!({})).await;
    assert_eq!(api.get(&format!("{thread}/runs/{id}")).await["status"], "interrupted");
    let cancelled = cluster.client.run(&id).await.expect("the cluster has the run");
    assert_eq!(cancelled.status, RunStatus::Cancelled);
    // Another run can start on the thread.
    let asked = api.post(&format!("{thread}/runs/wait"), &talk("tea")).await;
    assert_eq!(asked["__interrupt__"][0]["value"], "publish tea?", "{asked}");
    api.delete(&thread).await;
    assert!(cluster.client.run(&id).await.is_err(), "the cluster still has the run");
}

pub(crate) async fn another_replica_continues_the_stream_without_repetitions(cluster: &Cluster) {
    let cluster = TalkCluster::start(cluster).await;
    let first = Api::on_cluster(&cluster).await;
    let thread = first.new_thread().await;
    let body = talk("slow");
    let run = first.post(&format!("{thread}/runs"), &body).await;
    let path = format!("{thread}/runs/{}/stream", run["run_id"].as_str().unwrap_or_default());
    let mut events = first.read_until(&path, "messages").await;
    first.api.shut_down().await;
    let second = Api::on_cluster(&cluster).await;
    let last = events.last().map(|it| it.id.clone()).unwrap_or_default();
    let rest = {
        let (second, path) = (second.clone(), path.clone());
        tokio::spawn(async move { second.stream_after(&path, &last).await })
    };
    cluster.gate.0.add_permits(1);
    events.extend(rest.await.expect("the stream ends"));
    // The second replica has not taken the thread's lease from the worker.
    let id = run["run_id"].as_str().unwrap_or_default();
    assert_eq!(cluster.client.run(id).await.expect("the cluster has the run").claims, 1);
    assert_eq!(second.get(&thread).await["status"], "interrupted");
    let local = Api::local().await;
    let thread = local.new_thread().await;
    // A local run with this topic would wait.
    let mut body = body;
    body["input"]["topic"] = json!("slow ");
    let expected = local.stream(&format!("{thread}/runs/stream"), &body).await;
    let comparable = |events: &[SseEvent]| {
        let events = names_and_data(events).into_iter();
        // The run is in its second attempt on the second server.
        let same = |data: String| {
            data.replace("slow ", "slow").replace("\"run_attempt\":2", "\"run_attempt\":1")
        };
        let events = events.map(|(name, data)| (name, same(data)));
        // Each execution of the server announces the run and its input.
        let is_start = |(name, data): &(String, String)| {
            name == "metadata"
                || data.contains("on_chain_start") && data.contains("\"parent_ids\":[]")
        };
        events.filter(|it| !is_start(it)).collect::<Vec<_>>()
    };
    let (received, expected) = (comparable(&events), comparable(&expected));
    assert_eq!(received, expected);
}

pub(crate) async fn the_owner_of_a_run_is_its_tenant_and_its_trace_context_reaches_the_worker(
    cluster: &Cluster,
) {
    const TRACE_OF_ADA: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    const TRACE_OF_BOB: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let cluster = TalkCluster::start(cluster).await;
    let api = Api::on_cluster(&cluster).await;
    let (ada, bob) = (api.client("ada", TRACE_OF_ADA), api.client("bob", TRACE_OF_BOB));
    cluster.client.limit_tenant("ada", 0).await.expect("the database is running");
    let thread = ada.new_thread().await;
    let run = ada.post(&format!("{thread}/runs"), &talk("tea")).await;
    let id = run["run_id"].as_str().expect("the run has an id");
    let started = async {
        while cluster.client.run(id).await.is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(DEADLINE, started).await.expect("the cluster has the run");
    // Runs of other tenants do not wait for this run.
    let other = bob.new_thread().await;
    let asked = bob.post(&format!("{other}/runs/wait"), &talk("tea")).await;
    assert_eq!(asked["__interrupt__"][0]["value"], "publish tea?", "{asked}");
    let waiting = cluster.client.run(id).await.expect("the cluster has the run");
    assert_eq!(waiting.status, RunStatus::Queued);
    cluster.client.unlimit_tenant("ada").await.expect("the database is running");
    ada.get(&format!("{thread}/runs/{id}/join")).await;
    assert_eq!(ada.get(&format!("{thread}/runs/{id}")).await["status"], "success");
    assert_eq!(
        *cluster.trace_parents.lock().expect("the lock is not poisoned"),
        [TRACE_OF_BOB, TRACE_OF_ADA]
    );
}
