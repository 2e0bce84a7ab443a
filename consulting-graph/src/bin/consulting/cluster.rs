//! Runs on a cluster: `consulting worker`, and the URL of the cluster.

use std::{env, time::Duration};

use consulting_graph::cluster_worker::{WorkerOptions, work};

use crate::{
    args::{CLUSTER_URL, WorkerArgs},
    error::{CliError, ExitStatus},
};

/// Executes runs of a cluster until SIGTERM.
pub(crate) async fn worker(args: &WorkerArgs) -> Result<ExitStatus, CliError> {
    let options = WorkerOptions {
        url: cluster_url(args.cluster.as_deref().unwrap_or_default())?,
        id: args.id.clone(),
        concurrency: args.concurrency,
        lease: Duration::from_secs(args.lease.into()),
        isolation: args.isolation,
        backend: args.sandbox.clone(),
        call_limits: args.timeouts.call_limits(),
    };
    work(options, graph_cluster::termination()).await?;
    Ok(ExitStatus::Success)
}

/// Returns the URL of the cluster's database. An empty argument selects the environment variable, in which other users of
/// the machine cannot see the password.
pub(crate) fn cluster_url(argument: &str) -> Result<String, CliError> {
    if argument.is_empty() {
        env::var(CLUSTER_URL).map_err(|_| CliError::MissingClusterUrl)
    } else {
        Ok(argument.to_owned())
    }
}
