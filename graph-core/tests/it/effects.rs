//! Journaled calls, which are made only once even if the node runs again.

use std::time::Duration;

use graph_core::{
    Context, Durability, JournalError, NodeError, NodeExt, RetryPolicy, RunOptions, START,
    StateGraph, send,
};

use crate::support::{
    InjectedError, Item, Probe, Trail, TrailUpdate, graph, sub, thread_of, trail, visited,
};

/// Makes a journaled call, then fails as often as the probe requests.
async fn pay(_: &Trail, cx: &Context<Probe>) -> Result<TrailUpdate, NodeError> {
    let receipt = call(cx, "charge", 7).await?;
    cx.deps().enter(cx.step(), "pay").await?;
    Ok(visited(&receipt))
}

/// Makes a journaled call that the probe traces as `name/key`.
async fn call(cx: &Context<Probe>, name: &str, key: u32) -> Result<String, NodeError> {
    let full = format!("{name}/{key}");
    let external = async {
        cx.deps().enter(cx.step(), &full).await?;
        Ok(format!("did {full}"))
    };
    cx.task(name, key, external).await
}

fn paying() -> StateGraph<Trail, Probe> {
    graph().node(pay).edge(START, pay)
}

fn retry_immediately(attempts: u32) -> RetryPolicy {
    RetryPolicy::max_attempts(attempts).backoff(Duration::ZERO, 1.0).without_jitter()
}

#[tokio::test]
async fn a_call_is_not_repeated_after_a_failure() {
    for durability in [Durability::Sync, Durability::Async, Durability::Exit] {
        let probe = Probe::default();
        let options = RunOptions::new().durability(durability);
        let thread = thread_of(paying(), &probe).with_options(options);
        probe.fail_next("pay", 2);
        thread.run(Trail::default()).await.unwrap_err();
        thread.proceed().await.unwrap_err();
        let outcome = thread.proceed().await.unwrap();
        assert_eq!(outcome.state(), &trail(["did charge/7"]), "{durability:?}");
        assert_eq!(probe.count("charge/7"), 1, "{durability:?}");
        assert_eq!(probe.count("pay"), 3, "{durability:?}");
    }
}

#[tokio::test]
async fn a_call_is_not_repeated_by_a_retry_even_without_checkpointer() {
    let probe = Probe::default();
    let graph = graph().node(pay.retry(retry_immediately(3))).edge(START, pay).compile().unwrap();
    probe.fail_next("pay", 2);
    let state = graph.invoke(Trail::default(), probe.clone()).await.unwrap();
    assert_eq!(state, trail(["did charge/7"]));
    assert_eq!((probe.count("charge/7"), probe.count("pay")), (1, 3));
}

#[tokio::test]
async fn a_failed_call_is_repeated() {
    let probe = Probe::default();
    let thread = thread_of(paying(), &probe);
    probe.fail_next("charge/7", 1);
    let error = thread.run(Trail::default()).await.unwrap_err();
    assert_eq!(error.node_error::<InjectedError>(), Some(&InjectedError("charge/7".into())));
    assert!(thread.proceed().await.unwrap().is_done());
    assert_eq!(probe.count("charge/7"), 2);
}

async fn several(_: &Trail, cx: &Context<Probe>) -> Result<TrailUpdate, NodeError> {
    let mut all = Vec::new();
    for (name, key) in [("charge", 1), ("charge", 2), ("ship", 1), ("charge", 1)] {
        all.push(call(cx, name, key).await?);
    }
    cx.deps().enter(cx.step(), "several").await?;
    Ok(Trail::update().path(all))
}

#[tokio::test]
async fn calls_are_matched_by_name_key_and_occurrence() {
    let probe = Probe::default();
    let graph = graph().node(several).edge(START, several);
    let thread = thread_of(graph, &probe);
    probe.fail_next("several", 1);
    thread.run(Trail::default()).await.unwrap_err();
    assert!(thread.proceed().await.unwrap().is_done());
    // The second call with the name `charge` and the key 1 is a separate call, which is not repeated either.
    for (name, calls) in [("charge/1", 2), ("charge/2", 1), ("ship/1", 1)] {
        assert_eq!(probe.count(name), calls, "{name}");
    }
}

async fn pay_for(item: Item, cx: &Context<Probe>) -> Result<TrailUpdate, NodeError> {
    let receipt = call(cx, "charge", 0).await?;
    cx.deps().enter(cx.step(), &format!("item {}", item.0)).await?;
    Ok(visited(&receipt))
}

