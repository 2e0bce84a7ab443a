//! Crons that several replicas observe.

use serde_json::json;

use crate::process::{Cluster, job};

#[tokio::test]
async fn a_due_cron_is_fired_by_one_replica() {
    const CRONS: usize = 10;
    let Some(cluster) = Cluster::start() else { return };
    let (a, b) = (cluster.replica(4), cluster.replica(4));
    let mut threads = Vec::new();
    let mut cron = job("cron", 1, 0);
    cron["schedule"] = json!("0 0 1 1 *");
    for _ in 0..CRONS {
        let thread = a.new_thread().await;
        a.post(&format!("{thread}/runs/crons"), &cron).await;
        threads.push(thread);
    }
    // The count is part of the statement, because a replica may fire the crons immediately afterwards.
    let changed = cluster.sql(
        "WITH changed AS (UPDATE graph_server.document SET data = regexp_replace(data, \
         '\"next_run_date\":\"[^\"]*\"', '\"next_run_date\":\"2020-01-01T00:00:00+00:00\"') WHERE kind = 'cron' \
         RETURNING 1) SELECT count(*) FROM changed",
    );
    assert_eq!(changed, CRONS.to_string());
    let due =
        "SELECT count(*) FROM graph_server.document WHERE kind = 'cron' AND data LIKE '%\"2020-%'";
    // A new cron wakes the timers of all replicas.
    for replica in [&a, &b] {
        replica.post("/runs/crons", &cron).await;
    }
    while cluster.sql(due) != "0" {
        tokio::task::yield_now().await;
    }
    // All crons have fired. Another new cron wakes the timers again. They must not start further runs.
    let last = b.post("/runs/crons", &cron).await;
    assert_eq!(last["enabled"], true);
    for thread in threads {
        let runs = loop {
            let runs = b.get(&format!("{thread}/runs")).await;
            if !runs.as_array().unwrap().is_empty() {
                break runs;
            }
        };
        assert_eq!(runs.as_array().unwrap().len(), 1, "{runs}");
    }
}
