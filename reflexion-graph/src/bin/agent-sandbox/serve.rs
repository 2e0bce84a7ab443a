//! Serving jobs over HTTP.

use std::{env, time::Duration};

use graph_server::{
    Capacity,
    http::{Guard, KeyHash},
};
use reflexion_graph::serve::{self, Options};
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
};

use crate::{
    args::{API_KEY, ServeArgs},
    place,
    problem::{Ending, Problem},
    view,
};

/// Jobs that may wait for their turn.
const QUEUED: usize = 1000;

/// Serves until it is told to end.
pub(crate) async fn serve(args: &ServeArgs) -> Result<Ending, Problem> {
    place::check(&args.trying)?;
    let (choice, place) = (place::choice(&args.voice)?, place::place(&args.place));
    let allowance = args.voice.budget.allowance();
    let guard = guard(args)?;
    if !guard.suits(args.address) {
        return Err(Problem::NoKey(args.address));
    }
    let problem = |source| Problem::Listen { address: args.address, source };
    // Before any job goes on: where the address is taken, another server may be at work on them.
    let listener = TcpListener::bind(args.address).await.map_err(problem)?;
    let address = listener.local_addr().map_err(problem)?;
    let end = asked_to_end().map_err(problem)?;
    let deps = place::deps(&choice, allowance, &place, args.trying.memory).await?;
    let workshop = deps.workshop.clone();
    if choice.is_scripted() {
        eprintln!("{}", view::SCRIPTED);
    }
    let options = Options {
        runs: args.runs.clone(),
        choice,
        place,
        deps,
        limits: place::limits(&args.trying),
        max_attempts: args.trying.max_attempts,
        allowance,
        capacity: Capacity { at_once: args.max_jobs.into(), queued: QUEUED },
        streams: args.max_streams,
        guard,
    };
    let (service, router) = serve::open(options).await?;
    eprintln!(
        "Serving at http://{address}. Ctrl-C ends it; unfinished jobs go on at the next start."
    );
    let grace = Duration::from_secs(args.grace);
    let served = graph_server::serve(listener, router, service, grace, end).await;
    workshop.close().await;
    served.map_err(problem)?;
    Ok(Ending::Done)
}

fn guard(args: &ServeArgs) -> Result<Guard, Problem> {
    let from_environment = env::var(API_KEY).ok().filter(|it| !it.trim().is_empty());
    let from_environment = from_environment.map(|it| KeyHash::of_long(it.trim())).transpose()?;
    let keys = args.key_hash.iter().copied().chain(from_environment);
    let guard = keys.fold(Guard::new().rate(args.rate), Guard::key);
    Ok(args.host.iter().cloned().fold(guard, Guard::host))
}

/// Resolves when the process is interrupted or terminated.
fn asked_to_end() -> std::io::Result<impl Future<Output = ()> + Send + 'static> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}
