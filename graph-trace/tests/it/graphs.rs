//! The graphs that the tests use: a fan-out, a loop with a subgraph, a graph with interrupts, and concurrent
//! subgraphs.
//!
//! The nodes have random latencies, which are derived from the seed of the test environment.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use graph_core::{
    CompiledGraph, Context, END, Input, MemorySaver, NodeError, NodeExt, RetryPolicy, Route, START,
    State, StateGraph, subgraph, subgraph_on_payload,
};

/// The environment of a graph, with random latencies and a counter for external calls.
#[derive(Clone, Debug, Default)]
pub(crate) struct TestEnv {
    seed: Arc<Mutex<u64>>,
    calls: Arc<AtomicUsize>,
    /// The part whose draft is changed, if any.
    changed_part: Option<u32>,
}

impl TestEnv {
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed: Arc::new(Mutex::new(seed)), ..Self::default() }
    }

    /// Changes the draft of this part, so that the trace of the run differs.
    pub(crate) fn with_changed_draft(mut self, part: u32) -> Self {
        self.changed_part = Some(part);
        self
    }

    /// Returns the next random number below `bound`.
    pub(crate) fn random_below(&self, bound: u64) -> u64 {
        let mut seed = self.seed.lock().unwrap();
        *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (*seed ^ (*seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ (mixed >> 31)) % bound
    }

    /// Waits for a random time.
    pub(crate) async fn pause(&self) {
        match self.random_below(5) {
            0 => tokio::time::sleep(Duration::from_micros(200 * self.random_below(6))).await,
            1 => {}
            n_yields => {
                for _ in 0..n_yields {
                    tokio::task::yield_now().await;
                }
            }
        }
    }

    pub(crate) async fn call(&self, what: &str) -> Result<String, NodeError> {
        self.pause().await;
        self.calls.fetch_add(1, Ordering::Relaxed);
        Ok(format!("all about {what}"))
    }

    pub(crate) fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }
}

#[derive(State, Clone, Debug, Default, PartialEq)]
pub(crate) struct Essay {
    pub(crate) topic: String,
    #[reduce(append)]
    pub(crate) drafts: Vec<String>,
    pub(crate) notes: String,
    pub(crate) approved: bool,
}

/// A graph, compiled both with and without a checkpointer.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) stored: CompiledGraph<Essay, TestEnv>,
    pub(crate) plain: CompiledGraph<Essay, TestEnv>,
}

pub(crate) fn tea() -> Input<Essay> {
    Essay { topic: "tea".into(), ..Essay::default() }.into()
}

pub(crate) fn cases() -> Vec<Case> {
    let both = |name, graph: fn() -> StateGraph<Essay, TestEnv>| Case {
        name,
        stored: graph().checkpointer(MemorySaver::new()).compile().unwrap(),
        plain: graph().compile().unwrap(),
    };
    vec![
        both("fan out", fan_out),
        both("loop", looped),
        both("question", question),
        both("nested", nested),
    ]
}

/// Returns the case with this name.
pub(crate) fn case(name: &str) -> Case {
    cases().into_iter().find(|it| it.name == name).unwrap()
}

#[derive(Route)]
enum Parts {
    #[to(write)]
    Each(Vec<u32>),
}

fn parts(_: &Essay) -> Parts {
    Parts::Each((1..=5).collect())
}

async fn plan(_: &Essay, cx: &Context<TestEnv>) {
    cx.emit("planning").await;
    cx.deps().pause().await;
}

async fn write(part: u32, cx: &Context<TestEnv>) -> Result<EssayUpdate, NodeError> {
    let env = cx.deps();
    cx.emit(format!("part {part}, attempt {}", cx.attempt())).await;
    env.pause().await;
    let fact = format!("part {part}");
    let fact: String = cx.task("look up", part, env.call(&fact)).await?;
    if part % 2 == 1 && cx.attempt() == 1 {
        return Err("no idea yet".into());
    }
    let (first, second) = tokio::join!(
        cx.task("check", 1, env.call("spelling")),
        cx.task("check", 2, env.call("facts")),
    );
    cx.message(format!("{} and {}", first?, second?)).await;
    env.pause().await;
    let suffix = if env.changed_part == Some(part) { " (changed)" } else { "" };
    Ok(Essay::update().drafts([format!("{fact}{suffix}")]))
}

