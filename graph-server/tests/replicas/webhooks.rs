//! Webhooks of a replica that is killed.

use serde_json::json;

use crate::{
    process::{Cluster, job},
    webhook_receiver::WebhookReceiver,
};

#[tokio::test]
async fn a_webhook_of_a_killed_replica_is_sent_by_another_one() {
    let Some(cluster) = Cluster::start() else { return };
    let receiver = WebhookReceiver::start().await;
    let a = cluster.replica_with(1, &["--private-webhooks"]);
    let mut job = job("x", 1, 0);
    job["webhook"] = json!(receiver.url());
    let run = a.start(&a.new_thread().await, &job).await;
    let unanswered = receiver.receive().await;
    drop(a);

    let _b = cluster.replica_with(1, &["--private-webhooks"]);
    // Simulates that the lease of the killed replica has expired.
    cluster.sql(
        "UPDATE graph_server.document
        SET data = regexp_replace(data, '\"lease_until\":\"[^\"]*\"', '\"lease_until\":\"2000-01-01T00:00:00Z\"')
        WHERE kind = 'webhook'",
    );
    cluster.sql("SELECT pg_notify('graph_server', 'timer')");
    let sent_again = receiver.receive().await.answer("200 OK").await;
    assert_eq!(sent_again, unanswered.body);
    assert!(run.ends_with(sent_again["run_id"].as_str().unwrap()), "{run} {sent_again}");
    while cluster.sql("SELECT count(*) FROM graph_server.document WHERE kind = 'webhook'") != "0" {
        tokio::task::yield_now().await;
    }
}
