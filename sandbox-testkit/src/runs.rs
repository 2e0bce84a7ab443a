//! Checks graphs that run in the guest: their state, checkpoints and calls.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use graph_core::{Checkpointer, Durability, MemorySaver, RunOutcome, StreamMode};
use sandbox_vm::{CallError, CallPolicy, Error, GraphRun, Sandbox};
use serde_json::{Map, Value, json};

use crate::{
    check::{Check, Failure, TestContext, check, ensure, fail},
    graphs,
};

pub(crate) const CHECKS: &[Check] = &[
    check!("graph: a graph runs in the guest and makes its calls through the host", debate),
    check!(
        "graph: an interrupt is stored in the thread, and another guest can resume it",
        interrupt
    ),
    check!("graph: events beyond the event window arrive in order", events),
    check!("graph: concurrent calls beyond the call window are all made", calls),
    check!("graph: a call that is not allowed is not made", refused).in_shared_guest(),
    check!("graph: a guest cannot access another thread", foreign_thread).in_shared_guest(),
    check!("graph: the error for an unknown graph names the available graphs", unknown)
        .in_shared_guest(),
    check!("graph: a guest that dies during a run is replaced and repeats no call", guest_death),
];

fn input(topic: &str) -> Map<String, Value> {
    Map::from_iter([("topic".to_owned(), json!(topic))])
}

/// Number of calls made for each prompt.
type Calls = Arc<Mutex<BTreeMap<String, u32>>>;

