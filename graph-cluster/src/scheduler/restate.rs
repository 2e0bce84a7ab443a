//! A scheduler that uses a Restate server.
//!
//! Each thread is a virtual object of Restate, keyed by the thread's name. Restate calls the object's handler `run` on
//! one worker at a time, in the order of submission, and calls it again on another worker if the connection breaks, or
//! if the worker reports no progress. The handler adds small entries to its journal at intervals; states and results
//! stay in PostgreSQL.

use std::{fmt, net::SocketAddr, sync::Arc, time::Duration};

use async_trait::async_trait;
use reqwest::Url;
use restate_sdk::prelude::{
    ContextSideEffects, Endpoint, HandlerError, HttpServer, IntoServiceDefinition, Json,
    ObjectContext, RunFuture, ServiceOptions,
};
use tokio::{
    net::TcpListener,
    sync::Mutex,
    task::JoinSet,
    time::{interval, timeout},
};
use tracing::Instrument;

use super::Scheduler;
use crate::{error::ClusterError, leg::LegRunner, leg_end::LegEnd, run::Ticket};

const NAME: &str = "restate";
/// Name of the virtual object. Must equal the name of the type below.
const SERVICE: &str = "GraphThread";
/// Number of lease times without a journal entry after which Restate asks a handler to suspend. A worker that hangs
/// does not answer, and loses the run after one further lease time; version 1.7 of the server adds five seconds.
const INACTIVE_LEASES: u32 = 2;
/// Maximum time between two journal entries of a leg. A worker with a shorter lease adds an entry every lease time.
const MAX_PROGRESS_INTERVAL: Duration = Duration::from_secs(10);
/// Maximum number of attempts of a handler. It is too large to be reached: with the server's default, a handler pauses
/// after 70 attempts, and its run would not continue after an outage of a few minutes.
const MAX_ATTEMPTS: u64 = u32::MAX as u64;
/// Maximum time of one request to the server, which may be busy.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// Interval between searches for runs whose submission was lost.
const SWEEP_INTERVAL: Duration = Duration::from_secs(10);

/// A Restate server assigns runs to workers, and notices a dead worker by its broken connection. A worker that hangs
/// loses its runs after three lease times and about five seconds.
///
/// Clients need only the address of the server's ingress. A worker also listens on an address, which is registered with
/// the server once: `curl -X POST SERVER:9070/deployments -d '{"uri": "http://WORKER:9080"}'`. For several workers,
/// register the address of a load balancer for HTTP/2 instead. Clusters with different databases need different
/// servers.
///
/// The server reads the [lease](crate::Worker::lease) of the workers when their address is registered, so all workers
/// behind an address need the same lease. If you change it, register the address again, with `"force": true`.
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
            http: http.map_err(|it| failure(it.to_string()))?,
        })
    }

    /// Sets the address on which a worker receives calls of the server. Let only the server, or its load balancer,
    /// reach this address: the SDK's HTTP/2 server does not limit the number of connections.
    pub fn listen(mut self, address: SocketAddr) -> Self {
        self.listen = Some(address);
        self
    }

    /// Rejects calls that are not signed with this key of the server (`publickeyv1_…`). Without a key, everyone who can
    /// reach the worker's address can start queued runs.
    pub fn identity_key(mut self, key: impl Into<String>) -> Self {
        self.identity_key = Some(key.into());
        self
    }

    /// Returns the address of the server without a user name and password.
    fn address(&self) -> String {
        let (host, port) = (self.ingress.host_str(), self.ingress.port_or_known_default());
        format!("{}:{}", host.unwrap_or_default(), port.unwrap_or_default())
    }

    /// Repeats submissions of legs that may have been lost. The server recognises duplicates by their idempotency key.
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
        let lease = runner.options.lease;
        let options = ServiceOptions::new()
            .inactivity_timeout(lease * INACTIVE_LEASES)
            .abort_timeout(lease)
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
        let leg = Leg::new(self, ticket.into_inner());
        loop {
            let ended = ctx.run(|| leg.progress()).name("leg").await?;
            if ended {
                return Ok(());
            }
        }
    }
}

/// A leg of a run. It executes in its own task, so that it continues while the server stores a journal entry. Dropping
/// it stops the leg.
struct Leg {
    runner: Arc<LegRunner>,
    restate: Restate,
    ticket: Ticket,
    /// Contains a task once the leg has started.
    task: Mutex<JoinSet<Result<(), HandlerError>>>,
}

impl Leg {
    fn new(thread: &GraphThread, ticket: Ticket) -> Self {
        let GraphThread { runner, restate } = thread;
        let (runner, restate) = (runner.clone(), restate.clone());
        Self { runner, restate, ticket, task: Mutex::default() }
    }

    /// Waits for the end of the leg for a limited time. Returns whether it has ended. The first call starts the leg: a
    /// handler that is called again does not repeat a leg whose end is in the journal.
    async fn progress(&self) -> Result<bool, HandlerError> {
        let mut task = self.task.lock().await;
        if task.is_empty() {
            let (runner, restate, ticket) =
                (self.runner.clone(), self.restate.clone(), self.ticket.clone());
            task.spawn(async move { execute(&runner, &restate, &ticket).await }.in_current_span());
        }
        let interval = self.runner.options.lease.min(MAX_PROGRESS_INTERVAL);
        match timeout(interval, task.join_next()).await {
            Ok(Some(ended)) => ended?.map(|()| true),
            Ok(None) | Err(_) => Ok(false),
        }
    }
}

/// Executes a leg to its end.
async fn execute(
    runner: &LegRunner,
    restate: &Restate,
    ticket: &Ticket,
) -> Result<(), HandlerError> {
    match runner.execute_ticket(ticket).await? {
        None | Some(LegEnd::Ended(..)) => Ok(()),
        Some(LegEnd::Sleeping { claims, delay }) => {
            let next = Ticket { leg: ticket.leg + 1, claims, delay, ..ticket.clone() };
            // If this fails, another worker submits the leg when it is due.
            if let Err(error) = restate.submit(&next).await {
                tracing::warn!(run = ticket.run, %error, "cannot submit a sleeping run");
            }
            Ok(())
        }
        Some(LegEnd::Drained) => Err(HandlerError::from("the worker is shutting down")),
        Some(LegEnd::Lost) => Err(HandlerError::from("another worker has claimed the run")),
        Some(LegEnd::Retry(problem)) => Err(HandlerError::from(problem)),
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
