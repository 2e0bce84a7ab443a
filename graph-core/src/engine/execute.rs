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
use smallvec::SmallVec;
use tokio::time::{Instant, sleep, sleep_until};

use crate::{
    checkpoint::{record::TaskEvent, writer::Durability},
    context::task::{NodeFailure, TaskContext},
    engine::{
        events::{emit_retried, emit_task_failed},
        plan::{Target, Targets},
    },
    error::{Halt, NodeError, NodePanicError, NodeTimeoutError, RunError, UnknownTargetError},
    goto::{Goto, ParentCommand},
    graph::erased::{Graph, NodeEntry, NodeIdx, RouteCall},
    interrupt::{Interrupt, StopReason},
    label::END_NAME,
    node::{
        erased::{NodeBody, TaskInput},
        output::NodeOutput,
    },
    spans,
    state::{
        erased::{AnyUpdate, ErasedState},
        field::FieldError,
        fold::Fold,
    },
};

/// How a task ended.
pub(crate) enum TaskOutcome {
    Done(TaskOutput),
    Failed(Box<RunError>),
    Interrupted(Vec<Interrupt>),
    ParentCommand(Box<ParentCommand>),
    Stopped(StopReason),
}

/// The writes of a finished task, and the targets it routed to.
#[derive(Default)]
pub(crate) struct TaskOutput {
    pub(crate) updates: SmallVec<[AnyUpdate; 1]>,
    pub(crate) targets: Targets,
    /// Whether the node's routers have been called. If not, the commit calls them with the committed state.
    pub(crate) routed: bool,
    /// Whether the output comes from the node's error handler. If so, the node's own edges do not fire.
    pub(crate) handled: bool,
}

/// A task: the node that it runs, and its context.
#[derive(Clone)]
pub(crate) struct Task {
    pub(crate) graph: Arc<Graph>,
    pub(crate) node: NodeIdx,
    pub(crate) cx: Arc<TaskContext>,
}

impl Task {
    fn entry(&self) -> &NodeEntry {
        self.graph.node(self.node)
    }

    pub(crate) fn body(&self) -> &NodeBody {
        self.entry().body.as_ref().expect("START has no body and is never executed")
    }
}

/// A task ready to run.
pub(crate) struct Job {
    pub(crate) task: Task,
    pub(crate) input: TaskInput,
    /// The state that the routers read. `None` if there are no routers or if the commit calls them.
    pub(crate) view: Option<Box<dyn ErasedState>>,
    /// A failure from an earlier run. If it is present, only the error handler still has to run.
    pub(crate) failed: Option<Box<PendingFailure>>,
}

/// A failure that the error handler must handle, with the resume values and effects that the handler recorded in an
/// earlier run.
pub(crate) struct PendingFailure {
    pub(crate) failure: NodeFailure,
    pub(crate) resume_values: Vec<Value>,
    pub(crate) effects: BTreeMap<String, Value>,
}

impl From<NodeFailure> for PendingFailure {
    fn from(failure: NodeFailure) -> Self {
        Self { failure, resume_values: Vec::new(), effects: BTreeMap::new() }
    }
}

/// The outcome of a task, or the outcome of its error handler if the handler ran.
pub(crate) struct TaskReport {
    pub(crate) outcome: TaskOutcome,
    /// The node's failure and the handler's context, if the handler ran.
    pub(crate) handled: Option<Box<(NodeFailure, Arc<TaskContext>)>>,
}

impl From<TaskOutcome> for TaskReport {
    fn from(outcome: TaskOutcome) -> Self {
        Self { outcome, handled: None }
    }
}

/// Runs the attempts of a task, then its error handler if they all failed.
pub(crate) fn run_task(job: Job) -> impl Future<Output = TaskReport> + Send {
    let cx = &job.task.cx;
    let span = spans::task(cx.node(), cx.step.number, || cx.id());
    spans::instrument(span, run_unspanned(job))
}

async fn run_unspanned(job: Job) -> TaskReport {
    let Job { task, input, view, failed } = job;
    let options = &task.entry().options;
    if options.retries.is_empty() && options.handler.is_none() {
        // Without retries and without an error handler, the input is needed only once, so it is moved instead of
        // cloned.
        return task_outcome(&task.cx, run_attempt(&task, input, view.as_deref()).await).into();
    }
    // The futures here and in `call_node` are boxed to keep the future of a plain task small, because a fan-out has
    // many plain tasks.
    Box::pin(run_with_recovery(Job { task: task.clone(), input, view, failed })).await
}

