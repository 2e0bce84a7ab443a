//! Runs graphs with different settings and records the results.

use std::{
    fmt::Debug,
    future::Future,
    pin::pin,
    sync::{Arc, LazyLock},
    task::Poll,
    time::Duration,
};

use graph_core::{
    Checkpointer, CompiledGraph, Durability, EventKind, Input, JsonState, RunControl, RunError,
    RunOptions, RunOutcome, Stops, StreamMode, Thread, checkpoint::CheckpointId,
};
use proptest::test_runner::TestCaseError;
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};

use crate::{
    build::{Harness, build, schema},
    saver::TextSaver,
    spec::{NAMES, Spec},
};

/// The observed result of one run, or of several runs on one thread.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Observation {
    /// Description of how the run ended.
    pub(crate) outcome: String,
    /// Final state. `None` if it is not available.
    pub(crate) state: Option<Value>,
    /// Finished tasks, sorted. Each line contains the graph, the step, the node and the input.
    pub(crate) steps: Vec<String>,
    /// Events that have a defined order. `None` if the events were not read.
    pub(crate) events: Option<Vec<String>>,
    /// Whether the number of concurrent tasks was limited.
    pub(crate) limited: bool,
}

impl Observation {
    /// Fails unless both observations agree in all parts that both have recorded.
    pub(crate) fn check_equal(
        &self,
        other: &Self,
        how: &dyn std::fmt::Debug,
    ) -> Result<(), TestCaseError> {
        let state = self.state.is_none() || other.state.is_none() || self.state == other.state;
        let events = self.events.is_none() || other.events.is_none() || self.events == other.events;
        if self.outcome == other.outcome && state && events && self.same_steps(other) {
            return Ok(());
        }
        let reason = format!("{how:?} differs\n  expected: {self:#?}\n  got: {other:#?}");
        Err(TestCaseError::fail(reason))
    }

    /// Returns whether both runs have finished the same tasks. After a failure, no more tasks are started, so `other`
    /// may lack some tasks if its concurrency was limited.
    fn same_steps(&self, other: &Self) -> bool {
        let failed = self.outcome.starts_with("error");
        self.steps == other.steps
            || (failed && other.limited && other.steps.iter().all(|it| self.steps.contains(it)))
    }
}

/// Determines how a graph is run. Settings must not affect the result.
#[derive(Clone, Debug, Default)]
pub(crate) struct Setting {
    /// Number of worker threads. `None` means a single-threaded runtime.
    pub(crate) workers: Option<usize>,
    pub(crate) saver: Option<Durability>,
    pub(crate) watched: bool,
    pub(crate) concurrency: Option<usize>,
    /// Number of times that each node yields, which determines the order in which nodes finish.
    pub(crate) delays: Vec<u8>,
    /// Whether interrupts are answered and the run is resumed. This requires a saver.
    pub(crate) answers: bool,
}

/// A way to disrupt a run before it is resumed.
#[derive(Clone, Debug)]
pub(crate) enum Disruption {
    Before,
    After,
    BeforeAndAfter,
    Drain(i64),
    /// Drops the future of each run after a number of polls. The numbers are used from last to first, one per run.
    Drop(Vec<usize>),
    /// Makes the node with this index fail at its first call, whether it is in the graph or in a subgraph.
    Fail(usize),
    /// Limits each run to this number of steps.
    Limit(u32),
    /// Answers only one of several interrupts at a time.
    OneAnswer,
}

/// Maximum number of runs until a graph must be complete.
const MAX_RUNS: usize = 2000;

/// Time after which a run is considered hung.
const RUN_TIMEOUT: Duration = Duration::from_secs(300);

/// Runs a future on a runtime with this number of worker threads.
pub(crate) fn on<T>(workers: Option<usize>, future: impl Future<Output = T>) -> T {
    static MULTI: LazyLock<[Runtime; 3]> = LazyLock::new(|| {
        [1, 2, 4].map(|workers| {
            let runtime = Builder::new_multi_thread().worker_threads(workers).enable_time().build();
            runtime.expect("a runtime can be created")
        })
    });
    let bounded = async {
        let done = tokio::time::timeout(RUN_TIMEOUT, future).await;
        done.expect("the run must not hang")
    };
    match workers {
        Some(1) => MULTI[0].block_on(bounded),
        Some(2) => MULTI[1].block_on(bounded),
        Some(_) => MULTI[2].block_on(bounded),
        None => {
            let runtime = Builder::new_current_thread().enable_time().build();
            let runtime = runtime.expect("a runtime can be created");
            runtime.block_on(bounded)
        }
    }
}

/// Runs a graph without disruptions. If the setting requires it, answers interrupts.
pub(crate) fn observe(spec: &Spec, setting: &Setting) -> Observation {
    let session = Session::new(spec, setting);
    on(setting.workers, async move {
        match setting.saver {
            None => session.once().await,
            Some(_) => session.drive(&[]).await.0,
        }
    })
}

