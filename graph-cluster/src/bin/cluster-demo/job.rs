//! The graph of the demonstration: rounds of parallel work with counted side effects, and a question at the end.

use std::{
    fs::OpenOptions,
    io::{self, Write},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use graph_core::{
    BuildError, Checkpointer, CompiledGraph, Context, Durability, END, NodeError, NodeExt, Route,
    RunOptions, START, State, StateGraph,
};
use serde::{Deserialize, Serialize};

/// The state of a job.
#[derive(State, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Job {
    /// Distinguishes the effects of several jobs.
    pub(crate) label: String,
    pub(crate) rounds: u32,
    /// Number of parallel tasks per round.
    pub(crate) width: u32,
    /// Duration of an effect.
    pub(crate) pause_ms: u64,
    /// Whether the job asks a question after its last round.
    pub(crate) ask: bool,
    /// Time that the job sleeps before it asks the question.
    pub(crate) sleep_ms: u64,
    pub(crate) round: u32,
    #[reduce(append)]
    pub(crate) log: Vec<String>,
    #[reduce(add)]
    pub(crate) total: u64,
}

/// A file with a line for the start of each effect, and a line for each recorded result. Each line ends with the
/// idempotency key of the task and the id of the worker.
#[derive(Clone, Debug, Default)]
pub(crate) struct EffectLog {
    pub(crate) path: Option<PathBuf>,
    pub(crate) worker: String,
}

impl EffectLog {
    /// Appends a line with a single write, so that a killed process leaves no partial line.
    fn append(&self, line: &str) -> io::Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        let mut file = OpenOptions::new().append(true).create(true).open(path)?;
        file.write_all(format!("{line} {}\n", self.worker).as_bytes())
    }
}

/// Builds the graph. With sync durability, the result of an effect is stored before its node continues.
pub(crate) fn graph(
    checkpointer: Arc<dyn Checkpointer>,
    pool: Option<&str>,
) -> Result<CompiledGraph<Job, EffectLog>, BuildError> {
    let graph = nodes(pool).shared_checkpointer(checkpointer).compile()?;
    Ok(graph.with(RunOptions::new().durability(Durability::Sync)))
}

/// Returns the nodes and edges. With a pool, the nodes with effects and questions are bound to it.
pub(crate) fn nodes(pool: Option<&str>) -> StateGraph<Job, EffectLog> {
    let graph = StateGraph::<Job, EffectLog>::new().node(plan).node(gather);
    let graph = match pool {
        Some(pool) => graph.node(work.pool(pool)).node(approve.pool(pool)),
        None => graph.node(work).node(approve),
    };
    graph
        .edge(START, plan)
        .branch(plan, parcels)
        .edge(work, gather)
        .branch(gather, next)
        .edge(approve, END)
}

async fn plan(job: &Job) -> JobUpdate {
    Job::update().round(job.round + 1)
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Parcel {
    key: String,
    pause_ms: u64,
}

#[derive(Route)]
enum Parcels {
    #[to(work)]
    Send(Vec<Parcel>),
}

fn parcels(job: &Job) -> Parcels {
    let key = |number| format!("{}.{}.{number}", job.label, job.round);
    let parcel = |number| Parcel { key: key(number), pause_ms: job.pause_ms };
    Parcels::Send((0..job.width).map(parcel).collect())
}

async fn work(parcel: Parcel, cx: &Context<EffectLog>) -> Result<JobUpdate, NodeError> {
    let Parcel { key, pause_ms } = parcel;
    let (log, task) = (cx.deps(), cx.idempotency_key());
    let value: u64 = cx
        .task("effect", &key, async {
            log.append(&format!("started {key} {task}"))?;
            tokio::time::sleep(Duration::from_millis(pause_ms)).await;
            Ok(key.bytes().map(u64::from).sum())
        })
        .await?;
    log.append(&format!("recorded {key} {task}"))?;
    Ok(Job::update().total(value).log([format!("{key}: {value}")]))
}

async fn gather(job: &Job) -> JobUpdate {
    Job::update().log([format!("round {} of {}: {}", job.round, job.label, job.total)])
}

#[derive(Route)]
enum Next {
    #[to(plan)]
    Again,
    #[to(approve)]
    Ask,
    #[to(END)]
    Over,
}

fn next(job: &Job) -> Next {
    match (job.round < job.rounds, job.ask) {
        (true, _) => Next::Again,
        (false, true) => Next::Ask,
        (false, false) => Next::Over,
    }
}

async fn approve(job: &Job, cx: &Context<EffectLog>) -> Result<JobUpdate, NodeError> {
    if job.sleep_ms > 0 {
        graph_cluster::sleep(cx, Duration::from_millis(job.sleep_ms)).await?;
    }
    let answer: String = cx.interrupt(format!("approve {} with {}?", job.label, job.total))?;
    Ok(Job::update().log([format!("answer: {answer}")]))
}
