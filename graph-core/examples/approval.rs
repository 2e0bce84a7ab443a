//! Human approval: a run is interrupted with a question and resumed with the answer. The external call before the
//! interrupt is made only once.
#![expect(clippy::print_stdout, reason = "an example for the terminal")]

use graph_core::{Context, MemorySaver, NodeError, RunOutcome, START, State, StateGraph};

#[derive(State, Clone, Debug, Default)]
struct Order {
    item: String,
    price: u64,
    approved: bool,
}

async fn buy(order: &Order, cx: &Context) -> Result<OrderUpdate, NodeError> {
    // The call is journaled, so the price is not fetched again when the node runs again after the interrupt.
    let price = cx
        .task("price", &order.item, async {
            println!("fetching the price of {}", order.item);
            Ok(42)
        })
        .await?;
    let approved: bool = cx.interrupt(format!("buy {} for {price}?", order.item))?;
    Ok(Order::update().price(price).approved(approved))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let graph = StateGraph::<Order>::new()
        .node(buy)
        .edge(START, buy)
        .checkpointer(MemorySaver::new())
        .compile()?;
    let thread = graph.thread("order-1", ());
    let mut exit = thread.run(Order { item: "tea".into(), ..Default::default() }).await?;
    while let RunOutcome::Interrupted { interrupts, .. } = &exit {
        println!("question: {} – answering yes", interrupts[0].value);
        exit = thread.resume(true).await?;
    }
    println!("{:?}", exit.into_state());
    for state in thread.history(None).await? {
        println!("step {:>2} {:<5} next {:?}", state.step, state.source.as_str(), state.next);
    }
    Ok(())
}