/// Runs a task that has retries or an error handler.
async fn run_with_recovery(job: Job) -> TaskReport {
    let Job { task, input, view, failed } = job;
    let options = &task.entry().options;
    if let Some(left) = failed {
        return run_handler(&task, input, *left).await;
    }
    let error = match run_with_retries(&task, &input, view.as_deref()).await {
        Err(error) if options.handler.is_some() && error.source().is_some() => error,
        result => return task_outcome(&task.cx, result).into(),
    };
    let cx = &task.cx;
    let failure = NodeFailure { node: cx.node().to_owned(), error: error.to_string() };
    if let Some(writer) = cx.scope.writer.as_ref().filter(|it| it.durability != Durability::Exit) {
        let event = TaskEvent::Failed { error: failure.error.clone(), handled: true };
        // The failure is recorded before the handler starts, so that after a crash only the handler runs again.
        if let Err(error) = writer.record(cx.checkpoint_key(), vec![cx.record(event)]).await {
            return TaskOutcome::Failed(Box::new(error.into())).into();
        }
    }
    emit_task_failed(cx, &failure).await;
    run_handler(&task, input, failure.into()).await
}

/// Runs the node's error handler after the task has failed.
async fn run_handler(task: &Task, input: TaskInput, left: PendingFailure) -> TaskReport {
    let PendingFailure { failure, resume_values, effects } = left;
    let mut handler = task.cx.handler(failure.clone());
    handler.restore(resume_values, effects);
    let handler = Task { cx: Arc::new(handler), ..task.clone() };
    let outcome = match &task.entry().options.handler {
        Some(body) => {
            let outcome = call_node(&handler, body, input).await;
            let done = outcome.and_then(|it| resolve_outcome(it, &task.graph, task.node));
            let done = done.map(|it| TaskOutput { handled: true, routed: true, ..it });
            task_outcome(&handler.cx, done)
        }
        None => error_outcome(&task.cx, NodeError::from(failure.error.clone())),
    };
    TaskReport { outcome, handled: Some(Box::new((failure, handler.cx))) }
}

/// Repeats attempts until one succeeds or no retry policy allows another attempt.
async fn run_with_retries(
    task: &Task,
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
                emit_retried(&task.cx, &error, wait).await;
                sleep(wait).await;
                task.cx.next_attempt();
            }
            _ => return Err(error),
        }
    }
}

/// Runs the node once, then its routers.
async fn run_attempt(
    task: &Task,
    input: TaskInput,
    view: Option<&dyn ErasedState>,
) -> Result<TaskOutput, NodeError> {
    let outcome = call_node(task, task.body(), input).await?;
    let mut done = resolve_outcome(outcome, &task.graph, task.node)?;
    if let Some(view) = view {
        let routed = catch_unwind(AssertUnwindSafe(|| route_on_copy(task, view, &mut done)));
        routed.map_err(panic_error)??;
    }
    Ok(done)
}

/// Converts a node's output into the output of its task and resolves each goto to its target node.
pub(super) fn resolve_outcome(
    outcome: NodeOutput,
    graph: &Graph,
    node: NodeIdx,
) -> Result<TaskOutput, NodeError> {
    if let Some(command) = outcome.parent {
        return Err(NodeError::parent_command(command));
    }
    let mut done = TaskOutput { updates: outcome.updates, ..TaskOutput::default() };
    if !outcome.gotos.is_empty() {
        resolve_gotos(graph, node, outcome.gotos, &mut done.targets)?;
    }
    Ok(done)
}

/// Resolves gotos to nodes of the graph and appends them to `targets`. A goto to END adds nothing.
pub(crate) fn resolve_gotos(
    graph: &Graph,
    from: NodeIdx,
    gotos: impl IntoIterator<Item = Goto>,
    targets: &mut Targets,
) -> Result<(), NodeError> {
    for goto in gotos {
        match (graph.find(goto.to.as_str()), goto.payload) {
            (Some(node), None) if node != graph.start => targets.push(Target::Node(node)),
            (Some(node), Some(payload)) if node != graph.start => {
                let payload =
                    payload.ensure_depth(goto.to.as_str()).map_err(NodeError::terminal)?;
                targets.push(Target::Send(node, payload));
            }
            (None, None) if goto.to.as_str() == END_NAME => {}
            (None, Some(_)) if goto.to.as_str() == END_NAME => {
                let from = graph.node(from).label.to_string();
                return Err(NodeError::terminal(SentToEndError { from }));
            }
            _ => return Err(NodeError::terminal(graph.unknown_target(from, &goto.to))),
        }
    }
    Ok(())
}

/// The error returned when a node sends a payload to END.
#[derive(Clone, Debug, thiserror::Error)]
#[error("`{from}` sent a payload to END, which takes none; use `Goto::end()` without a payload")]
pub(crate) struct SentToEndError {
    from: String,
}

/// Calls the routers with a copy of the state that includes the task's own writes.
pub(super) fn route_on_copy(
    task: &Task,
    view: &dyn ErasedState,
    done: &mut TaskOutput,
) -> Result<(), NodeError> {
    if task.graph.has_routers(task.node) {
        let mut copy = view.fork();
        let mut fold = Fold::default();
        for update in &done.updates {
            let mut update = copy.clone_update(update).map_err(NodeError::terminal)?;
            let overwritten = copy.write_set(&update).map_err(NodeError::terminal)?.overwritten;
            fold.mark_overwritten(&overwritten);
            copy.fold(&mut update, &mut fold).map_err(NodeError::terminal)?;
        }
        route(task, &*copy, done)?;
    }
    done.routed = true;
    Ok(())
}

