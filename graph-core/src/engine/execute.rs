//! Execute: runs one task from start to end, including retries, timeouts, panics, routing and error handlers.
//!
//! Concurrency is handled by [`task_pool`](super::task_pool).

use std::{
    collections::BTreeMap,
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    task::Poll,
    time::Duration,
};

use serde_json::Value;
use tokio::time::{Instant, sleep, sleep_until};

use crate::{
    checkpoint::{record::TaskEvent, writer::Durability},
    context::{
        current,
        task::{NodeFailure, TaskContext},
    },
    engine::{
        outcome::{TaskOutcome, TaskOutput},
        publish_failure::{publish_failure, publish_retry},
        send_task::run_in_other_process,
        target::{SentToEndError, resolve_gotos},
    },
    error::{
        Cause, Halt, IgnoredInterruptError, NodeError, NodePanicError, NodeTimeoutError, RunError,
        UnknownTargetError,
    },
    goto::{Gotos, ParentCommand},
    graph::erased::{Graph, NodeEntry, NodeIdx, RouteCall, RouteFn, Router},
    node::{
        erased::{BoxFuture, NodeBody, TaskInput},
        output::NodeOutput,
    },
    remote::task_call::RemoteTaskRunner,
    spans,
    state::{erased::ErasedState, field::FieldError, fold::Fold},
};

/// A task: the node that it runs, and its context.
#[derive(Clone, Copy)]
pub(super) struct Task<'a> {
    pub(super) graph: &'a Graph,
    pub(super) node: NodeIdx,
    pub(super) cx: &'a Arc<TaskContext>,
}

impl<'a> Task<'a> {
    fn entry(self) -> &'a NodeEntry {
        self.graph.node(self.node)
    }

    pub(super) fn body(self) -> &'a NodeBody {
        self.entry().body.as_ref().expect("START has no body and is never executed")
    }
}

/// A task ready to run.
pub(super) struct Job {
    pub(super) graph: Arc<Graph>,
    pub(super) node: NodeIdx,
    pub(super) cx: Arc<TaskContext>,
    pub(super) input: TaskInput,
    /// The state that the routers read. `None` if there are no routers or if they are called after the commit.
    pub(super) view: Option<Box<dyn ErasedState>>,
    /// A failure from an earlier run. If it is present, only the error handler still has to run.
    pub(super) failed: Option<Box<PendingFailure>>,
    /// Runs the task in another process.
    pub(super) runner: Option<Arc<dyn RemoteTaskRunner>>,
}

/// A failure that the error handler must handle, with the resume values and effects that the handler recorded in an
/// earlier run.
pub(super) struct PendingFailure {
    pub(super) failure: NodeFailure,
    pub(super) resume_values: Vec<Value>,
    pub(super) effects: BTreeMap<String, Value>,
}

impl From<NodeFailure> for PendingFailure {
    fn from(failure: NodeFailure) -> Self {
        Self { failure, resume_values: Vec::new(), effects: BTreeMap::new() }
    }
}

/// The outcome of a task, or the outcome of its error handler if the handler ran.
pub(super) struct Execution {
    pub(super) outcome: TaskOutcome,
    pub(super) handled: Option<Box<HandledFailure>>,
}

/// A failure that an error handler handled.
pub(super) struct HandledFailure {
    pub(super) failure: NodeFailure,
    /// The handler's context.
    pub(super) handler: Arc<TaskContext>,
}

impl From<TaskOutcome> for Execution {
    fn from(outcome: TaskOutcome) -> Self {
        Self { outcome, handled: None }
    }
}

/// Runs the attempts of a task, then its error handler if they all failed.
pub(super) fn run_task(job: Job) -> impl Future<Output = Execution> + Send {
    let cx = &job.cx;
    let span = spans::task(cx.node(), cx.step.number, || cx.id());
    spans::instrument(span, run_unspanned(job))
}

async fn run_unspanned(job: Job) -> Execution {
    let Job { graph, node, cx, input, view, failed, runner } = job;
    let task = Task { graph: &graph, node, cx: &cx };
    let options = &task.entry().options;
    if options.retries.is_empty() && options.handler.is_none() && runner.is_none() {
        // Without retries and without an error handler, the input is needed only once, so it is moved instead of
        // cloned.
        return task_outcome(&cx, run_attempt(task, input, view.as_deref()).await).into();
    }
    // The futures here and in `call_node` are boxed to keep the future of a plain task small, because a fan-out has
    // many plain tasks.
    let (graph, cx) = (graph.clone(), cx.clone());
    Box::pin(run_with_recovery(Job { graph, node, cx, input, view, failed, runner })).await
}