fn counts(calls: &Calls) -> BTreeMap<String, u32> {
    calls.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

async fn debate(cx: TestContext) -> Result<(), Failure> {
    let sandbox = cx.sandbox(cx.spec()).await?;
    let (policy, calls) = killing_policy(Vec::new(), cx.clone());
    let run = GraphRun::new("debate").input(input("tea")).call_policy(policy);
    let exit = sandbox.run_graph(run).await?.finish().await?;
    let state = exit.state();
    ensure!(exit.is_done() && state["verdict"] == "6 turns on tea", "{exit:?}");
    ensure!(state["turns"][1] == "against: I am against in round 1", "{state}");
    let counts = counts(&calls);
    ensure!(counts.len() == 6 && counts.values().all(|it| *it == 1), "{counts:?}");
    for (round, turns) in [(1, 2), (2, 4), (3, 6)] {
        let log: Vec<String> = sandbox.fs().read_json(&format!("logs/round-{round}.json")).await?;
        ensure!(log.len() == turns, "the log of round {round} has {} entries: {log:?}", log.len());
    }
    Ok(())
}

async fn interrupt(cx: TestContext) -> Result<(), Failure> {
    let saver: Arc<dyn Checkpointer> = Arc::new(MemorySaver::new());
    let run = || GraphRun::new("order").thread("order-7", saver.clone());
    let sandbox = cx.sandbox(cx.spec()).await?;
    let order = Map::from_iter([("item".to_owned(), json!("tea"))]);
    let exit = sandbox.run_graph(run().input(order)).await?.finish().await?;
    ensure!(exit.interrupts().first().is_some_and(|it| it.value == "buy tea?"), "{exit:?}");
    sandbox.delete().await;
    let sandbox = cx.sandbox(cx.spec()).await?;
    let exit = sandbox.run_graph(run().resume(json!(true))).await?.finish().await?;
    let RunOutcome::Done(state) = exit else { return Err(fail(format!("{exit:?}"))) };
    ensure!(state == json!({ "item": "tea", "approved": true }), "{state}");
    Ok(())
}

async fn events(cx: TestContext) -> Result<(), Failure> {
    let sandbox = cx.sandbox(cx.spec()).await?;
    let count = 2_000;
    let many = Map::from_iter([("events".to_owned(), json!(count))]);
    let run = GraphRun::new("event-burst").input(many).stream_modes([StreamMode::Custom]);
    let mut running = sandbox.run_graph(run).await?;
    let mut expected = 0;
    while let Some(event) = running.next().await {
        let graph_core::EventKind::Custom(value) = &event.kind else { continue };
        ensure!(*value == json!(expected), "received {value}, expected {expected}");
        // Other commands must be answered while events are still pending.
        if expected % 500 == 0 {
            sandbox.ping().await?;
        }
        expected += 1;
    }
    let _ = running.finish().await?;
    ensure!(expected == count, "received {expected} of {count} events");
    Ok(())
}

async fn calls(cx: TestContext) -> Result<(), Failure> {
    let sandbox = cx.sandbox(cx.spec()).await?;
    let in_flight = Arc::new(AtomicUsize::new(0));
    let max_in_flight = Arc::new(AtomicUsize::new(0));
    let (count, peak) = (in_flight.clone(), max_in_flight.clone());
    let policy = CallPolicy::new(move |_: String, caller: Value| {
        peak.fetch_max(count.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        let count = count.clone();
        async move {
            // Wait long enough that all calls which may be in flight at once have started.
            tokio::time::sleep(Duration::from_millis(500)).await;
            count.fetch_sub(1, Ordering::SeqCst);
            Ok::<_, CallError>(caller)
        }
    });
    let input = Map::from_iter([("callers".to_owned(), json!(400))]);
    let run = GraphRun::new("parallel-calls").input(input).call_policy(policy.allow("count"));
    let exit = sandbox.run_graph(run).await?.finish().await?;
    let expected: Vec<u32> = (0..400).collect();
    ensure!(exit.state()["answers"] == json!(expected), "{exit:?}");
    let max_in_flight = max_in_flight.load(Ordering::SeqCst);
    ensure!(max_in_flight <= 256, "{max_in_flight} calls were in flight at once");
    Ok(())
}

async fn refused(cx: TestContext) -> Result<(), Failure> {
    let sandbox = cx.sandbox(cx.spec()).await?;
    let policy = CallPolicy::new(async |_: String, _: Value| Ok::<_, CallError>(json!("owned")))
        .allow("other");
    let run = GraphRun::new("debate").input(input("tea")).call_policy(policy.clone());
    let outcome = sandbox.run_graph(run).await?.finish().await;
    let Err(Error::Graph { error, terminal: true }) = &outcome else {
        return Err(fail(format!("{outcome:?}")));
    };
    ensure!(error.contains("`llm.chat` are not allowed; allowed kinds: other"), "{error}");
    ensure!(policy.calls_made() == 0, "a call was made");
    Ok(())
}

async fn foreign_thread(cx: TestContext) -> Result<(), Failure> {
    let sandbox = cx.sandbox(cx.spec()).await?;
    let saver: Arc<dyn Checkpointer> = Arc::new(MemorySaver::new());
    let other = Map::from_iter([("item".to_owned(), json!("another thread"))]);
    let run = GraphRun::new("foreign-thread").thread("own", saver).input(other);
    let outcome = sandbox.run_graph(run).await?.finish().await;
    let refused = matches!(&outcome, Err(Error::Graph { error, .. }) if error.contains("only its own thread"));
    ensure!(refused, "{outcome:?}");
    Ok(())
}

async fn unknown(cx: TestContext) -> Result<(), Failure> {
    let sandbox = cx.sandbox(cx.spec()).await?;
    let outcome = sandbox.run_graph(GraphRun::new("nothing")).await?.finish().await;
    let named = matches!(&outcome, Err(error) if error.is_not_found() && error.to_string().contains("debate"));
    ensure!(named, "{outcome:?}");
    Ok(())
}

/// Kills the guest during the third and the fifth call, with synchronous and asynchronous checkpoint storage.
async fn guest_death(cx: TestContext) -> Result<(), Failure> {
    for durability in [Durability::Sync, Durability::Async] {
        let saver: Arc<dyn Checkpointer> = Arc::new(MemorySaver::new());
        let (policy, calls) = killing_policy(vec![3, 5], cx.clone());
        let run = GraphRun::new("debate").thread("t", saver.clone()).call_policy(policy);
        let run = run.input(input("tea")).durability(durability);
        let outcome = cx.sandboxes.run_graph(cx.spec(), run.clone(), 2, drop).await;
        ensure!(
            matches!(outcome, Err(Error::Terminated { .. })),
            "two guests completed the run: {outcome:?}"
        );
        let exit = cx.sandboxes.run_graph(cx.spec(), run.proceed(), 1, drop).await?;
        ensure!(exit.is_done() && exit.state()["verdict"] == "6 turns on tea", "{exit:?}");
        let counts = counts(&calls);
        ensure!(
            counts.len() == 6 && counts.values().all(|it| *it == 1),
            "{durability:?}: {counts:?}"
        );
    }
    Ok(())
}

/// Returns a policy that kills the guest during the calls numbered in `at`, and still answers these calls.
fn killing_policy(at: Vec<usize>, cx: TestContext) -> (CallPolicy, Calls) {
    let calls = Calls::default();
    let count = calls.clone();
    let policy = CallPolicy::new(move |_: String, request: Value| {
        let prompt = request["prompt"].as_str().unwrap_or_default().to_owned();
        let nth = {
            let mut count = count.lock().unwrap_or_else(PoisonError::into_inner);
            *count.entry(prompt.clone()).or_default() += 1;
            count.values().sum::<u32>() as usize
        };
        let victims: Vec<Sandbox> =
            if at.contains(&nth) { cx.sandboxes.list() } else { Vec::new() };
        async move {
            for sandbox in victims {
                sandbox.delete().await;
            }
            Ok(json!(graphs::answer(&prompt)))
        }
    });
    (policy.allow("llm.chat"), calls)
}
