//! Runs conformance cases on a cluster of one worker in this process. Runs and tasks go through PostgreSQL.

use std::{
    collections::BTreeMap,
    fmt,
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use graph_cluster::{
    Client, ClusterError, FailureKind, PostgresQueue, Restate, RunCommand, RunResult, RunStatus,
    RunStore, Scheduler, StartRun, Worker,
};
use graph_core::{Checkpointer, CompiledGraph, JsonState, StreamMode};
use graph_store::{OpenError, Postgres, PostgresSaver};
use serde_json::Value;
use test_support::{ports::free_port, restate::Server};
use tokio::{sync::oneshot, task::spawn_blocking};

use crate::{
    build::Mode,
    case::Case,
    error::code_of_node_text,
    executor::{CaseRun, ExecutedRun, ExecutorError, RunExecutor, RunInput},
    script::{self, Execution},
};

const MODES: [StreamMode; 4] =
    [StreamMode::Values, StreamMode::Updates, StreamMode::Custom, StreamMode::Tasks];

/// Lease of the worker, which must not lose runs on an overloaded machine.
const LEASE: Duration = Duration::from_secs(60);

/// A cluster that runs cases one after the other. Each run has a new worker.
#[derive(Debug)]
pub struct CaseCluster<S = PostgresQueue> {
    url: String,
    store: RunStore,
    scheduler: S,
    n_cases: AtomicU64,
    counts: Arc<RunCounts>,
    /// Keeps the Restate server running for as long as the cluster exists.
    _restate: Option<Arc<Server>>,
}

impl CaseCluster {
    /// Connects to an empty PostgreSQL database, in which each case creates a schema.
    pub async fn connect(url: &str) -> Result<Self, ClusterError> {
        Self::with_scheduler(url, PostgresQueue::new()).await
    }
}

impl CaseCluster<Restate> {
    /// Like [`connect`](CaseCluster::connect), with a Restate server, which must not have other workers.
    ///
    /// # Panics
    ///
    /// Panics if the database fails or the server cannot reach the worker.
    pub async fn connect_with_restate(url: &str, server: Server) -> Result<Self, ClusterError> {
        let server = Arc::new(server);
        // The workers of the runs listen on this address, one after the other.
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        let restate = Restate::new(server.ingress())?.listen(address);
        let cluster = Self::with_scheduler(url, restate).await?;
        // The server asks a worker for its services when the address is registered. This worker executes nothing.
        let _tables = Postgres::connect(url).await.expect("the database is running");
        let worker = Worker::new(cluster.store.clone()).lease(LEASE);
        let registering = server.clone();
        let registered = async move {
            let registered = spawn_blocking(move || registering.register(address)).await;
            registered.expect("the worker answers");
        };
        worker.serve(cluster.scheduler.clone(), registered).await?;
        Ok(Self { _restate: Some(server), ..cluster })
    }
}

impl<S: Scheduler + Clone + 'static> CaseCluster<S> {
    async fn with_scheduler(url: &str, scheduler: S) -> Result<Self, ClusterError> {
        Ok(Self {
            url: url.to_owned(),
            store: RunStore::connect(url).await?,
            scheduler,
            n_cases: AtomicU64::new(0),
            counts: Arc::default(),
            _restate: None,
        })
    }

    /// Runs a case with a new saver. Returns one answer per call.
    ///
    /// # Panics
    ///
    /// Panics if the database fails or the worker does not start.
    pub async fn run(&self, case: &Case) -> Result<Vec<Value>, OpenError> {
        let number = self.n_cases.fetch_add(1, Ordering::Relaxed);
        let schema = format!("case_{number}");
        let database = Postgres::settings().schema(&schema).connect(&self.url).await?;
        let saver: Arc<dyn Checkpointer> = Arc::new(PostgresSaver::new(&database));
        let executor = ClusterExecutor {
            store: self.store.clone(),
            client: Client::new(self.store.clone(), self.scheduler.clone()),
            scheduler: self.scheduler.clone(),
            schema,
            spreads_tasks: !case.runs_graphs_in_nodes(),
            latest: Mutex::default(),
            counts: self.counts.clone(),
        };
        let execution = Execution::Executor(Arc::new(executor));
        Ok(script::answers(case, &saver, Mode::Ordinary, &execution).await.values)
    }

    /// Returns the numbers of runs so far, by how they were executed.
    pub fn counts(&self) -> &RunCounts {
        &self.counts
    }
}

