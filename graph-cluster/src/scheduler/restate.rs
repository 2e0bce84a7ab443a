//! A scheduler that uses a Restate server.
//!
//! Each thread is a virtual object of Restate, keyed by the thread's name. Restate calls the object's handler `run` on one
//! worker at a time, in the order of submission, and calls it again on another worker if the connection breaks. The
//! handler's journal contains one small entry per leg; states and results stay in PostgreSQL.

use std::{fmt, net::SocketAddr, sync::Arc, time::Duration};

use async_trait::async_trait;
use reqwest::Url;
use restate_sdk::prelude::{
    ContextSideEffects, Endpoint, HandlerError, HttpServer, IntoServiceDefinition, Json,
    ObjectContext, RunFuture, ServiceOptions,
};
use tokio::{net::TcpListener, time::interval};

use super::Scheduler;
use crate::{error::ClusterError, leg::LegRunner, leg_end::LegEnd, run::Ticket};

const NAME: &str = "restate";
/// Name of the virtual object, which is the name of the type below.
const SERVICE: &str = "GraphThread";
/// Default time after which a leg stops between two steps, so that the journal shows progress.
const LEG_LIMIT: Duration = Duration::from_secs(60);
/// Time without a new journal entry after which Restate asks a handler to suspend. Restate aborts the handler after the
/// same time again, so a step may take two hours.
const INACTIVITY_LIMIT: Duration = Duration::from_secs(3600);
/// Maximum number of attempts of a handler, which is never reached. By default, the server pauses a handler after 70
/// attempts, and the run would not continue after an outage of a few minutes.
const MAX_ATTEMPTS: u64 = u32::MAX as u64;
/// Maximum time of one request to the server, which may be busy.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// Interval between searches for runs whose submission was lost.
const SWEEP_INTERVAL: Duration = Duration::from_secs(10);

/// A Restate server assigns runs to workers, and notices a dead worker by its broken connection.
///
/// Clients need only the address of the server's ingress. A worker also listens on an address, which is registered with
/// the server once: `curl -X POST SERVER:9070/deployments -d '{"uri": "http://WORKER:9080"}'`. For several workers,
/// register the address of a load balancer for HTTP/2 instead. Clusters with different databases need different
/// servers.
///
/// ```no_run
/// use graph_cluster::{Client, Restate, RunStore, StartRun};
///
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = RunStore::connect("postgresql://graphs:secret@db.example.org/graphs").await?;
/// // A worker also needs an address: `Restate::new(..)?.listen("0.0.0.0:9080".parse()?)`.
/// let client = Client::new(store, Restate::new("http://restate.example.org:8080")?);
/// client.start(&StartRun::new("run-7", "essay", "thread-7").input("topic", "tea")).await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
#[must_use]
pub struct Restate {
    ingress: Url,
    listen: Option<SocketAddr>,
    identity_key: Option<String>,
    leg_limit: Duration,
    http: reqwest::Client,
}

impl Restate {
    /// Creates a scheduler that submits runs to this ingress, such as `http://127.0.0.1:8080`.
    pub fn new(ingress: impl AsRef<str>) -> Result<Self, ClusterError> {
        // The URL is not shown, because it may contain a password.
        let ingress = Url::parse(ingress.as_ref())
            .ok()
            .filter(|it| matches!(it.scheme(), "http" | "https"))
            .ok_or_else(|| failure("the URL of the ingress must have the form http://host:port"))?;
        // Fails if the program has installed a provider, which is then used.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder().timeout(REQUEST_TIMEOUT).build();
        Ok(Self {
            ingress,
            listen: None,
            identity_key: None,
            leg_limit: LEG_LIMIT,
            http: http.map_err(|it| failure(it.to_string()))?,
        })
    }

    /// Sets the address on which a worker receives calls of the server. Let only the server, or its load balancer, reach
    /// this address: the SDK's HTTP/2 server does not limit the number of connections.
    pub fn listen(mut self, address: SocketAddr) -> Self {
        self.listen = Some(address);
        self
    }

    /// Refuses calls that are not signed with this key of the server (`publickeyv1_…`). Without a key, everyone who can
    /// reach the worker's address can start queued runs.
    pub fn identity_key(mut self, key: impl Into<String>) -> Self {
        self.identity_key = Some(key.into());
        self
    }

    /// Sets the time after which a leg stops between two steps and continues with a new journal entry.
    pub fn leg_limit(mut self, limit: Duration) -> Self {
        self.leg_limit = limit;
        self
    }

    /// Returns the address of the server without a user name and password.
    fn address(&self) -> String {
        let (host, port) = (self.ingress.host_str(), self.ingress.port_or_known_default());
        format!("{}:{}", host.unwrap_or_default(), port.unwrap_or_default())
    }

    /// Submits the legs again whose submission may have been lost. The server ignores duplicates, by their idempotency
    /// key.
    async fn sweep(&self, runner: &LegRunner) {
        let mut ticks = interval(SWEEP_INTERVAL);
        loop {
            ticks.tick().await;
            let tickets = match runner.store.stale_tickets(NAME).await {
                Ok(tickets) => tickets,
                Err(error) => {
                    tracing::warn!(%error, "cannot read the waiting runs");
                    continue;
                }
            };
            for ticket in tickets {
                if let Err(error) = self.submit(&ticket).await {
                    tracing::warn!(run = ticket.run, %error, "cannot submit a waiting run again");
                }
            }
        }
    }
}

fn failure(problem: impl Into<String>) -> ClusterError {
    ClusterError::Scheduler { scheduler: NAME, problem: problem.into() }
}

