//! Effects: a payment is made once, although its node runs three times.
#![expect(clippy::print_stdout, reason = "an example for the terminal")]

use std::time::Duration;

use graph_core::{Context, MemorySaver, NodeError, NodeExt, RetryPolicy, START, State, StateGraph};

#[derive(State, Clone, Debug, Default)]
struct Order {
    id: u64,
    receipt: String,
}

async fn pay(order: &Order, cx: &Context) -> Result<OrderUpdate, NodeError> {
    println!("the node runs, attempt {}", cx.attempt());
    let receipt: String = cx
        .task("charge", order.id, async {
            println!("charging, with idempotency key {}", cx.idempotency_key());
            Ok(format!("receipt for order {}", order.id))
        })
        .await?;
    if cx.attempt() < 3 {
        return Err("the printer is out of paper".into());
    }
    Ok(Order::update().receipt(receipt))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let retry = RetryPolicy::max_attempts(3).backoff(Duration::ZERO, 1.0).without_jitter();
    let graph = StateGraph::<Order>::new()
        .node(pay.retry(retry))
        .edge(START, pay)
        .checkpointer(MemorySaver::new())
        .compile()?;
    let thread = graph.thread("order-7", ());
    let outcome = thread.run(Order { id: 7, ..Default::default() }).await?;
    println!("{}", outcome.state().receipt);
    Ok(())
}
