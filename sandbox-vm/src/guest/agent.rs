//! The agent, which executes the host's commands.

use std::{collections::BTreeMap, fmt, io, path::PathBuf, sync::Arc};

use graph_core::{BuildError, CompiledGraph, State};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt},
    runtime::{Builder, Runtime},
    sync::mpsc,
    task::{AbortHandle, JoinSet},
};

use super::{
    children::Children,
    connection::Connection,
    exec, files,
    host::Host,
    reseed,
    run::{GraphFactory, GraphRunner},
};
use crate::{
    meter::{kernel_memory::KernelMeter, oom_kills::OomKillCounter},
    protocol::{
        self, Assembler, Frame, Kind, ProtocolError, decode, encode_reply,
        frame::ReadError,
        message::{Fault, FaultCode, GuestCommand, GuestHello, HostHello, SubgraphStart},
    },
    sandbox_dir::LeftoverList,
    spec::WORKSPACE,
};

/// The program inside a guest that executes the host's commands. It knows the graphs that the host can run.
///
/// ```
/// use graph_core::{START, State, StateGraph};
/// use sandbox_vm::{
///     GraphRun, Isolation, Sandboxes, Spec,
///     backend::InProcess,
///     guest::{Agent, Host},
///     input_fields,
/// };
/// use serde_json::json;
///
/// #[derive(State, Clone, Debug, Default)]
/// struct Debate {
///     topic: String,
///     verdict: String,
/// }
///
/// async fn judge(debate: &Debate) -> DebateUpdate {
///     Debate::update().verdict(format!("{} wins", debate.topic))
/// }
///
/// fn agent() -> Agent {
///     Agent::new().graph("debate", |host: &Host| {
///         let graph = StateGraph::<Debate>::new().node(judge).edge(START, judge);
///         Ok((graph.shared_checkpointer(host.checkpointer()).compile()?, ()))
///     })
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// // With another back end, the agent runs in another process: pass it to `guest::enter` at the start of `main`.
/// let sandboxes = Sandboxes::builder().backend(InProcess::new(agent)).isolation(Isolation::Off);
/// # let sandboxes = sandboxes.state_dir(dir.path());
/// let sandbox = sandboxes.open().await?.create_if_not_exists(Spec::new("debate")).await?;
/// let run = GraphRun::new("debate").input(input_fields(&json!({ "topic": "tea" }))?);
/// let exit = sandbox.run_graph(run).await?.finish().await?;
/// assert_eq!(exit.state()["verdict"], "tea wins");
/// # Ok(()) }
/// ```
#[must_use]
pub struct Agent {
    graphs: BTreeMap<String, Arc<dyn GraphRunner>>,
    workspace: PathBuf,
    /// List in which the agent records processes that would outlive a crash of the host process. Set only if the agent
    /// runs in the host's own process.
    in_host: Option<Arc<LeftoverList>>,
    /// Measures the kernel memory that programs use, if the host's kernel does not account for it.
    kernel_meter: Option<KernelMeter>,
    /// Counts the programs that the guest's own kernel kills because no memory is left.
    oom_kills: Option<OomKillCounter>,
}

impl Agent {
    /// Creates an agent that runs programs and accesses files, and has no graphs yet.
    pub fn new() -> Self {
        Self {
            graphs: BTreeMap::new(),
            workspace: PathBuf::from(WORKSPACE),
            in_host: None,
            kernel_meter: None,
            oom_kills: None,
        }
    }

