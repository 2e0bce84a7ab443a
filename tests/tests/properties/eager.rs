//! Runs random graphs as eager and as ordinary ones, with crashes and without.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use async_trait::async_trait;
use checkpoint_testkit::{HookedSaver, WriteHook};
use graph_core::{
    Checkpointer, CompiledGraph, Durability, EventKind, Input, JsonState, MemorySaver, RunError,
    RunOptions, RunOutcome, StreamMode, Thread,
    checkpoint::{CheckpointError, CheckpointWrite, Lookup, TaskEvent},
};

use crate::{
    eager_graph::{graph, input},
    eager_log::Log,
    eager_spec::EagerSpec,
};

/// Maximum number of runs until a graph must be complete.
const MAX_RUNS: usize = 60;

/// Everything that can be observed of the runs of a thread.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Seen {
    outcomes: Vec<String>,
    /// Events that have a defined order.
    events: Vec<String>,
    history: Vec<String>,
}

/// A graph with its latencies and the log of its nodes.
pub(crate) struct Setup<'a> {
    pub(crate) spec: &'a EagerSpec,
    pub(crate) eager: bool,
    /// Determines the latencies. 0 means no latency.
    pub(crate) latencies: u64,
    pub(crate) durability: Durability,
}

impl Setup<'_> {
    fn build(&self, log: &Log, saver: Arc<dyn Checkpointer>) -> CompiledGraph<JsonState> {
        let graph = graph(self.spec, log, self.latencies).shared_checkpointer(saver);
        let graph = if self.eager { graph.eager() } else { graph };
        graph.compile().expect("the graph is valid")
    }

    /// Runs the graph on a new thread until it is complete. Answers all interrupts.
    pub(crate) async fn drive(&self, log: &Log, saver: Arc<dyn Checkpointer>) -> Seen {
        let thread = self.build(log, saver).thread("t", ());
        let mut seen = Seen::default();
        let mut input = input();
        for _ in 0..MAX_RUNS {
            let result = self.run(&thread, input, &mut seen.events).await;
            seen.outcomes.push(describe(&result));
            let Ok(RunOutcome::Interrupted { interrupts, .. }) = result else { break };
            input = Input::resume_by_id(interrupts.into_iter().map(|it| (it.id, it.value)));
        }
        seen.history = history(&thread).await;
        seen
    }

    async fn run(
        &self,
        thread: &Thread<JsonState>,
        input: Input<JsonState>,
        events: &mut Vec<String>,
    ) -> Result<RunOutcome<JsonState>, RunError> {
        let modes = [StreamMode::Values, StreamMode::Tasks];
        let mut options = RunOptions::new().durability(self.durability);
        options = options.step_limit(self.spec.step_limit);
        if let Some(limit) = self.spec.concurrency {
            options = options.max_concurrency(limit);
        }
        let mut run = thread.clone().with_options(options.stream_modes(modes)).stream(input);
        while let Some(event) = run.next().await {
            let node = event.node.as_deref().unwrap_or_default();
            match event.kind {
                EventKind::Values(values) => {
                    events.push(format!("{} values {}", event.step, values.to_json()));
                }
                EventKind::TaskStarted { input, .. } => {
                    events.push(format!("{} {node} {input}", event.step));
                }
                _ => {}
            }
        }
        run.finish().await
    }

    /// Runs the graph with a saver that fails from the given write on, and then again with a working one. Returns
    /// `None` if the graph needs fewer writes.
    pub(crate) async fn drive_with_crash(&self, write: usize) -> Option<Seen> {
        let log = Log::default();
        let memory: Arc<dyn Checkpointer> = Arc::new(MemorySaver::new());
        let hook = FailingHook { writes: AtomicUsize::new(0), first_failure: write };
        let failing = Arc::new(HookedSaver::new(memory.clone(), hook));
        let thread = self.build(&log, failing.clone()).thread("t", ());
        let mut next = input();
        let mut crashed = false;
        for _ in 0..MAX_RUNS {
            match self.run(&thread, next, &mut Vec::new()).await {
                Ok(RunOutcome::Interrupted { interrupts, .. }) => {
                    next = Input::resume_by_id(interrupts.into_iter().map(|it| (it.id, it.value)));
                }
                Err(RunError::Checkpoint(_)) => {
                    crashed = true;
                    break;
                }
                _ => break,
            }
        }
        if !crashed {
            return None;
        }
        let stored = memory.get(&Lookup::head("t", "")).await.expect("memory is readable");
        let records = stored.map(|it| it.records).unwrap_or_default();
        let done: BTreeSet<_> = records
            .iter()
            .filter(|it| matches!(it.event, TaskEvent::Done { .. }))
            .map(|it| it.task)
            .collect();
        log.started();
        let thread = self.build(&log, memory).thread("t", ());
        let mut seen = Seen::default();
        for _ in 0..MAX_RUNS {
            let state = thread.state().await.expect("the thread is readable");
            let next = match &state {
                None => input(),
                Some(state) => {
                    let pending = state.interrupts().into_iter();
                    let answers: Vec<_> =
                        pending.map(|it| (it.id.clone(), it.value.clone())).collect();
                    match answers.is_empty() {
                        true => Input::proceed(),
                        false => Input::resume_by_id(answers),
                    }
                }
            };
            let result = self.run(&thread, next, &mut Vec::new()).await;
            seen.outcomes = vec![describe(&result)];
            if !matches!(result, Ok(RunOutcome::Interrupted { .. })) {
                break;
            }
        }
        let repeated: Vec<_> = log.started().into_iter().filter(|it| done.contains(it)).collect();
        assert!(repeated.is_empty(), "recorded tasks run again: {repeated:?}");
        assert_eq!(log.repeated_calls(), 0, "recorded calls are made again");
        seen.history = history(&thread).await;
        Some(seen)
    }
}

