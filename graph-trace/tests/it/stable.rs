//! Tests that traces are deterministic. They do not depend on latencies, on the number of OS threads, or on
//! crashes.

use std::{future::Future, time::Duration};

use graph_core::{Durability, Input, RunControl, RunError, RunOptions, RunOutcome, Thread};
use graph_trace::{
    Detail, Header, RecordedRun, RunStatus, TextOptions, Trace, TraceBuilder, record, record_thread,
};
use tokio::runtime::{Builder, Handle, Runtime};

use crate::graphs::{Case, Essay, TestEnv, cases, tea};

const RUNS: u64 = 200;

/// A single-threaded and a multi-threaded runtime, used alternately.
struct Runtimes {
    one: Runtime,
    many: Runtime,
}

impl Runtimes {
    fn new() -> Self {
        let one = Builder::new_current_thread().enable_time().build().unwrap();
        let many = Builder::new_multi_thread().worker_threads(4).enable_time().build().unwrap();
        Self { one, many }
    }

    fn run<T>(&self, seed: u64, run: impl Future<Output = T>) -> T {
        if seed % 2 == 0 { self.one.block_on(run) } else { self.many.block_on(run) }
    }
}

fn text(trace: &Trace) -> String {
    trace.text(TextOptions::new(Detail::Full))
}

/// Returns the answer to a pending interrupt.
fn answer(question: &str) -> Input<Essay> {
    match question {
        "why?" => Input::resume("it is good").unwrap(),
        _ => Input::resume(true).unwrap(),
    }
}

/// Runs a case to its end, answering all interrupts.
async fn run_to_end(case: &Case, env: TestEnv) -> Trace {
    let thread = case.stored.thread(format!("{}", env.random_below(u64::MAX)), env);
    let mut recorded = record_thread(&thread, tea()).await;
    while let Some(question) = pending_interrupt(&recorded) {
        recorded = recorded.then(&thread, answer(&question)).await;
    }
    assert!(recorded.outcome.unwrap().is_done());
    recorded.trace
}

fn pending_interrupt(recorded: &RecordedRun<Essay>) -> Option<String> {
    let exit = recorded.outcome.as_ref().unwrap();
    exit.interrupts().first().map(|it| it.value.as_str().unwrap().to_owned())
}

#[test]
fn traces_do_not_depend_on_latencies_or_threads() {
    let runtimes = Runtimes::new();
    for case in cases() {
        let expect = text(&runtimes.run(0, run_to_end(&case, TestEnv::new(0))));
        for seed in 1..=RUNS {
            let trace = runtimes.run(seed, run_to_end(&case, TestEnv::new(seed)));
            assert_eq!(text(&trace), expect, "{}, seed {seed}", case.name);
        }
    }
}

#[tokio::test]
async fn traces_do_not_depend_on_a_checkpointer() {
    for case in cases() {
        let thread = case.stored.thread("t", TestEnv::new(1));
        let stored = record_thread(&thread, tea()).await;
        let plain = record(&case.plain, tea(), TestEnv::new(2), RunOptions::new()).await;
        assert_eq!(text(&plain.trace), text(&stored.trace), "{}", case.name);
    }
}

#[test]
fn traces_do_not_depend_on_crashes() {
    let runtimes = Runtimes::new();
    let mut crashes = 0;
    for case in cases() {
        let expect = runtimes.run(0, run_to_end(&case, TestEnv::new(0)));
        for seed in 1..=RUNS {
            let (trace, crashed) = runtimes.run(seed, run_with_crashes(&case, seed));
            if let Some(found) = Trace::diff(&expect, &trace) {
                panic!("{}, seed {seed}: {found}", case.name);
            }
            assert_eq!(text(&trace), text(&expect), "{}, seed {seed}", case.name);
            crashes += crashed;
        }
    }
    // A crash point after the end of a run has no effect. Most crash points must take effect, or the test proves
    // little.
    assert!(crashes > RUNS * 6, "{crashes}");
}

/// Runs a thread to its end with simulated crashes. Returns the trace and the number of crashes.
async fn run_with_crashes(case: &Case, seed: u64) -> (Trace, u64) {
    let env = TestEnv::new(seed);
    let thread = case.stored.thread(format!("crashing {seed}"), env.clone());
    let mut builder = TraceBuilder::new();
    let mut crashes = 0;
    let mut input = tea();
    loop {
        let limit = (crashes < 4).then(|| env.random_below(60));
        let end = drive(&thread, &env, &mut builder, input, limit).await;
        input = match end {
            Some(Ok(RunOutcome::Done(_))) => break,
            Some(Ok(exit)) => answer(exit.interrupts()[0].value.as_str().unwrap()),
            // The input was lost in the crash and must be given again.
            Some(Err(RunError::EmptyInput)) => tea(),
            Some(Err(error)) => panic!("{error}"),
            None => {
                crashes += 1;
                Input::proceed()
            }
        };
    }
    (builder.finish(Header::default(), RunStatus::Done), crashes)
}

/// Runs a thread until it ends or until `limit` more events have been read. Returns `None` if the limit aborted it.
async fn drive(
    thread: &Thread<Essay, TestEnv>,
    env: &TestEnv,
    builder: &mut TraceBuilder,
    input: Input<Essay>,
    limit: Option<u64>,
) -> Option<Result<RunOutcome<Essay>, RunError>> {
    let durability =
        [Durability::Sync, Durability::Async, Durability::Exit][env.random_below(3) as usize];
    let control = RunControl::new();
    let options = RunOptions::new().durability(durability).control(control.clone()).event_buffer(1);
    builder.begin_run(thread.graph().input_to_json(&input).unwrap());
    let mut events =
        thread.clone().with_options(TraceBuilder::enable_events(options)).stream(input);
    let mut remaining = limit.unwrap_or(u64::MAX);
    while let Some(event) = events.next().await {
        builder.add_event(&event);
        if remaining == 0 {
            // Either drops the stream, or cancels the run and reads its remaining events.
            if env.random_below(2) == 0 {
                control.cancel();
                while let Some(event) = events.next().await {
                    builder.add_event(&event);
                }
            }
            drop(events);
            wait_for_all_tasks().await;
            return None;
        }
        remaining -= 1;
    }
    Some(events.finish().await)
}

/// Waits until the runtime has no tasks left, so that the aborted run does not continue concurrently with the next one.
/// After a real crash, the aborted run could not continue either.
async fn wait_for_all_tasks() {
    while Handle::current().metrics().num_alive_tasks() > 0 {
        tokio::time::sleep(Duration::from_micros(50)).await;
    }
}
