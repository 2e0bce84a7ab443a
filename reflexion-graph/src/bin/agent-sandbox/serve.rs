//! The command `serve`.

use std::time::Duration;

use app_support::program::StopSignals;
use graph_server::Capacity;
use reflexion_graph::serve::{self, Options};
use tokio::net::TcpListener;

use crate::{
    args::{API_KEY, ServeArgs},
    error::{CliError, CommandStatus},
    setup, view,
};

/// Maximum number of queued jobs.
const QUEUED: usize = 1000;

/// Serves jobs until the process receives a signal.
pub(crate) async fn serve(args: &ServeArgs) -> Result<CommandStatus, CliError> {
    setup::check(&args.attempts)?;
    let (choice, sandbox) =
        (setup::model_choice(&args.model)?, setup::sandbox_config(&args.sandbox));
    let budget = args.model.budget.to_run_budget();
    let guard = args.server.guard(API_KEY)?;
    if !guard.may_listen_on(args.address) {
        return Err(CliError::NoKey(args.address));
    }
    let error = |source| CliError::Listen { address: args.address, source };
    // Bind the address before jobs are resumed. If the address is in use, another server may be running these jobs.
    let listener = TcpListener::bind(args.address).await.map_err(error)?;
    let address = listener.local_addr().map_err(error)?;
    let mut signals = StopSignals::new().map_err(error)?;
    let deps = setup::deps(&choice, budget, &sandbox, args.attempts.memory).await?;
    let executor = deps.executor.clone();
    if choice.is_scripted() {
        eprintln!("{}", view::SCRIPTED_NOTICE);
    }
    let options = Options {
        runs: args.runs.clone(),
        choice,
        sandbox,
        deps,
        limits: setup::limits(&args.attempts),
        max_attempts: args.attempts.max_attempts,
        budget,
        capacity: Capacity { concurrent: args.max_jobs.into(), queued: QUEUED },
        streams: args.server.max_streams,
        guard,
    };
    let (service, langgraph, router) = serve::open(options).await?;
    eprintln!(
        "Serving at http://{address}. Press Ctrl-C to stop; unfinished jobs resume at the next start."
    );
    let grace = Duration::from_secs(args.server.grace);
    let shutdown = async move {
        signals.next().await;
        service.shut_down(grace).await;
        langgraph.shut_down().await;
    };
    let served = graph_server::serve_until(listener, router, shutdown).await;
    executor.close().await;
    served.map_err(error)?;
    Ok(CommandStatus::Done)
}
