//! Searches for assistants, crons and runs.

use reqwest::Method;
use serde_json::{Value, json};

use crate::{search_cases, server::Server};

/// Creates objects and returns their ids, which are in the field `id`.
async fn create(
    server: &Server,
    path: &str,
    objects: impl IntoIterator<Item = Value>,
    id: &str,
) -> Vec<String> {
    let mut ids = Vec::new();
    for object in objects {
        let (_, created) = server.post(path, &object).await;
        ids.push(created[id].as_str().unwrap().to_owned());
    }
    ids
}

#[tokio::test]
async fn assistants_are_filtered_sorted_and_paginated() {
    let server = Server::start().await;
    let assistants = search_cases::assistants("tiny");
    let ids = create(&server, "/assistants", assistants, "assistant_id").await;
    for (case, expected) in search_cases::assistant_cases("tiny") {
        let (_, found) = server.post("/assistants/search", &case).await;
        let found = search_cases::numbers_by("assistant_id", &found, &ids);
        assert_eq!(found, expected, "{case}");
    }
    let (_, count) = server.post("/assistants/count", &json!({ "name": "ALPHA" })).await;
    assert_eq!(count, 2);
}

#[tokio::test]
async fn crons_are_filtered_sorted_and_paginated() {
    let server = Server::start().await;
    let ids = create(&server, "/runs/crons", search_cases::crons("tiny"), "cron_id").await;
    let last = format!("/runs/crons/{}", ids[2]);
    assert_eq!(server.send(Method::PATCH, &last, &json!({ "enabled": false })).await.0, 200);
    let thread = server.new_thread().await;
    for (case, expected) in search_cases::cron_cases("tiny", &thread) {
        let (_, found) = server.post("/runs/crons/search", &case).await;
        let found = search_cases::numbers_by("cron_id", &found, &ids);
        assert_eq!(found, expected, "{case}");
    }
    let request = server.json_request(Method::POST, "/runs/crons/search", &json!({ "limit": 2 }));
    let response = request.send().await.unwrap();
    assert_eq!(response.headers()["x-pagination-total"], "3");
    assert_eq!(response.headers()["x-pagination-next"], "2");
}

#[tokio::test]
async fn the_crons_of_a_deleted_assistant_are_deleted() {
    let server = Server::start().await;
    let (_, assistant) = server.post("/assistants", &json!({ "graph_id": "tiny" })).await;
    let own = assistant["assistant_id"].as_str().unwrap();
    let cron = |assistant: &str| json!({ "assistant_id": assistant, "schedule": "0 0 1 1 *" });
    let ids = create(&server, "/runs/crons", [cron(own), cron("tiny")], "cron_id").await;
    let path = format!("/assistants/{own}");
    assert_eq!(server.send(Method::DELETE, &path, &json!({})).await.0, 204);
    let (_, left) = server.post("/runs/crons/search", &json!({})).await;
    assert_eq!(search_cases::numbers_by("cron_id", &left, &ids), [1]);
}

#[tokio::test]
async fn the_runs_of_a_thread_are_filtered_and_paginated() {
    let server = Server::start().await;
    let runs = format!("/threads/{}/runs", server.new_thread().await);
    let other = format!("/threads/{}/runs", server.new_thread().await);
    let mut ids = Vec::new();
    for path in [&runs, &other, &runs, &runs] {
        let run = json!({ "assistant_id": "tiny", "input": { "value": "x" } });
        let (_, run) = server.post(path, &run).await;
        let id = run["run_id"].as_str().unwrap().to_owned();
        server.get(&format!("{path}/{id}/join")).await;
        ids.push(id);
    }
    let find = async |query: &str| {
        let (_, found) = server.get(&format!("{runs}?{query}")).await;
        search_cases::numbers_by("run_id", &found, &ids)
    };
    assert_eq!(find("").await, [3, 2, 0]);
    assert_eq!(find("limit=1&offset=1").await, [2]);
    assert_eq!(find("status=success&limit=2").await, [3, 2]);
    assert!(find("status=error").await.is_empty());
    let (_, found) = server.get(&format!("{runs}?select=run_id&limit=1")).await;
    assert_eq!(found, json!([{ "run_id": ids[3] }]));
    let empty = format!("/threads/{}/runs?select=surprise", server.new_thread().await);
    assert_eq!(server.get(&empty).await.0, 422);
}

#[tokio::test]
async fn the_history_can_be_limited_to_one_checkpoint() {
    let server = Server::start().await;
    let thread = server.run_tiny().await;
    let history = async |body: Value| server.post(&format!("{thread}/history"), &body).await.1;
    let all = history(json!({})).await;
    let one = history(json!({ "limit": 1, "checkpoint": all[2]["checkpoint"] })).await;
    assert_eq!(one, json!([all[2]]));
    let without_id = json!({ "checkpoint_ns": "", "checkpoint_id": null });
    assert_eq!(history(json!({ "checkpoint": without_id })).await, all);
}
