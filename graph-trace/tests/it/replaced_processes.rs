//! Tests that the trace of a subgraph in another process does not show that the process died and was replaced.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use async_trait::async_trait;
use graph_core::{
    CompiledGraph, Context, Durability, EffectCall, EffectDecision, Input, MemorySaver, NodeError,
    Persistence, RunControl, RunOptions, START, State, StateGraph, SubgraphSource,
    remote::{RemoteCall, RemoteInterceptor, RemoteOutcome, RemoteParent, RemoteRunner},
    subgraph,
};
use graph_trace::{Detail, TextOptions, record_thread};
use serde_json::Value;
use tokio::sync::Notify;

#[derive(State, Clone, Debug, Default)]
struct Log {
    #[reduce(append)]
    lines: Vec<String>,
}

type Deps = Arc<PlannedCrash>;

/// Makes one process crash at a chosen point.
#[derive(Debug)]
struct PlannedCrash {
    /// Number of points that the nodes pass until the process crashes.
    points_left: AtomicUsize,
    has_crashed: AtomicBool,
    crashed: Notify,
}

impl PlannedCrash {
    fn after(points: usize) -> Deps {
        let (points_left, has_crashed) = (AtomicUsize::new(points), AtomicBool::new(false));
        Arc::new(Self { points_left, has_crashed, crashed: Notify::new() })
    }

    async fn pass_point(&self) {
        if self.points_left.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.has_crashed.store(true, Ordering::Relaxed);
            self.crashed.notify_one();
            std::future::pending().await
        }
    }
}

async fn ask(_: &Log, cx: &Context<Deps>) -> Result<LogUpdate, NodeError> {
    cx.deps().pass_point().await;
    cx.emit("asking").await;
    let answer = cx.task("call", 0, async { Ok("an answer".to_owned()) }).await?;
    cx.deps().pass_point().await;
    Ok(Log::update().lines([answer]))
}

/// Changes nothing.
async fn wait(_: &Log, cx: &Context<Deps>) {
    cx.deps().pass_point().await;
}

async fn write(log: &Log, cx: &Context<Deps>) -> LogUpdate {
    cx.deps().pass_point().await;
    Log::update().lines([format!("line {}", log.lines.len())])
}

async fn review(_: &Log, cx: &Context<Deps>) -> Result<LogUpdate, NodeError> {
    cx.deps().pass_point().await;
    let remark: String = cx.interrupt("any remark?")?;
    cx.deps().pass_point().await;
    Ok(Log::update().lines([remark]))
}

async fn conclude(_: &Log, cx: &Context<Deps>) -> LogUpdate {
    cx.deps().pass_point().await;
    Log::update().lines(["the end".to_owned()])
}

fn article() -> CompiledGraph<Log, Deps> {
    let writing = StateGraph::<Log, Deps>::new().name("writing").node(write).edge(START, write);
    let writing = writing.compile().unwrap();
    StateGraph::<Log, Deps>::new()
        .name("article")
        .node(ask)
        .node(wait)
        .node(&writing)
        .node(review)
        .node(conclude)
        .edge(START, ask)
        .edge(START, wait)
        .join((ask, wait), &writing)
        .edge(&writing, review)
        .edge(review, conclude)
        .compile()
        .unwrap()
}

fn parent(
    article: &impl SubgraphSource<Deps, State = Log>,
    persistence: Persistence,
) -> CompiledGraph<Log, Deps> {
    let output = |article: Log| Log::update().lines(article.lines);
    let publish = subgraph("publish", article, |_: &Log| Log::default(), output);
    let publish = publish.persistence(persistence);
    let graph = StateGraph::<Log, Deps>::new().node(&publish).edge(START, &publish);
    graph.checkpointer(MemorySaver::new()).compile().unwrap()
}

/// Runs the graph `article` in processes that share a [`PlannedCrash`], so one of them crashes and is replaced.
#[derive(Debug)]
struct CrashingProcess(Deps);

#[async_trait]
impl RemoteRunner for CrashingProcess {
    fn runs_in(&self) -> &str {
        "process"
    }

    async fn run(&self, call: RemoteCall) -> Result<RemoteOutcome, NodeError> {
        let mut start = call.start().clone();
        loop {
            let parent = RemoteParent {
                checkpointer: call.checkpointer().unwrap_or_else(|| Arc::new(MemorySaver::new())),
                interceptor: Arc::new(NoInterceptor),
                control: RunControl::new(),
            };
            let mut run = article().run_remote(start.clone(), self.0.clone(), parent);
            loop {
                tokio::select! {
                    // Forwards all events that the process sent before it crashed.
                    biased;
                    event = run.next() => match event {
                        Some(event) => call.forward(event).await?,
                        None => return Ok(run.finish().await),
                    },
                    () = self.0.crashed.notified() => break,
                }
            }
            start.resume_in_new_process();
        }
    }
}

#[derive(Debug)]
struct NoInterceptor;

#[async_trait]
impl RemoteInterceptor for NoInterceptor {
    async fn before_call(&self, _: EffectCall<'_>) -> Result<EffectDecision, NodeError> {
        Ok(EffectDecision::Execute)
    }

    async fn after_call(&self, _: EffectCall<'_>, _: Result<&Value, &NodeError>) {}
}

async fn trace(graph: &CompiledGraph<Log, Deps>, durability: Durability) -> String {
    // The process of the test never crashes.
    let thread = graph.thread("t", PlannedCrash::after(usize::MAX));
    let thread = thread.with_options(RunOptions::new().durability(durability));
    let recorded = record_thread(&thread, Log::default()).await;
    assert_eq!(recorded.outcome.as_ref().unwrap().interrupts()[0].value, "any remark?");
    let recorded = recorded.then(&thread, Input::resume("none").unwrap()).await;
    assert!(recorded.outcome.as_ref().unwrap().is_done());
    recorded.trace.text(TextOptions::new(Detail::Full))
}

#[tokio::test]
async fn replacing_a_process_does_not_change_the_trace() {
    for durability in [Durability::Sync, Durability::Exit] {
        for persistence in [Persistence::Invocation, Persistence::Thread, Persistence::None] {
            let expected = trace(&parent(&article(), persistence), durability).await;
            for points in 1.. {
                let crash = PlannedCrash::after(points);
                let remote = article().remote(Arc::new(CrashingProcess(crash.clone())));
                let actual = trace(&parent(&remote, persistence), durability).await;
                assert_eq!(actual, expected, "{durability:?}, {persistence:?}, point {points}");
                if !crash.has_crashed.load(Ordering::Relaxed) {
                    // Both runs together pass more than eight points.
                    assert!(points > 8, "{points}");
                    break;
                }
            }
        }
    }
}