    /// Registers a graph that the host can run under this name.
    ///
    /// `build` is called once for each run and returns the graph and the dependencies of its nodes. The graph must use
    /// [`Host::checkpointer`] as its checkpointer, unless the host runs it only with [`sandboxed`](crate::sandboxed()).
    pub fn graph<S: State, C: Send + Sync + 'static>(
        mut self,
        name: impl Into<String>,
        build: impl Fn(&Host) -> Result<(CompiledGraph<S, C>, C), BuildError> + Send + Sync + 'static,
    ) -> Self {
        self.graphs.insert(name.into(), Arc::new(GraphFactory { build }));
        self
    }

    /// Uses this directory for files and as the working directory of programs, instead of `/workspace`.
    pub fn workspace(mut self, dir: impl Into<PathBuf>) -> Self {
        self.workspace = dir.into();
        self
    }

    /// Marks the agent as running in the host's own process. Such an agent refuses to change the kernel's clock and
    /// random state. It records the programs it starts in `leftovers`, because no namespace contains them.
    pub(crate) fn in_host(mut self, leftovers: Arc<LeftoverList>) -> Self {
        self.in_host = Some(leftovers);
        self
    }

    /// Counts kernel memory of programs against their memory limit.
    pub(crate) fn count_kernel_memory(mut self, meter: KernelMeter) -> Self {
        self.kernel_meter = Some(meter);
        self
    }

    /// Attributes out-of-memory kills of the guest's own kernel to the program that was running.
    pub(crate) fn count_oom_kills(mut self, counter: OomKillCounter) -> Self {
        self.oom_kills = Some(counter);
        self
    }

    /// Executes the host's commands until the host closes the stream.
    ///
    /// If the agent is process 1, it also reaps orphaned processes. A second hello message, which arrives after a
    /// snapshot is restored, means that a new host has taken over. All commands from the earlier host are then
    /// cancelled and forgotten.
    pub async fn serve(
        self,
        mut reader: impl AsyncRead + Unpin,
        writer: impl AsyncWrite + Unpin + Send + 'static,
    ) -> Result<(), ServeError> {
        let (outbox, messages) = mpsc::channel(64);
        let connection = Connection::new(outbox);
        let children = Children::start(self.in_host.clone())?;
        let agent = Arc::new(AgentServer { agent: self, connection, children });
        let mut writer_task = JoinSet::new();
        writer_task.spawn(write_all(writer, messages));
        agent.read(&mut reader).await
    }
}

impl Default for Agent {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Agent").field("graphs", &self.graphs.keys()).finish_non_exhaustive()
    }
}

/// The error returned when an agent can no longer serve the host.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The host violated the protocol.
    #[error("the host violated the protocol: {0}")]
    Protocol(#[from] ProtocolError),
    /// The channel failed.
    #[error("the channel between host and guest failed: {0}")]
    Io(#[from] io::Error),
}

graph_core::readable_debug!(ServeError);

impl From<ReadError> for ServeError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Protocol(error) => Self::Protocol(error),
            ReadError::Io(error) => Self::Io(error),
        }
    }
}

/// Creates the single-threaded runtime of an agent. Starts no OS thread.
pub(crate) fn agent_runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

/// Serves on a channel until the host closes it. Blocks the calling OS thread.
pub(crate) fn serve_blocking<R, W>(
    agent: Agent,
    connect: impl FnOnce() -> io::Result<(R, W)>,
) -> Result<(), ServeError>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin + Send + 'static,
{
    serve_on(agent_runtime()?, agent, connect)
}

/// Like [`serve_blocking`], but uses a runtime that already exists.
pub(crate) fn serve_on<R, W>(
    runtime: Runtime,
    agent: Agent,
    connect: impl FnOnce() -> io::Result<(R, W)>,
) -> Result<(), ServeError>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let outcome = runtime.block_on(async {
        let (reader, writer) = connect()?;
        agent.serve(reader, writer).await
    });
    // Do not wait for the OS thread that may be blocked reading standard input.
    runtime.shutdown_background();
    outcome
}

/// An agent that is serving a host.
struct AgentServer {
    agent: Agent,
    connection: Connection,
    children: Children,
}

impl AgentServer {
    async fn read(
        self: &Arc<Self>,
        reader: &mut (impl AsyncRead + Unpin),
    ) -> Result<(), ServeError> {
        let mut assembler = Assembler::default();
        let mut tasks = JoinSet::new();
        let mut running: BTreeMap<u64, AbortHandle> = BTreeMap::new();
        while let Some(frame) = Frame::read(reader).await? {
            let Some(Frame { kind, id, payload, .. }) = assembler.push(frame)? else { continue };
            match kind {
                Kind::Hello => {
                    tasks.shutdown().await;
                    self.connection.close_all_runs();
                    self.send_hello(&decode("hello message", &payload)?).await?;
                }
                Kind::Request => {
                    let command = decode("command", &payload)?;
                    running.retain(|_, it| !it.is_finished());
                    // Open the run here and not in the task, because a drain request may be executed before the task
                    // starts.
                    self.connection.open_run(id);
                    let server = self.clone();
                    let task = tasks.spawn(server.handle(id, command));
                    running.insert(id, task);
                }
                Kind::Cancel => {
                    if let Some(task) = running.remove(&id) {
                        task.abort();
                        self.connection.close_run(id);
                    }
                }
                Kind::Reply => self.connection.deliver_reply(id, Ok(payload)),
                Kind::Failure => {
                    self.connection.deliver_reply(id, Err(decode("failure", &payload)?))
                }
                Kind::Credit => self.connection.add_credit(id, decode("credit", &payload)?),
                _ => return Err(ProtocolError::UnknownKind(kind as u8).into()),
            }
            while tasks.try_join_next().is_some() {}
        }
        Ok(())
    }

