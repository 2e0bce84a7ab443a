//! A trace is the same however the run goes: whatever its tasks' latencies, on one thread or on many, and whether it
//! crashed on its way or not.

use std::{future::Future, time::Duration};

use graph_core::{Control, Durability, Exit, Input, RunError, RunOptions, Thread};
use graph_trace::{
    Detail, End, Header, Recorded, Shape, Trace, TraceBuilder, record, record_thread,
};
use tokio::runtime::{Builder, Handle, Runtime};

use crate::graphs::{Case, Essay, World, cases, tea};

const RUNS: u64 = 200;

/// Runs on one thread and on many in turn.
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
        if seed.is_multiple_of(2) { self.one.block_on(run) } else { self.many.block_on(run) }
    }
}

fn text(trace: &Trace) -> String {
    trace.text(Shape::new(Detail::Full))
}

/// The answer to the question that waits.
fn answer(question: &str) -> Input<Essay> {
    match question {
        "why?" => Input::resume("it is good").unwrap(),
        _ => Input::resume(true).unwrap(),
    }
}

/// The questions' case is resumed until it is done.
async fn undisturbed(case: &Case, world: World) -> Trace {
    let thread = case.stored.thread(format!("{}", world.draw(u64::MAX)), world);
    let mut recorded = record_thread(&thread, tea()).await;
    while let Some(asked) = waiting(&recorded) {
        recorded = recorded.then(&thread, answer(&asked)).await;
    }
    assert!(recorded.outcome.unwrap().is_done());
    recorded.trace
}

fn waiting(recorded: &Recorded<Essay>) -> Option<String> {
    let exit = recorded.outcome.as_ref().unwrap();
    exit.interrupts().first().map(|it| it.value.as_str().unwrap().to_owned())
}

#[test]
fn latencies_and_threads_do_not_show() {
    let runtimes = Runtimes::new();
    for case in cases() {
        let expect = text(&runtimes.run(0, undisturbed(&case, World::new(0))));
        for seed in 1..=RUNS {
            let trace = runtimes.run(seed, undisturbed(&case, World::new(seed)));
            assert_eq!(text(&trace), expect, "{}, seed {seed}", case.name);
        }
    }
}

#[tokio::test]
async fn a_checkpointer_does_not_show() {
    for case in cases() {
        let thread = case.stored.thread("t", World::new(1));
        let stored = record_thread(&thread, tea()).await;
        let plain = record(&case.plain, tea(), World::new(2), RunOptions::new()).await;
        assert_eq!(text(&plain.trace), text(&stored.trace), "{}", case.name);
    }
}

#[test]
fn crashes_do_not_show() {
    let runtimes = Runtimes::new();
    let mut crashes = 0;
    for case in cases() {
        let expect = runtimes.run(0, undisturbed(&case, World::new(0)));
        for seed in 1..=RUNS {
            let (trace, crashed) = runtimes.run(seed, disturbed(&case, seed));
            if let Some(found) = Trace::diff(&expect, &trace) {
                panic!("{}, seed {seed}: {found}", case.name);
            }
            assert_eq!(text(&trace), text(&expect), "{}, seed {seed}", case.name);
            crashes += crashed;
        }
    }
    // Most crashes come before the end of their run.
    assert!(crashes > RUNS * 6, "{crashes}");
}

/// Runs a thread to its end, with crashes on the way; says how many.
async fn disturbed(case: &Case, seed: u64) -> (Trace, u64) {
    let world = World::new(seed);
    let thread = case.stored.thread(format!("crashing {seed}"), world.clone());
    let mut builder = TraceBuilder::new();
    let mut crashes = 0;
    let mut input = tea();
    loop {
        let last = (crashes < 4).then(|| world.draw(60));
        let end = drive(&thread, &world, &mut builder, input, last).await;
        input = match end {
            Some(Ok(Exit::Done(_))) => break,
            Some(Ok(exit)) => answer(exit.interrupts()[0].value.as_str().unwrap()),
            // Its input was lost in the crash: it has to be given again.
            Some(Err(RunError::EmptyInput)) => tea(),
            Some(Err(error)) => panic!("{error}"),
            None => {
                crashes += 1;
                Input::proceed()
            }
        };
    }
    (builder.finish(Header::default(), End::Done), crashes)
}

/// Runs a thread until it ends or so many events were read; `None` where it is left there.
async fn drive(
    thread: &Thread<Essay, World>,
    world: &World,
    builder: &mut TraceBuilder,
    input: Input<Essay>,
    last: Option<u64>,
) -> Option<Result<Exit<Essay>, RunError>> {
    let durability =
        [Durability::Sync, Durability::Async, Durability::Exit][world.draw(3) as usize];
    let control = Control::new();
    let options = RunOptions::new().durability(durability).control(control.clone()).buffer(1);
    builder.begin(thread.graph().describe(&input).unwrap());
    let mut events = thread.clone().with(TraceBuilder::watch(options)).stream(input);
    let mut left = last.unwrap_or(u64::MAX);
    while let Some(event) = events.next().await {
        builder.note(&event);
        if left == 0 {
            // Either nobody reads on, or the run is ended and what it still had to say is read.
            if world.draw(2) == 0 {
                control.cancel();
                while let Some(event) = events.next().await {
                    builder.note(&event);
                }
            }
            drop(events);
            all_gone().await;
            return None;
        }
        left -= 1;
    }
    Some(events.finish().await)
}

/// Waits until no task of the runtime is left: nothing of a process that died goes on beside the next one.
async fn all_gone() {
    while Handle::current().metrics().num_alive_tasks() > 0 {
        tokio::time::sleep(Duration::from_micros(50)).await;
    }
}