/// Runs a task that has retries or an error handler, or that runs in another process.
async fn run_with_recovery(job: Job) -> Execution {
    let Job { graph, node, cx, input, view, failed, runner } = job;
    let task = Task { graph: &graph, node, cx: &cx };
    let options = &task.entry().options;
    if let Some(left) = failed {
        return run_handler(task, input, *left).await;
    }
    let error = match run_in_any_process(task, runner, &input, view.as_deref()).await {
        Err(error) if options.handler.is_some() && error.source().is_some() => error,
        result => return task_outcome(&cx, result).into(),
    };
    let failure = NodeFailure { node: cx.node().to_owned(), error: error.to_string() };
    if let Some(writer) = cx.scope.writer.as_ref().filter(|it| it.durability != Durability::Exit) {
        let event = TaskEvent::Failed { error: failure.error.clone(), handled: true };
        // The failure is recorded before the handler starts, so that after a crash only the handler runs again.
        if let Err(error) = writer.record(cx.checkpoint_key(), vec![cx.record(event)]).await {
            return TaskOutcome::Failed(Box::new(error.into())).into();
        }
    }
    publish_failure(&cx, &failure.error, false).await;
    run_handler(task, input, failure.into()).await
}

/// Runs the node's error handler after the task has failed.
async fn run_handler(task: Task<'_>, input: TaskInput, left: PendingFailure) -> Execution {
    let PendingFailure { failure, resume_values, effects } = left;
    let mut handler = task.cx.handler(failure.clone());
    handler.restore(resume_values, effects);
    let handler = Arc::new(handler);
    let outcome = match &task.entry().options.handler {
        Some(body) => {
            let returned = call_node(Task { cx: &handler, ..task }, body, input).await;
            let done = resolve_output(returned, task);
            let done = done.map(|it| TaskOutput { handled: true, routed: true, ..it });
            task_outcome(&handler, done)
        }
        None => task_outcome(task.cx, Err(NodeError::from(failure.error.clone()))),
    };
    let handled = Some(Box::new(HandledFailure { failure, handler }));
    Execution { outcome, handled }
}

/// Runs the attempts of a task in another process, if it has a runner, or else in this one.
async fn run_in_any_process(
    task: Task<'_>,
    runner: Option<Arc<dyn RemoteTaskRunner>>,
    input: &TaskInput,
    view: Option<&dyn ErasedState>,
) -> Result<TaskOutput, NodeError> {
    if let Some(runner) = runner {
        if let Some(output) =
            run_in_other_process((task.graph, task.node, task.cx), &*runner, input, view).await?
        {
            return Ok(output);
        }
    }
    run_with_retries(task, input, view).await
}

/// Repeats attempts until one succeeds or no retry policy allows another attempt.
pub(super) async fn run_with_retries(
    task: Task<'_>,
    input: &TaskInput,
    view: Option<&dyn ErasedState>,
) -> Result<TaskOutput, NodeError> {
    let retries = &task.entry().options.retries;
    let mut failed = 0;
    loop {
        let error = match run_attempt(task, input.clone(), view).await {
            Ok(done) => return Ok(done),
            Err(error) if error.source().is_none() => return Err(error),
            Err(error) => error,
        };
        failed += 1;
        match retries.iter().find(|it| it.applies(&error)) {
            Some(retry) if failed < retry.max_attempts => {
                let wait = retry.delay(failed);
                publish_retry(task.cx, &error, wait).await;
                sleep(wait).await;
                task.cx.next_attempt();
            }
            _ => return Err(error),
        }
    }
}

/// Runs the node once, then its routers.
async fn run_attempt(
    task: Task<'_>,
    input: TaskInput,
    view: Option<&dyn ErasedState>,
) -> Result<TaskOutput, NodeError> {
    let returned = call_node(task, task.body(), input).await;
    let mut done = resolve_output(returned, task)?;
    if let Some(view) = view {
        route_in_task(task, view, &mut done).await?;
    }
    Ok(done)
}

/// Converts a node's result into the output of its task and resolves each goto to its target node.
#[inline]
pub(super) fn resolve_output(
    returned: Result<NodeOutput, NodeError>,
    task: Task<'_>,
) -> Result<TaskOutput, NodeError> {
    let mut returned = match returned {
        Ok(returned) => returned,
        Err(error) => accept_command(error)?,
    };
    if let Some(command) = returned.parent {
        return Err(NodeError::halted(Halt::ParentCommand(command)));
    }
    let mut output = TaskOutput::new(task.node, returned.updates);
    if !returned.gotos.is_empty() {
        resolve_gotos(task.graph, task.node, &mut returned.gotos, &mut output.targets)?;
    }
    Ok(output)
}

