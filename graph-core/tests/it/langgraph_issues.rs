//! Situations from open issues of LangGraph. The comment of a test describes LangGraph's behaviour, and the name of the
//! test this engine's.
//!
//! `book/chapters/langgraph-issues.md` lists the issues with their tests.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, SystemTime},
};

use async_trait::async_trait;
use checkpoint_testkit::{HookedSaver, WriteHook};
use graph_core::{
    Checkpointer, Command, Context, Durability, Goto, MemorySaver, Migrations, NodeError, NodeExt,
    RunError, RunOptions, START, State, StateGraph, StreamMode,
    checkpoint::{CheckpointError, CheckpointWrite, Keep, Lookup, TaskEvent},
    send,
};
use serde_json::json;

use crate::support::{
    Item, Probe, Trail, TrailUpdate, chain, graph, pass, path_of, thread_of, trail,
};

/// Python issue 8796: two processes write one thread, and both succeed.
#[tokio::test]
async fn a_second_writer_of_a_thread_is_rejected() {
    let saver = MemorySaver::new();
    let probe = Probe::default();
    // Each graph represents a process. They share nothing but the storage.
    let process = || chain(["a"]).checkpointer(saver.clone()).compile().unwrap();
    probe.block("a");
    let first = process().thread("t", probe.clone());
    let run = tokio::spawn(async move { first.run(Trail::default()).await });
    probe.started("a").await;
    let error = process().thread("t", probe.clone()).run(Trail::default()).await.unwrap_err();
    assert!(matches!(error, RunError::Checkpoint(CheckpointError::Busy { .. })), "{error}");
    probe.unblock("a");
    assert!(run.await.unwrap().unwrap().is_done());
    assert_eq!(path_of(&process().thread("t", probe)).await, ["a"]);
}

/// Python issue 8115: concurrent tasks overwrite each other's pending writes.
#[tokio::test]
async fn the_results_of_concurrent_tasks_are_all_recorded() {
    const TASKS: u32 = 64;
    let made = Arc::new(AtomicU32::new(0));
    let counter = made.clone();
    let work = async move |item: Item| {
        counter.fetch_add(1, Ordering::Relaxed);
        tokio::task::yield_now().await;
        match item.0 {
            0 => Err(NodeError::from("the first item fails")),
            number => Ok(Trail::update().path([number.to_string()])),
        }
    };
    let work = graph_core::named("work", work);
    let sends: Vec<Goto> = (0..TASKS).map(|it| send(&work, Item(it))).collect();
    for durability in [Durability::Sync, Durability::Async, Durability::Exit] {
        made.store(0, Ordering::Relaxed);
        let sends = sends.clone();
        let graph = graph().node(&work).branch(START, move |_: &Trail| sends.clone());
        let options = RunOptions::new().durability(durability);
        let thread = thread_of(graph, &Probe::default()).with_options(options);
        thread.run(Trail::default()).await.unwrap_err();
        let state = thread.state().await.unwrap().unwrap();
        let done = state.tasks.iter().filter(|it| it.result.is_some()).count();
        let started = made.load(Ordering::Relaxed);
        assert_eq!(done, started as usize - 1, "{durability:?}: every task but one finished");
        // A second run starts only the tasks without a result.
        thread.proceed().await.unwrap_err();
        assert_eq!(made.load(Ordering::Relaxed), TASKS + 1, "{durability:?}");
    }
}

/// Records whether each checkpoint arrives after the results of the step that it concludes.
#[derive(Clone, Debug, Default)]
struct WriteOrder {
    log: Arc<Mutex<Vec<String>>>,
}

#[async_trait]
impl WriteHook for WriteOrder {
    async fn write(
        &self,
        to: &dyn Checkpointer,
        writes: Vec<CheckpointWrite>,
    ) -> Result<(), CheckpointError> {
        for write in &writes {
            let mut log = self.log.lock().expect("no test panics while it holds the lock");
            match write {
                CheckpointWrite::Put(checkpoint) => {
                    log.push(format!("step {}", checkpoint.header.step));
                }
                CheckpointWrite::Record(_, records) => {
                    let done = |it: &&graph_core::checkpoint::TaskRecord| {
                        matches!(it.event, TaskEvent::Done { .. })
                    };
                    log.extend(records.iter().filter(done).map(|it| it.node.clone()));
                }
            }
        }
        to.write(writes).await
    }
}