/// Runs a graph with disruptions. Also returns the tasks that finished more than once.
pub(crate) fn observe_disrupted(
    spec: &Spec,
    setting: &Setting,
    disruptions: &[Disruption],
) -> (Observation, Vec<String>) {
    let session = Session::new(spec, setting);
    on(setting.workers, async move { session.drive(disruptions).await })
}

/// A graph and its thread, with the settings of the run.
pub(crate) struct Session {
    spec: Spec,
    setting: Setting,
    harness: Harness,
    graph: CompiledGraph<JsonState>,
}

/// The result of a run that was not dropped.
type RunResult = Result<RunOutcome<JsonState>, RunError>;

impl Session {
    pub(crate) fn new(spec: &Spec, setting: &Setting) -> Self {
        let harness = Harness::new(setting.delays.clone());
        let saver = setting.saver.map(|_| Arc::new(TextSaver::default()) as Arc<dyn Checkpointer>);
        let graph = build(spec, &harness, saver);
        Self { spec: spec.clone(), setting: setting.clone(), harness, graph }
    }

    pub(crate) fn thread(&self) -> Thread<JsonState> {
        self.graph.thread("t", ())
    }

    pub(crate) fn input(&self) -> Input<JsonState> {
        let input = json!({"ticks": 0, "text": "^", "any": "start", "topic": ["in"], "last": "in"});
        schema(&self.spec).input(input).expect("the input is an object")
    }

    pub(crate) fn options(&self) -> RunOptions {
        let mut options = RunOptions::new()
            .step_limit(self.spec.limit)
            .stream_modes([StreamMode::Values, StreamMode::Tasks]);
        if let Some(durability) = self.setting.saver {
            options = options.durability(durability);
        }
        match self.setting.concurrency {
            Some(tasks) => options.max_concurrency(tasks),
            None => options,
        }
    }

    /// Runs once without a checkpointer.
    async fn once(&self) -> Observation {
        let (input, options) = (self.input(), self.options());
        let mut events = self.setting.watched.then(Vec::new);
        let result = match &mut events {
            None => self.graph.with(options).run(input, ()).await,
            Some(events) => watch(self.graph.with(options).stream(input, ()), events).await,
        };
        self.observation(&result, None, events)
    }

    /// Runs the graph until it is complete. Answers interrupts and resumes the run after stops.
    pub(crate) async fn drive(&self, disruptions: &[Disruption]) -> (Observation, Vec<String>) {
        self.drive_from(self.thread(), NextInput::Start, disruptions).await
    }

    /// Like [`Session::drive`], but starts from the given thread and input.
    pub(crate) async fn drive_from(
        &self,
        first: Thread<JsonState>,
        mut next: NextInput,
        disruptions: &[Disruption],
    ) -> (Observation, Vec<String>) {
        let mut thread = first;
        let mut events = (self.setting.watched && disruptions.is_empty()).then(Vec::new);
        let mut drops = disruptions.iter().find_map(|it| match it {
            Disruption::Drop(polls) => Some(polls.clone()),
            _ => None,
        });
        self.arm(disruptions);
        for _ in 0..MAX_RUNS {
            let input = self.input_for(&next);
            let run = self.run(
                thread.with_options(self.disrupted_options(disruptions)),
                input,
                &mut events,
            );
            let polls = drops.as_mut().and_then(Vec::pop);
            let result = match polls {
                Some(polls) => poll_then_drop(run, polls).await,
                None => Some(run.await),
            };
            thread = self.thread();
            match self.after(&thread, result, disruptions).await {
                Ok(then) => next = then,
                Err(result) => {
                    let state = self.stored(&thread, &result).await;
                    return (self.observation(&result, state, events), self.harness.repeated());
                }
            }
        }
        panic!("the graph is not complete after {MAX_RUNS} runs");
    }

    fn arm(&self, disruptions: &[Disruption]) {
        for it in disruptions {
            if let Disruption::Fail(node) = it {
                self.harness.set_fail_once(NAMES[*node % self.spec.nodes.len()]);
            }
        }
    }

    fn disrupted_options(&self, disruptions: &[Disruption]) -> RunOptions {
        let mut options = self.options();
        for it in disruptions {
            options = match it {
                Disruption::Before => options.stop_before(Stops::All),
                Disruption::After => options.stop_after(Stops::All),
                Disruption::BeforeAndAfter => {
                    options.stop_before(Stops::All).stop_after(Stops::All)
                }
                Disruption::Limit(steps) => options.step_limit(*steps),
                Disruption::Drain(step) => {
                    let control = RunControl::new();
                    self.harness.drain_at(*step, control.clone());
                    options.control(control)
                }
                Disruption::Drop(_) | Disruption::Fail(_) | Disruption::OneAnswer => options,
            };
        }
        options
    }

    fn input_for(&self, next: &NextInput) -> Input<JsonState> {
        match next {
            NextInput::Start => self.input(),
            NextInput::Proceed => Input::proceed(),
            NextInput::Answer(answers) => Input::resume_by_id(answers.clone()),
        }
    }

    async fn run(
        &self,
        thread: Thread<JsonState>,
        input: Input<JsonState>,
        events: &mut Option<Vec<String>>,
    ) -> RunResult {
        match events {
            None => thread.run(input).await,
            Some(events) => watch(thread.stream(input), events).await,
        }
    }

