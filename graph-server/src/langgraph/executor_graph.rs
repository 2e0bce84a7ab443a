//! A graph whose runs are executed by a [`RunExecutor`]. The server reads and edits its threads itself.

use std::{collections::BTreeMap, future::pending, sync::Arc};

use async_trait::async_trait;
use graph_core::{
    Event, HistoryFilter, RunError, checkpoint::CheckpointId, draw::Drawing, state::Field,
};
use serde_json::{Map, Value};

use super::{
    any_graph::{AnyGraph, Edit, GraphEnd, GraphFailure, GraphRun, Snapshot, select_fields},
    executor::{ExecutorError, ExecutorInput, ExecutorRun, RunExecutor},
    position::Position,
    request::{command::Command, run::RunKwargs},
    retry::retry,
    schemas::Schemas,
    stream::message::complete_fields,
};

pub(super) struct ExecutorGraph {
    pub(super) name: String,
    /// The graph as this process would execute it.
    pub(super) local: Arc<dyn AnyGraph>,
    pub(super) executor: Arc<dyn RunExecutor>,
}

impl ExecutorGraph {
    fn input(&self, kwargs: &RunKwargs) -> Result<ExecutorInput, RunError> {
        match (&kwargs.input, &kwargs.command) {
            (_, Some(command)) => self.command(command),
            (Some(Value::Object(fields)), None) => {
                Ok(ExecutorInput::Fields(select_fields(self.fields(), fields, |it| it.input)))
            }
            (Some(Value::Null) | None, None) => Ok(ExecutorInput::Continue),
            (Some(_), None) => Err(RunError::InvalidUpdate(
                "the input must be a JSON object of state fields".to_owned(),
            )),
        }
    }

    fn command(&self, command: &Command) -> Result<ExecutorInput, RunError> {
        if command.resume.is_none() && command.update.is_none() && command.goto.is_none() {
            return Err(RunError::EmptyInput);
        }
        let (answer, answers) = match command.answers() {
            Some(answers) => (None, answers.clone().into_iter().collect()),
            None => (command.resume.clone(), BTreeMap::new()),
        };
        let fields = command.fields().unwrap_or_default();
        let update = select_fields(self.fields(), &fields, |_| true);
        let targets = command.targets();
        let is_empty =
            answer.is_none() && answers.is_empty() && update.is_empty() && targets.is_empty();
        Ok(match is_empty {
            true => ExecutorInput::Continue,
            false => ExecutorInput::Command { answer, answers, update, targets },
        })
    }

    fn request(&self, run: &GraphRun<'_>) -> Result<ExecutorRun, RunError> {
        let kwargs = run.kwargs;
        if !run.at.namespace.is_empty() {
            let problem = "a run that an executor executes cannot start from a checkpoint of a subgraph; use a \
                           checkpoint of the thread's own graph";
            return Err(RunError::InvalidUpdate(problem.to_owned()));
        }
        Ok(ExecutorRun {
            id: run.run.to_owned(),
            graph: self.name.clone(),
            thread: run.thread.to_owned(),
            owner: run.owner.map(str::to_owned),
            trace_parent: kwargs.trace_parent.clone(),
            checkpoint: run.at.checkpoint,
            input: self.input(kwargs)?,
            context: kwargs.context.clone(),
            config: kwargs.config.configurable.clone(),
            metadata: run.metadata.clone(),
            step_limit: kwargs.config.recursion_limit,
            max_concurrency: kwargs.config.max_concurrency,
            durability: kwargs.durability.into(),
            stop_before: kwargs.interrupt_before.as_ref().map(|it| it.stops()),
            stop_after: kwargs.interrupt_after.as_ref().map(|it| it.stops()),
        })
    }

    /// Removes the interrupts that the executor answers, because clients must not answer them.
    fn without_executor_interrupts(&self, mut state: Snapshot) -> Snapshot {
        for task in &mut state.tasks {
            task.interrupts.retain(|it| !self.executor.answers_interrupt(it));
            task.subgraph =
                task.subgraph.take().map(|it| Box::new(self.without_executor_interrupts(*it)));
        }
        state
    }

    /// Starts a run, unless an earlier execution has started it.
    async fn start(&self, run: &GraphRun<'_>) -> Result<(), GraphFailure> {
        let request = self.request(run)?;
        let start = || async {
            match self.executor.has_started(run.run).await? {
                true => Ok(()),
                false => self.executor.start(&request).await,
            }
        };
        let should_retry = |error: &ExecutorError| is_unavailable(error, run.run, "start");
        // A cancellation does not abort an attempt in flight: the run could otherwise start after it was cancelled.
        match retry(start, should_retry, run.control.cancelled()).await {
            Err(ExecutorError::Unavailable(_)) => Err(GraphFailure::Cancelled),
            started => Ok(started?),
        }
    }
}

/// Returns whether the executor cannot be reached, so that an operation should be retried. In that case, logs the
/// problem.
fn is_unavailable(error: &ExecutorError, run: &str, operation: &str) -> bool {
    let ExecutorError::Unavailable(problem) = error else { return false };
    tracing::warn!(run, problem, "cannot {operation} a run; retrying");
    true
}

#[async_trait]
impl AnyGraph for ExecutorGraph {
    async fn run(
        &self,
        run: GraphRun<'_>,
        publish: &mut (dyn FnMut(Event) + Send),
    ) -> Result<GraphEnd, GraphFailure> {
        self.start(&run).await?;
        let outcome = tokio::select! {
            outcome = self.executor.watch(run.run, publish) => outcome?,
            () = run.control.cancelled() => return Err(GraphFailure::Cancelled),
        };
        let mut output = outcome.values;
        output.retain(|name, _| self.fields().iter().any(|it| it.output && it.name == *name));
        let output = complete_fields(Value::Object(output));
        Ok(GraphEnd { output, interrupts: outcome.interrupts })
    }

    fn executes_locally(&self) -> bool {
        false
    }

    async fn cancel(&self, run: &str) -> Result<(), ExecutorError> {
        let should_retry = |error: &ExecutorError| is_unavailable(error, run, "cancel");
        retry(|| self.executor.cancel(run), should_retry, pending()).await
    }

    async fn delete_thread(&self, thread: &str) -> Result<(), ExecutorError> {
        self.executor.delete_thread(thread).await
    }

    async fn state(
        &self,
        thread: &str,
        at: &Position,
        subgraphs: bool,
    ) -> Result<Option<Snapshot>, RunError> {
        let state = self.local.state(thread, at, subgraphs).await?;
        Ok(state.map(|it| self.without_executor_interrupts(it)))
    }

    async fn history(
        &self,
        thread: &str,
        namespace: &str,
        filter: HistoryFilter,
    ) -> Result<Vec<Snapshot>, RunError> {
        let states = self.local.history(thread, namespace, filter).await?;
        Ok(states.into_iter().map(|it| self.without_executor_interrupts(it)).collect())
    }

    async fn edit(
        &self,
        thread: &str,
        at: &Position,
        metadata: Map<String, Value>,
        steps: Vec<Vec<Edit>>,
    ) -> Result<CheckpointId, RunError> {
        self.local.edit(thread, at, metadata, steps).await
    }

    fn check_context(&self, context: &Map<String, Value>) -> Result<(), String> {
        self.local.check_context(context)
    }

    fn drawing(&self, depth: usize) -> Drawing {
        self.local.drawing(depth)
    }

    fn schemas(&self) -> &Schemas {
        self.local.schemas()
    }

    fn fields(&self) -> &[Field] {
        self.local.fields()
    }
}
