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
    berth::Berth,
    guest::Agent,
    limits::{Cause, Usage},
    report::{Guarantee, Report},
    spec::Spec,
};

const NAME: &str = "in-process";

/// How many bytes may be on their way to or from the agent.
const BUFFER: usize = 1 << 20;

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
        Report::works(NAME, [Guarantee::Programs]).advise(
            "this back end isolates NOTHING: what it runs has all the rights of this process; use it for code you trust",
        ).advise(
            "a program's own limits hold here; those of the sandbox as a whole do not (memory, processor time, processes, \
             files, disk), and what outlives a program that was killed with its host is not found again",
        )
    }

    async fn start(&self, spec: &Spec, berth: &Berth) -> Result<Guest, Error> {
        tracing::warn!(
            sandbox = spec.name,
            "NOT ISOLATED: this sandbox runs in the host's own process, with all its rights"
        );
        let workspace = berth.folder().join("workspace");
        std::fs::create_dir(&workspace).map_err(Error::io("the workspace of a sandbox"))?;
        let (ours, theirs) = tokio::io::duplex(BUFFER);
        let agent = (self.agent)().workspace(workspace).in_host(berth.noted());
        let serving = tokio::spawn(async move {
            let (reader, writer) = tokio::io::split(theirs);
            if let Err(error) = agent.serve(reader, writer).await {
                tracing::warn!(%error, "an agent in this process ended");
            }
        });
        let handle = InProcessHandle {
            abort: serving.abort_handle(),
            serving: tokio::sync::Mutex::new(Some(serving)),
            started: Instant::now(),
        };
        Ok(Guest { channel: Box::new(ours), handle: Arc::new(handle) })
    }
}

#[derive(Debug)]
struct InProcessHandle {
    abort: AbortHandle,
    /// Until it was waited for.
    serving: tokio::sync::Mutex<Option<JoinHandle<()>>>,
    started: Instant,
}

#[async_trait]
impl Handle for InProcessHandle {
    async fn kill(&self) {
        self.abort.abort();
        let mut serving = self.serving.lock().await;
        if let Some(task) = serving.as_mut() {
            let _ = task.await;
            *serving = None;
        }
    }

    async fn pause(&self) -> Result<(), Error> {
        Err(Error::Unsupported { backend: NAME, what: "pause a guest" })
    }

    async fn resume(&self) -> Result<(), Error> {
        Err(Error::Unsupported { backend: NAME, what: "pause a guest" })
    }

    async fn usage(&self) -> Option<Usage> {
        Some(Usage { wall: self.started.elapsed(), ..Usage::default() })
    }

    async fn cause(&self) -> Option<Cause> {
        None
    }

    async fn last_words(&self) -> String {
        String::new()
    }

    async fn snapshot(&self, _: PathBuf) -> Result<Snapshot, Error> {
        Err(Error::Unsupported { backend: NAME, what: "keep a snapshot" })
    }
}

impl Drop for InProcessHandle {
    fn drop(&mut self) {
        self.abort.abort();
    }
}