/// Calls the routers of the task's node. `state` must include the task's own writes.
pub(crate) fn route(
    task: &Task,
    state: &dyn ErasedState,
    done: &mut TaskOutput,
) -> Result<(), NodeError> {
    let entry = task.entry();
    let call = RouteCall {
        state,
        updates: &done.updates,
        reads: entry.reads.as_ref(),
        remaining: task.cx.step.remaining(),
        deps: &*task.cx.scope.deps,
    };
    for router in &entry.routers {
        let gotos = catch_unwind(AssertUnwindSafe(|| (router.route)(&call)));
        resolve_gotos(&task.graph, task.node, gotos.map_err(panic_error)??, &mut done.targets)?;
    }
    Ok(())
}

/// Calls the node within its time limits and converts a panic into an error.
pub(super) async fn call_node(
    task: &Task,
    body: &NodeBody,
    input: TaskInput,
) -> Result<NodeOutput, NodeError> {
    let options = &task.entry().options;
    let called = catch_unwind(AssertUnwindSafe(|| body.0.call(input, &task.cx)));
    let mut future = called.map_err(panic_error)?;
    let run = std::future::poll_fn(move |task| {
        match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(task))) {
            Ok(Poll::Ready(Err(error))) => Poll::Ready(accept_command(error)),
            Ok(poll) => poll,
            Err(panic) => Poll::Ready(Err(panic_error(panic))),
        }
    });
    match (options.timeout, options.idle_timeout) {
        (None, None) => run.await,
        (limit, idle) => Box::pin(with_time_limits(run, &task.cx, limit, idle)).await,
    }
}

/// Fails the attempt if it exceeds its time limit or sends no heartbeat within the idle timeout.
async fn with_time_limits(
    run: impl Future<Output = Result<NodeOutput, NodeError>>,
    cx: &TaskContext,
    limit: Option<Duration>,
    idle: Option<Duration>,
) -> Result<NodeOutput, NodeError> {
    tokio::select! {
        outcome = run => outcome,
        limit = wait_for_timeout(limit) => Err(NodeTimeoutError { limit, idle: false }.into()),
        limit = wait_until_idle(cx, idle) => Err(NodeTimeoutError { limit, idle: true }.into()),
    }
}

/// Converts a command that a subgraph sent to its parent into the output of the subgraph's node.
#[cold]
fn accept_command(error: NodeError) -> Result<NodeOutput, NodeError> {
    match error.into_halt() {
        Halt::DeliveredCommand(command) => {
            let ParentCommand { updates, gotos } = *command;
            Ok(NodeOutput { updates, gotos: gotos.into_vec(), parent: None })
        }
        halt => Err(NodeError::from_halt(halt)),
    }
}

async fn wait_for_timeout(limit: Option<Duration>) -> Duration {
    match limit {
        Some(limit) => {
            sleep(limit).await;
            limit
        }
        None => std::future::pending().await,
    }
}

/// Returns once the task has sent no heartbeat for `limit`.
async fn wait_until_idle(cx: &TaskContext, limit: Option<Duration>) -> Duration {
    let Some(limit) = limit else { return std::future::pending().await };
    let start = Instant::now();
    loop {
        match cx.last_heartbeat().unwrap_or(start).max(start).checked_add(limit) {
            Some(until) if until <= Instant::now() => return limit,
            Some(until) => sleep_until(until).await,
            // The deadline overflows `Instant`, so it is never reached.
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

fn task_outcome(cx: &TaskContext, result: Result<TaskOutput, NodeError>) -> TaskOutcome {
    result.map_or_else(|error| error_outcome(cx, error), TaskOutcome::Done)
}

/// Converts an error that was neither retried nor handled into the outcome of its task.
pub(super) fn error_outcome(cx: &TaskContext, error: NodeError) -> TaskOutcome {
    match error.into_halt() {
        Halt::Interrupted(interrupts) => TaskOutcome::Interrupted(interrupts),
        Halt::ParentCommand(command) | Halt::DeliveredCommand(command) => {
            TaskOutcome::ParentCommand(command)
        }
        Halt::Stopped(stop) => TaskOutcome::Stopped(stop),
        Halt::Failed { source, terminal } => {
            TaskOutcome::Failed(Box::new(run_error(cx, source, terminal)))
        }
    }
}

/// Converts a node's error into a run error. Errors that the engine itself raised are not wrapped in
/// [`RunError::Node`].
pub(crate) fn run_error(
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

/// Awaits the future for at most `limit`. Returns `None` on timeout.
pub(crate) async fn with_timeout<F: Future>(limit: Duration, future: F) -> Option<F::Output> {
    tokio::time::timeout(limit, future).await.ok()
}
