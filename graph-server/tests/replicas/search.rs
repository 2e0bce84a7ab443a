//! Searches for threads in PostgreSQL.

use serde_json::json;

use crate::{process::Cluster, search_cases};

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
