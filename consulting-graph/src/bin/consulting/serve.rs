//! Serves runs over HTTP.

use std::{num::NonZero, time::Duration};

use app_support::{program::StopSignals, run_id::now};
use consulting_graph::serve::{self, ServeOptions};
use graph_server::{Capacity, http::Guard};
use sandbox_vm::Isolation;
use tokio::{net::TcpListener, sync::oneshot};

use crate::{
    args::{API_KEY, ServeArgs},
    error::{CliError, ExitStatus},
    new_run,
};

/// Maximum number of queued runs.
const MAX_QUEUED: usize = 1000;

/// Memory that a run with its sandboxes may need, in KiB.
const KIB_PER_RUN: u64 = 256 << 10;

/// Serves until a signal arrives, then waits up to the grace period for active runs to finish. A second signal stops
/// immediately; all runs can be resumed from their checkpoints.
pub(crate) async fn serve(args: &ServeArgs) -> Result<ExitStatus, CliError> {
    let guard = args.server.guard(API_KEY)?;
    let guard = args.origin.iter().cloned().fold(guard, Guard::origin);
    if !guard.may_listen_on(args.address) {
        return Err(CliError::MissingKey(args.address));
    }
    let data = new_run::data(&args.source, now().date_naive())?;
    let options = ServeOptions {
        runs_dir: args.runs.clone(),
        config: new_run::config(&args.config)?,
        choice: new_run::choice(&args.models),
        data: data.origin,
        as_of: args.source.as_of,
        concurrency: args.concurrency.into(),
        isolation: args.sandboxes.isolation.unwrap_or(Isolation::Preferred),
        backend: args.sandboxes.backend.clone(),
        sandbox_reuse: args.reuse.sandbox_reuse(),
        capacity: Capacity {
            concurrent: args.max_runs.unwrap_or_else(default_max_runs),
            queued: MAX_QUEUED,
        },
        max_streams: args.server.max_streams,
        max_age: args.keep_days.map(|it| Duration::from_secs(u64::from(it) * 24 * 3600)),
        call_limits: args.timeouts.call_limits(),
        max_limit: args.limits.limit(),
        guard,
    };
    let listen_error = |source| CliError::Listen { address: args.address, source };
    // Binds the address before opening the service. If the address is in use, another server may be executing the runs
    // that would be resumed.
    let listener = TcpListener::bind(args.address).await.map_err(listen_error)?;
    let address = listener.local_addr().map_err(listen_error)?;
    let mut signals = StopSignals::new().map_err(listen_error)?;
    let (service, langgraph, guarded) = serve::open(options).await?;
    eprintln!(
        "Serving at http://{address}. Press Ctrl-C to stop; unfinished runs resume at the next start."
    );
    if let Err(error) = graph_server::raise_descriptor_limit() {
        tracing::warn!(%error, "cannot raise the limit on open file descriptors");
    }
    let grace = Duration::from_secs(args.server.grace);
    let (stop, stopped) = oneshot::channel::<()>();
    let shutdown = async move {
        drop(stopped.await);
        service.shut_down(grace).await;
        langgraph.shut_down().await;
    };
    let serving = graph_server::serve_until(listener, guarded, shutdown);
    tokio::pin!(serving);
    tokio::select! {
        served = &mut serving => return served.map(|()| ExitStatus::Success).map_err(listen_error),
        () = signals.next() => {}
    }
    eprintln!(
        "Shutting down: active runs have {} s to finish. Press Ctrl-C again to stop immediately.",
        args.server.grace
    );
    drop(stop);
    tokio::select! {
        served = serving => served.map(|()| ExitStatus::Success).map_err(listen_error),
        () = signals.next() => Ok(ExitStatus::Interrupted),
    }
}

/// Returns the number of runs that this machine can execute without slow responses: two per core, or fewer if the
/// memory does not suffice.
fn default_max_runs() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    let memory = std::fs::read_to_string("/proc/meminfo").ok();
    max_runs(cores, memory.and_then(|it| available_kib(&it)))
}

fn max_runs(cores: usize, available_kib: Option<u64>) -> usize {
    let by_memory = available_kib.map_or(u64::MAX, |it| it / KIB_PER_RUN);
    cores.saturating_mul(2).min(usize::try_from(by_memory).unwrap_or(usize::MAX)).max(1)
}

/// Reads the available memory, in KiB, from the text of `/proc/meminfo`.
fn available_kib(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|it| it.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{available_kib, max_runs};

    #[test]
    fn the_number_of_runs_depends_on_cores_and_memory() {
        let meminfo = "MemTotal:       16318480 kB\nMemFree:  1 kB\nMemAvailable:    1048576 kB\n";
        assert_eq!(available_kib(meminfo), Some(1 << 20));
        assert_eq!(available_kib("MemTotal: 5 kB"), None);
        for (cores, memory, expected) in
            [(2, None, 4), (8, Some(1 << 20), 4), (2, Some(1 << 30), 4), (2, Some(1000), 1)]
        {
            assert_eq!(max_runs(cores, memory), expected, "{cores} {memory:?}");
        }
    }
}
