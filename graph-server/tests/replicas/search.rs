//! Searches in PostgreSQL.

use reqwest::Method;
use serde_json::json;

use crate::{
    process::{Cluster, job},
    search_cases,
};

#[tokio::test]
async fn threads_are_filtered_sorted_and_paginated_by_the_database() {
    let Some(cluster) = Cluster::start() else { return };
    let replica = cluster.replica(1);
    let mut ids = Vec::new();
    for number in 0..5 {
        let thread = json!({ "metadata": search_cases::metadata(number) });
        let thread = replica.post("/threads", &thread).await;
        ids.push(thread["thread_id"].as_str().unwrap().to_owned());
    }
    for (case, expected) in search_cases::cases(&ids) {
        let found = replica.post("/threads/search", &search_cases::request(&case)).await;
        assert_eq!(search_cases::numbers(&found, &ids), expected, "{case}");
    }
    let count = replica.post("/threads/count", &json!({ "metadata": { "n": 1 } })).await;
    assert_eq!(count, 1);
}

#[tokio::test]
async fn threads_are_found_by_their_values_and_sorted_by_status_and_time() {
    let Some(cluster) = Cluster::start() else { return };
    let replica = cluster.replica(1);
    let mut ids = Vec::new();
    for _ in 0..3 {
        let thread = replica.post("/threads", &json!({})).await;
        ids.push(thread["thread_id"].as_str().unwrap().to_owned());
    }
    replica.post(&format!("/threads/{}/runs/wait", ids[0]), &job("x", 1, 0)).await;
    // This run is still active when the test ends.
    replica.post(&format!("/threads/{}/runs", ids[1]), &job("y", 1, 3_600_000)).await;
    let cases = [
        (json!({ "values": { "label": "x", "done": 1.0 } }), vec![0]),
        (json!({ "values": { "label": "z" } }), vec![]),
        (json!({ "sort_by": "status", "sort_order": "asc" }), vec![1, 0, 2]),
        (json!({ "sort_by": "updated_at" }), vec![1, 0, 2]),
    ];
    for (case, expected) in cases {
        let found = replica.post("/threads/search", &search_cases::request(&case)).await;
        assert_eq!(search_cases::numbers(&found, &ids), expected, "{case}");
    }
}

#[tokio::test]
async fn clients_find_only_their_own_threads() {
    let Some(cluster) = Cluster::start() else { return };
    let replica = cluster.replica_with(1, &["--api-key", "ada=key-a", "--api-key", "bob=key-b"]);
    let keys = ["key-a", "key-b"];
    let mut ids = [Vec::new(), Vec::new()];
    for number in 0..5 {
        let thread = json!({ "metadata": search_cases::metadata(number) });
        for (key, ids) in keys.iter().zip(&mut ids) {
            let thread = replica.post_as(key, "/threads", &thread).await;
            ids.push(thread["thread_id"].as_str().unwrap().to_owned());
        }
    }
    for (key, ids) in keys.iter().zip(&ids) {
        for (case, expected) in search_cases::cases(ids) {
            let request = search_cases::request(&case);
            let found = replica.post_as(key, "/threads/search", &request).await;
            assert_eq!(search_cases::numbers(&found, ids), expected, "{key}: {case}");
        }
        assert_eq!(replica.post_as(key, "/threads/count", &json!({})).await, 5);
    }
    let of_bob = search_cases::request(&json!({ "ids": ids[1] }));
    assert_eq!(replica.post_as("key-a", "/threads/search", &of_bob).await, json!([]));
}

#[tokio::test]
async fn assistants_crons_and_runs_are_searched_by_the_database() {
    let Some(cluster) = Cluster::start() else { return };
    let replica = cluster.replica(1);
    let mut ids = Vec::new();
    for assistant in search_cases::assistants("jobs") {
        let assistant = replica.post("/assistants", &assistant).await;
        ids.push(assistant["assistant_id"].as_str().unwrap().to_owned());
    }
    for (case, expected) in search_cases::assistant_cases("jobs") {
        let found = replica.post("/assistants/search", &case).await;
        let found = search_cases::numbers_by("assistant_id", &found, &ids);
        assert_eq!(found, expected, "{case}");
    }
    let mut ids = Vec::new();
    for cron in search_cases::crons("jobs") {
        let cron = replica.post("/runs/crons", &cron).await;
        ids.push(cron["cron_id"].as_str().unwrap().to_owned());
    }
    let disabled = json!({ "enabled": false });
    replica.send(Method::PATCH, &format!("/runs/crons/{}", ids[2]), &disabled).await;
    let thread = replica.new_thread().await;
    let id = thread.trim_start_matches("/threads/");
    for (case, expected) in search_cases::cron_cases("jobs", id) {
        let found = replica.post("/runs/crons/search", &case).await;
        assert_eq!(search_cases::numbers_by("cron_id", &found, &ids), expected, "{case}");
    }
    let mut ids = Vec::new();
    for label in ["x", "y"] {
        let run = replica.start(&thread, &job(label, 1, 0)).await;
        replica.get(&format!("{run}/join")).await;
        ids.push(run.trim_start_matches(&format!("{thread}/runs/")).to_owned());
    }
    let found = replica.get(&format!("{thread}/runs?status=success")).await;
    assert_eq!(search_cases::numbers_by("run_id", &found, &ids), [1, 0]);
    let found = replica.get(&format!("{thread}/runs?limit=1&offset=1")).await;
    assert_eq!(search_cases::numbers_by("run_id", &found, &ids), [0]);
}
