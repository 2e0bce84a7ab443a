//! Running a graph in one way or another, and what there is to see of it.

use std::{
    fmt::Debug,
    future::Future,
    pin::pin,
    sync::{Arc, LazyLock},
    task::Poll,
    time::Duration,
};

use graph_core::{
    Checkpointer, CompiledGraph, Control, Durability, EventKind, Exit, Input, JsonState, Mode,
    RunError, RunOptions, Stops, Thread, checkpoint::CheckpointId,
};
use proptest::test_runner::TestCaseError;
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};

use crate::{
    build::{Board, build, schema},
    saver::TextSaver,
    spec::{NAMES, Spec},
};

/// What is seen of a run, or of several that make one whole.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Observation {
    /// How it ended, in words.
    pub(crate) outcome: String,
    /// The state it ended with; `None` where that cannot be asked for.
    pub(crate) state: Option<Value>,
    /// The tasks that ran to their end, sorted: graph, step, node, input.
    pub(crate) steps: Vec<String>,
    /// The events whose order is laid down; `None` where nobody watched.
    pub(crate) shown: Option<Vec<String>>,
    /// Whether not all tasks of a step could run at once.
    pub(crate) limited: bool,
}

impl Observation {
    /// Fails unless both saw the same, as far as both could see.
    pub(crate) fn agrees(
        &self,
        other: &Self,
        how: &dyn std::fmt::Debug,
    ) -> Result<(), TestCaseError> {
        let state = self.state.is_none() || other.state.is_none() || self.state == other.state;
        let shown = self.shown.is_none() || other.shown.is_none() || self.shown == other.shown;
        if self.outcome == other.outcome && state && shown && self.same_steps(other) {
            return Ok(());
        }
        let reason = format!("{how:?} differs\n  expected: {self:#?}\n  got: {other:#?}");
        Err(TestCaseError::fail(reason))
    }

    /// After a failure no more tasks are started, so a limit on concurrency may leave some of them out.
    fn same_steps(&self, other: &Self) -> bool {
        let failed = self.outcome.starts_with("error");
        self.steps == other.steps
            || (failed && other.limited && other.steps.iter().all(|it| self.steps.contains(it)))
    }
}

/// How to run a graph; nothing of it may be seen in the result.
#[derive(Clone, Debug, Default)]
pub(crate) struct Setting {
    /// Worker threads; `None` for the runtime of one thread.
    pub(crate) workers: Option<usize>,
    pub(crate) saver: Option<Durability>,
    pub(crate) watched: bool,
    pub(crate) concurrency: Option<usize>,
    /// What sets the order in which nodes finish.
    pub(crate) delays: Vec<u8>,
    /// Whether questions are answered and the run goes on; this needs a saver.
    pub(crate) answers: bool,
}

/// A way to stop a run and go on.
#[derive(Clone, Debug)]
pub(crate) enum Break {
    Before,
    After,
    BeforeAndAfter,
    Drain(i64),
    /// Drops the run's future after so many polls, time after time.
    Drop(Vec<usize>),
    /// Lets a node fail at its first call, by index, in the graph or in one inside it.
    Fail(usize),
    /// Lets each run take so many steps.
    Limit(u32),
    /// Answers one of several questions at a time.
    OneAnswer,
}

/// How many runs a graph may take to come to its end.
const RUNS: usize = 2000;

/// How long a run may take before it counts as hung; far beyond what any takes.
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs a future on a runtime with so many workers.
pub(crate) fn on<T>(workers: Option<usize>, future: impl Future<Output = T>) -> T {
    static MULTI: LazyLock<[Runtime; 3]> = LazyLock::new(|| {
        [1, 2, 4].map(|workers| {
            let runtime = Builder::new_multi_thread().worker_threads(workers).enable_time().build();
            runtime.expect("a runtime without I/O needs nothing that could be missing")
        })
    });
    let bounded = async {
        let done = tokio::time::timeout(PATIENCE, future).await;
        done.expect("the run hangs")
    };
    match workers {
        Some(1) => MULTI[0].block_on(bounded),
        Some(2) => MULTI[1].block_on(bounded),
        Some(_) => MULTI[2].block_on(bounded),
        None => {
            let runtime = Builder::new_current_thread().enable_time().build();
            let runtime =
                runtime.expect("a runtime without I/O needs nothing that could be missing");
            runtime.block_on(bounded)
        }
    }
}

/// Runs a graph in one go; questions are answered where the setting says so.
pub(crate) fn observe(spec: &Spec, setting: &Setting) -> Observation {
    let session = Session::new(spec, setting);
    on(setting.workers, async move {
        match setting.saver {
            None => session.once().await,
            Some(_) => session.drive(&[]).await.0,
        }
    })
}

