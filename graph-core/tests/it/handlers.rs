//! Error handlers are tasks of their own: they keep their journal and their answers.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use graph_core::{
    Configure, Context, Durability, Exit, MemorySaver, NodeError, Route, RunError, RunOptions,
    START, State, StateGraph,
};

#[derive(State, Clone, Debug, Default)]
struct Order {
    #[reduce(append)]
    log: Vec<String>,
}

#[derive(Clone, Default)]
struct Calls(Arc<AtomicUsize>);

async fn buy(_: &Order) -> Result<(), NodeError> {
    Err("the shop is closed".into())
}

/// Makes an outside call, then asks twice.
async fn refund(_: &Order, cx: &Context<Calls>) -> Result<OrderUpdate, NodeError> {
    let count = cx.deps().0.clone();
    cx.task("refund", 1, async move {
        count.fetch_add(1, Ordering::SeqCst);
        Ok(())
    })
    .await?;
    let first: String = cx.interrupt("first")?;
    let second: String = cx.interrupt("second")?;
    Ok(Order::update().log([first, second]))
}

#[tokio::test]
async fn a_handler_that_asks_goes_on_with_its_answers_and_its_journal() {
    let graph = StateGraph::<Order, Calls>::new()
        .node(buy.on_error(refund))
        .edge(START, buy)
        .checkpointer(MemorySaver::new())
        .compile()
        .unwrap();
    let calls = Calls::default();
    let thread = graph.thread("t", calls.clone());
    assert_eq!(thread.run(Order::default()).await.unwrap().interrupts()[0].value, "first");
    let state = thread.state().await.unwrap().unwrap();
    assert_eq!(state.interrupts().count(), 1, "the handler's question shows on the thread");
    assert_eq!(thread.resume("a").await.unwrap().interrupts()[0].value, "second");
    let Exit::Done(order) = thread.resume("b").await.unwrap() else { panic!("all is answered") };
    assert_eq!(order.log, ["a", "b"]);
    assert_eq!(calls.0.load(Ordering::SeqCst), 1, "the refund is made once");
}

#[derive(Route)]
enum Way {
    #[to(pass)]
    On,
}

async fn pass(_: &Order) -> OrderUpdate {
    Order::update().log(["pass".to_owned()])
}

/// An entry that fails the first time it is asked.
fn entry(_: &Order, calls: &Calls) -> Result<Way, NodeError> {
    match calls.0.fetch_add(1, Ordering::SeqCst) {
        0 => Err("not yet".into()),
        _ => Ok(Way::On),
    }
}

#[tokio::test]
async fn a_failing_entry_keeps_the_input_whenever_it_is_stored() {
    for durability in [Durability::Sync, Durability::Async, Durability::Exit] {
        let graph = StateGraph::<Order, Calls>::new()
            .node(pass)
            .branch(START, entry)
            .checkpointer(MemorySaver::new())
            .compile()
            .unwrap();
        let thread = graph.thread("t", Calls::default());
        let thread = thread.with(RunOptions::new().durability(durability));
        let input = Order { log: vec!["in".to_owned()] };
        assert!(matches!(thread.run(input).await, Err(RunError::Node { .. })), "{durability:?}");
        let order = thread.proceed().await.unwrap().into_state();
        assert_eq!(order.log, ["in", "pass"], "{durability:?}");
    }
}
