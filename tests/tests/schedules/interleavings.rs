//! Explores everything that can happen to a graph with two branches, an interrupt and a join: all orders in which its
//! tasks can end, with a crash at every write, and all orders again after each crash.
//!
//! This is an exhaustive check of the engine itself, not of a model of it. The branch `a1`, `ask` contains the
//! interrupt, the branch `b1`, `b2`, `b3` does not, and `join` joins them. Whenever all tasks of a run wait at their
//! gates, one of them is chosen to end. Before each write to the checkpointer, the process may die: the write is lost,
//! and so is everything that is not stored. Then a new process resumes the thread. Each path contains at most one
//! crash, or two if `GRAPH_NIGHTLY=1` is set. The test prints the number of paths, and the number of different stored
//! states from which a process started or resumed the thread.
//!
//! On each path,
//!
//! - the thread ends with the state and the history of an ordinary run without a crash,
//! - no task runs again whose result was stored before a crash, and
//! - no external call is made again whose result was stored.

use std::{
    collections::BTreeSet,
    error::Error,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use async_trait::async_trait;
use checkpoint_testkit::{HookedSaver, WriteHook};
use graph_core::{
    Checkpointer, Context, Durability, Input, MemorySaver, NodeError, NodeExt, RunOptions,
    RunOutcome, START, State, StateGraph, Thread,
    checkpoint::{CheckpointError, CheckpointWrite, Lookup, TaskEvent, TaskId, TaskRecord},
};

use crate::{choices::Choices, gates::Gates};

#[derive(State, Clone, Debug, Default, PartialEq)]
struct Trip {
    hotel: String,
    flight: String,
    plan: String,
}

/// The dependencies of the nodes. Clones share their data.
#[derive(Clone, Debug, Default)]
struct TestDeps {
    gates: Gates,
    log: Arc<Mutex<Log>>,
}

#[derive(Debug, Default)]
struct Log {
    /// Tasks whose results were stored before a crash.
    stored_tasks: BTreeSet<TaskId>,
    /// Tasks whose external call returned.
    returned_calls: BTreeSet<TaskId>,
    /// Descriptions of tasks and calls that were repeated although they must not be.
    repeated: Vec<String>,
}

impl TestDeps {
    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes an external call and waits at the gate of the task.
async fn work(cx: &Context<TestDeps>) -> Result<(), NodeError> {
    let (id, deps) = (cx.task_id(), cx.deps());
    if deps.log().stored_tasks.contains(&id) {
        deps.log().repeated.push(format!("task {}", cx.node()));
    }
    let call = cx.task("call", cx.node(), async {
        if deps.log().returned_calls.contains(&id) {
            deps.log().repeated.push(format!("call of {}", cx.node()));
        }
        Ok::<(), NodeError>(())
    });
    call.await?;
    deps.log().returned_calls.insert(id);
    deps.gates.pass(cx.node().to_owned()).await;
    Ok(())
}

async fn hotel(trip: &Trip, cx: &Context<TestDeps>) -> Result<TripUpdate, NodeError> {
    work(cx).await?;
    Ok(Trip::update().hotel(format!("{}{} ", trip.hotel, cx.node())))
}

async fn ask(trip: &Trip, cx: &Context<TestDeps>) -> Result<TripUpdate, NodeError> {
    work(cx).await?;
    let answer: String = cx.interrupt("which?")?;
    Ok(Trip::update().hotel(format!("{}{answer} ", trip.hotel)))
}

async fn flight(trip: &Trip, cx: &Context<TestDeps>) -> Result<TripUpdate, NodeError> {
    work(cx).await?;
    Ok(Trip::update().flight(format!("{}{} ", trip.flight, cx.node())))
}

async fn join(trip: &Trip, cx: &Context<TestDeps>) -> Result<TripUpdate, NodeError> {
    work(cx).await?;
    Ok(Trip::update().plan(format!("{}and {}", trip.hotel, trip.flight)))
}

fn graph() -> StateGraph<Trip, TestDeps> {
    let flight = || flight.reads(["flight"]).writes(["flight"]);
    StateGraph::new()
        .node_as("a1", hotel.reads(["hotel"]).writes(["hotel"]))
        .node(ask.reads(["hotel"]).writes(["hotel"]))
        .node_as("b1", flight())
        .node_as("b2", flight())
        .node_as("b3", flight())
        .node(join.reads(["hotel", "flight"]).writes(["plan"]))
        .edge(START, "a1")
        .edge("a1", ask)
        .sequence(["b1", "b2", "b3"])
        .join((ask, "b3"), join)
}

/// Simulates a crash before a write if the next choice selects it. No later write is stored.
#[derive(Debug)]
struct CrashingHook {
    choices: Choices,
    crashes_left: Arc<AtomicUsize>,
    crashed: Arc<AtomicBool>,
}

#[async_trait]
impl WriteHook for CrashingHook {
    async fn write(
        &self,
        inner: &dyn Checkpointer,
        writes: Vec<CheckpointWrite>,
    ) -> Result<(), CheckpointError> {
        for write in writes {
            let may_crash = self.crashes_left.load(Ordering::Relaxed) > 0;
            if may_crash && self.choices.choose(2) == 1 {
                self.crashes_left.fetch_sub(1, Ordering::Relaxed);
                self.crashed.store(true, Ordering::Relaxed);
            }
            if self.crashed.load(Ordering::Relaxed) {
                let error: Box<dyn Error + Send + Sync> = "the process died".into();
                return Err(CheckpointError::Storage(Arc::from(error)));
            }
            inner.write(vec![write]).await?;
        }
        Ok(())
    }
}

/// One path: a new thread that is run to its end, with the crashes and the orders that the choices select.
struct Path {
    choices: Choices,
    durability: Durability,
    eager: bool,
    crashes_left: Arc<AtomicUsize>,
    memory: Arc<dyn Checkpointer>,
    deps: TestDeps,
    /// The states of the thread in which a process starts to run it.
    starts: Vec<String>,
}

impl Path {
    fn new(choices: &Choices, durability: Durability, eager: bool, crashes: usize) -> Self {
        Self {
            choices: choices.clone(),
            durability,
            eager,
            crashes_left: Arc::new(AtomicUsize::new(crashes)),
            memory: Arc::new(MemorySaver::new()),
            deps: TestDeps::default(),
            starts: Vec::new(),
        }
    }

    /// Runs the thread to its end. Returns its history.
    async fn run(&mut self) -> Vec<String> {
        loop {
            let input = self.input().await;
            let crashed = Arc::new(AtomicBool::new(false));
            let hook = CrashingHook {
                choices: self.choices.clone(),
                crashes_left: self.crashes_left.clone(),
                crashed: crashed.clone(),
            };
            let saver = HookedSaver::new(self.memory.clone(), hook);
            let thread = self.thread(Arc::new(saver));
            let choose = |waiting: &[String]| {
                let is_running = !crashed.load(Ordering::Relaxed);
                is_running.then(|| self.choices.choose(waiting.len()))
            };
            let result = self.deps.gates.drive(thread.run(input), choose).await;
            match result {
                _ if crashed.load(Ordering::Relaxed) => self.remember_stored_tasks().await,
                Some(Ok(RunOutcome::Done(_))) => break,
                Some(Ok(RunOutcome::Interrupted { .. })) => {}
                other => panic!("{other:?}"),
            }
        }
        let thread = self.thread(self.memory.clone());
        let history = thread.history(None).await.expect("the history is readable");
        let line = |it: &graph_core::ThreadState<Trip>| {
            format!("{} {:?} {:?} {:?}", it.step, it.source, it.values, it.next)
        };
        history.iter().rev().map(line).collect()
    }

    fn thread(&self, saver: Arc<dyn Checkpointer>) -> Thread<Trip, TestDeps> {
        let graph = graph().shared_checkpointer(saver);
        let graph = if self.eager { graph.eager() } else { graph };
        let graph = graph.compile().expect("the graph is valid");
        let options = RunOptions::new().durability(self.durability);
        graph.thread("t", self.deps.clone()).with_options(options)
    }

    /// Returns the input with which a new process continues the thread.
    async fn input(&mut self) -> Input<Trip> {
        let state = self.thread(self.memory.clone()).state().await.expect("the thread is readable");
        self.starts.push(self.stored_state().await);
        match state {
            None => Trip::default().into(),
            Some(state) if state.interrupts().is_empty() => Input::proceed(),
            Some(_) => Input::resume("yes").expect("text can be serialized"),
        }
    }

    /// Describes what is stored: the newest step, and what is recorded since.
    async fn stored_state(&self) -> String {
        let stored = self.memory.get(&Lookup::head("t", "")).await.expect("memory is readable");
        let Some(stored) = stored else { return "nothing".to_owned() };
        let event = |it: &TaskRecord| match it.event {
            TaskEvent::Done { .. } => format!("{} done", it.node),
            TaskEvent::Effect { .. } => format!("{} called", it.node),
            TaskEvent::Interrupted { .. } => format!("{} interrupted", it.node),
            TaskEvent::Resumed { .. } => format!("{} resumed", it.node),
            ref other => panic!("{other:?}"),
        };
        let events: BTreeSet<_> = stored.records.iter().map(event).collect();
        format!("step {}: {events:?}", stored.header.step)
    }

    async fn remember_stored_tasks(&self) {
        let stored = self.memory.get(&Lookup::head("t", "")).await.expect("memory is readable");
        let records = stored.into_iter().flat_map(|it| it.records);
        let done = records.filter(|it| matches!(it.event, TaskEvent::Done { .. }));
        self.deps.log().stored_tasks.extend(done.map(|it| it.task));
    }
}

#[tokio::test]
async fn all_orders_and_crashes_lead_to_the_history_of_an_ordinary_run() {
    let expected = Path::new(&Choices::default(), Durability::Sync, false, 0).run().await;
    assert_eq!(expected.len(), 6, "{expected:#?}");
    let max_crashes = if test_support::is_nightly() { 2 } else { 1 };
    for durability in [Durability::Sync, Durability::Async] {
        let choices = Choices::default();
        let (mut paths, mut starts) = (0, BTreeSet::new());
        loop {
            let mut path = Path::new(&choices, durability, true, max_crashes);
            let history = path.run().await;
            let repeated = std::mem::take(&mut path.deps.log().repeated);
            assert_eq!(repeated, Vec::<String>::new(), "{durability:?}: {choices:?}");
            assert_eq!(history, expected, "{durability:?}: {choices:?}");
            paths += 1;
            starts.extend(path.starts);
            if !choices.advance() {
                break;
            }
        }
        let states = starts.len();
        println!("{durability:?}: {paths} paths, runs that start from {states} stored states");
        assert!(paths > 100 && states > 20, "{paths} paths, {starts:#?}");
        // In an ordinary graph, `b3` waits until `ask` is done.
        let ran_ahead = |it: &String| it.contains("ask interrupted") && it.contains("b3 done");
        assert!(starts.iter().any(ran_ahead), "no task ran ahead: {starts:#?}");
    }
}
