//! The host's side of running a graph in a sandbox.

pub(crate) mod access;
pub(crate) mod events;
pub(crate) mod host_calls;
pub(crate) mod quota;
mod replace;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use graph_core::{
    Checkpointer, Durability, Event, MemorySaver, RunOutcome, StreamMode, checkpoint::CheckpointId,
};
use serde::Serialize;
use serde_json::{Map, Value};
use tokio::{sync::mpsc, task::JoinSet};

use self::{access::Access, events::EventReader, host_calls::HostCallHandler, quota::Quota};
use crate::{
    CallPolicy, Error, Sandbox,
    protocol::{
        EVENT_WINDOW, ProtocolError,
        message::{GraphEvent, GraphInput, GraphOutcome, GraphStart, GuestCommand},
    },
    sandbox::BusyGuard,
    session::{CloseReason, Exchange, Incoming, ReceiveWindow, RequestError},
};

/// Options for running a graph with [`Sandbox::run_graph`].
///
/// ```
/// use graph_core::{START, State, StateGraph};
/// use sandbox_vm::{GraphRun, Isolation, Sandboxes, Spec, backend::InProcess, guest::Agent};
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
/// /// Creates the program inside the guest.
/// fn agent() -> Agent {
///     Agent::new().graph("debate", |host| {
///         let graph = StateGraph::<Debate>::new()
///             .node(judge)
///             .edge(START, judge)
///             .shared_checkpointer(host.checkpointer())
///             .compile()?;
///         Ok((graph, ()))
///     })
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// // Not isolated, so that the example runs everywhere. For untrusted programs, use `Jail` or a stronger back end.
/// let sandboxes = Sandboxes::builder()
///     .backend(InProcess::new(agent))
///     .isolation(Isolation::Off)
/// #   .state_dir(dir.path())
///     .open()
///     .await?;
/// let sandbox = sandboxes.create_if_not_exists(Spec::new("debate")).await?;
/// let input = json!({"topic": "tea"}).as_object().cloned().unwrap_or_default();
/// let outcome = sandbox.run_graph(GraphRun::new("debate").input(input)).await?.finish().await?;
/// assert_eq!(outcome.state()["verdict"], "tea wins");
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct GraphRun {
    start: GraphStart,
    saver: Arc<dyn Checkpointer>,
    policy: CallPolicy,
    timeout: Option<Duration>,
    storage_quota: u64,
}

impl GraphRun {
    /// Creates a run of the guest's graph with this name. By default, the run uses a new in-memory thread, and no
    /// external calls are allowed.
    pub fn new(graph: impl Into<String>) -> Self {
        let run = format!("{}", CheckpointId::next());
        let start = GraphStart {
            graph: graph.into(),
            input: GraphInput::Nothing,
            thread: format!("sandbox-{run}"),
            run,
            at: None,
            modes: vec![StreamMode::Updates],
            subgraphs: false,
            steps: None,
            concurrency: None,
            durability: Durability::Async,
            config: Map::new(),
            metadata: Map::new(),
        };
        let (saver, policy) = (Arc::new(MemorySaver::new()), CallPolicy::deny_all());
        Self { start, saver, policy, timeout: None, storage_quota: quota::DEFAULT_BYTES }
    }

    /// Starts with new input. `fields` contains the state fields to set, as a JSON object.
    pub fn input(mut self, fields: Map<String, Value>) -> Self {
        self.start.input = GraphInput::Fields(fields);
        self
    }

    /// Resumes the thread with a value for its only pending interrupt.
    pub fn resume(mut self, value: Value) -> Self {
        self.start.input = GraphInput::Resume(value);
        self
    }

    /// Resumes the thread with values for its pending interrupts, keyed by interrupt id.
    pub fn resume_by_id(mut self, values: BTreeMap<String, Value>) -> Self {
        self.start.input = GraphInput::ResumeById(values);
        self
    }

    /// Continues from the thread's current state without new input, for example after a guest has died.
    pub fn proceed(mut self) -> Self {
        self.start.input = GraphInput::Nothing;
        self
    }

    /// Stores the graph's state in thread `thread` of `saver`. The guest cannot access any other thread.
    pub fn thread(mut self, thread: impl Into<String>, saver: Arc<dyn Checkpointer>) -> Self {
        self.start.thread = thread.into();
        self.saver = saver;
        self
    }

    /// Starts from this checkpoint of the thread instead of the newest one.
    pub fn at(mut self, checkpoint: CheckpointId) -> Self {
        self.start.at = Some(checkpoint);
        self
    }

