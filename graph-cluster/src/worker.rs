//! A worker process.

use std::{fmt, sync::Arc, time::Duration};

use futures_util::FutureExt;
use graph_core::{CompiledGraph, State};
use tokio::{
    sync::oneshot,
    time::{interval, sleep},
};

use crate::{
    error::ClusterError,
    leg::LegRunner,
    registered_graph::{GraphRegistry, RegisteredGraph},
    run::check_name,
    scheduler::Scheduler,
    store::{RunStore, WorkerReport},
    task_worker,
    worker_options::{TraceParent, WorkerOptions},
};

/// Time between two reports that the worker is alive. It does not depend on the lease, because workers with other
/// leases read the reports: `RunStore::claim_tasks` counts workers that have reported within ten seconds, and the
/// status of the cluster those that have reported within a minute.
const REPORT_INTERVAL: Duration = Duration::from_secs(3);

/// A worker, which executes runs of registered graphs.
///
/// The checkpointer of each graph must be a `graph_store::PostgresSaver` in the database of the [`RunStore`]: a worker
/// that takes over a run ends the session in which its predecessor leases the thread. The graph's state and payloads
/// are serialisable, because the trait [`State`] requires it. A graph needs no other change.
///
/// ```
/// use graph_cluster::{PostgresQueue, RunStore, Worker};
/// use graph_core::{START, State, StateGraph};
/// use graph_store::PostgresSaver;
///
/// #[derive(State, Clone, Debug, Default)]
/// struct Essay {
///     topic: String,
///     text: String,
/// }
///
/// async fn write(essay: &Essay) -> EssayUpdate {
///     Essay::update().text(format!("On {}", essay.topic))
/// }
///
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let url = "postgresql://graphs:secret@db.example.org/graphs";
/// # let Some(fresh) = graph_tests::postgres::fresh_database() else { return Ok(()) };
/// # let url = &fresh;
/// let essays = StateGraph::<Essay>::new()
///     .node(write)
///     .edge(START, write)
///     .checkpointer(PostgresSaver::connect(url).await?)
///     .compile()?;
/// let worker = Worker::new(RunStore::connect(url).await?).graph("essay", essays, || ());
/// let shutdown = graph_cluster::termination();
/// # let shutdown = async {};
/// worker.serve(PostgresQueue::new(), shutdown).await?;
/// # Ok(()) }
/// ```
#[must_use = "a worker does nothing until `serve` is called"]
pub struct Worker {
    store: RunStore,
    id: String,
    graphs: Vec<RegisteredGraph>,
    drain_timeout: Duration,
    options: WorkerOptions,
}

impl Worker {
    /// Default of [`drain_timeout`](Self::drain_timeout). The orchestrator's termination grace period must be longer.
    pub const DEFAULT_DRAIN_TIMEOUT: Duration = Duration::from_secs(30);

    /// Creates a worker without graphs. Its id consists of the host name and the process id.
    pub fn new(store: RunStore) -> Self {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let host = if host.trim().is_empty() { "worker" } else { host.trim() };
        Self {
            store,
            id: format!("{host}-{}", std::process::id()),
            graphs: Vec::new(),
            drain_timeout: Self::DEFAULT_DRAIN_TIMEOUT,
            options: WorkerOptions::default(),
        }
    }