/// Number of runs, by how they were executed.
#[derive(Debug, Default)]
pub struct RunCounts {
    on_cluster: AtomicU64,
    /// Runs that the engine executed in this process, by the reason.
    local: Mutex<BTreeMap<&'static str, u64>>,
}

impl RunCounts {
    /// Returns the number of runs that the cluster executed.
    pub fn on_cluster(&self) -> u64 {
        self.on_cluster.load(Ordering::Relaxed)
    }

    /// Returns the number of runs that the engine executed in this process.
    pub fn local(&self) -> u64 {
        lock(&self.local).values().sum()
    }

    fn skip(&self, reason: &'static str) {
        *lock(&self.local).entry(reason).or_default() += 1;
    }
}

impl fmt::Display for RunCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} runs on the cluster", self.on_cluster())?;
        for (reason, count) in &*lock(&self.local) {
            write!(f, "\n{count} runs without the cluster: {reason}")?;
        }
        Ok(())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Executes the runs of one case.
#[derive(Debug)]
struct ClusterExecutor<S> {
    store: RunStore,
    client: Client,
    scheduler: S,
    /// Schema of the case's checkpointer.
    schema: String,
    /// Whether all tasks go through the database.
    spreads_tasks: bool,
    /// The latest run of each thread.
    latest: Mutex<BTreeMap<String, String>>,
    counts: Arc<RunCounts>,
}

#[async_trait]
impl<S: Scheduler + Clone + 'static> RunExecutor for ClusterExecutor<S> {
    async fn execute(&self, run: CaseRun) -> Option<ExecutedRun> {
        let executed = self.try_execute(run).await;
        match &executed {
            Ok(_) => drop(self.counts.on_cluster.fetch_add(1, Ordering::Relaxed)),
            Err(reason) => self.counts.skip(reason),
        }
        executed.ok()
    }

    fn skip(&self, reason: &'static str) {
        self.counts.skip(reason);
    }
}