/// Returns the message of an error followed by those of its causes.
fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |it| it.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

impl fmt::Debug for Restate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Restate")
            .field("server", &self.address())
            .field("listen", &self.listen)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Scheduler for Restate {
    fn name(&self) -> &'static str {
        NAME
    }

    async fn submit(&self, ticket: &Ticket) -> Result<(), ClusterError> {
        let thread = percent_encode(&ticket.thread);
        let base = self.ingress.as_str().trim_end_matches('/');
        let Ticket { run, number, leg, claims, delay, .. } = ticket;
        let delay = match delay.as_millis() {
            0 => String::new(),
            millis => format!("?delay={millis}ms"),
        };
        let url = format!("{base}/{SERVICE}/{thread}/run/send{delay}");
        let key = format!("{run}:{number}:{leg}:{claims}");
        let body = serde_json::to_vec(ticket).map_err(|it| failure(it.to_string()))?;
        let request = self
            .http
            .post(url)
            .header("content-type", "application/json")
            .header("idempotency-key", percent_encode(&key))
            .body(body);
        let answer = request.send().await.map_err(|it| {
            failure(format!(
                "cannot reach the server at {}: {}; start it, or correct the address of the ingress",
                self.address(),
                with_causes(&it.without_url())
            ))
        })?;
        let status = answer.status();
        if status.is_success() {
            return Ok(());
        }
        let text = answer.text().await.unwrap_or_default();
        Err(failure(format!(
            "the server at {} answered {status}: {text}; check that the workers are registered with it",
            self.address()
        )))
    }

    async fn work(&self, runner: Arc<LegRunner>) -> Result<(), ClusterError> {
        let address = self.listen.ok_or_else(|| {
            failure(
                "a worker needs an address for the server's calls; set it with `Restate::listen`",
            )
        })?;
        let listener = TcpListener::bind(address)
            .await
            .map_err(|it| failure(format!("cannot listen on {address}: {it}")))?;
        let thread = GraphThread { runner: runner.clone(), restate: self.clone() };
        let options = ServiceOptions::new()
            .inactivity_timeout(INACTIVITY_LIMIT)
            .abort_timeout(INACTIVITY_LIMIT)
            .retry_policy_initial_interval(Duration::from_millis(50))
            .retry_policy_exponentiation_factor(2.0)
            .retry_policy_max_interval(Duration::from_secs(5))
            .retry_policy_max_attempts(MAX_ATTEMPTS);
        let mut endpoint =
            Endpoint::builder().bind(thread.into_service_definition().options(options));
        if let Some(key) = &self.identity_key {
            endpoint = endpoint
                .identity_key(key)
                .map_err(|it| failure(format!("invalid identity key: {it}")))?;
        }
        let server = HttpServer::new(endpoint.build());
        tokio::select! {
            () = server.serve_with_cancel(listener, runner.draining()) => {}
            () = self.sweep(&runner) => {}
        }
        runner.idle().await;
        Ok(())
    }
}

/// The virtual object of a thread.
struct GraphThread {
    runner: Arc<LegRunner>,
    restate: Restate,
}

#[restate_sdk::object]
impl GraphThread {
    /// Executes one leg of a run. The object's key is the thread, so its legs execute one after the other.
    #[handler]
    async fn run(&self, ctx: ObjectContext<'_>, ticket: Json<Ticket>) -> Result<(), HandlerError> {
        let ticket = ticket.into_inner();
        loop {
            let ended = ctx.run(|| self.leg(&ticket)).name("leg").await?;
            if ended {
                return Ok(());
            }
        }
    }
}

impl GraphThread {
    /// Executes a leg for a limited time. Returns whether it has ended.
    async fn leg(&self, ticket: &Ticket) -> Result<bool, HandlerError> {
        match self.runner.execute_ticket(ticket, self.restate.leg_limit).await? {
            None | Some(LegEnd::Ended(..)) => Ok(true),
            Some(LegEnd::Sleeping { claims, delay }) => {
                let next = Ticket { leg: ticket.leg + 1, claims, delay, ..ticket.clone() };
                // If this fails, another worker submits the leg when it is due.
                if let Err(error) = self.restate.submit(&next).await {
                    tracing::warn!(run = ticket.run, %error, "cannot submit a sleeping run");
                }
                Ok(true)
            }
            Some(LegEnd::Drained) if self.runner.is_draining() => {
                Err(HandlerError::from("the worker is shutting down"))
            }
            Some(LegEnd::Drained) => Ok(false),
            Some(LegEnd::Lost) => Err(HandlerError::from("another worker has claimed the run")),
            Some(LegEnd::Retry(problem)) => Err(HandlerError::from(problem)),
        }
    }
}

/// Encodes a name for a URL path or a header.
fn percent_encode(name: &str) -> String {
    let encode = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
            char::from(byte).to_string()
        }
        byte => format!("%{byte:02X}"),
    };
    name.bytes().map(encode).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn unreachable_server_is_reported_without_its_password() {
        let restate = Restate::new("http://user:secret@127.0.0.1:1").expect("the URL is valid");
        let ticket = Ticket {
            run: "r".into(),
            thread: "t".into(),
            number: 1,
            leg: 0,
            claims: 0,
            delay: Duration::ZERO,
        };
        let error = restate.submit(&ticket).await.expect_err("no server listens on this port");
        let error = error.to_string();
        assert!(error.contains("127.0.0.1:1") && error.contains("refused"), "{error}");
        assert!(!format!("{error} {restate:?}").contains("secret"), "{error} {restate:?}");
    }
}