impl Seen {
    /// Returns the last outcome, and the history without the tasks of its checkpoints. A crash changes the rest,
    /// because it adds outcomes and retries tasks.
    pub(crate) fn result(&self) -> (Option<&String>, Vec<String>) {
        let states =
            self.history.iter().map(|it| it.split(" tasks ").next().unwrap_or(it).to_owned());
        (self.outcomes.last(), states.collect())
    }
}

fn describe(result: &Result<RunOutcome<JsonState>, RunError>) -> String {
    match result {
        Ok(RunOutcome::Done(state)) => format!("done {}", state.to_full_value()),
        Ok(RunOutcome::Interrupted { interrupts, state }) => {
            let values: Vec<_> = interrupts.iter().map(|it| it.value.to_string()).collect();
            format!("interrupted {values:?} {}", state.to_full_value())
        }
        Ok(_) => "stopped".to_owned(),
        Err(error) => format!("error {error}"),
    }
}

/// Returns one line per checkpoint: everything except ids and times.
async fn history(thread: &Thread<JsonState>) -> Vec<String> {
    let history = thread.history(None).await.expect("the history is readable");
    let line = |it: &graph_core::ThreadState<JsonState>| {
        let task = |it: &graph_core::TaskState| {
            let interrupts: Vec<_> = it.interrupts.iter().map(|it| &it.value).collect();
            format!("{} {:?} {:?} {interrupts:?}", it.node, it.result, it.error)
        };
        let tasks: Vec<_> = it.tasks.iter().map(task).collect();
        let values = it.values.to_full_value();
        format!("{} {:?} {values} {:?} tasks {tasks:?}", it.step, it.source, it.next)
    };
    history.iter().rev().map(line).collect()
}

/// Fails from a given write on.
#[derive(Debug)]
struct FailingHook {
    writes: AtomicUsize,
    first_failure: usize,
}

#[async_trait]
impl WriteHook for FailingHook {
    async fn write(
        &self,
        inner: &dyn Checkpointer,
        writes: Vec<CheckpointWrite>,
    ) -> Result<(), CheckpointError> {
        for write in writes {
            if self.writes.fetch_add(1, Ordering::Relaxed) >= self.first_failure {
                let error: Box<dyn std::error::Error + Send + Sync> = "the process died".into();
                return Err(CheckpointError::Storage(Arc::from(error)));
            }
            inner.write(vec![write]).await?;
        }
        Ok(())
    }
}
