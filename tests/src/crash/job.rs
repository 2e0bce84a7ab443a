//! The job that the crash tests interrupt. It consists of rounds with a fan-out, a subgraph, a join, interrupts and
//! side effects.

use std::{
    collections::BTreeMap,
    fs::OpenOptions,
    io::{self, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

use graph_core::{
    BuildError, Checkpointer, CompiledGraph, Context, Durability, END, Interrupt, NodeError, Route,
    RunError, RunOptions, RunOutcome, START, State, StateGraph, subgraph,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

const ROUNDS: u32 = 3;
const PARCELS: u32 = 3;
/// Maximum number of effects in flight: one per parcel and one for the audit.
pub const MAX_CONCURRENT_EFFECTS: usize = PARCELS as usize + 1;
/// Name of all effects. Effects differ only in their keys.
const EFFECT: &str = "effect";

#[derive(State, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Job {
    pub round: u32,
    /// Completed work, in order.
    #[reduce(append)]
    pub log: Vec<String>,
    /// Sum of the results of the effects.
    #[reduce(add)]
    pub total: u64,
    /// Results of the reviews, keyed by round.
    #[reduce(merge)]
    pub reviews: BTreeMap<String, String>,
}

/// The state of the subgraph, which has its own checkpoints.
#[derive(State, Clone, Debug, Default)]
struct Review {
    round: u32,
    #[reduce(append)]
    notes: Vec<String>,
}

/// A file with one line for each execution of a side effect.
#[derive(Clone, Debug)]
pub struct EffectLog {
    path: PathBuf,
}

impl EffectLog {
    /// Creates a log that writes to this file.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    fn append(&self, key: &str) -> io::Result<()> {
        append_line(&self.path, key)
    }
}

/// Appends a line with a single write, so that after a kill the file contains either the whole line or nothing of
/// it.
pub(super) fn append_line(path: &Path, line: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().append(true).create(true).open(path)?;
    file.write_all(format!("{line}\n").as_bytes())
}

/// Returns the key of an effect in the effect log, given the key of the effect in the journal.
pub fn effect_key(journaled: &str) -> Option<String> {
    let key = journaled.strip_prefix(EFFECT)?.strip_prefix(':')?;
    serde_json::from_str(key).ok()
}

/// Runs the thread to its end, starting at its last checkpoint.
pub async fn finish(
    saver: Arc<dyn Checkpointer>,
    thread: &str,
    durability: Durability,
    effect_log: EffectLog,
) -> Result<Job, RunError> {
    let graph = graph(saver).expect("the job's graph is valid");
    let thread =
        graph.thread(thread, effect_log).with_options(RunOptions::new().durability(durability));
    let mut outcome = thread.start_or_continue(Job::default()).await?;
    loop {
        outcome = match outcome {
            RunOutcome::Done(job) => return Ok(job),
            RunOutcome::Interrupted { interrupts, .. } => {
                thread.resume(answer(&interrupts[0])).await?
            }
            _ => thread.proceed().await?,
        };
    }
}

fn answer(question: &Interrupt) -> Value {
    json!(format!("yes to {}", question.value))
}

fn graph(saver: Arc<dyn Checkpointer>) -> Result<CompiledGraph<Job, EffectLog>, BuildError> {
    let reviewing = StateGraph::<Review, EffectLog>::new()
        .node(read)
        .node(judge)
        .edge(START, read)
        .edge(read, judge)
        .edge(judge, END)
        .compile()?;
    let review = subgraph(
        "review",
        &reviewing,
        |job: &Job| Review { round: job.round, ..Review::default() },
        |review: Review| {
            Job::update().reviews([(format!("round {}", review.round), review.notes.join(", "))])
        },
    );
    StateGraph::<Job, EffectLog>::new()
        .node(plan)
        .node(work)
        .node(audit)
        .node(review)
        .node(gather)
        .node(approve)
        .edge(START, plan)
        .branch(plan, parcels)
        .edge(plan, audit)
        .edge(audit, "review")
        // `work` finishes one step before `review`, so a crash between them leaves the join partially complete.
        .join(["work", "review"], gather)
        .branch(gather, next)
        .edge(approve, plan)
        .shared_checkpointer(saver)
        .compile()
}

async fn plan(job: &Job) -> JobUpdate {
    let round = job.round + 1;
    Job::update().round(round).log([format!("round {round}")])
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Parcel {
    round: u32,
    number: u32,
}

#[derive(Route)]
enum Parcels {
    #[to(work)]
    Send(Vec<Parcel>),
}

fn parcels(job: &Job) -> Parcels {
    Parcels::Send((0..PARCELS).map(|number| Parcel { round: job.round, number }).collect())
}

async fn work(parcel: Parcel, cx: &Context<EffectLog>) -> Result<JobUpdate, NodeError> {
    let Parcel { round, number } = parcel;
    let fetched = effect(cx, format!("fetch {round}.{number}")).await?;
    let stored = effect(cx, format!("store {round}.{number}")).await?;
    Ok(Job::update()
        .total(fetched + stored)
        .log([format!("work {round}.{number}: {fetched}, {stored}")]))
}

async fn audit(job: &Job, cx: &Context<EffectLog>) -> Result<JobUpdate, NodeError> {
    let audited = effect(cx, format!("audit {}", job.round)).await?;
    Ok(Job::update().total(audited).log([format!("audit of {} lines", job.log.len())]))
}

async fn read(review: &Review, cx: &Context<EffectLog>) -> Result<ReviewUpdate, NodeError> {
    let read = effect(cx, format!("read {}", review.round)).await?;
    Ok(Review::update().notes([format!("read {read}")]))
}

/// Interrupts the run from within the subgraph, in the last round only.
async fn judge(review: &Review, cx: &Context<EffectLog>) -> Result<ReviewUpdate, NodeError> {
    let verdict = match review.round {
        ROUNDS => cx.interrupt("publish?")?,
        _ => "continue".to_owned(),
    };
    Ok(Review::update().notes([verdict]))
}

async fn gather(job: &Job) -> JobUpdate {
    Job::update().log([format!("gathered {} lines, {} in all", job.log.len(), job.total)])
}

#[derive(Route)]
enum Next {
    #[to(approve)]
    Ask,
    #[to(plan)]
    Again,
    #[to(END)]
    Over,
}

fn next(job: &Job) -> Next {
    match job.round {
        1 => Next::Ask,
        ROUNDS => Next::Over,
        _ => Next::Again,
    }
}

/// Interrupts the run between two effects. The first effect must not be repeated after the answer.
async fn approve(job: &Job, cx: &Context<EffectLog>) -> Result<JobUpdate, NodeError> {
    let offered = effect(cx, format!("offer {}", job.round)).await?;
    let answer: String = cx.interrupt(format!("continue after round {}?", job.round))?;
    let booked = effect(cx, format!("book {}", job.round)).await?;
    Ok(Job::update().total(offered + booked).log([answer]))
}

/// Runs a side effect whose result depends only on the key.
async fn effect(cx: &Context<EffectLog>, key: String) -> Result<u64, NodeError> {
    let effect_log = cx.deps();
    cx.task(EFFECT, &key, async {
        effect_log.append(&key)?;
        // Lets other tasks run between the log entry and the result of this effect.
        tokio::task::yield_now().await;
        Ok(key.bytes().map(u64::from).sum())
    })
    .await
}
