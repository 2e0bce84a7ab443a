//! The command `serve`.

use std::{
    env::{self, VarError},
    error::Error,
};

use async_trait::async_trait;
use axum::http::HeaderMap;
use graph_cluster::{Client, serve_status, termination};
use graph_server::http::{self, AuthError, Authenticator, Guard, KeyHash};
use tokio::net::TcpListener;

/// Environment variable that contains the API key of the operators.
const API_KEY: &str = "CLUSTER_API_KEY";

/// Serves the status of the cluster until the process receives a signal.
pub(crate) async fn serve(
    client: Client,
    address: &str,
    options: &[&str],
) -> Result<(), Box<dyn Error>> {
    let shutdown = termination();
    let guard = guard(options)?;
    let listener = TcpListener::bind(address).await?;
    let address = listener.local_addr()?;
    if !guard.may_listen_on(address) {
        let problem = format!(
            "cannot serve on {address} without an API key, because other machines can reach it; set {API_KEY}, or \
             add --without-key if only operators can reach it"
        );
        return Err(problem.into());
    }
    println!("listening on http://{address}");
    Ok(serve_status(listener, client, guard, shutdown).await?)
}

fn guard(options: &[&str]) -> Result<Guard, Box<dyn Error>> {
    let mut guard = match env::var(API_KEY) {
        Ok(key) => {
            let key = KeyHash::of_checked(key.trim());
            Guard::new().key(key.map_err(|error| format!("invalid {API_KEY}: {error}"))?)
        }
        Err(VarError::NotPresent) => Guard::new(),
        Err(error) => return Err(format!("cannot read {API_KEY}: {error}").into()),
    };
    let mut options = options.iter();
    while let Some(option) = options.next() {
        guard = match *option {
            "--host" => guard.host(*options.next().ok_or("--host requires a name")?),
            "--without-key" if guard.needs_key() => {
                return Err(
                    format!("--without-key contradicts {API_KEY}; remove one of them").into()
                );
            }
            "--without-key" => guard.authenticator(Anyone),
            other => return Err(format!("unknown option `{other}`; see `cluster help`").into()),
        };
    }
    Ok(guard)
}

/// Accepts all requests.
#[derive(Debug)]
struct Anyone;

#[async_trait]
impl Authenticator for Anyone {
    async fn authenticate(&self, _: &HeaderMap) -> Result<Option<http::Client>, AuthError> {
        Ok(Some(http::Client::new("anyone")))
    }
}
