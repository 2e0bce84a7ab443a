//! Shows and controls the runs of a cluster. Works with all graphs, because it needs only the database.
#![expect(clippy::print_stdout, reason = "prints results to stdout")]

#[cfg(all(feature = "http", feature = "server"))]
mod serve;

use std::{env, error::Error, process::ExitCode, time::Duration};

use graph_cluster::{Client, PostgresQueue, RunStore};

const USAGE: &str = "\
usage: cluster COMMAND

The environment variable DATABASE_URL contains the URL of the cluster's database. If CLUSTER_API_KEY is set, `serve`
requires this API key from clients, except for /health.

commands:
  status [--json]               Print the workers and the runs that they execute
  metrics                       Print metrics in the text format of Prometheus
  serve ADDRESS [OPTIONS]       Serve a page, /status, /metrics and /health on ADDRESS
  run ID                        Print a run as JSON
  cancel ID                     Cancel a run
  delete ID                     Delete a run that is not active, with its events
  delete-ended DAYS             Delete runs that ended at least DAYS days ago, with their events
  limit-tenant TENANT N         Execute at most N runs of TENANT at the same time
  unlimit-tenant TENANT         Remove the limit of TENANT

options of serve:
  --host NAME                   Accept requests for host NAME, besides localhost and IP addresses; can be repeated
  --without-key                 Require no API key, even if other machines can reach ADDRESS";

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    if matches!(args[..], [] | ["help" | "-h" | "--help"]) {
        println!("{USAGE}");
        return Ok(());
    }
    let url = env::var("DATABASE_URL")
        .map_err(|_| "DATABASE_URL is not set; set it to the URL of the database")?;
    // The commands submit no run, so the scheduler of the workers does not matter.
    let client = Client::new(RunStore::connect(&url).await?, PostgresQueue::new());
    match args[..] {
        ["status"] => print!("{}", client.status().await?),
        ["status", "--json"] => {
            println!("{}", serde_json::to_string_pretty(&client.status().await?)?);
        }
        ["metrics"] => print!("{}", client.metrics().await?),
        #[cfg(all(feature = "http", feature = "server"))]
        ["serve", address, ref options @ ..] => {
            return serve::serve(client, address, options).await;
        }
        #[cfg(not(all(feature = "http", feature = "server")))]
        ["serve", ..] => {
            return Err(
                "cannot serve: built without the features `http` and `server`; add `--features http,server`".into()
            );
        }
        ["run", run] => println!("{}", serde_json::to_string_pretty(&client.run(run).await?)?),
        ["cancel", run] => client.cancel(run).await?,
        ["delete", run] => client.delete(run).await?,
        ["delete-ended", days] => {
            let age = Duration::from_secs(days.parse::<u64>()?.saturating_mul(86_400));
            println!("deleted {} runs", client.delete_ended(age).await?);
        }
        ["limit-tenant", tenant, limit] => client.limit_tenant(tenant, limit.parse()?).await?,
        ["unlimit-tenant", tenant] => client.unlimit_tenant(tenant).await?,
        _ => return Err(USAGE.into()),
    }
    Ok(())
}