async fn merge(essay: &Essay, cx: &Context<TestEnv>) -> EssayUpdate {
    cx.deps().pause().await;
    Essay::update().notes(format!("{} drafts", essay.drafts.len()))
}

fn fan_out() -> StateGraph<Essay, TestEnv> {
    let retry =
        RetryPolicy::max_attempts(3).backoff(Duration::from_micros(300), 1.0).without_jitter();
    StateGraph::new()
        .node(plan)
        .node(write.retry(retry))
        .node(merge)
        .edge(START, plan)
        .branch(plan, parts)
        .edge(write, merge)
}

async fn draft(essay: &Essay, cx: &Context<TestEnv>) -> Result<EssayUpdate, NodeError> {
    let nth = essay.drafts.len();
    let text = cx.task("ask", nth, cx.deps().call(&format!("draft {nth}"))).await?;
    Ok(Essay::update().drafts([text]))
}

async fn read(_: &Essay, cx: &Context<TestEnv>) -> Result<(), NodeError> {
    cx.deps().pause().await;
    cx.emit("reading").await;
    cx.task("read", (), cx.deps().call("style")).await?;
    Ok(())
}

async fn judge(essay: &Essay, cx: &Context<TestEnv>) -> EssayUpdate {
    cx.deps().pause().await;
    Essay::update().notes(format!("judged {}", essay.drafts.len()))
}

#[derive(Route)]
enum Verdict {
    #[to(draft)]
    Again,
    #[to(END)]
    Good,
}

fn verdict(essay: &Essay) -> Verdict {
    if essay.drafts.len() < 3 { Verdict::Again } else { Verdict::Good }
}

fn review() -> CompiledGraph<Essay, TestEnv> {
    let review = StateGraph::<Essay, TestEnv>::new()
        .node(read)
        .node(judge)
        .edge(START, read)
        .edge(START, judge)
        .node(merge)
        .join((read, judge), merge);
    review.compile().unwrap()
}

fn looped() -> StateGraph<Essay, TestEnv> {
    let review =
        subgraph("review", &review(), Essay::clone, |it: Essay| Essay::update().notes(it.notes));
    StateGraph::new()
        .node(draft)
        .node(review)
        .edge(START, draft)
        .edge(draft, "review")
        .branch("review", verdict)
}

async fn approve(essay: &Essay, cx: &Context<TestEnv>) -> Result<EssayUpdate, NodeError> {
    cx.deps().pause().await;
    let price = cx.task("price", &essay.topic, cx.deps().call("prices")).await?;
    let approved: bool = cx.interrupt(format!("buy {} ({price})?", essay.topic))?;
    let note: String = cx.interrupt("why?")?;
    cx.deps().pause().await;
    Ok(Essay::update().approved(approved).notes(note))
}

fn question() -> StateGraph<Essay, TestEnv> {
    StateGraph::new()
        .node(approve)
        .node(read)
        .node(draft)
        .edge(START, draft)
        .edge(draft, approve)
        .edge(draft, read)
        .join(["approve", "read"], "finish")
        .node_as("finish", merge)
}

#[derive(Route)]
enum Reviews {
    #[to("review")]
    Each(Vec<u32>),
}

fn reviews(_: &Essay) -> Reviews {
    Reviews::Each(vec![1, 2, 3])
}

fn nested() -> StateGraph<Essay, TestEnv> {
    let review = subgraph_on_payload(
        "review",
        &review(),
        |part: u32| Essay { topic: format!("part {part}"), ..Essay::default() },
        |it: Essay| Essay::update().drafts([it.topic + &it.notes]),
    );
    StateGraph::new().node(plan).node(review).edge(START, plan).branch(plan, reviews)
}