/// Calls the routers with a copy of the state that includes the task's own writes.
pub(super) async fn route_in_task(
    task: Task<'_>,
    view: &dyn ErasedState,
    done: &mut TaskOutput,
) -> Result<(), NodeError> {
    if task.graph.has_routers(task.node) {
        let folded = catch_unwind(AssertUnwindSafe(|| state_after(view, done)));
        let copy = folded.map_err(panic_error)??;
        if task.entry().routers.iter().any(Router::is_async) {
            Box::pin(route_async(task, &*copy, done)).await?;
        } else {
            route(task, &*copy, done)?;
        }
    }
    done.routed = true;
    Ok(())
}

/// Returns a copy of the state that includes the writes of a task.
fn state_after(
    view: &dyn ErasedState,
    done: &TaskOutput,
) -> Result<Box<dyn ErasedState>, NodeError> {
    let mut copy = view.fork();
    let mut fold = Fold::default();
    for update in &done.updates {
        let mut update = copy.clone_update(update).map_err(NodeError::terminal)?;
        let overwritten = copy.write_set(&update).map_err(NodeError::terminal)?.overwritten;
        fold.mark_overwritten(&overwritten);
        copy.fold(&mut update, &mut fold).map_err(NodeError::terminal)?;
    }
    Ok(copy)
}

/// Calls the routers of the task's node. `state` must include the task's own writes.
///
/// Async routers are skipped: if a node has an async router, [`route_in_task`] calls all its routers as part of its
/// task.
pub(super) fn route(
    task: Task<'_>,
    state: &dyn ErasedState,
    done: &mut TaskOutput,
) -> Result<(), NodeError> {
    for router in &task.entry().routers {
        let RouteFn::Sync(function) = &router.function else { continue };
        call_router(task, &**function, state, done)?;
    }
    Ok(())
}

/// Like [`route`], but also calls async routers, within the time limits of the node.
async fn route_async(
    task: Task<'_>,
    state: &dyn ErasedState,
    done: &mut TaskOutput,
) -> Result<(), NodeError> {
    for router in &task.entry().routers {
        match &router.function {
            RouteFn::Sync(function) => call_router(task, &**function, state, done)?,
            RouteFn::Async(function) => {
                let called = run_in_task(task, || function(state.snapshot(), task.cx));
                resolve_gotos(task.graph, task.node, &mut called.await?, &mut done.targets)?;
            }
        }
    }
    Ok(())
}

/// Calls a router and adds the targets that it chose to the output of the task.
#[inline]
fn call_router(
    task: Task<'_>,
    function: &(dyn Fn(&RouteCall<'_>) -> Result<Gotos, NodeError> + Send + Sync),
    state: &dyn ErasedState,
    done: &mut TaskOutput,
) -> Result<(), NodeError> {
    let call = RouteCall {
        state,
        updates: &done.updates,
        reads: task.entry().reads.as_ref(),
        remaining: task.cx.step.remaining(),
        deps: &*task.cx.scope.deps,
    };
    let choose = || {
        let mut gotos = function(&call)?;
        resolve_gotos(task.graph, task.node, &mut gotos, &mut done.targets)
    };
    catch_unwind(AssertUnwindSafe(choose)).map_err(panic_error)?
}

/// Calls the node within its time limits and converts a panic into an error.
pub(super) fn call_node<'a>(
    task: Task<'a>,
    body: &'a NodeBody,
    input: TaskInput,
) -> impl Future<Output = Result<NodeOutput, NodeError>> + Send + 'a {
    run_in_task(task, move || body.0.call(input, task.cx))
}

/// Runs a user's future as part of a task: within the time limits of the node, as the current task, and with panics
/// converted into errors. Fails if the future raises an interrupt and ignores it. `start` is called when the future is
/// first polled.
///
/// This is one hand-written future, because each level of `async fn` would move the output once more.
fn run_in_task<'a, T: Send + 'static>(
    task: Task<'a>,
    start: impl FnOnce() -> BoxFuture<Result<T, NodeError>> + Send + 'a,
) -> impl Future<Output = Result<T, NodeError>> + Send + 'a {
    let mut start = Some(start);
    let mut running = None;
    std::future::poll_fn(move |waker| {
        let outer = current::replace(Some(task.cx.clone()));
        let poll = catch_unwind(AssertUnwindSafe(|| {
            let running = running.get_or_insert_with(|| {
                let start = start.take().expect("the future is started once");
                limit_time(start(), task)
            });
            running.as_mut().poll(waker)
        }));
        current::replace(outer);
        match poll {
            Ok(Poll::Ready(Ok(_))) if task.cx.raised_interrupt() => {
                Poll::Ready(Err(NodeError::terminal(IgnoredInterruptError)))
            }
            Ok(poll) => poll,
            Err(panic) => Poll::Ready(Err(panic_error(panic))),
        }
    })
}

/// Adds the time limits of the task's node to a future.
#[inline]
fn limit_time<T: Send + 'static>(
    run: BoxFuture<Result<T, NodeError>>,
    task: Task<'_>,
) -> BoxFuture<Result<T, NodeError>> {
    let options = &task.entry().options;
    match (options.timeout, options.idle_timeout) {
        (None, None) => run,
        (limit, idle) => Box::pin(with_time_limits(run, task.cx.clone(), limit, idle)),
    }
}

