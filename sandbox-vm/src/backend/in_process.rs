//! The in-process back end.

use std::{fmt, sync::Arc, time::Instant};

use async_trait::async_trait;
use tokio::task::{AbortHandle, JoinHandle};

use super::{
    interface::{Backend, Guest, Handle},
    names::IN_PROCESS as NAME,
};
use crate::{
    Error,
    guest::Agent,
    limits::Usage,
    report::{Guarantee, Report},
    sandbox_dir::SandboxDir,
    spec::Spec,
};

/// Capacity of the channel to the agent in bytes, for each direction.
const CHANNEL_CAPACITY: usize = 1 << 20;

/// The in-process back end, which provides no isolation. The agent is a task in this process. Intended for tests and
/// for machines where isolation is not wanted.
///
/// Graphs run as they would without a sandbox, and programs run as ordinary child processes with the rights of this
/// process. Only the sandbox interface and the limits that need no kernel support remain. Each start logs a warning.
///
/// ```
/// use sandbox_vm::{Isolation, Program, Sandboxes, Spec, backend::InProcess, guest::Agent};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// let sandboxes = Sandboxes::builder()
///     .backend(InProcess::new(Agent::new))
///     .isolation(Isolation::Off)
/// #   .state_dir(dir.path())
///     .open()
///     .await?;
/// let sandbox = sandboxes.create_if_not_exists(Spec::new("test")).await?;
/// let output = sandbox.exec(Program::new("echo").arg("hello")).await?;
/// assert_eq!(output.stdout, b"hello\n");
/// assert!(!output.isolated);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct InProcess {
    agent: Arc<dyn Fn() -> Agent + Send + Sync>,
}

impl InProcess {
    /// Creates a back end whose guests are agents in this process.
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
            "this back end isolates NOTHING: guests have all the rights of this process; use it only for code you trust",
        ).with_advice(
            "limits on single programs apply, but limits on the sandbox as a whole (memory, CPU time, processes, \
             files, disk) do not; a process that leaves its session and outlives its parent is neither counted nor ended; \
             after a crash of the host, the next start ends the programs that are still running, but not processes that \
             have outlived the program that started them",
        )
    }

    async fn start(&self, spec: &Spec, sandbox_dir: &SandboxDir) -> Result<Guest, Error> {
        tracing::warn!(
            sandbox = spec.name,
            "NOT ISOLATED: this sandbox runs in the host process, with all its rights"
        );
        let workspace = sandbox_dir.path().join("workspace");
        std::fs::create_dir(&workspace)
            .map_err(Error::io("cannot create the workspace of a sandbox"))?;
        let (host_side, agent_side) = tokio::io::duplex(CHANNEL_CAPACITY);
        let agent = (self.agent)().workspace(workspace).in_host(sandbox_dir.leftovers());
        let task = tokio::spawn(async move {
            let (reader, writer) = tokio::io::split(agent_side);
            if let Err(error) = agent.serve(reader, writer).await {
                tracing::warn!(%error, "an in-process agent failed");
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
    /// The agent's task, or `None` once the task has been awaited.
    task: tokio::sync::Mutex<Option<JoinHandle<()>>>,
    started: Instant,
}

#[async_trait]
impl Handle for InProcessHandle {
    fn backend(&self) -> &'static str {
        NAME
    }

    async fn kill(&self) {
        self.abort.abort();
        let mut running = self.task.lock().await;
        if let Some(task) = running.as_mut() {
            let _ = task.await;
            *running = None;
        }
    }

    async fn usage(&self) -> Option<Usage> {
        Some(Usage { wall: self.started.elapsed(), ..Usage::default() })
    }
}

impl Drop for InProcessHandle {
    fn drop(&mut self) {
        self.abort.abort();
    }
}