    /// Sets the id of the worker, which must be unique in the cluster.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = id.into();
        self
    }

    /// Registers a graph without a version. `deps` creates the dependencies of its nodes for each leg of a run and for
    /// each spread task, so connections and caches should be shared by cloning handles.
    pub fn graph<S: State, C: Send + Sync + 'static>(
        self,
        name: impl Into<String>,
        graph: CompiledGraph<S, C>,
        deps: impl Fn() -> C + Send + Sync + 'static,
    ) -> Self {
        self.register(RegisteredGraph::new(name, graph, deps))
    }

    /// Registers a graph with a version, or with dependencies that depend on the run. If several versions of a graph
    /// are registered, new runs start on the first of them.
    pub fn register(mut self, graph: RegisteredGraph) -> Self {
        self.graphs.push(graph);
        self
    }

    /// Sets a function that receives a span and the caller's trace context (see
    /// [`StartRun::trace_parent`](crate::StartRun::trace_parent())), and makes the context the parent of the span. The
    /// worker opens one span for each leg and for each spread task, so that the spans of all workers belong to one
    /// trace.
    pub fn trace_parent(
        mut self,
        set_parent: impl Fn(&tracing::Span, &str) + Send + Sync + 'static,
    ) -> Self {
        self.options.trace_parent = Some(TraceParent(Arc::new(set_parent)));
        self
    }

    /// Sets the time after which another worker claims a run if this worker does not report. The default is 10 seconds.
    /// With `Restate`, it takes three times as long, and all workers need the same lease.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.options.lease = lease.max(Duration::from_millis(100));
        self
    }

    /// Adds the worker to a pool. It then also executes tasks of nodes that are
    /// [bound](graph_core::NodeExt::pool) to the pool. A task waits if no worker serves its pool. A node that calls
    /// [`Context::run_graph`](graph_core::Context::run_graph) is executed by the worker of the run, even if that worker
    /// does not serve the pool.
    pub fn pool(mut self, pool: impl Into<String>) -> Self {
        self.options.fan_out.pools.insert(pool.into());
        self
    }

    /// Sets the minimum number of tasks in a step that this worker spreads over all workers. The default is 32. Smaller
    /// steps run on the worker that executes the run, except for nodes that are bound to a pool.
    ///
    /// The input of each spread task is stored in the database. For a node that reads the state, this is the whole
    /// state. [`Context::drain_requested`](graph_core::Context::drain_requested) is always `false` in a spread task.
    pub fn fan_out(mut self, min_tasks: usize) -> Self {
        self.options.fan_out.min_tasks = Some(min_tasks);
        self
    }

    /// Runs all tasks on the worker that executes the run, except for nodes that are bound to a pool.
    pub fn no_fan_out(mut self) -> Self {
        self.options.fan_out.min_tasks = None;
        self
    }

    /// Sets the maximum number of spread tasks that this worker executes concurrently. The default is 32.
    pub fn task_capacity(mut self, tasks: usize) -> Self {
        self.options.task_capacity = tasks.max(1);
        self
    }

    /// Sets the time that runs have to reach the end of their current step when the worker shuts down. The default is
    /// 30 seconds. Runs that take longer are dropped, and repeat their current step on another worker.
    pub fn drain_timeout(mut self, timeout: Duration) -> Self {
        self.drain_timeout = timeout;
        self
    }

    /// Sets the schema of the checkpointer's tables, if it is not `graph_store`.
    pub fn checkpoint_schema(mut self, schema: impl Into<String>) -> Self {
        self.options.checkpoint_schema = schema.into();
        self
    }

    /// Executes runs until `shutdown` completes, and then drains: running legs stop at the end of their current step
    /// and continue on other workers.
    pub async fn serve(
        self,
        scheduler: impl Scheduler,
        shutdown: impl Future<Output = ()> + Send,
    ) -> Result<(), ClusterError> {
        check_name("worker id", &self.id)?;
        let graphs = GraphRegistry::new(self.graphs)?;
        self.store.check_checkpoint_schema(&self.options.checkpoint_schema).await?;
        let (store, id) = (self.store.clone(), self.id.clone());
        let runner = Arc::new(LegRunner::new(store, id, graphs, self.options));
        report(&runner, false).await?;
        let stop = async {
            shutdown.await;
            runner.drain();
            sleep(self.drain_timeout).await;
            runner.abort();
            std::future::pending::<()>().await;
        };
        let work = async {
            let (ended, legs_ended) = oneshot::channel();
            let legs = async {
                let served = scheduler.work(runner.clone()).await;
                drop(ended);
                served
            };
            let tasks = task_worker::work(runner.clone(), legs_ended).map(Ok);
            tokio::try_join!(legs, tasks).map(drop)
        };
        let (finished, has_finished) = oneshot::channel::<()>();
        let serve = async {
            let served = tokio::select! {
                served = work => served,
                () = stop => Ok(()),
            };
            drop(finished);
            served
        };
        let (served, ()) = tokio::join!(serve, keep_reporting(&runner, has_finished));
        self.store.remove_worker(&self.id).await?;
        served
    }
}

/// Reports that the worker is alive, for the status of the cluster.
async fn report(runner: &LegRunner, draining: bool) -> Result<(), ClusterError> {
    let pools: Vec<String> = runner.options.fan_out.pools.iter().cloned().collect();
    let served = runner.graphs.served().names();
    let report = WorkerReport {
        id: &runner.worker,
        graphs: &runner.graphs(),
        served: &served,
        pools: &pools,
    };
    runner.store.report_worker(&report, draining).await
}

/// Reports at intervals, and when the worker starts to drain, until the worker has finished. A report is never
/// cancelled while it is in flight, because the database might execute it after later statements, such as the removal
/// of the worker.
async fn keep_reporting(runner: &LegRunner, mut has_finished: oneshot::Receiver<()>) {
    let mut beats = interval(REPORT_INTERVAL);
    let mut is_draining = false;
    loop {
        tokio::select! {
            _ = &mut has_finished => return,
            () = runner.draining(), if !is_draining => is_draining = true,
            _ = beats.tick() => {}
        }
        if let Err(error) = report(runner, is_draining).await {
            tracing::warn!(%error, "cannot report that the worker is alive");
        }
    }
}

/// Installs handlers for SIGTERM and SIGINT, and returns a future that completes once the process receives one of them.
/// [`Worker`] shows how a worker uses it. Call it within a Tokio runtime, before anything that a signal may interrupt.
pub fn termination() -> impl Future<Output = ()> + Send + 'static {
    use tokio::signal::unix::{SignalKind, signal};
    let signals = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()));
    async move {
        let (Ok(mut terminate), Ok(mut interrupt)) = signals else {
            tracing::error!("cannot install signal handlers; the process will not stop gracefully");
            return std::future::pending().await;
        };
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker")
            .field("id", &self.id)
            .field("graphs", &self.graphs)
            .finish_non_exhaustive()
    }
}
