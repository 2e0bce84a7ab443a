//! The recorded conformance cases, with their runs executed by a cluster and their tasks spread over workers.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use async_trait::async_trait;
use graph_cluster::{Client, PostgresQueue, RunCommand, RunStatus, RunStore, StartRun, Worker};
use graph_core::{Checkpointer, CompiledGraph, JsonState, StreamMode};
use graph_store::{Postgres, PostgresSaver};
use graph_tests::{
    CaseRun, ExecutedRun, Execution, RunExecutor, RunInput, compare, crash::is_nightly, postgres,
    read, run_on,
};
use tokio::sync::oneshot;

use crate::cluster::LONG_LEASE;

const MODES: [StreamMode; 4] =
    [StreamMode::Values, StreamMode::Updates, StreamMode::Custom, StreamMode::Tasks];

/// Executes the runs of one case.
#[derive(Debug)]
struct ClusterExecutor {
    store: RunStore,
    client: Client,
    /// Schema of the case's checkpointer.
    schema: String,
    /// Whether all tasks go through the database.
    spreads_tasks: bool,
    /// The latest run of each thread.
    latest: Mutex<BTreeMap<String, String>>,
    counts: Arc<Counts>,
}

/// Number of runs, by how they were executed.
#[derive(Debug, Default)]
struct Counts {
    executed: AtomicU64,
    skipped: Mutex<BTreeMap<&'static str, u64>>,
}

impl Counts {
    fn skip(&self, reason: &'static str) {
        *lock(&self.skipped).entry(reason).or_default() += 1;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[async_trait]
impl RunExecutor for ClusterExecutor {
    async fn execute(&self, run: CaseRun) -> Option<ExecutedRun> {
        let executed = self.try_execute(run).await;
        match &executed {
            Ok(_) => drop(self.counts.executed.fetch_add(1, Ordering::Relaxed)),
            Err(reason) => self.counts.skip(reason),
        }
        executed.ok()
    }

    fn skip(&self, reason: &'static str) {
        self.counts.skip(reason);
    }
}

impl ClusterExecutor {
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
                let number = self.counts.executed.load(Ordering::Relaxed);
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
            .lease(LONG_LEASE)
            .graph("case", graph, || ())
            .checkpoint_schema(&self.schema);
        let worker = if self.spreads_tasks { worker.fan_out(1) } else { worker.no_fan_out() };
        let shutdown = async { drop(stopped.await) };
        let serving = tokio::spawn(worker.serve(PostgresQueue::new(), shutdown));
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
        Ok(ExecutedRun { events, error: info.outcome.error })
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

/// Runs the cases of a file. Without `GRAPH_NIGHTLY`, runs every `sample`-th case.
async fn check(file: &str, sample: usize) {
    let Some(url) = postgres::fresh_database() else { return };
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/conformance").join(file);
    let cases = read(&path).expect("the fixtures are part of the repository");
    let store = RunStore::connect(&url).await.expect("the database was just created");
    let counts = Arc::new(Counts::default());
    let mut differing = Vec::new();
    let step = if is_nightly() { 1 } else { sample };
    for (number, case) in cases.iter().enumerate().step_by(step) {
        let schema = format!("case_{number}");
        let database = Postgres::settings().schema(&schema).connect(&url).await;
        let saver = PostgresSaver::new(&database.expect("the database is running"));
        let saver: Arc<dyn Checkpointer> = Arc::new(saver);
        let executor = ClusterExecutor {
            store: store.clone(),
            client: Client::new(store.clone(), PostgresQueue::new()),
            schema,
            spreads_tasks: !case.runs_graphs_in_nodes(),
            latest: Mutex::default(),
            counts: counts.clone(),
        };
        let got = run_on(case, &saver, &Execution::Executor(Arc::new(executor))).await;
        if let Some(difference) = compare(case, &got) {
            differing.push(format!("{}: {difference}", case.id));
        }
    }
    println!("{file}: {counts:?}");
    assert!(differing.is_empty(), "{} differ:\n{}", differing.len(), differing.join("\n"));
    // Almost all runs of the cases have a thread.
    let n_executed = counts.executed.load(Ordering::Relaxed);
    assert!(n_executed > 5 * lock(&counts.skipped).values().sum::<u64>(), "{counts:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handwritten_cases_give_the_recorded_answers() {
    check("hand.jsonl", 6).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_cases_give_the_recorded_answers() {
    check("random.jsonl", 10).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn regression_cases_give_the_recorded_answers() {
    check("found.jsonl", 3).await;
}
