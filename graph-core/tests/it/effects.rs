//! Journaled calls: made once, whatever happens to the node around them.

use std::time::Duration;

use graph_core::{
    BadEffect, Configure, Context, Durability, MemorySaver, NodeError, Retry, RunOptions, START,
    StateGraph, send, subgraph,
};

use crate::support::{Broken, Item, Trail, TrailUpdate, World, been, graph, trail};

/// Calls once, then is broken as long as the world says so.
async fn pay(_: &Trail, cx: &Context<World>) -> Result<TrailUpdate, NodeError> {
    let receipt = call(cx, "charge", 7).await?;
    cx.deps().visit(cx.step(), "pay").await?;
    Ok(been(&receipt))
}

/// An outside call that the world sees under its name and key.
async fn call(cx: &Context<World>, name: &str, key: u32) -> Result<String, NodeError> {
    let full = format!("{name}/{key}");
    let outside = async {
        cx.deps().visit(cx.step(), &full).await?;
        Ok(format!("did {full}"))
    };
    cx.task(name, key, outside).await
}

fn paying() -> StateGraph<Trail, World> {
    graph().node(pay).edge(START, pay)
}

fn at_once(attempts: u32) -> Retry {
    Retry::attempts(attempts).backoff(Duration::ZERO, 1.0).without_jitter()
}

#[tokio::test]
async fn a_call_is_not_repeated_after_a_failure() {
    for durability in [Durability::Sync, Durability::Async, Durability::Exit] {
        let world = World::default();
        let graph = paying().checkpointer(MemorySaver::new()).compile().unwrap();
        let options = RunOptions::new().durability(durability);
        let thread = graph.thread("t", world.clone()).with(options);
        world.breaks("pay", 2);
        thread.run(Trail::default()).await.unwrap_err();
        thread.proceed().await.unwrap_err();
        let exit = thread.proceed().await.unwrap();
        assert_eq!(exit.state(), &trail(["did charge/7"]), "{durability:?}");
        assert_eq!(world.count("charge/7"), 1, "{durability:?}");
        assert_eq!(world.count("pay"), 3, "{durability:?}");
    }
}

#[tokio::test]
async fn a_call_is_not_repeated_by_a_retry_even_without_checkpointer() {
    let world = World::default();
    let graph = graph().node(pay.retry(at_once(3))).edge(START, pay).compile().unwrap();
    world.breaks("pay", 2);
    let state = graph.run(Trail::default(), world.clone()).await.unwrap();
    assert_eq!(state, trail(["did charge/7"]));
    assert_eq!((world.count("charge/7"), world.count("pay")), (1, 3));
}

async fn order(_: &Trail, cx: &Context<World>) -> Result<TrailUpdate, NodeError> {
    let receipt = call(cx, "charge", 1).await?;
    let name: String = cx.interrupt("whose?")?;
    let sent = call(cx, "ship", 1).await?;
    Ok(Trail::update().path([receipt, sent]).note(name))
}

#[tokio::test]
async fn a_call_is_not_repeated_after_a_question() {
    let world = World::default();
    let graph =
        graph().node(order).edge(START, order).checkpointer(MemorySaver::new()).compile().unwrap();
    let thread = graph.thread("t", world.clone());
    let exit = thread.run(Trail::default()).await.unwrap();
    assert_eq!(exit.interrupts().len(), 1);
    let exit = thread.resume("Ada").await.unwrap();
    assert_eq!(exit.state().note, "Ada");
    assert_eq!((world.count("charge/1"), world.count("ship/1")), (1, 1));
}

#[tokio::test]
async fn a_failed_call_is_made_again() {
    let world = World::default();
    let graph = paying().checkpointer(MemorySaver::new()).compile().unwrap();
    let thread = graph.thread("t", world.clone());
    world.breaks("charge/7", 1);
    let error = thread.run(Trail::default()).await.unwrap_err();
    assert_eq!(error.node_error::<Broken>(), Some(&Broken("charge/7".into())));
    assert!(thread.proceed().await.unwrap().is_done());
    assert_eq!(world.count("charge/7"), 2);
}

async fn several(_: &Trail, cx: &Context<World>) -> Result<TrailUpdate, NodeError> {
    let mut all = Vec::new();
    for (name, key) in [("charge", 1), ("charge", 2), ("ship", 1), ("charge", 1)] {
        all.push(call(cx, name, key).await?);
    }
    cx.deps().visit(cx.step(), "several").await?;
    Ok(Trail::update().path(all))
}

