//! Execute: one task from its start to its end.
//!
//! Attempts, time-outs, panics, routing and error handlers are all here; how many tasks run at once is the
//! step's affair.

use std::{
    collections::BTreeMap,
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    task::Poll,
    time::Duration,
};

use serde_json::Value;
use smallvec::SmallVec;
use tokio::time::{Instant, sleep, sleep_until};

use super::{
    persist::Durability,
    plan::{Hop, Hops},
};
use crate::{
    Interrupt, NodeError, NodePanic, NodeTimeout, RunError,
    checkpoint::Event as Recorded,
    command::{Goto, ParentCommand},
    context::{Failure, TaskContext},
    error::{Halt, Stop},
    graph::{Graph, NodeIdx, RouteCall},
    label::END_NAME,
    node::{AnyUpdate, NodeBody, Outcome, TaskInput},
    spans,
    state::{Fold, erased::ErasedState},
};

/// What a task came to.
pub(crate) enum TaskEnd {
    Done(Done),
    Failed(Box<RunError>),
    Asked(Vec<Interrupt>),
    Parent(Box<ParentCommand>),
    Stopped(Stop),
}

/// A finished task's writes and ways.
#[derive(Default)]
pub(crate) struct Done {
    pub(crate) updates: SmallVec<[AnyUpdate; 1]>,
    pub(crate) hops: Hops,
    /// Whether the node's routers were asked; otherwise the commit asks them, on the state itself.
    pub(crate) routed: bool,
    /// Whether an error handler stands in for the node: then the node's edges do not count.
    pub(crate) handled: bool,
}

/// What a task needs besides its context.
pub(crate) struct Job {
    pub(crate) cx: Arc<TaskContext>,
    pub(crate) input: TaskInput,
    /// The state for routers to look at; `None` where the commit asks them.
    pub(crate) view: Option<Box<dyn ErasedState>>,
    /// The failure of an earlier run, which only the handler has still to deal with.
    pub(crate) failed: Option<Box<LeftToHandler>>,
}

/// A failure for a handler to deal with, and what the handler kept of an earlier try.
pub(crate) struct LeftToHandler {
    pub(crate) failure: Failure,
    pub(crate) answers: Vec<Value>,
    pub(crate) effects: BTreeMap<String, Value>,
}

impl From<Failure> for LeftToHandler {
    fn from(failure: Failure) -> Self {
        Self { failure, answers: Vec::new(), effects: BTreeMap::new() }
    }
}

/// What became of a task, and of the handler that stood in for it.
pub(crate) struct Report {
    pub(crate) end: TaskEnd,
    /// The node's failure, if its handler took over, and the handler's task.
    pub(crate) handled: Option<Box<(Failure, Arc<TaskContext>)>>,
}

impl From<TaskEnd> for Report {
    fn from(end: TaskEnd) -> Self {
        Self { end, handled: None }
    }
}

/// Runs a task: its attempts, then its handler.
pub(crate) fn run_task(job: Job) -> impl Future<Output = Report> + Send {
    spans::within(spans::task(&job.cx), run_attempts(job))
}

async fn run_attempts(job: Job) -> Report {
    let Job { cx, input, view, failed } = job;
    let entry = cx.scope.graph.node(cx.node);
    let body = entry.body.as_ref().expect("START is never run as a task");
    let options = &entry.options;
    if options.retries.is_empty() && options.handler.is_none() {
        // The usual case keeps no second hold on the input, so that a payload is moved and not copied.
        return finished(&cx, attempt(body, &cx, input, view.as_deref()).await).into();
    }
    // Boxed, here and below: the future of a plain task stays small, and a fan-out has many of them.
    Box::pin(run_carefully(Job { cx: cx.clone(), input, view, failed })).await
}

/// Runs a task that may be tried again, or whose failure is handled.
async fn run_carefully(job: Job) -> Report {
    let Job { cx, input, view, failed } = job;
    let entry = cx.scope.graph.node(cx.node);
    let body = entry.body.as_ref().expect("START is never run as a task");
    let options = &entry.options;
    if let Some(left) = failed {
        return handle(&cx, input, *left).await;
    }
    let error = match attempts(body, &cx, &input, view.as_deref()).await {
        Err(error) if options.handler.is_some() && error.source().is_some() => error,
        result => return finished(&cx, result).into(),
    };
    let failure = Failure { node: cx.node().to_owned(), error: error.to_string() };
    if let Some(writer) = cx.scope.writer.as_ref().filter(|it| it.durability != Durability::Exit) {
        let event = Recorded::Failed { error: failure.error.clone(), handled: true };
        // On its way to the disk before the handler starts: after a crash only the handler runs again.
        if let Err(error) = writer.record(cx.place(), vec![cx.record(event)]).await {
            return TaskEnd::Failed(Box::new(error.into())).into();
        }
    }
    super::events::task_failed(&cx, &failure).await;
    handle(&cx, input, failure.into()).await
}

