//! Clients that store a run without submitting it to the Restate server, or start a run of another scheduler.

use std::sync::Arc;

use async_trait::async_trait;
use graph_cluster::{Client, ClusterError, LegRunner, RunStore, Scheduler, Ticket};

use crate::{
    cluster::Cluster,
    local::{self, JobSpec},
};

const JOB: JobSpec = JobSpec { rounds: 1, width: 3, pause_ms: 5, ask: false };

/// Stores runs for workers that use Restate, and submits none of them.
#[derive(Debug)]
struct NoSubmission;

#[async_trait]
impl Scheduler for NoSubmission {
    fn name(&self) -> &'static str {
        "restate"
    }

    async fn submit(&self, _: &Ticket) -> Result<(), ClusterError> {
        Ok(())
    }

    async fn work(&self, _: Arc<LegRunner>) -> Result<(), ClusterError> {
        unreachable!("only a client uses this scheduler")
    }
}

pub(crate) async fn run_of_another_scheduler_is_rejected(cluster: &Cluster) {
    let request = JOB.request("r", "t");
    cluster.client.start(&request).await.expect("the run is stored");
    let store = RunStore::connect(&cluster.database).await.expect("the database is running");
    let started = Client::new(store, NoSubmission).start(&request).await;
    let error = started.expect_err("workers of the other scheduler execute the run");
    assert!(
        matches!(&error, ClusterError::OtherScheduler { scheduler, .. } if scheduler == "postgres"),
        "{error}"
    );
}

pub(crate) async fn run_whose_client_died_before_its_submission_is_executed(cluster: &Cluster) {
    let _worker = cluster.worker().await;
    let store = RunStore::connect(&cluster.database).await.expect("the database is running");
    let request = JOB.request("r", "t");
    let expected = local::run(&request).await;
    Client::new(store, NoSubmission).start(&request).await.expect("the run is stored");
    // Workers submit a run again if it has waited for at least ten seconds.
    cluster.sql("UPDATE graph_cluster.run SET updated_at = now() - interval '1 minute'");
    cluster.check_values("r", &expected.values).await;
}
