//! A container as a whole.

use std::{
    future::poll_fn,
    path::PathBuf,
    pin::pin,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use bollard::{
    Docker as Engine,
    query_parameters::{RemoveContainerOptionsBuilder, StatsOptionsBuilder},
};
use futures_core::Stream;

use super::NAME;
use crate::{
    Error,
    backend::{Handle, Snapshot, words::Words},
    limits::{Cause, Usage},
};

#[derive(Debug)]
pub(super) struct DockerHandle {
    engine: Engine,
    name: String,
    words: Option<Words>,
    started: Instant,
    /// The most memory that was seen; the engine says what is used now. A std mutex: held for a moment.
    memory: Mutex<u64>,
}

impl DockerHandle {
    pub(super) fn new(engine: Engine, name: String) -> Self {
        Self { engine, name, words: None, started: Instant::now(), memory: Mutex::default() }
    }

    pub(super) fn listen(&mut self, words: Words) {
        self.words = Some(words);
    }
}

#[async_trait]
impl Handle for DockerHandle {
    async fn kill(&self) {
        remove(&self.engine, &self.name).await;
        if let Some(words) = &self.words {
            words.wait().await;
        }
    }

    async fn pause(&self) -> Result<(), Error> {
        let paused = self.engine.pause_container(&self.name).await;
        paused.map_err(|_| Error::Unsupported { backend: NAME, what: "pause this guest" })
    }

    async fn resume(&self) -> Result<(), Error> {
        let resumed = self.engine.unpause_container(&self.name).await;
        resumed.map_err(|_| Error::Unsupported { backend: NAME, what: "let this guest go on" })
    }

    async fn usage(&self) -> Option<Usage> {
        let once = StatsOptionsBuilder::default().stream(false).one_shot(true).build();
        let mut stats = pin!(self.engine.stats(&self.name, Some(once)));
        let stats = poll_fn(|cx| stats.as_mut().poll_next(cx)).await?.ok()?;
        let cpu = stats.cpu_stats?.cpu_usage?.total_usage?;
        let now = stats.memory_stats?.usage.unwrap_or_default();
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        *memory = now.max(*memory);
        let (wall, cpu) = (self.started.elapsed(), Duration::from_nanos(cpu));
        Some(Usage { wall, cpu, memory: *memory })
    }

    async fn cause(&self) -> Option<Cause> {
        let container = self.engine.inspect_container(&self.name, None).await.ok()?;
        container.state?.oom_killed?.then_some(Cause::Memory)
    }

    async fn last_words(&self) -> String {
        self.words.as_ref().map(Words::last).unwrap_or_default()
    }

    async fn snapshot(&self, _: PathBuf) -> Result<Snapshot, Error> {
        Err(Error::Unsupported { backend: NAME, what: "keep a snapshot" })
    }
}

impl Drop for DockerHandle {
    /// The engine is asked in the background; where there is nothing to ask it with any more, the reaper does it.
    fn drop(&mut self) {
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let (engine, name) = (self.engine.clone(), std::mem::take(&mut self.name));
            runtime.spawn(async move { remove(&engine, &name).await });
        }
    }
}

async fn remove(engine: &Engine, name: &str) {
    let options = RemoveContainerOptionsBuilder::default().force(true).v(true).build();
    if let Err(error) = engine.remove_container(name, Some(options)).await {
        // Mostly because it is gone already.
        tracing::debug!(name, %error, "a container is not removed");
    }
}