/// Runs the handler of a failed task in its place.
async fn handle(cx: &Arc<TaskContext>, input: TaskInput, left: LeftToHandler) -> Report {
    let LeftToHandler { failure, answers, effects } = left;
    let graph = &cx.scope.graph;
    let mut handler = cx.handler(failure.clone());
    handler.remember(answers, effects);
    let handler = Arc::new(handler);
    let end = match &graph.node(cx.node).options.handler {
        Some(body) => {
            let outcome = guarded(body, &handler, input).await;
            let done = outcome.and_then(|it| settle(it, graph, cx.node));
            finished(&handler, done.map(|it| Done { handled: true, routed: true, ..it }))
        }
        None => end(cx, NodeError::from(failure.error.clone())),
    };
    Report { end, handled: Some(Box::new((failure, handler))) }
}

/// Tries until it works, or until no policy allows another attempt.
async fn attempts(
    body: &NodeBody,
    cx: &Arc<TaskContext>,
    input: &TaskInput,
    view: Option<&dyn ErasedState>,
) -> Result<Done, NodeError> {
    let retries = &cx.scope.graph.node(cx.node).options.retries;
    let mut failed = 0;
    loop {
        let error = match attempt(body, cx, input.clone(), view).await {
            Ok(done) => return Ok(done),
            Err(error) if error.source().is_none() => return Err(error),
            Err(error) => error,
        };
        failed += 1;
        match retries.iter().find(|it| it.applies(&error)) {
            Some(retry) if failed < retry.attempts => {
                let wait = retry.delay(failed);
                super::events::retried(cx, &error, wait).await;
                sleep(wait).await;
                cx.next_attempt();
            }
            _ => return Err(error),
        }
    }
}

/// One attempt: the body, then where it leads.
async fn attempt(
    body: &NodeBody,
    cx: &Arc<TaskContext>,
    input: TaskInput,
    view: Option<&dyn ErasedState>,
) -> Result<Done, NodeError> {
    let outcome = guarded(body, cx, input).await?;
    let graph = &cx.scope.graph;
    let mut done = settle(outcome, graph, cx.node)?;
    if let Some(view) = view {
        let routed = catch_unwind(AssertUnwindSafe(|| route_on_copy(cx, view, &mut done)));
        routed.map_err(panicked)??;
    }
    Ok(done)
}

/// The places an outcome leads to, found in the graph.
pub(super) fn settle(outcome: Outcome, graph: &Graph, node: NodeIdx) -> Result<Done, NodeError> {
    if let Some(command) = outcome.parent {
        return Err(NodeError::parent(command));
    }
    let mut done = Done { updates: outcome.updates, ..Done::default() };
    if !outcome.gotos.is_empty() {
        find(graph, node, outcome.gotos, &mut done.hops)?;
    }
    Ok(done)
}

/// Finds places in the graph and adds them to `hops`; END leads nowhere.
pub(crate) fn find(
    graph: &Graph,
    from: NodeIdx,
    gotos: impl IntoIterator<Item = Goto>,
    hops: &mut Hops,
) -> Result<(), NodeError> {
    for goto in gotos {
        match (graph.find(goto.to.as_str()), goto.payload) {
            (Some(node), None) if node != graph.start => hops.push(Hop::Node(node)),
            (Some(node), Some(payload)) if node != graph.start => {
                let payload = payload.admit(goto.to.as_str()).map_err(NodeError::terminal)?;
                hops.push(Hop::Send(node, payload));
            }
            (None, None) if goto.to.as_str() == END_NAME => {}
            (None, Some(_)) if goto.to.as_str() == END_NAME => {
                let from = graph.node(from).label.to_string();
                return Err(NodeError::terminal(SentToEnd { from }));
            }
            _ => return Err(NodeError::terminal(graph.unknown_target(from, &goto.to))),
        }
    }
    Ok(())
}

/// A payload sent to END, where nobody takes it.
#[derive(Clone, Debug, thiserror::Error)]
#[error("`{from}` sends a payload to END, where nobody takes it")]
pub(crate) struct SentToEnd {
    from: String,
}

/// Asks the routers on a copy of the state with the task's own writes.
pub(super) fn route_on_copy(
    cx: &TaskContext,
    view: &dyn ErasedState,
    done: &mut Done,
) -> Result<(), NodeError> {
    let graph = &cx.scope.graph;
    if graph.has_routers(cx.node) {
        let mut copy = view.fork();
        let mut fold = Fold::default();
        for update in &done.updates {
            let mut update = copy.clone_update(update).map_err(NodeError::terminal)?;
            let overwritten = copy.touched(&update).map_err(NodeError::terminal)?.overwritten;
            fold.overwrite(&overwritten);
            copy.fold(&mut update, &mut fold).map_err(NodeError::terminal)?;
        }
        route(cx, &*copy, done)?;
    }
    done.routed = true;
    Ok(())
}

