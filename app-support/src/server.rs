//! What the servers of the programs share: command-line options, and work that may block.

use std::env;

use clap::Args;
use graph_server::http::{Guard, KeyHash, Problem, ShortKeyError};
use tokio::task::spawn_blocking;

use crate::args::{at_least_one, host};

/// Options of a server.
#[derive(Debug, Args)]
pub struct ServerArgs {
    /// Serve up to N concurrent event streams
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = at_least_one)]
    pub max_streams: usize,
    /// Accept up to N requests per minute and client address; a proxy counts as one client
    #[arg(long, value_name = "N", default_value = "1200", value_parser = clap::value_parser!(u32).range(1..))]
    rate: u32,
    /// Accept API keys with this hash, such as sha256:…; repeatable
    #[arg(long, value_name = "HASH")]
    key_hash: Vec<KeyHash>,
    /// Accept requests for this host name, besides localhost and the server's addresses; repeatable
    #[arg(long, value_name = "NAME", value_parser = host)]
    host: Vec<String>,
    /// On shutdown, wait up to SECONDS for active runs; unfinished ones resume at the next start
    #[arg(long, value_name = "SECONDS", default_value_t = 5)]
    pub grace: u64,
}

impl ServerArgs {
    /// Returns the access rules. `variable` is the name of the environment variable with the API key.
    pub fn guard(&self, variable: &str) -> Result<Guard, ShortKeyError> {
        let from_environment = env::var(variable).ok().filter(|it| !it.trim().is_empty());
        let from_environment = from_environment.map(|it| KeyHash::of_checked(it.trim()));
        let keys = self.key_hash.iter().copied().chain(from_environment.transpose()?);
        let guard = keys.fold(Guard::new().rate_limit(self.rate), Guard::key);
        Ok(self.host.iter().cloned().fold(guard, Guard::host))
    }
}

/// Runs a closure that may block on I/O.
pub async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    spawn_blocking(work).await.map_err(|error| Problem::internal(&error))?
}
