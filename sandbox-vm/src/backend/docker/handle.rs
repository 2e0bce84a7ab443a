//! Handle to a container.

use std::{
    collections::HashMap,
    future::poll_fn,
    pin::pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use async_trait::async_trait;
use bollard::{
    Docker as Engine,
    query_parameters::{EventsOptionsBuilder, StatsOptionsBuilder},
};
use futures_core::Stream;

use super::engine::remove;
use crate::{
    Error,
    backend::{diagnostics::Diagnostics, interface::Handle, names::DOCKER as NAME},
    limits::{ExceededLimit, Usage},
    sandbox_dir::{Leftover, LeftoverList},
    sync::lock,
};

/// Handle to a container, which may not have been created yet. The container is removed together with its sandbox
/// directory, unless [`kill`](Handle::kill) has already removed it.
#[derive(Debug)]
pub(super) struct DockerHandle {
    engine: Engine,
    name: String,
    /// The sandbox directory's list of leftovers, and the container's entry in that list.
    leftover: (Arc<LeftoverList>, Leftover),
    diagnostics: Option<Diagnostics>,
    started: Instant,
    /// Highest observed memory use in bytes. Tracked here because the engine reports only the current memory use. A std
    /// mutex suffices, because it is held only briefly.
    peak_memory: Mutex<u64>,
    /// Time of the last out-of-memory event that was reported to the caller, in nanoseconds of the engine's clock.
    last_oom: AtomicI64,
}

impl DockerHandle {
    pub(super) fn new(
        engine: Engine,
        name: String,
        leftover: (Arc<LeftoverList>, Leftover),
    ) -> Self {
        let (started, peak_memory) = (Instant::now(), Mutex::default());
        Self {
            engine,
            name,
            leftover,
            diagnostics: None,
            started,
            peak_memory,
            last_oom: AtomicI64::new(0),
        }
    }

    pub(super) fn set_diagnostics(&mut self, diagnostics: Diagnostics) {
        self.diagnostics = Some(diagnostics);
    }
}

#[async_trait]
impl Handle for DockerHandle {
    fn backend(&self) -> &'static str {
        NAME
    }

    async fn kill(&self) {
        match remove(&self.engine, &self.name).await {
            Ok(_) => self.leftover.0.mark_removed(&self.leftover.1),
            Err(error) => tracing::warn!(name = self.name, %error, "cannot remove a container"),
        }
    }

    async fn pause(&self) -> Result<(), Error> {
        let paused = self.engine.pause_container(&self.name).await;
        paused.map_err(|_| Error::Unsupported { backend: NAME, operation: "pause this guest" })
    }

    async fn resume(&self) -> Result<(), Error> {
        let resumed = self.engine.unpause_container(&self.name).await;
        resumed.map_err(|_| Error::Unsupported { backend: NAME, operation: "resume this guest" })
    }

    async fn usage(&self) -> Option<Usage> {
        let once = StatsOptionsBuilder::default().stream(false).one_shot(true).build();
        let mut stats = pin!(self.engine.stats(&self.name, Some(once)));
        let stats = poll_fn(|cx| stats.as_mut().poll_next(cx)).await?.ok()?;
        let cpu = stats.cpu_stats?.cpu_usage?.total_usage?;
        let now = stats.memory_stats?.usage.unwrap_or_default();
        let mut memory = lock(&self.peak_memory);
        *memory = now.max(*memory);
        let (wall, cpu) = (self.started.elapsed(), Duration::from_nanos(cpu));
        Some(Usage { wall, cpu, memory: *memory })
    }

    async fn exceeded_limit(&self) -> Option<ExceededLimit> {
        // The container's state reports the first out-of-memory event forever, so later ones can be detected only
        // through the engine's events.
        let last_oom = self.last_oom.load(Ordering::Relaxed);
        let filters = HashMap::from([("container", vec![&*self.name]), ("event", vec!["oom"])]);
        let options = EventsOptionsBuilder::default().filters(&filters);
        let options = options
            .since(&engine_timestamp(last_oom + 1))
            .until(&engine_timestamp(unix_nanos()))
            .build();
        let mut events = pin!(self.engine.events(Some(options)));
        let mut last = last_oom;
        while let Some(event) = poll_fn(|cx| events.as_mut().poll_next(cx)).await {
            last = event.ok()?.time_nano.unwrap_or_default().max(last);
        }
        let before = self.last_oom.fetch_max(last, Ordering::Relaxed);
        (last > before).then_some(ExceededLimit::Memory)
    }

    async fn diagnostic_output(&self) -> String {
        let Some(diagnostics) = &self.diagnostics else { return String::new() };
        diagnostics.wait_for_end().await;
        diagnostics.tail()
    }
}

/// Returns the current time in nanoseconds since the Unix epoch.
fn unix_nanos() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_nanos()).unwrap_or(i64::MAX)
}

/// Formats a time in nanoseconds for the engine's API.
fn engine_timestamp(nanos: i64) -> String {
    const SECOND: i64 = 1_000_000_000;
    format!("{}.{:09}", nanos / SECOND, nanos % SECOND)
}
