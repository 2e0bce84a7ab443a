//! A cluster whose processes reach the database with TLS.

use graph_cluster::{ClusterError, RunStatus, RunStore};
use graph_tests::postgres_tls::TlsServer;

use crate::{
    cluster::{Cluster, SchedulerKind},
    local::JobSpec,
};

const JOB: JobSpec = JobSpec { rounds: 1, width: 1, pause_ms: 20, ask: false };

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_and_clients_use_tls() {
    let Some(tls) = TlsServer::start() else { return };
    let database = tls.fresh_database(&tls.verify_full());
    let cluster = Cluster::start_on(SchedulerKind::Postgres, None, database).await;
    let cluster = cluster.expect("this scheduler needs no further server");
    let _worker = cluster.worker().await;
    cluster.client.start(&JOB.request("r", "t")).await.expect("the run starts");
    let run = cluster.client.wait("r").await.expect("the run exists");
    assert_eq!(run.status, RunStatus::Done);
    let connections =
        "SELECT bool_and(ssl), count(*) > 0 FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
         WHERE application_name LIKE 'graph-%'";
    assert_eq!(cluster.sql(connections), "t|t");

    let root = tls.other_root.display();
    let url = tls.fresh_database(&format!("sslmode=verify-full&sslrootcert={root}"));
    let error =
        RunStore::connect(&url).await.expect_err("another authority issued the certificate");
    assert!(
        matches!(&error, ClusterError::Database(it) if it.contains("UnknownIssuer")),
        "{error}"
    );
    assert!(!format!("{error} {error:?}").contains("s3cret"), "{error:?}");
}
