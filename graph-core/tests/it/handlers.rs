//! Error handlers are separate tasks with their own journal and interrupts.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use graph_core::{
    Context, Durability, NodeError, NodeExt, Route, RunError, RunOptions, RunOutcome, START, State,
    StateGraph,
};

use crate::support::thread_of;

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

/// Makes a journaled call, then interrupts twice.
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
async fn an_interrupted_handler_keeps_its_resume_values_and_journal() {
    let graph = StateGraph::<Order, Calls>::new().node(buy.on_error(refund)).edge(START, buy);
    let calls = Calls::default();
    let thread = thread_of(graph, &calls);
    assert_eq!(thread.run(Order::default()).await.unwrap().interrupts()[0].value, "first");
    let state = thread.state().await.unwrap().unwrap();
    assert_eq!(
        state.interrupts().len(),
        1,
        "the handler's interrupt is part of the thread's state"
    );
    assert_eq!(thread.resume("a").await.unwrap().interrupts()[0].value, "second");
    let RunOutcome::Done(order) = thread.resume("b").await.unwrap() else {
        panic!("all interrupts were resumed")
    };
    assert_eq!(order.log, ["a", "b"]);
    assert_eq!(calls.0.load(Ordering::SeqCst), 1, "the refund is made once");
}

#[derive(Route)]
enum Next {
    #[to(pass)]
    On,
}

async fn pass(_: &Order) -> OrderUpdate {
    Order::update().log(["pass".to_owned()])
}

/// A branch at START that fails on its first call.
fn entry(_: &Order, calls: &Calls) -> Result<Next, NodeError> {
    match calls.0.fetch_add(1, Ordering::SeqCst) {
        0 => Err("not yet".into()),
        _ => Ok(Next::On),
    }
}

#[tokio::test]
async fn a_failing_entry_branch_keeps_the_input() {
    for durability in [Durability::Sync, Durability::Async, Durability::Exit] {
        let graph = StateGraph::<Order, Calls>::new().node(pass).branch(START, entry);
        let thread = thread_of(graph, &Calls::default());
        let thread = thread.with_options(RunOptions::new().durability(durability));
        let input = Order { log: vec!["in".to_owned()] };
        assert!(matches!(thread.run(input).await, Err(RunError::Node { .. })), "{durability:?}");
        let order = thread.proceed().await.unwrap().into_state();
        assert_eq!(order.log, ["in", "pass"], "{durability:?}");
    }
}
