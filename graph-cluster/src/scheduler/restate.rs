//! A scheduler that uses a Restate server.
//!
//! Each thread is a virtual object of Restate, keyed by the thread's name. Restate calls the object's handler `run` on one
//! worker at a time, in the order of submission, and calls it again on another worker if the connection breaks. The
//! handler's journal contains one small entry per leg; states and results stay in PostgreSQL.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use async_trait::async_trait;
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
/// Maximum duration of one step: Restate aborts a handler that adds nothing to its journal for longer.
const STEP_LIMIT: Duration = Duration::from_secs(3600);
/// Maximum time of one request to the server.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval between searches for runs whose submission was lost.
const SWEEP_INTERVAL: Duration = Duration::from_secs(10);

/// A Restate server assigns runs to workers, and notices a dead worker by its broken connection.
///
/// Clients need only the address of the server's ingress. A worker also listens on an address, which is registered with
/// the server once: `curl -X POST SERVER:9070/deployments -d '{"uri": "http://WORKER:9080"}'`. Several workers stand
/// behind a load balancer for HTTP/2, whose address is registered. Clusters with different databases need different servers.
#[derive(Clone, Debug)]
#[must_use]
pub struct Restate {
    ingress: String,
    listen: Option<SocketAddr>,
    identity_key: Option<String>,
    leg_limit: Duration,
    http: reqwest::Client,
}

impl Restate {
    /// Creates a scheduler that submits runs to this ingress, such as `http://127.0.0.1:8080`.
    pub fn new(ingress: impl Into<String>) -> Result<Self, ClusterError> {
        // Fails if the program has installed a provider, which is then used.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder().timeout(REQUEST_TIMEOUT).build();
        Ok(Self {
            ingress: ingress.into().trim_end_matches('/').to_owned(),
            listen: None,
            identity_key: None,
            leg_limit: LEG_LIMIT,
            http: http.map_err(|it| failure(it.to_string()))?,
        })
    }

    /// Sets the address on which a worker receives calls of the server.
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

    /// Submits legs again whose submission may have been lost. The idempotency key makes a repeated one harmless.
    async fn sweep(&self, runner: &LegRunner) {
        let mut ticks = interval(SWEEP_INTERVAL);
        loop {
            ticks.tick().await;
            let swept = async {
                for ticket in runner.store.stale_tickets(NAME).await? {
                    self.submit(&ticket).await?;
                }
                Ok::<_, ClusterError>(())
            };
            if let Err(error) = swept.await {
                tracing::warn!(%error, "cannot submit waiting runs again");
            }
        }
    }
}

fn failure(problem: impl Into<String>) -> ClusterError {
    ClusterError::Scheduler { scheduler: NAME, problem: problem.into() }
}

#[async_trait]
impl Scheduler for Restate {
    fn name(&self) -> &'static str {
        NAME
    }

    async fn submit(&self, ticket: &Ticket) -> Result<(), ClusterError> {
        let thread = percent_encode(&ticket.thread);
        let url = format!("{}/{SERVICE}/{thread}/run/send", self.ingress);
        let body = serde_json::to_vec(ticket).map_err(|it| failure(it.to_string()))?;
        let request = self
            .http
            .post(url)
            .header("content-type", "application/json")
            .header("idempotency-key", percent_encode(&format!("{}:{}", ticket.run, ticket.leg)))
            .body(body);
        let answer = request.send().await.map_err(|it| failure(it.to_string()))?;
        let status = answer.status();
        if status.is_success() {
            return Ok(());
        }
        let text = answer.text().await.unwrap_or_default();
        Err(failure(format!(
            "the server at {} answered {status}: {text}; check that the workers are registered with it",
            self.ingress
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
        let thread = GraphThread { runner: runner.clone(), leg_limit: self.leg_limit };
        let options = ServiceOptions::new()
            .inactivity_timeout(STEP_LIMIT)
            .abort_timeout(STEP_LIMIT)
            .retry_policy_initial_interval(Duration::from_millis(50))
            .retry_policy_exponentiation_factor(2.0)
            .retry_policy_max_interval(Duration::from_secs(5));
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
    leg_limit: Duration,
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
        match self.runner.execute_ticket(ticket, self.leg_limit).await? {
            None | Some(LegEnd::Ended(..)) => Ok(true),
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
