//! Threads: time to live, search, and the selection of fields of their states.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use test_support::DEADLINE;

use crate::{search_cases, server::Server};

#[tokio::test]
async fn threads_are_deleted_when_their_time_to_live_ends() {
    let server = Server::start().await;
    let (_, kept) = server.post("/threads", &json!({ "ttl": { "ttl": 60 } })).await;
    assert!(kept.get("ttl").is_none(), "shown only on request: {kept}");
    let kept = format!("/threads/{}", kept["thread_id"].as_str().unwrap());
    let (_, shown) = server.get(&format!("{kept}?include=ttl")).await;
    assert_eq!(
        (&shown["ttl"]["strategy"], &shown["ttl"]["ttl_minutes"]),
        (&json!("delete"), &json!(60.0))
    );
    assert!(shown["ttl"]["expires_at"].is_string(), "{shown}");

    let (_, short) = server.post("/threads", &json!({ "ttl": { "ttl": 0.0001 } })).await;
    let short = format!("/threads/{}", short["thread_id"].as_str().unwrap());
    while server.get(&short).await.0 != 404 {
        tokio::task::yield_now().await;
    }
    assert_eq!(server.get(&kept).await.0, 200);

    for rejected in
        [json!({ "ttl": 0 }), json!({ "ttl": 1e300 }), json!({ "ttl": 1, "strategy": "x" })]
    {
        let (status, _) = server.post("/threads", &json!({ "ttl": rejected })).await;
        assert_eq!(status, 422, "{rejected}");
    }
    assert_eq!(server.get(&format!("{kept}?include=surprise")).await.0, 422);
}