    /// Sets the policy for the graph's external calls.
    pub fn call_policy(mut self, policy: CallPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// Selects the kinds of events to receive. By default, only updates are received.
    pub fn stream_modes(mut self, modes: impl IntoIterator<Item = StreamMode>) -> Self {
        self.start.modes = modes.into_iter().collect();
        self
    }

    /// Includes events from subgraphs.
    pub fn subgraphs(mut self) -> Self {
        self.start.subgraphs = true;
        self
    }

    /// Limits the number of steps of the run.
    pub fn step_limit(mut self, steps: u32) -> Self {
        self.start.steps = Some(steps);
        self
    }

    /// Limits the number of tasks of a step that run concurrently.
    pub fn max_concurrency(mut self, tasks: usize) -> Self {
        self.start.concurrency = Some(tasks);
        self
    }

    /// Sets when checkpoints are stored.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.start.durability = durability;
        self
    }

    /// Sets a value that nodes read with `Context::config`.
    pub fn config(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.start.config.insert(key.into(), value.into());
        self
    }

    /// Sets metadata that is stored with every checkpoint.
    pub fn metadata(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.start.metadata.insert(key.into(), value.into());
        self
    }

    /// Limits the duration of the run. If the run takes longer, the sandbox is removed.
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = Some(limit);
        self
    }

    /// Limits the number of bytes that each guest may store in the thread during this run, counting checkpoints and
    /// answers to calls; the default is 256 MiB. Each record costs 256 bytes in addition to its size.
    pub fn storage_quota(mut self, bytes: u64) -> Self {
        self.storage_quota = bytes;
        self
    }
}

impl Sandbox {
    /// Starts a graph in the guest and returns a handle that receives the graph's events.
    ///
    /// The host stores the graph's checkpoints with the run's checkpointer, and makes the graph's external calls if the
    /// run's [`CallPolicy`] allows them. If the guest dies, run the graph in a new sandbox with [`GraphRun::proceed`],
    /// the same thread and the same policy. The new guest then resumes from the last checkpoint.
    ///
    /// ```
    /// use sandbox_vm::GraphRun;
    /// use serde_json::{Map, json};
    ///
    /// # use graph_core::{START, State, StateGraph};
    /// # use sandbox_vm::{Isolation, backend::InProcess, guest::{Agent, Host}};
    /// # #[derive(State, Clone, Debug, Default)]
    /// # struct Debate { topic: String, verdict: String }
    /// # async fn judge(debate: &Debate) -> DebateUpdate { Debate::update().verdict(format!("{} wins", debate.topic)) }
    /// # fn agent() -> Agent {
    /// #     Agent::new().graph("debate", |host: &Host| {
    /// #         let graph = StateGraph::<Debate>::new().node(judge).edge(START, judge);
    /// #         Ok((graph.shared_checkpointer(host.checkpointer()).compile()?, ()))
    /// #     })
    /// # }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let sandboxes = sandbox_vm::Sandboxes::builder().backend(InProcess::new(agent)).isolation(Isolation::Off);
    /// # let sandboxes = sandboxes.state_dir(dir.path()).open().await?;
    /// # let sandbox = sandboxes.create_if_not_exists(sandbox_vm::Spec::new("test")).await?;
    /// let input = Map::from_iter([("topic".to_owned(), json!("tea"))]);
    /// let mut running = sandbox.run_graph(GraphRun::new("debate").input(input)).await?;
    /// while let Some(event) = running.next().await {
    ///     println!("{:?}", event.kind);
    /// }
    /// let exit = running.finish().await?;
    /// assert_eq!(exit.state()["verdict"], "tea wins");
    /// # Ok(()) }
    /// ```
    pub async fn run_graph(&self, run: GraphRun) -> Result<RunningGraph, Error> {
        self.ensure_running()?;
        let busy = self.mark_busy().await;
        let GraphRun { start, saver, policy, timeout, storage_quota } = run;
        let (run, thread) = (Arc::from(start.run.as_str()), start.thread.clone());
        let window = ReceiveWindow::for_graph(EVENT_WINDOW as u64);
        let exchange = match self.session().start(&GuestCommand::Run(Box::new(start)), window).await
        {
            Ok(exchange) => exchange,
            Err(error) => return Err(self.handle_failure(error).await),
        };
        let (session, quota) = (self.session().clone(), Quota::new(storage_quota));
        let (access, saver) = (Access::Thread(thread.clone()), Some(saver));
        let handler = Arc::new(HostCallHandler::new(session, access, saver, policy.clone(), quota));
        let credit = exchange.credit();
        let (sender, events) = mpsc::unbounded_channel();
        let mut driver = JoinSet::new();
        let sandbox = self.clone();
        driver.spawn(async move {
            let driven = drive(exchange, handler, sender.clone());
            let outcome = match timeout {
                Some(limit) => match tokio::time::timeout(limit, driven).await {
                    Ok(outcome) => outcome,
                    Err(_) => Err(RequestError::Timeout(limit)),
                },
                None => driven.await,
            };
            let read = |it: Vec<u8>| Ok(sandbox.session().decode_reply::<GraphOutcome>(&it)?);
            let outcome = match outcome.and_then(read) {
                Ok(outcome) => Ok(outcome),
                // The failure is handled here and not in `finish`, because callers need not call `finish`.
                Err(error) => Err(sandbox.handle_failure(error).await),
            };
            if matches!(outcome, Ok(GraphOutcome::Done(_))) {
                // A completed run repeats no tasks, so its answers are no longer needed. A failed or interrupted run
                // may be resumed.
                policy.forget_thread(&thread);
            }
            // Drop the sender last. A reader that sees the end of the events may drop the run, which aborts this task.
            drop(sender);
            outcome
        });
        Ok(RunningGraph {
            sandbox: self.clone(),
            events: EventReader::new(events, credit, run),
            driver,
            _busy: busy,
        })
    }
}