/// Runs a graph with stops on the way. Also gives the tasks that ran to their end more than once.
pub(crate) fn observe_broken(
    spec: &Spec,
    setting: &Setting,
    breaks: &[Break],
) -> (Observation, Vec<String>) {
    let session = Session::new(spec, setting);
    on(setting.workers, async move { session.drive(breaks).await })
}

/// A graph with the thread it runs on.
pub(crate) struct Session {
    spec: Spec,
    setting: Setting,
    board: Board,
    graph: CompiledGraph<JsonState>,
}

/// What a call of a run came to, if it was not dropped.
type Ended = Result<Exit<JsonState>, RunError>;

impl Session {
    pub(crate) fn new(spec: &Spec, setting: &Setting) -> Self {
        let board = Board::new(setting.delays.clone());
        let saver = setting.saver.map(|_| Arc::new(TextSaver::default()) as Arc<dyn Checkpointer>);
        let graph = build(spec, &board, saver);
        Self { spec: spec.clone(), setting: setting.clone(), board, graph }
    }

    pub(crate) fn thread(&self) -> Thread<JsonState> {
        self.graph.thread("t", ())
    }

    pub(crate) fn input(&self) -> Input<JsonState> {
        let input = json!({"ticks": 0, "text": "^", "any": "start", "topic": ["in"], "last": "in"});
        schema(&self.spec).input(input).expect("the input is an object")
    }

    pub(crate) fn options(&self) -> RunOptions {
        let mut options =
            RunOptions::new().limit(self.spec.limit).modes([Mode::Values, Mode::Tasks]);
        if let Some(durability) = self.setting.saver {
            options = options.durability(durability);
        }
        match self.setting.concurrency {
            Some(tasks) => options.concurrency(tasks),
            None => options,
        }
    }

    /// One run without a checkpointer.
    async fn once(&self) -> Observation {
        let (input, options) = (self.input(), self.options());
        let mut shown = self.setting.watched.then(Vec::new);
        let ended = match &mut shown {
            None => self.graph.invoke(input, (), options).await,
            Some(shown) => watch(self.graph.stream(input, (), options), shown).await,
        };
        self.seen(&ended, None, shown)
    }

    /// Runs until the end, answering questions and going on after stops.
    pub(crate) async fn drive(&self, breaks: &[Break]) -> (Observation, Vec<String>) {
        self.drive_from(self.thread(), Next::Start, breaks).await
    }

    /// The same from somewhere in a thread.
    pub(crate) async fn drive_from(
        &self,
        first: Thread<JsonState>,
        mut next: Next,
        breaks: &[Break],
    ) -> (Observation, Vec<String>) {
        let mut thread = first;
        let mut shown = (self.setting.watched && breaks.is_empty()).then(Vec::new);
        let mut drops = breaks.iter().find_map(|it| match it {
            Break::Drop(polls) => Some(polls.clone()),
            _ => None,
        });
        self.arm(breaks);
        for _ in 0..RUNS {
            let input = self.input_for(&next);
            let run = self.run(thread.with(self.broken_options(breaks)), input, &mut shown);
            let polls = drops.as_mut().and_then(Vec::pop);
            let ended = match polls {
                Some(polls) => polled(run, polls).await,
                None => Some(run.await),
            };
            thread = self.thread();
            match self.after(&thread, ended, breaks).await {
                Ok(then) => next = then,
                Err(ended) => {
                    let state = self.stored(&thread, &ended).await;
                    return (self.seen(&ended, state, shown), self.board.repeated());
                }
            }
        }
        panic!("the graph did not come to its end in {RUNS} runs");
    }

    fn arm(&self, breaks: &[Break]) {
        for it in breaks {
            if let Break::Fail(node) = it {
                self.board.break_once(NAMES[*node % self.spec.nodes.len()]);
            }
        }
    }

    fn broken_options(&self, breaks: &[Break]) -> RunOptions {
        let mut options = self.options();
        for it in breaks {
            options = match it {
                Break::Before => options.stop_before(Stops::Everywhere),
                Break::After => options.stop_after(Stops::Everywhere),
                Break::BeforeAndAfter => {
                    options.stop_before(Stops::Everywhere).stop_after(Stops::Everywhere)
                }
                Break::Limit(steps) => options.limit(*steps),
                Break::Drain(step) => {
                    let control = Control::new();
                    self.board.drain_at(*step, control.clone());
                    options.control(control)
                }
                Break::Drop(_) | Break::Fail(_) | Break::OneAnswer => options,
            };
        }
        options
    }

    fn input_for(&self, next: &Next) -> Input<JsonState> {
        match next {
            Next::Start => self.input(),
            Next::Proceed => Input::proceed(),
            Next::Answer(answers) => Input::answers(answers.clone()),
        }
    }

    async fn run(
        &self,
        thread: Thread<JsonState>,
        input: Input<JsonState>,
        shown: &mut Option<Vec<String>>,
    ) -> Ended {
        match shown {
            None => thread.run(input).await,
            Some(shown) => watch(thread.stream(input), shown).await,
        }
    }