#[tokio::test]
async fn name_and_key_tell_calls_apart() {
    let world = World::default();
    let graph = graph()
        .node(several)
        .edge(START, several)
        .checkpointer(MemorySaver::new())
        .compile()
        .unwrap();
    let thread = graph.thread("t", world.clone());
    world.breaks("several", 1);
    thread.run(Trail::default()).await.unwrap_err();
    assert!(thread.proceed().await.unwrap().is_done());
    for name in ["charge/1", "charge/2", "ship/1"] {
        assert_eq!(world.count(name), 1, "{name}");
    }
}

async fn pay_for(item: Item, cx: &Context<World>) -> Result<TrailUpdate, NodeError> {
    let receipt = call(cx, "charge", 0).await?;
    cx.deps().visit(cx.step(), &format!("item {}", item.0)).await?;
    Ok(been(&receipt))
}

#[tokio::test]
async fn tasks_do_not_share_their_journals() {
    let world = World::default();
    let graph = graph()
        .node(pay_for)
        .branch(START, |_: &Trail| vec![send(pay_for, Item(1)), send(pay_for, Item(2))])
        .checkpointer(MemorySaver::new())
        .compile()
        .unwrap();
    let thread = graph.thread("t", world.clone());
    world.breaks("item 2", 1);
    thread.run(Trail::default()).await.unwrap_err();
    assert_eq!(world.count("charge/0"), 2);
    assert!(thread.proceed().await.unwrap().is_done());
    assert_eq!((world.count("charge/0"), world.count("item 1")), (2, 1));
}

#[tokio::test]
async fn a_visit_of_its_own_makes_the_call_again() {
    let world = World::default();
    let graph = paying().checkpointer(MemorySaver::new()).compile().unwrap();
    let thread = graph.thread("t", world.clone());
    assert!(thread.run(Trail::default()).await.unwrap().is_done());
    assert!(thread.run(Trail::default()).await.unwrap().is_done());
    assert_eq!(world.count("charge/7"), 2);
}

#[tokio::test]
async fn a_call_inside_a_subgraph_is_not_repeated() {
    let world = World::default();
    let inner = paying().compile().unwrap();
    let whole = |it: Trail| Trail::update().path(it.path);
    let graph = graph()
        .node(subgraph("inner", &inner, |_: &Trail| Trail::default(), whole))
        .edge(START, "inner")
        .checkpointer(MemorySaver::new())
        .compile()
        .unwrap();
    let thread = graph.thread("t", world.clone());
    world.breaks("pay", 1);
    thread.run(Trail::default()).await.unwrap_err();
    let exit = thread.proceed().await.unwrap();
    assert_eq!(exit.state(), &trail(["did charge/7"]));
    assert_eq!((world.count("charge/7"), world.count("pay")), (1, 2));
}

/// Reads the journal as another type once it is resumed.
async fn changed(_: &Trail, cx: &Context<World>) -> Result<(), NodeError> {
    if cx.config("new").is_none() {
        let _: String = cx.task("call", (), async { Ok("text".to_owned()) }).await?;
        return Err("stop here".into());
    }
    let _: u64 = cx.task("call", (), async { Ok(3) }).await?;
    Ok(())
}

#[tokio::test]
async fn a_journaled_result_of_another_type_is_named() {
    let world = World::default();
    let graph = graph()
        .node(changed)
        .edge(START, changed)
        .checkpointer(MemorySaver::new())
        .compile()
        .unwrap();
    let thread = graph.thread("t", world);
    thread.run(Trail::default()).await.unwrap_err();
    let error = thread.with(RunOptions::new().config("new", true)).proceed().await.unwrap_err();
    let bad = error.node_error::<BadEffect>().unwrap_or_else(|| panic!("{error}"));
    assert!(bad.key.starts_with("call"), "{bad}");
}

/// Notes its key for outside calls, then may fail.
async fn keyed(_: &Trail, cx: &Context<World>) -> Result<TrailUpdate, NodeError> {
    cx.deps().visit(cx.step(), &cx.idempotency_key()).await?;
    cx.deps().visit(cx.step(), "keyed").await?;
    Ok(been(&cx.idempotency_key()))
}

#[tokio::test]
async fn the_idempotency_key_of_a_task_stays_over_retries_and_runs() {
    let world = World::default();
    let graph = graph()
        .node(keyed.retry(at_once(2)))
        .edge(START, keyed)
        .checkpointer(MemorySaver::new())
        .compile()
        .unwrap();
    let thread = graph.thread("t", world.clone());
    world.breaks("keyed", 3);
    thread.run(Trail::default()).await.unwrap_err();
    let key = thread.proceed().await.unwrap().into_state().path.remove(0);
    assert_eq!((world.count("keyed"), world.count(&key)), (4, 4));

    let other = thread.run(Trail::default()).await.unwrap().into_state().path.remove(1);
    assert_ne!(key, other, "another visit is another task");
}