#[tokio::test]
async fn tasks_do_not_share_their_journals() {
    let probe = Probe::default();
    let graph = graph()
        .node(pay_for)
        .branch(START, |_: &Trail| vec![send(pay_for, Item(1)), send(pay_for, Item(2))]);
    let thread = thread_of(graph, &probe);
    probe.fail_next("item 2", 1);
    thread.run(Trail::default()).await.unwrap_err();
    assert_eq!(probe.count("charge/0"), 2);
    assert!(thread.proceed().await.unwrap().is_done());
    assert_eq!((probe.count("charge/0"), probe.count("item 1")), (2, 1));
}

#[tokio::test]
async fn a_new_task_repeats_the_call() {
    let probe = Probe::default();
    let thread = thread_of(paying(), &probe);
    assert!(thread.run(Trail::default()).await.unwrap().is_done());
    assert!(thread.run(Trail::update()).await.unwrap().is_done());
    assert_eq!(probe.count("charge/7"), 2);
}

#[tokio::test]
async fn a_call_inside_a_subgraph_is_not_repeated() {
    let probe = Probe::default();
    let graph = graph().node(sub("inner", paying())).edge(START, "inner");
    let thread = thread_of(graph, &probe);
    probe.fail_next("pay", 1);
    thread.run(Trail::default()).await.unwrap_err();
    let outcome = thread.proceed().await.unwrap();
    assert_eq!(outcome.state(), &trail(["did charge/7"]));
    assert_eq!((probe.count("charge/7"), probe.count("pay")), (1, 2));
}

/// Makes equal calls: one that is repeated if it fails, one that is dropped, and one more.
async fn insist(_: &Trail, cx: &Context<Probe>) -> Result<TrailUpdate, NodeError> {
    let first = match call(cx, "ask", 1).await {
        Ok(answer) => answer,
        Err(_) => call(cx, "ask", 1).await?,
    };
    drop(cx.task::<(), _>("ask", 1, std::future::pending()));
    let last = call(cx, "ask", 1).await?;
    cx.deps().enter(cx.step(), "insist").await?;
    Ok(visited(&first).path([last]))
}

#[tokio::test]
async fn calls_that_fail_or_are_dropped_do_not_count() {
    let probe = Probe::default();
    let graph = graph().node(insist).edge(START, insist);
    let thread = thread_of(graph, &probe);
    probe.fail_next("ask/1", 1);
    probe.fail_next("insist", 1);
    thread.run(Trail::default()).await.unwrap_err();
    assert_eq!(probe.count("ask/1"), 3);
    let _ = thread.proceed().await.unwrap();
    assert_eq!(probe.count("ask/1"), 3, "a call with a journaled result was repeated");
}

/// Reads the journaled result as another type if the run's configuration contains `new`.
async fn changed(_: &Trail, cx: &Context<Probe>) -> Result<(), NodeError> {
    if cx.config("new").is_none() {
        let _: String = cx.task("call", (), async { Ok("text".to_owned()) }).await?;
        return Err("stop here".into());
    }
    let _: u64 = cx.task("call", (), async { Ok(3) }).await?;
    Ok(())
}

#[tokio::test]
async fn a_journaled_result_of_another_type_is_an_error() {
    let probe = Probe::default();
    let graph = graph().node(changed).edge(START, changed);
    let thread = thread_of(graph, &probe);
    thread.run(Trail::default()).await.unwrap_err();
    let error =
        thread.with_options(RunOptions::new().config("new", true)).proceed().await.unwrap_err();
    let bad = error.node_error::<JournalError>().unwrap_or_else(|| panic!("{error}"));
    assert!(bad.key.starts_with("call"), "{bad}");
}

/// Adds its idempotency key to the probe's trace, then fails if the probe requests a failure.
async fn keyed(_: &Trail, cx: &Context<Probe>) -> Result<TrailUpdate, NodeError> {
    cx.deps().enter(cx.step(), &cx.idempotency_key()).await?;
    cx.deps().enter(cx.step(), "keyed").await?;
    Ok(visited(&cx.idempotency_key()))
}

#[tokio::test]
async fn the_idempotency_key_survives_retries_and_runs() {
    let probe = Probe::default();
    let graph = graph().node(keyed.retry(retry_immediately(2))).edge(START, keyed);
    let thread = thread_of(graph, &probe);
    probe.fail_next("keyed", 3);
    thread.run(Trail::default()).await.unwrap_err();
    let key = thread.proceed().await.unwrap().into_state().path.remove(0);
    assert_eq!((probe.count("keyed"), probe.count(&key)), (4, 4));

    let other = thread.run(Trail::update()).await.unwrap().into_state().path.remove(1);
    assert_ne!(key, other, "another run has another task");
}