/// Fails the attempt if it exceeds its time limit or sends no heartbeat within the idle timeout. The time during which
/// the task waits for its step does not count.
async fn with_time_limits<T>(
    run: BoxFuture<Result<T, NodeError>>,
    cx: Arc<TaskContext>,
    limit: Option<Duration>,
    idle: Option<Duration>,
) -> Result<T, NodeError> {
    tokio::select! {
        outcome = run => outcome,
        limit = wait_for_timeout(&cx, limit) => Err(NodeTimeoutError { limit, idle: false }.into()),
        limit = wait_until_idle(&cx, idle) => Err(NodeTimeoutError { limit, idle: true }.into()),
    }
}

/// Converts a command that a subgraph sent to its parent into the output of the subgraph's node.
#[cold]
fn accept_command(error: NodeError) -> Result<NodeOutput, NodeError> {
    match error.into_cause() {
        Cause::DeliveredCommand(command) => {
            let ParentCommand { updates, gotos, .. } = *command;
            Ok(NodeOutput { updates, gotos: gotos.into_vec(), parent: None })
        }
        cause => Err(NodeError::from_cause(cause)),
    }
}

async fn wait_for_timeout(cx: &TaskContext, limit: Option<Duration>) -> Duration {
    let Some(limit) = limit else { return std::future::pending().await };
    let start = Instant::now();
    let waited_before = cx.time_waited().await;
    loop {
        let waited = cx.time_waited().await.saturating_sub(waited_before);
        match start.checked_add(limit.saturating_add(waited)) {
            Some(until) if until <= Instant::now() => return limit,
            Some(until) => sleep_until(until).await,
            // The deadline overflows `Instant`, so it is never reached.
            None => std::future::pending().await,
        }
    }
}

/// Returns once the task has sent no heartbeat for `limit`.
async fn wait_until_idle(cx: &TaskContext, limit: Option<Duration>) -> Duration {
    let Some(limit) = limit else { return std::future::pending().await };
    let start = Instant::now();
    loop {
        // A task that waits for its step is not idle. The end of the wait is a heartbeat.
        cx.time_waited().await;
        match cx.last_heartbeat().unwrap_or(start).max(start).checked_add(limit) {
            Some(until) if until <= Instant::now() => return limit,
            Some(until) => sleep_until(until).await,
            None => std::future::pending().await,
        }
    }
}

fn panic_error(panic: Box<dyn std::any::Any + Send>) -> NodeError {
    let message = match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(panic) => panic.downcast::<&str>().map_or("no message", |it| *it).to_owned(),
    };
    NodeError::from(NodePanicError { message })
}

/// Converts the result of a task that is neither retried nor handled into its outcome.
pub(super) fn task_outcome(cx: &TaskContext, result: Result<TaskOutput, NodeError>) -> TaskOutcome {
    let error = match result {
        Ok(output) => return TaskOutcome::Done(output),
        Err(error) => error,
    };
    match error.into_cause() {
        Cause::Halted(halt) => TaskOutcome::Halted(halt),
        Cause::DeliveredCommand(command) => TaskOutcome::Halted(Halt::ParentCommand(command)),
        Cause::Failed { source, terminal } => {
            TaskOutcome::Failed(Box::new(failure(cx, source, terminal)))
        }
    }
}

/// Converts the error of a router or of a goto into a run error.
pub(super) fn run_error(cx: &TaskContext, error: NodeError) -> RunError {
    match error.into_cause() {
        Cause::Failed { source, terminal } => failure(cx, source, terminal),
        Cause::Halted(_) | Cause::DeliveredCommand(_) => RunError::InvalidUpdate(
            "a branch cannot interrupt the run; call `interrupt` in a node".to_owned(),
        ),
    }
}

/// Converts the failure of a node into a run error. Errors that the engine itself raised are not wrapped in
/// [`RunError::Node`].
fn failure(
    cx: &TaskContext,
    source: Arc<dyn std::error::Error + Send + Sync>,
    terminal: bool,
) -> RunError {
    let error = &*source as &(dyn std::error::Error + 'static);
    if let Some(error) = error.downcast_ref::<RunError>() {
        return error.clone();
    }
    if let Some(error) = error.downcast_ref::<UnknownTargetError>() {
        return error.clone().into();
    }
    if let Some(error) = error.downcast_ref::<FieldError>() {
        return error.clone().into();
    }
    if let Some(error) = error.downcast_ref::<SentToEndError>() {
        return RunError::InvalidUpdate(error.to_string());
    }
    RunError::Node { node: cx.node().to_owned(), step: cx.step.number, error: source, terminal }
}