/// Asks the routers of a task's node on the state that holds the task's own writes.
pub(crate) fn route(
    cx: &TaskContext,
    state: &dyn ErasedState,
    done: &mut Done,
) -> Result<(), NodeError> {
    let graph = &cx.scope.graph;
    let entry = graph.node(cx.node);
    let call = RouteCall {
        state,
        updates: &done.updates,
        reads: entry.reads.as_ref(),
        remaining: cx.stop - cx.step,
        deps: &*cx.scope.deps,
    };
    for router in &entry.routers {
        let gotos = catch_unwind(AssertUnwindSafe(|| (router.route)(&call)));
        find(graph, cx.node, gotos.map_err(panicked)??, &mut done.hops)?;
    }
    Ok(())
}

/// Runs a node's body within its time limits, a panic becoming an error.
pub(super) async fn guarded(
    body: &NodeBody,
    cx: &Arc<TaskContext>,
    input: TaskInput,
) -> Result<Outcome, NodeError> {
    let options = &cx.scope.graph.node(cx.node).options;
    let called = catch_unwind(AssertUnwindSafe(|| body.0.call(input, cx)));
    let mut future = called.map_err(panicked)?;
    let run = std::future::poll_fn(move |task| {
        match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(task))) {
            Ok(Poll::Ready(Err(error))) => Poll::Ready(delivered(error)),
            Ok(poll) => poll,
            Err(panic) => Poll::Ready(Err(panicked(panic))),
        }
    });
    match (options.timeout, options.idle_timeout) {
        (None, None) => run.await,
        (limit, idle) => Box::pin(limited(run, cx, limit, idle)).await,
    }
}

/// Ends an attempt that takes too long, or gives no sign of life.
async fn limited(
    run: impl Future<Output = Result<Outcome, NodeError>>,
    cx: &TaskContext,
    limit: Option<Duration>,
    idle: Option<Duration>,
) -> Result<Outcome, NodeError> {
    tokio::select! {
        outcome = run => outcome,
        limit = elapsed(limit) => Err(NodeTimeout { limit, idle: false }.into()),
        limit = idled(cx, idle) => Err(NodeTimeout { limit, idle: true }.into()),
    }
}

/// What a graph inside the node sends to this one takes the place of the node's answer.
#[cold]
fn delivered(error: NodeError) -> Result<Outcome, NodeError> {
    match error.halt() {
        Halt::Delivered(command) => {
            let ParentCommand { updates, gotos } = *command;
            Ok(Outcome { updates, gotos: gotos.into_vec(), parent: None })
        }
        halt => Err(NodeError::from_halt(halt)),
    }
}

async fn elapsed(limit: Option<Duration>) -> Duration {
    match limit {
        Some(limit) => {
            sleep(limit).await;
            limit
        }
        None => std::future::pending().await,
    }
}

/// Returns once the task has given no sign of life for so long.
async fn idled(cx: &TaskContext, limit: Option<Duration>) -> Duration {
    let Some(limit) = limit else { return std::future::pending().await };
    let start = Instant::now();
    loop {
        match cx.last_beat().unwrap_or(start).max(start).checked_add(limit) {
            Some(until) if until <= Instant::now() => return limit,
            Some(until) => sleep_until(until).await,
            // So far away that it never comes.
            None => std::future::pending().await,
        }
    }
}

fn panicked(panic: Box<dyn std::any::Any + Send>) -> NodeError {
    let message = match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(panic) => panic.downcast::<&str>().map_or("no message", |it| *it).to_owned(),
    };
    NodeError::from(NodePanic { message })
}

fn finished(cx: &TaskContext, result: Result<Done, NodeError>) -> TaskEnd {
    result.map_or_else(|error| end(cx, error), TaskEnd::Done)
}

/// What an error that no attempt and no handler mended makes of the task.
pub(super) fn end(cx: &TaskContext, error: NodeError) -> TaskEnd {
    match error.halt() {
        Halt::Asked(interrupts) => TaskEnd::Asked(interrupts),
        Halt::Parent(command) | Halt::Delivered(command) => TaskEnd::Parent(command),
        Halt::Stopped(stop) => TaskEnd::Stopped(stop),
        Halt::Failed { source, terminal } => {
            TaskEnd::Failed(Box::new(failure(cx, source, terminal)))
        }
    }
}

/// The run's error for a node's error: the engine's own errors stay what they are.
pub(crate) fn failure(
    cx: &TaskContext,
    source: Arc<dyn std::error::Error + Send + Sync>,
    terminal: bool,
) -> RunError {
    let error = &*source as &(dyn std::error::Error + 'static);
    if let Some(error) = error.downcast_ref::<RunError>() {
        return error.clone();
    }
    if let Some(error) = error.downcast_ref::<crate::UnknownTarget>() {
        return error.clone().into();
    }
    if let Some(error) = error.downcast_ref::<crate::state::FieldError>() {
        return error.clone().into();
    }
    if let Some(error) = error.downcast_ref::<SentToEnd>() {
        return RunError::InvalidUpdate(error.to_string());
    }
    RunError::Node { node: cx.node().to_owned(), step: cx.step, error: source, terminal }
}

/// Waits for a future, unless the time is up.
pub(crate) async fn within<F: Future>(limit: Duration, future: F) -> Option<F::Output> {
    tokio::time::timeout(limit, future).await.ok()
}
