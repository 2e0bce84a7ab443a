//! The job that is crashed: rounds of fan-out, a graph inside, a join, questions, and outside calls on the way.

use std::{
    collections::BTreeMap,
    fs::OpenOptions,
    io::{self, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

use graph_core::{
    BuildError, Checkpointer, CompiledGraph, Context, Durability, END, Exit, Interrupt, NodeError,
    Route, RunError, RunOptions, START, State, StateGraph, subgraph,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// How many rounds the job takes.
const ROUNDS: u32 = 3;
/// How many parcels each of them sends.
const PARCELS: u32 = 3;
/// How many effects can be under way at once: one for each parcel, and the audit's.
pub const WIDTH: usize = PARCELS as usize + 1;
/// What all effects are called; what tells them apart is their key.
const EFFECT: &str = "effect";

/// What the job has come to.
#[derive(State, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// The round it is in.
    pub round: u32,
    /// What was done, in the order in which it counts.
    #[reduce(append)]
    pub log: Vec<String>,
    /// The sum of what the effects brought.
    #[reduce(add)]
    pub total: u64,
    /// What the reviews said, by round.
    #[reduce(merge)]
    pub reviews: BTreeMap<String, String>,
}

/// The graph inside: its own state, its own checkpoints.
#[derive(State, Clone, Debug, Default)]
struct Review {
    round: u32,
    #[reduce(append)]
    notes: Vec<String>,
}

/// The world outside: a file with a line for each time that an effect took place.
#[derive(Clone, Debug)]
pub struct World {
    path: PathBuf,
}

impl World {
    /// A world that is kept in this file.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    fn change(&self, key: &str) -> io::Result<()> {
        append(&self.path, key)
    }
}

/// Appends a line in one write, so that a kill leaves it out or in.
pub(super) fn append(path: &Path, line: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().append(true).create(true).open(path)?;
    file.write_all(format!("{line}\n").as_bytes())
}

/// The key of an effect as the world sees it, from the key it is journaled under.
#[must_use]
pub fn effect_key(journaled: &str) -> Option<String> {
    let key = journaled.strip_prefix(EFFECT)?.strip_prefix(':')?;
    serde_json::from_str(key).ok()
}

/// Brings the thread to its end from wherever it stands.
pub async fn finish(
    saver: Arc<dyn Checkpointer>,
    thread: &str,
    durability: Durability,
    world: World,
) -> Result<Job, RunError> {
    let graph = graph(saver).expect("the job's graph is sound");
    let thread = graph.thread(thread, world).with(RunOptions::new().durability(durability));
    loop {
        let exit = match thread.state().await? {
            None => thread.run(Job::default()).await?,
            // Not `next`: tasks that are done but not committed are left out there.
            Some(state) if state.tasks.is_empty() => return Ok(state.values),
            Some(state) => match state.interrupts().next() {
                Some(question) => thread.resume(answer(question)).await?,
                None => thread.proceed().await?,
            },
        };
        if let Exit::Done(job) = exit {
            return Ok(job);
        }
    }
}

fn answer(question: &Interrupt) -> Value {
    json!(format!("yes to {}", question.value))
}

fn graph(saver: Arc<dyn Checkpointer>) -> Result<CompiledGraph<Job, World>, BuildError> {
    let reviewing = StateGraph::<Review, World>::new()
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
    StateGraph::<Job, World>::new()
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
        // The work is done a step before the review, so a crash between them finds the join half full.
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

async fn work(parcel: Parcel, cx: &Context<World>) -> Result<JobUpdate, NodeError> {
    let Parcel { round, number } = parcel;
    let fetched = effect(cx, format!("fetch {round}.{number}")).await?;
    let stored = effect(cx, format!("store {round}.{number}")).await?;
    Ok(Job::update()
        .total(fetched + stored)
        .log([format!("work {round}.{number}: {fetched}, {stored}")]))
}

async fn audit(job: &Job, cx: &Context<World>) -> Result<JobUpdate, NodeError> {
    let audited = effect(cx, format!("audit {}", job.round)).await?;
    Ok(Job::update().total(audited).log([format!("audit of {} lines", job.log.len())]))
}

async fn read(review: &Review, cx: &Context<World>) -> Result<ReviewUpdate, NodeError> {
    let read = effect(cx, format!("read {}", review.round)).await?;
    Ok(Review::update().notes([format!("read {read}")]))
}

/// Asks in the last round, from within the graph inside.
async fn judge(review: &Review, cx: &Context<World>) -> Result<ReviewUpdate, NodeError> {
    let verdict = match review.round {
        ROUNDS => cx.interrupt("publish?")?,
        _ => "go on".to_owned(),
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

/// Asks between two effects: the first must not be repeated for the answer.
async fn approve(job: &Job, cx: &Context<World>) -> Result<JobUpdate, NodeError> {
    let offered = effect(cx, format!("offer {}", job.round)).await?;
    let answer: String = cx.interrupt(format!("go on after round {}?", job.round))?;
    let booked = effect(cx, format!("book {}", job.round)).await?;
    Ok(Job::update().total(offered + booked).log([answer]))
}

/// An outside call: the world changes, and the answer depends on nothing but the key.
async fn effect(cx: &Context<World>, key: String) -> Result<u64, NodeError> {
    let world = cx.deps();
    cx.task(EFFECT, &key, async {
        world.change(&key)?;
        // Lets the tasks beside it come in between.
        tokio::task::yield_now().await;
        Ok(key.bytes().map(u64::from).sum())
    })
    .await
}
