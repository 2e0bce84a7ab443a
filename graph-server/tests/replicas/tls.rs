//! Replicas that reach their database with TLS.

use crate::process::{Cluster, job};

#[tokio::test]
async fn replicas_use_tls() {
    let Some(cluster) = Cluster::start_with_tls() else { return };
    let (a, b) = (cluster.replica(1), cluster.replica(1));
    let run = a.start(&a.new_thread().await, &job("x", 2, 0)).await;
    assert_eq!(b.get(&format!("{run}/join")).await["done"], 2);
    let connections =
        "SELECT bool_and(ssl), count(*) > 0 FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
         WHERE application_name LIKE 'graph-%'";
    assert_eq!(cluster.sql(connections), "t|t");
}