    async fn send_hello(&self, hello: &HostHello) -> Result<(), ServeError> {
        let graphs = self.agent.graphs.keys().cloned().collect();
        let hello = GuestHello { version: protocol::VERSION, nonce: hello.nonce, graphs };
        self.connection.send(Kind::Hello, 0, &protocol::encode(&hello)?).await;
        Ok(())
    }

    /// Executes a command and sends the result. A panic in the command is sent as a failure.
    async fn handle(self: Arc<Self>, id: u64, command: GuestCommand) {
        // Dropping this future drops the set, which aborts the command.
        let mut work = JoinSet::new();
        let server = self.clone();
        work.spawn(async move { server.execute(id, command).await });
        let result = match work.join_next().await {
            Some(Ok(result)) => result,
            Some(Err(_)) | None => Err(Fault::new(FaultCode::Terminal, "the agent panicked")),
        };
        self.connection.close_run(id);
        match result {
            Ok(payload) => self.connection.send(Kind::Reply, id, &payload).await,
            Err(fault) => {
                let payload = protocol::encode(&fault).unwrap_or_default();
                self.connection.send(Kind::Failure, id, &payload).await;
            }
        }
    }

    async fn execute(&self, id: u64, command: GuestCommand) -> Result<Vec<u8>, Fault> {
        let workspace = &self.agent.workspace;
        match command {
            GuestCommand::Exec(exec) => {
                let (connection, children) = (&self.connection, &self.children);
                let meters = exec::Meters {
                    kernel: self.agent.kernel_meter.as_ref(),
                    oom_kills: self.agent.oom_kills.as_ref(),
                };
                encode_reply(&exec::run(exec, id, workspace, connection, children, meters).await?)
            }
            GuestCommand::Read { path, limit } => {
                encode_reply(&files::read(workspace, &path, limit)?)
            }
            GuestCommand::Write { path, bytes } => {
                encode_reply(&files::write(workspace, &path, &bytes)?)
            }
            GuestCommand::List { path } => encode_reply(&files::list(workspace, &path)?),
            GuestCommand::Remove { path } => encode_reply(&files::remove(workspace, &path)?),
            GuestCommand::Run(start) => {
                let runner = self.find_graph(&start.graph)?;
                let host = Host::new(self.connection.clone(), id, start.thread.clone(), workspace);
                encode_reply(&runner.run(*start, host).await?)
            }
            GuestCommand::RunSubgraph(subgraph) => {
                let SubgraphStart { graph, start } = *subgraph;
                let runner = self.find_graph(&graph)?;
                let thread = start.thread().unwrap_or_default().to_owned();
                let host = Host::new(self.connection.clone(), id, thread, workspace);
                encode_reply(&runner.run_subgraph(start, host).await?)
            }
            GuestCommand::Drain { run } => {
                self.connection.drain(run);
                encode_reply(&())
            }
            GuestCommand::Reseed { .. } if self.agent.in_host.is_some() => Err(Fault::new(
                FaultCode::Refused,
                "an agent in the host's process cannot set the host's clock and random state",
            )),
            GuestCommand::Reseed { seed, time } => encode_reply(&reseed::reseed(&seed, time)),
            GuestCommand::Ping => encode_reply(&()),
        }
    }

    fn find_graph(&self, name: &str) -> Result<Arc<dyn GraphRunner>, Fault> {
        if let Some(runner) = self.agent.graphs.get(name) {
            return Ok(runner.clone());
        }
        let known: Vec<_> = self.agent.graphs.keys().map(String::as_str).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        let message = format!("the guest has no graph `{name}`; available graphs: {known}");
        Err(Fault::new(FaultCode::NotFound, message))
    }
}

impl Drop for AgentServer {
    /// Closes all runs. Otherwise a task that outlives its run, such as the queue of its checkpoints, would wait for
    /// replies forever if the agent is a task in the host's process.
    fn drop(&mut self) {
        self.connection.close_all_runs();
    }
}

async fn write_all(mut writer: impl AsyncWrite + Unpin, mut messages: mpsc::Receiver<Vec<u8>>) {
    while let Some(bytes) = messages.recv().await {
        if writer.write_all(&bytes).await.is_err() || writer.flush().await.is_err() {
            return;
        }
    }
}
