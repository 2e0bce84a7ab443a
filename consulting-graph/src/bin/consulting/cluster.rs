//! Runs on a cluster: `consulting worker`, and the servers of the cluster.

use std::{env, time::Duration};

use consulting_graph::{
    cluster_servers::ClusterServers,
    cluster_worker::{WorkerOptions, work},
    run::RunError,
};
use graph_cluster::Restate;

use crate::{
    args::{CLUSTER_URL, RESTATE_URL, WorkerArgs},
    error::{CliError, ExitStatus},
};

/// Executes runs of a cluster until SIGTERM.
pub(crate) async fn worker(args: &WorkerArgs) -> Result<ExitStatus, CliError> {
    let mut servers =
        servers(args.cluster.as_deref().unwrap_or_default(), args.restate.as_deref())?;
    if let Some(address) = args.listen {
        servers.restate = servers.restate.map(|it| it.listen(address));
    }
    if let Some(key) = &args.identity_key {
        servers.restate = servers.restate.map(|it| it.identity_key(key));
    }
    let options = WorkerOptions {
        servers,
        id: args.id.clone(),
        concurrency: args.concurrency,
        lease: Duration::from_secs(args.lease.into()),
        isolation: args.sandboxes.isolation,
        backend: args.sandboxes.backend.clone(),
        call_limits: args.timeouts.call_limits(),
    };
    work(options, graph_cluster::termination()).await?;
    Ok(ExitStatus::Success)
}

/// Returns the servers with these URLs. If a URL is empty, reads it from its environment variable, because other users
/// of the machine cannot see a password there.
pub(crate) fn servers(database: &str, restate: Option<&str>) -> Result<ClusterServers, CliError> {
    let database = url(database, "cluster", "--cluster", CLUSTER_URL)?;
    let restate = restate.map(restate_server).transpose()?;
    Ok(ClusterServers { database, restate })
}

fn restate_server(ingress: &str) -> Result<Restate, CliError> {
    let ingress = url(ingress, "Restate server", "--restate", RESTATE_URL)?;
    Restate::new(ingress)
        .map_err(|error| RunError::InvalidRequest(format!("--restate: {error}")).into())
}

fn url(
    argument: &str,
    server: &'static str,
    option: &'static str,
    variable: &'static str,
) -> Result<String, CliError> {
    if argument.is_empty() {
        env::var(variable).map_err(|_| CliError::MissingUrl { server, option, variable })
    } else {
        Ok(argument.to_owned())
    }
}
