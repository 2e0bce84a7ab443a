//! No isolation at all: the agent as a task of this process, for machines and tests where nothing else is wanted.
//!
//! Graphs run as they would without a sandbox, and programs as ordinary children with this process's rights. What is
//! left are the interface, the limits that need no kernel, and a warning at every start.

use std::{fmt, path::PathBuf, sync::Arc, time::Instant};

use async_trait::async_trait;
use tokio::task::{AbortHandle, JoinHandle};

use super::{Backend, Guest, Handle, Snapshot};
use crate::{
    Error,
    guest::Agent,
    limits::{ExceededLimit, Usage},
    report::{Guarantee, Report},
    sandbox_dir::SandboxDir,
    spec::Spec,
};

const NAME: &str = "in-process";

/// How many bytes may be on their way to or from the agent.
const CHANNEL_CAPACITY: usize = 1 << 20;

/// The back end without isolation.
#[derive(Clone)]
pub struct InProcess {
    agent: Arc<dyn Fn() -> Agent + Send + Sync>,
}

impl InProcess {
    /// A back end whose guests are agents of this process.
    pub fn new(agent: impl Fn() -> Agent + Send + Sync + 'static) -> Self {
        Self { agent: Arc::new(agent) }
    }
}

impl fmt::Debug for InProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InProcess")
    }
}

#[async_trait]
impl Backend for InProcess {
    fn name(&self) -> &'static str {
        NAME
    }

    async fn probe(&self) -> Report {
        Report::available(NAME, [Guarantee::Programs]).with_advice(
            "this back end isolates NOTHING: what it runs has all the rights of this process; use it for code you trust",
        ).with_advice(
            "a program's own limits hold here; those of the sandbox as a whole do not (memory, processor time, processes, \
             files, disk), and what outlives a program that was killed with its host is not found again",
        )
    }

    async fn start(&self, spec: &Spec, sandbox_dir: &SandboxDir) -> Result<Guest, Error> {
        tracing::warn!(
            sandbox = spec.name,
            "NOT ISOLATED: this sandbox runs in the host's own process, with all its rights"
        );
        let workspace = sandbox_dir.path().join("workspace");
        std::fs::create_dir(&workspace).map_err(Error::io("the workspace of a sandbox"))?;
        let (host_side, agent_side) = tokio::io::duplex(CHANNEL_CAPACITY);
        let agent = (self.agent)().workspace(workspace).in_host(sandbox_dir.leftovers());
        let task = tokio::spawn(async move {
            let (reader, writer) = tokio::io::split(agent_side);
            if let Err(error) = agent.serve(reader, writer).await {
                tracing::warn!(%error, "an agent in this process ended");
            }
        });
        let handle = InProcessHandle {
            abort: task.abort_handle(),
            task: tokio::sync::Mutex::new(Some(task)),
            started: Instant::now(),
        };
        Ok(Guest { channel: Box::new(host_side), handle: Arc::new(handle) })
    }
}

#[derive(Debug)]
struct InProcessHandle {
    abort: AbortHandle,
    /// Until it was waited for.
    task: tokio::sync::Mutex<Option<JoinHandle<()>>>,
    started: Instant,
}

#[async_trait]
impl Handle for InProcessHandle {
    async fn kill(&self) {
        self.abort.abort();
        let mut running = self.task.lock().await;
        if let Some(task) = running.as_mut() {
            let _ = task.await;
            *running = None;
        }
    }

    async fn pause(&self) -> Result<(), Error> {
        Err(Error::Unsupported { backend: NAME, operation: "pause a guest" })
    }

    async fn resume(&self) -> Result<(), Error> {
        Err(Error::Unsupported { backend: NAME, operation: "pause a guest" })
    }

    async fn usage(&self) -> Option<Usage> {
        Some(Usage { wall: self.started.elapsed(), ..Usage::default() })
    }

    async fn exceeded_limit(&self) -> Option<ExceededLimit> {
        None
    }

    async fn diagnostic_output(&self) -> String {
        String::new()
    }

    async fn snapshot(&self, _: PathBuf) -> Result<Snapshot, Error> {
        Err(Error::Unsupported { backend: NAME, operation: "keep a snapshot" })
    }
}

impl Drop for InProcessHandle {
    fn drop(&mut self) {
        self.abort.abort();
    }
}