    /// What comes after a run: another one, or nothing.
    async fn after(
        &self,
        thread: &Thread<JsonState>,
        ended: Option<Ended>,
        breaks: &[Break],
    ) -> Result<Next, Ended> {
        let Some(ended) = ended else { return Ok(after_drop(thread).await) };
        let limited = breaks.iter().any(|it| matches!(it, Break::Limit(_)));
        let questions = match &ended {
            Ok(Exit::Stopped { .. }) => return Ok(Next::Proceed),
            Ok(Exit::Interrupted { interrupts, .. }) if self.setting.answers => interrupts,
            Err(RunError::StepLimit { .. }) if limited => return Ok(Next::Proceed),
            Err(error) if error.to_string().ends_with(": injected") => return Ok(Next::Proceed),
            _ => return Err(ended),
        };
        let one = breaks.iter().any(|it| matches!(it, Break::OneAnswer));
        let count = if one { 1 } else { questions.len() };
        let answers =
            questions.iter().rev().take(count).map(|it| (it.id.clone(), answer(&it.value)));
        Ok(Next::Answer(answers.collect()))
    }

    /// The state of the newest checkpoint, without what finished tasks of an open step wrote.
    async fn stored(&self, thread: &Thread<JsonState>, ended: &Ended) -> Option<Value> {
        // What a conflict leaves behind in a run that is stored at its end is laid down by LangGraph.
        let exit = self.setting.saver == Some(Durability::Exit);
        if matches!(ended, Err(RunError::Conflict(_))) && exit {
            return None;
        }
        let id = thread.state().await.ok()??.id;
        let state = thread.at(id).state().await.ok()??;
        Some(state.values.to_full_value())
    }

    fn seen(
        &self,
        ended: &Ended,
        stored: Option<Value>,
        shown: Option<Vec<String>>,
    ) -> Observation {
        let (outcome, state) = match ended {
            Ok(exit) => (words(exit), Some(exit.state().to_full_value())),
            Err(error) => (format!("error: {error}"), stored),
        };
        let limited = self.setting.concurrency.is_some();
        Observation { outcome, state, steps: self.board.lines(), shown, limited }
    }
}

/// What a thread is run with next.
#[derive(Clone, Debug)]
pub(crate) enum Next {
    Start,
    Proceed,
    Answer(Vec<(String, Value)>),
}

/// What a thread whose run was dropped is run with.
async fn after_drop(thread: &Thread<JsonState>) -> Next {
    let state = thread.state().await.expect("a dropped run leaves a thread that can be read");
    let Some(state) = state else { return Next::Start };
    let pending: Vec<_> = state.interrupts().map(|it| (it.id.clone(), answer(&it.value))).collect();
    if pending.is_empty() { Next::Proceed } else { Next::Answer(pending) }
}

/// The answer to a question: the same whoever asks when.
fn answer(question: &Value) -> Value {
    json!({ "to": question })
}

fn words(exit: &Exit<JsonState>) -> String {
    match exit {
        Exit::Done(_) => "done".to_owned(),
        Exit::Interrupted { interrupts, .. } => {
            let mut asked: Vec<_> = interrupts.iter().map(|it| it.value.to_string()).collect();
            asked.sort_unstable();
            format!("asked: {}", asked.join(" "))
        }
        Exit::Stopped { stop, .. } => format!("stopped: {stop:?}"),
        _ => "another exit".to_owned(),
    }
}

/// Reads a run's events to the end and notes those whose order is laid down.
async fn watch(mut run: graph_core::RunStream<JsonState>, shown: &mut Vec<String>) -> Ended {
    while let Some(event) = run.next().await {
        match event.kind {
            EventKind::Values(values) => {
                shown.push(format!("{} values {}", event.step, values.to_json()));
            }
            EventKind::TaskStarted { input, .. } => {
                let node = event.node.as_deref().unwrap_or_default();
                shown.push(format!("{} {node} {input}", event.step));
            }
            _ => {}
        }
    }
    run.finish().await
}

/// Polls a run so often, then drops it.
async fn polled(run: impl Future<Output = Ended>, mut polls: usize) -> Option<Ended> {
    let mut run = pin!(run);
    std::future::poll_fn(|cx| {
        if polls == 0 {
            return Poll::Ready(None);
        }
        polls -= 1;
        match run.as_mut().poll(cx) {
            Poll::Ready(ended) => Poll::Ready(Some(ended)),
            Poll::Pending if polls == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// The checkpoints of a thread, newest first.
pub(crate) async fn checkpoints(thread: &Thread<JsonState>) -> Vec<CheckpointId> {
    let history = thread.history(None).await.expect("a thread's history can be read");
    history.iter().map(|it| it.id).collect()
}