/// Python issue 8039: the checkpoint of a step may be stored before the results of its tasks, so a crash in between
/// repeats them or not, depending on the host.
#[tokio::test]
async fn results_are_stored_before_the_checkpoint_of_their_step() {
    for durability in [Durability::Sync, Durability::Async] {
        let order = WriteOrder::default();
        let saver = HookedSaver::new(Arc::new(MemorySaver::new()), order.clone());
        let graph = chain(["a", "b"]).checkpointer(saver).compile().unwrap();
        let options = RunOptions::new().durability(durability);
        let thread = graph.thread("t", Probe::default()).with_options(options);
        assert!(thread.run(Trail::default()).await.unwrap().is_done());
        let log = order.log.lock().unwrap().clone();
        let position = |entry: &str| log.iter().position(|it| it == entry).unwrap();
        assert!(position("a") < position("step 1"), "{durability:?}: {log:?}");
        assert!(position("b") < position("step 2"), "{durability:?}: {log:?}");
    }
}

async fn fail(_: &Trail, cx: &Context<Probe>) -> Result<TrailUpdate, NodeError> {
    Err(format!("{} is broken", cx.node()).into())
}

async fn handle(_: &Trail, cx: &Context<Probe>) -> Command<Trail, Goto> {
    let error = cx.failure().map(|it| it.error.clone()).unwrap_or_default();
    Trail::update().path([error]).goto(Goto::end())
}

/// Python issues 8277 and 8608: a handled error is raised anyway if other tasks run in the step, or if the run is
/// streamed with subgraphs.
#[tokio::test]
async fn a_handled_error_is_not_raised_with_parallel_tasks_or_in_streams() {
    let graph = graph()
        .node_as("boom", fail.on_error(handle))
        .node_as("sibling", pass)
        .edge(START, "boom")
        .edge(START, "sibling")
        .compile()
        .unwrap();
    let expected = trail(["boom is broken", "sibling"]);
    assert_eq!(graph.invoke(Trail::default(), Probe::default()).await.unwrap(), expected);
    for mode in [StreamMode::Custom, StreamMode::Messages, StreamMode::Updates] {
        let options = RunOptions::new().stream_modes([mode]).subgraphs();
        let stream = graph.with(options).stream(Trail::default(), Probe::default());
        assert_eq!(stream.finish().await.unwrap().into_state(), expected, "{mode:?}");
    }
}

/// Python issues 7417, 8464 and 8702: tools that ran before an interrupt, or concurrently with it, run again after the
/// resume.
#[tokio::test]
async fn tools_do_not_run_again_after_a_resume() {
    let charged = Arc::new(AtomicU32::new(0));
    let (in_node, in_task) = (charged.clone(), charged.clone());
    let tool = graph_core::named("tool", async move |_: Item| {
        in_task.fetch_add(1, Ordering::Relaxed);
        Trail::update().path(["tool".to_owned()])
    });
    let approve = async move |_: &Trail, cx: &Context<Probe>| {
        let receipt = cx.task("charge", (), async { Ok(in_node.fetch_add(1, Ordering::Relaxed)) });
        receipt.await?;
        let answer: String = cx.interrupt("approve?")?;
        Ok::<_, NodeError>(Trail::update().path([answer]))
    };
    let calls = vec![send(&tool, Item(1)), Goto::node("approve")];
    let graph = graph()
        .node(&tool)
        .node_as("approve", approve)
        .branch(START, move |_: &Trail| calls.clone());
    let thread = thread_of(graph, &Probe::default());
    assert_eq!(thread.run(Trail::default()).await.unwrap().interrupts().len(), 1);
    assert_eq!(charged.load(Ordering::Relaxed), 2);
    assert_eq!(thread.resume("yes").await.unwrap().state(), &trail(["yes", "tool"]));
    assert_eq!(charged.load(Ordering::Relaxed), 2, "neither call was repeated");
}