/// A graph that is running in a sandbox. Dropping this value cancels the run.
#[must_use]
pub struct RunningGraph {
    sandbox: Sandbox,
    events: EventReader,
    driver: JoinSet<Result<GraphOutcome, Error>>,
    _busy: BusyGuard,
}

impl RunningGraph {
    /// Returns whether the run is isolated from the host. If it is not, callers must mark its results as not isolated.
    pub fn isolated(&self) -> bool {
        self.sandbox.isolated()
    }

    /// Returns the next event, or `None` when the run has ended. A slow reader slows the run down.
    pub async fn next(&mut self) -> Option<Event> {
        self.events.next().await
    }

    /// Reads the remaining events and returns the outcome of the run, with the state as a JSON object.
    pub async fn finish(mut self) -> Result<RunOutcome<Value>, Error> {
        while self.next().await.is_some() {}
        let outcome = match self.driver.join_next().await {
            Some(Ok(outcome)) => outcome?,
            Some(Err(_)) | None => {
                return Err(self
                    .sandbox
                    .handle_failure(RequestError::Closed(CloseReason::ChannelClosed))
                    .await);
            }
        };
        match outcome {
            GraphOutcome::Done(state) => Ok(RunOutcome::Done(state)),
            GraphOutcome::Interrupted(state, interrupts) => {
                Ok(RunOutcome::Interrupted { state, interrupts })
            }
            GraphOutcome::Stopped(state, reason) => Ok(RunOutcome::Stopped { state, reason }),
            GraphOutcome::Failed { error, terminal } => Err(Error::Graph { error, terminal }),
        }
    }
}

impl fmt::Debug for RunningGraph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunningGraph").field("events", &self.events).finish_non_exhaustive()
    }
}

/// Forwards the events of a run and handles its host calls until the run ends.
pub(crate) async fn drive(
    mut exchange: Exchange,
    handler: Arc<HostCallHandler>,
    events: mpsc::UnboundedSender<Box<GraphEvent>>,
) -> Result<Vec<u8>, RequestError> {
    let mut calls = JoinSet::new();
    let outcome = loop {
        let incoming = tokio::select! {
            incoming = exchange.next() => incoming,
            Some(_) = calls.join_next() => {
                exchange.release_host_call();
                continue;
            }
        };
        match incoming {
            // A send error means that the reader was dropped, so the event is not needed.
            Ok(Incoming::Event(event)) => drop(events.send(event)),
            Ok(Incoming::HostCall(id, request)) => {
                let handler = handler.clone();
                calls.spawn(async move { handler.handle(id, request.call).await });
            }
            Ok(Incoming::Reply(payload)) => break Ok(payload),
            Ok(Incoming::Failure(fault)) => break Err(RequestError::Fault(fault)),
            Ok(Incoming::Output(..)) => {
                break Err(
                    ProtocolError::UnexpectedMessage("program output for a graph run").into()
                );
            }
            Err(closed) => break Err(RequestError::Closed(closed)),
        }
    };
    // Wait for the handlers to stop. The last one to stop releases the thread's lease, which the next run needs.
    calls.shutdown().await;
    outcome
}

/// Converts a serialisable value to the input fields of a graph.
///
/// ```
/// #[derive(serde::Serialize)]
/// struct Debate {
///     topic: String,
/// }
///
/// let fields = sandbox_vm::input_fields(&Debate { topic: "tea".into() })?;
/// assert_eq!(fields["topic"], "tea");
/// # Ok::<_, serde_json::Error>(())
/// ```
pub fn input_fields(value: &impl Serialize) -> Result<Map<String, Value>, serde_json::Error> {
    match serde_json::to_value(value)? {
        Value::Object(fields) => Ok(fields),
        other => serde_json::from_value(other),
    }
}