impl<S: Scheduler + Clone + 'static> ClusterExecutor<S> {
    /// Executes a run to its end. Returns the reason if the cluster cannot execute it.
    async fn try_execute(&self, run: CaseRun) -> Result<ExecutedRun, &'static str> {
        let CaseRun { graph, thread, checkpoint, input } = run;
        let resumed = match checkpoint {
            Some(_) => None,
            None => self.resumable(&graph, &thread, &input).await,
        };
        let (id, from) = match resumed {
            Some(id) => {
                let from = self.event_count(&id).await;
                self.resume(&id, input).await?;
                (id, from)
            }
            None => {
                let number = self.counts.on_cluster();
                let id = format!("{} {number}", self.schema);
                let mut request = StartRun::new(&id, "case", &thread).stream_modes(MODES);
                request.checkpoint = checkpoint;
                match input {
                    RunInput::Fields(fields) => request.input = fields,
                    input => request.command = Some(command(input)?),
                }
                self.client.start(&request).await.expect("the request is valid");
                lock(&self.latest).insert(thread, id.clone());
                (id, 0)
            }
        };
        let (stop, stopped) = oneshot::channel::<()>();
        let worker = Worker::new(self.store.clone())
            .id(&self.schema)
            .lease(LEASE)
            .graph("case", graph, || ())
            .checkpoint_schema(&self.schema);
        let worker = if self.spreads_tasks { worker.fan_out(1) } else { worker.no_fan_out() };
        let shutdown = async { drop(stopped.await) };
        let serving = tokio::spawn(worker.serve(self.scheduler.clone(), shutdown));
        let mut stored = self.client.events(&id, from);
        let mut events = Vec::new();
        while let Some(event) = stored.next().await.expect("the database is running") {
            // Events of subgraphs are not part of the answers.
            if event.namespace.is_empty() {
                events.push(event.into_event(Arc::from("")));
            }
        }
        let info = self.client.wait(&id).await.expect("the run exists");
        drop(stop);
        serving.await.expect("the worker does not panic").expect("the worker drains");
        assert_eq!(info.status == RunStatus::Failed, info.outcome.error.is_some());
        Ok(ExecutedRun { events, error: executor_error(&info.outcome) })
    }

    async fn event_count(&self, run: &str) -> i64 {
        let mut events = self.client.events(run, 0);
        let mut count = 0;
        while events.next().await.expect("the database is running").is_some() {
            count += 1;
        }
        count
    }

    /// Returns the latest run of a thread, if the input resumes it.
    async fn resumable(
        &self,
        graph: &CompiledGraph<JsonState>,
        thread: &str,
        input: &RunInput,
    ) -> Option<String> {
        let id = lock(&self.latest).get(thread).cloned()?;
        let state = graph.thread(thread, ()).state().await.ok().flatten()?;
        let info = self.client.run(&id).await.expect("the run exists");
        let is_resumed = match (input, info.status, info.outcome.interrupts.len()) {
            (RunInput::Answer(_), RunStatus::Interrupted, 1)
            | (RunInput::Continue, RunStatus::Stopped | RunStatus::Failed, _) => true,
            (RunInput::Answers(answers), RunStatus::Interrupted, _) => !answers.is_empty(),
            _ => false,
        };
        (is_resumed && state.run == id).then_some(id)
    }

    /// Queues the next leg of a run.
    async fn resume(&self, run: &str, input: RunInput) -> Result<(), &'static str> {
        let resumed = match input {
            RunInput::Answer(answer) => self.client.answer(run, answer).await,
            RunInput::Answers(answers) => self.client.resume(run, answers).await,
            RunInput::Continue | RunInput::Fields(_) | RunInput::Command { .. } => {
                self.client.resume(run, []).await
            }
        };
        resumed.map(drop).map_err(|_| "the run cannot be resumed")
    }
}

/// Returns the error of a failed run.
fn executor_error(result: &RunResult) -> Option<ExecutorError> {
    let text = result.error.as_deref()?;
    let code = match result.failure {
        Some(FailureKind::InvalidUpdate) => Some("invalid_update"),
        Some(FailureKind::StepLimit) if text.starts_with("the step limit is 0") => {
            Some("bad_limit")
        }
        Some(FailureKind::StepLimit) => Some("recursion_limit"),
        Some(FailureKind::EmptyInput) => Some("empty_input"),
        Some(FailureKind::AmbiguousResume) => Some("ambiguous_resume"),
        _ => None,
    };
    let node_code = || result.node_error.as_deref().and_then(code_of_node_text);
    Some(ExecutorError { code: code.map(str::to_owned).or_else(node_code) })
}

/// Returns the command of a new run that continues a thread.
fn command(input: RunInput) -> Result<RunCommand, &'static str> {
    match input {
        RunInput::Continue => Ok(RunCommand::new()),
        RunInput::Answer(answer) => Ok(RunCommand::new().resume(answer)),
        RunInput::Answers(answers) if !answers.is_empty() => {
            Ok(RunCommand { answers: answers.into_iter().collect(), ..RunCommand::new() })
        }
        RunInput::Answers(_) => Err("no interrupt is answered"),
        RunInput::Command { update, goto, resume } => {
            let command = RunCommand { update, resume, ..RunCommand::new() };
            Ok(goto.into_iter().fold(command, RunCommand::goto))
        }
        RunInput::Fields(_) => Err("the input is not a command"),
    }
}