/// JavaScript issue 1552: a subgraph with parallel branches starts over when one of its interrupts is answered.
#[tokio::test]
async fn an_interrupted_subgraph_resumes_where_it_stopped() {
    let probe = Probe::default();
    let ask = async |_: &Trail, cx: &Context<Probe>| {
        Ok::<_, NodeError>(Trail::update().path([cx.interrupt::<String>("event?")?]))
    };
    let inner = StateGraph::<Trail, Probe>::new()
        .name("inner")
        .node_as("before", pass)
        .node_as("beside", pass)
        .node_as("wait", ask)
        .node_as("after", pass)
        .edge(START, "before")
        .edge("before", "wait")
        .edge("before", "beside")
        .edge("wait", "after")
        .compile()
        .unwrap();
    let graph = graph().node(&inner).edge(START, &inner);
    let thread = thread_of(graph, &probe);
    let outcome = thread.run(Trail::default()).await.unwrap();
    assert_eq!(outcome.interrupts()[0].value, "event?");
    assert_eq!(probe.trace(), "1: before | 2: beside");
    let outcome = thread.resume("demo").await.unwrap();
    assert_eq!(probe.trace(), "3: after");
    assert_eq!(outcome.state(), &trail(["before", "beside", "demo", "after"]));
}

/// JavaScript issue 536: nothing detects or converts stored states of an older schema.
#[tokio::test]
async fn a_stored_state_of_an_older_schema_is_migrated() {
    #[derive(State, Clone, Debug, Default)]
    struct Old {
        name: String,
    }
    #[derive(State, Clone, Debug, Default)]
    #[state(version = 2)]
    struct New {
        names: Vec<String>,
    }
    let saver = MemorySaver::new();
    let old = StateGraph::<Old>::new()
        .node_as("end", async |_: &Old| ())
        .edge(START, "end")
        .checkpointer(saver.clone())
        .compile()
        .unwrap();
    assert!(old.thread("t", ()).run(Old { name: "Ada".into() }).await.unwrap().is_done());
    let migrations =
        Migrations::new().rename(1, "name", "names").retype(1, "names", |it| json!([it]));
    let new = StateGraph::<New>::new()
        .node_as("end", async |_: &New| ())
        .edge(START, "end")
        .checkpointer(saver)
        .migrations(migrations)
        .compile()
        .unwrap();
    assert_eq!(new.thread("t", ()).state().await.unwrap().unwrap().values.names, ["Ada"]);
}

/// JavaScript issue 1138: the storage of a thread grows without bound.
#[tokio::test]
async fn old_checkpoints_are_pruned_and_the_thread_stays_usable() {
    let saver = MemorySaver::new();
    let graph = chain(["a", "b"]).checkpointer(saver.clone()).compile().unwrap();
    let thread = graph.thread("t", Probe::default());
    for _ in 0..3 {
        assert!(thread.run(Trail::update()).await.unwrap().is_done());
    }
    assert_eq!(saver.prune(&["t".to_owned()], Keep::Newest(2)).await.unwrap().checkpoints, 10);
    assert_eq!(thread.history(None).await.unwrap().len(), 2);
    let later = SystemTime::now() + Duration::from_secs(60);
    saver.prune(&["t".to_owned()], Keep::Since(later)).await.unwrap();
    assert_eq!(thread.history(None).await.unwrap().len(), 1, "the newest one is kept");
    assert!(thread.run(Trail::update()).await.unwrap().is_done());
    assert_eq!(path_of(&thread).await.len(), 8);
    assert!(saver.get(&Lookup::head("t", "")).await.unwrap().is_some());
}

/// Python issue 6005: a deferred node runs before the longer of two branches has finished.
#[tokio::test]
async fn a_deferred_node_waits_for_branches_of_any_length() {
    let probe = Probe::default();
    let graph = graph()
        .node_as("short", pass)
        .node_as("long 1", pass)
        .node_as("long 2", pass)
        .node_as("long 3", pass)
        .node_as("end", pass.defer())
        .edge(START, "short")
        .edge(START, "long 1")
        .edge("long 1", "long 2")
        .branch("long 2", async |_: &Trail| Goto::node("long 3"))
        .edge("short", "end")
        .edge("long 3", "end")
        .compile()
        .unwrap();
    assert_eq!(graph.invoke(Trail::default(), probe.clone()).await.unwrap().path.len(), 5);
    assert_eq!(probe.trace(), "1: long 1 short | 2: long 2 | 3: long 3 | 4: end");
}