    /// Returns the input for the next run, or the final result if no further run is needed.
    async fn after(
        &self,
        thread: &Thread<JsonState>,
        result: Option<RunResult>,
        disruptions: &[Disruption],
    ) -> Result<NextInput, RunResult> {
        let Some(result) = result else { return Ok(after_drop(thread).await) };
        let limited = disruptions.iter().any(|it| matches!(it, Disruption::Limit(_)));
        let questions = match &result {
            Ok(RunOutcome::Stopped { .. }) => return Ok(NextInput::Proceed),
            Ok(RunOutcome::Interrupted { interrupts, .. }) if self.setting.answers => interrupts,
            Err(RunError::StepLimit { .. }) if limited => return Ok(NextInput::Proceed),
            Err(error) if error.to_string().ends_with(": injected") => {
                return Ok(NextInput::Proceed);
            }
            _ => return Err(result),
        };
        let one = disruptions.iter().any(|it| matches!(it, Disruption::OneAnswer));
        let count = if one { 1 } else { questions.len() };
        let answers =
            questions.iter().rev().take(count).map(|it| (it.id.clone(), answer(&it.value)));
        Ok(NextInput::Answer(answers.collect()))
    }

    /// Returns the state of the newest checkpoint. It does not include the writes of finished tasks in an
    /// incomplete step.
    async fn stored(&self, thread: &Thread<JsonState>, result: &RunResult) -> Option<Value> {
        // After a conflict with `Durability::Exit`, the stored state follows LangGraph's behaviour and is not compared.
        let exit = self.setting.saver == Some(Durability::Exit);
        if matches!(result, Err(RunError::Conflict(_))) && exit {
            return None;
        }
        let id = thread.state().await.ok()??.id;
        let state = thread.at(id).state().await.ok()??;
        Some(state.values.to_full_value())
    }

    fn observation(
        &self,
        result: &RunResult,
        stored: Option<Value>,
        events: Option<Vec<String>>,
    ) -> Observation {
        let (outcome, state) = match result {
            Ok(exit) => (describe(exit), Some(exit.state().to_full_value())),
            Err(error) => (format!("error: {error}"), stored),
        };
        let limited = self.setting.concurrency.is_some();
        Observation { outcome, state, steps: self.harness.finished_tasks(), events, limited }
    }
}

/// The input for the next run on a thread.
#[derive(Clone, Debug)]
pub(crate) enum NextInput {
    Start,
    Proceed,
    Answer(Vec<(String, Value)>),
}

/// Returns the next input for a thread whose run was dropped.
async fn after_drop(thread: &Thread<JsonState>) -> NextInput {
    let state = thread.state().await.expect("the thread of a dropped run is readable");
    let Some(state) = state else { return NextInput::Start };
    let pending = state.interrupts().into_iter();
    let pending: Vec<_> = pending.map(|it| (it.id.clone(), answer(&it.value))).collect();
    if pending.is_empty() { NextInput::Proceed } else { NextInput::Answer(pending) }
}

/// Returns the answer to an interrupt, which depends only on the interrupt's value.
fn answer(question: &Value) -> Value {
    json!({ "to": question })
}

fn describe(exit: &RunOutcome<JsonState>) -> String {
    match exit {
        RunOutcome::Done(_) => "done".to_owned(),
        RunOutcome::Interrupted { interrupts, .. } => {
            let mut asked: Vec<_> = interrupts.iter().map(|it| it.value.to_string()).collect();
            asked.sort_unstable();
            format!("interrupted: {}", asked.join(" "))
        }
        RunOutcome::Stopped { reason, .. } => format!("stopped: {reason:?}"),
        _ => "unknown exit".to_owned(),
    }
}

/// Reads all events of a run and records the events that have a defined order.
async fn watch(mut run: graph_core::RunStream<JsonState>, events: &mut Vec<String>) -> RunResult {
    while let Some(event) = run.next().await {
        match event.kind {
            EventKind::Values(values) => {
                events.push(format!("{} values {}", event.step, values.to_json()));
            }
            EventKind::TaskStarted { input, .. } => {
                let node = event.node.as_deref().unwrap_or_default();
                events.push(format!("{} {node} {input}", event.step));
            }
            _ => {}
        }
    }
    run.finish().await
}

/// Polls a run `polls` times and then drops it.
async fn poll_then_drop(
    run: impl Future<Output = RunResult>,
    mut polls: usize,
) -> Option<RunResult> {
    let mut run = pin!(run);
    std::future::poll_fn(|cx| {
        if polls == 0 {
            return Poll::Ready(None);
        }
        polls -= 1;
        match run.as_mut().poll(cx) {
            Poll::Ready(result) => Poll::Ready(Some(result)),
            Poll::Pending if polls == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// Returns the checkpoints of a thread, newest first.
pub(crate) async fn checkpoints(thread: &Thread<JsonState>) -> Vec<CheckpointId> {
    let history = thread.history(None).await.expect("the history is readable");
    history.iter().map(|it| it.id).collect()
}