#[tokio::test]
async fn a_thread_that_cannot_be_deleted_does_not_keep_other_threads_alive() {
    let server = Server::start().await;
    let broken = server.new_thread().await;
    let database = rusqlite::Connection::open(server.files().join("api.db")).unwrap();
    database.busy_timeout(Duration::from_secs(120)).unwrap();
    let trigger = format!(
        "CREATE TRIGGER broken BEFORE DELETE ON documents WHEN old.id = '{broken}' \
         BEGIN SELECT RAISE(FAIL, 'broken'); END"
    );
    database.execute_batch(&trigger).unwrap();
    let ttl = json!({ "ttl": { "ttl": 0.0001 } });
    assert_eq!(server.send(Method::PATCH, &format!("/threads/{broken}"), &ttl).await.0, 200);
    let (_, expired) = server.post("/threads", &ttl).await;
    let expired = format!("/threads/{}", expired["thread_id"].as_str().unwrap());
    let deleted = async {
        while server.get(&expired).await.0 != 404 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(DEADLINE, deleted).await.unwrap();
    assert_eq!(server.get(&format!("/threads/{broken}")).await.0, 200);
}

#[tokio::test]
async fn a_thread_can_keep_its_latest_checkpoint_when_its_time_to_live_ends() {
    let server = Server::start().await;
    let thread = server.run_tiny().await;
    let history = format!("{thread}/history");
    assert!(server.get(&history).await.1.as_array().unwrap().len() > 1);
    let ttl = json!({ "ttl": { "ttl": 0.0001, "strategy": "keep_latest" } });
    assert_eq!(server.send(Method::PATCH, &thread, &ttl).await.0, 200);
    while server.get(&history).await.1.as_array().unwrap().len() > 1 {
        tokio::task::yield_now().await;
    }
    assert_eq!(server.get(&format!("{thread}/state")).await.1["values"]["value"], "xab");
    while !server.get(&format!("{thread}?include=ttl")).await.1["ttl"].is_null() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn threads_are_filtered_sorted_and_paginated() {
    let server = Server::start().await;
    let mut ids = Vec::new();
    for number in 0..5 {
        let thread = json!({ "metadata": search_cases::metadata(number) });
        let (_, thread) = server.post("/threads", &thread).await;
        ids.push(thread["thread_id"].as_str().unwrap().to_owned());
    }
    for (case, expected) in search_cases::cases(&ids) {
        let (_, found) = server.post("/threads/search", &search_cases::request(&case)).await;
        assert_eq!(search_cases::numbers(&found, &ids), expected, "{case}");
    }
    let run = json!({ "assistant_id": "tiny", "input": { "value": "x" } });
    server.post(&format!("/threads/{}/runs/wait", ids[1]), &run).await;
    let count =
        async |values: Value| server.post("/threads/count", &json!({ "values": values })).await.1;
    assert_eq!(count(json!({ "value": "xab", "log": ["a", "b"] })).await, 1);
    assert_eq!(count(json!({ "log": ["a"] })).await, 0);
    let newest = search_cases::request(&json!({ "sort_by": "updated_at" }));
    let (_, found) = server.post("/threads/search", &newest).await;
    assert_eq!(search_cases::numbers(&found, &ids), [1, 4, 3, 2, 0]);

    let page = json!({ "limit": 2, "offset": 2 });
    let request = server.json_request(Method::POST, "/threads/search", &page);
    let response = request.send().await.unwrap();
    assert_eq!(response.headers()["x-pagination-total"], "5");
    assert_eq!(response.headers()["x-pagination-next"], "4");
}

#[tokio::test]
async fn a_changed_thread_is_returned_unless_the_client_prefers_a_minimal_response() {
    let server = Server::start().await;
    let thread = format!("/threads/{}", server.new_thread().await);
    let change = json!({ "metadata": { "a": 1 } });
    let request = server.json_request(Method::PATCH, &thread, &change);
    let request = request.header("prefer", "respond-async, return=minimal");
    let response = request.send().await.unwrap();
    assert_eq!(response.status(), 204);
    assert_eq!(response.headers()["preference-applied"], "return=minimal");
    assert_eq!(server.get(&thread).await.1["metadata"], json!({ "a": 1 }));
    let change = json!({ "metadata": { "b": 2 } });
    let (status, changed) = server.send(Method::PATCH, &thread, &change).await;
    assert_eq!((status, &changed["metadata"]), (200, &json!({ "a": 1, "b": 2 })));
}

#[tokio::test]
async fn an_assistant_is_deleted_with_its_threads() {
    let server = Server::start().await;
    let (_, assistant) = server.post("/assistants", &json!({ "graph_id": "tiny" })).await;
    let id = assistant["assistant_id"].as_str().unwrap();
    let (own, other) = (server.new_thread().await, server.new_thread().await);
    for (thread, assistant) in [(&own, id), (&other, "tiny")] {
        let run = json!({ "assistant_id": assistant, "input": { "value": "x" } });
        server.post(&format!("/threads/{thread}/runs/wait"), &run).await;
    }
    let path = format!("/assistants/{id}?delete_threads=true");
    assert_eq!(server.send(Method::DELETE, &path, &json!({})).await.0, 204);
    assert_eq!(server.get(&format!("/threads/{own}")).await.0, 404);
    assert_eq!(server.get(&format!("/threads/{other}")).await.0, 200);
}

#[tokio::test]
async fn threads_are_excluded_by_their_metadata() {
    let server = Server::start().await;
    for metadata in [json!({ "kind": "a" }), json!({ "kind": "b" }), json!({})] {
        server.post("/threads", &json!({ "metadata": metadata })).await;
    }
    let count = async |exclude: Value| {
        server.post("/threads/count", &json!({ "exclude_metadata": exclude })).await
    };
    assert_eq!(count(json!({ "kind": "a" })).await, (200, json!(2)));
    assert_eq!(count(json!([{ "kind": "a" }, { "kind": "b" }])).await, (200, json!(1)));
    assert_eq!(count(json!({ "other": 1 })).await, (200, json!(3)));
    assert_eq!(count(json!({})).await.0, 422);
    assert_eq!(count(json!([])).await.0, 422);
    assert_eq!(count(json!("a")).await.0, 422);
}

#[tokio::test]
async fn states_and_histories_contain_only_the_selected_fields() {
    let server = Server::start().await;
    let thread = server.run_tiny().await;
    let selected = json!({ "values": { "value": "xab" }, "next": [] });
    let query = "select=values.value&select=next";
    assert_eq!(server.get(&format!("{thread}/state?{query}")).await.1, selected);
    assert_eq!(server.get(&format!("{thread}/history?{query}&limit=1")).await.1, json!([selected]));
    let body = json!({ "select": ["values.value", "next"], "limit": 1 });
    assert_eq!(server.post(&format!("{thread}/history"), &body).await.1, json!([selected]));
    assert_eq!(server.get(&format!("{thread}/history?select=surprise")).await.0, 422);
}
