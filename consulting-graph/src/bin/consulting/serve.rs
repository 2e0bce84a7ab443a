//! Serving runs over HTTP.

use std::{env, time::Duration};

use consulting_graph::{
    models::Limit,
    run::new,
    serve::{self, Options},
};
use graph_server::{
    Capacity,
    http::{Guard, KeyHash},
};
use tokio::{
    net::TcpListener,
    signal::unix::{Signal, SignalKind, signal},
    sync::oneshot,
};

use crate::{
    args::{API_KEY, ServeArgs},
    begin,
    problem::{Ending, Problem},
};

/// Runs that may wait for their turn.
const QUEUED: usize = 1000;

/// Serves until it is told to end. Told once more, it ends at once: every run goes on from where it is stored.
pub(crate) async fn serve(args: &ServeArgs) -> Result<Ending, Problem> {
    let guard = guard(args)?;
    if !guard.suits(args.address) {
        return Err(Problem::NoKey(args.address));
    }
    let data = begin::data(&args.company, new::now().date_naive())?;
    let options = Options {
        runs: args.runs.clone(),
        config: begin::config(&args.config)?,
        choice: begin::choice(&args.voice),
        data: data.from,
        as_of: args.company.as_of,
        concurrency: args.concurrency.into(),
        isolation: args.isolation.into(),
        backend: args.sandbox.clone(),
        capacity: Capacity { at_once: args.max_runs, queued: QUEUED },
        streams: args.max_streams,
        most: Limit { tokens: args.max_tokens, money: args.max_cost },
        guard,
    };
    let problem = |source| Problem::Listen { address: args.address, source };
    // Before any run goes on: where the address is taken, another server may be at work on them.
    let listener = TcpListener::bind(args.address).await.map_err(problem)?;
    let address = listener.local_addr().map_err(problem)?;
    let mut signals = Signals::new().map_err(problem)?;
    let (service, guarded) = serve::open(options).await?;
    eprintln!(
        "Serving at http://{address}. Ctrl-C ends it; unfinished runs go on at the next start."
    );
    if let Err(error) = graph_server::lift_descriptor_limit() {
        tracing::warn!(%error, "has no more open files than usual");
    }
    let grace = Duration::from_secs(args.grace);
    let (end, told) = oneshot::channel::<()>();
    let told = async move { drop(told.await) };
    let serving = graph_server::serve(listener, guarded, service, grace, told);
    tokio::pin!(serving);
    tokio::select! {
        served = &mut serving => return served.map(|()| Ending::Done).map_err(problem),
        () = signals.next() => {}
    }
    eprintln!("Ending: runs get {} s to come to their end. Ctrl-C ends at once.", args.grace);
    drop(end);
    tokio::select! {
        served = serving => served.map(|()| Ending::Done).map_err(problem),
        () = signals.next() => Ok(Ending::Interrupted),
    }
}

fn guard(args: &ServeArgs) -> Result<Guard, Problem> {
    let from_environment = env::var(API_KEY).ok().filter(|it| !it.trim().is_empty());
    let from_environment = from_environment.map(|it| KeyHash::of_long(it.trim())).transpose()?;
    let keys = args.key_hash.iter().copied().chain(from_environment);
    let guard = keys.fold(Guard::new().rate(args.rate), Guard::key);
    let guard = args.host.iter().cloned().fold(guard, Guard::host);
    Ok(args.origin.iter().cloned().fold(guard, Guard::origin))
}

/// Whoever wants the process to end.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
