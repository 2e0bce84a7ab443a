//! The functional API: one function as a graph, with journaled calls, a question and a saved value.
#![expect(clippy::print_stdout, reason = "an example for the terminal")]

use graph_core::{Context, Entrypoint, EntrypointOutcome, Final, MemorySaver};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let order =
        Entrypoint::new("order", |item: String, ordered: Option<u32>, cx: Context| async move {
            let price: u32 = cx
                .task("price", &item, async {
                    println!("fetching the price of {item}");
                    Ok(3)
                })
                .await?;
            let amount: u32 = cx.interrupt(format!("{item} cost {price} each; how many?"))?;
            let total = ordered.unwrap_or(0) + amount;
            Ok(Final { value: format!("{amount} {item}, {total} things so far"), save: total })
        })
        .checkpointer(MemorySaver::new())
        .compile()?;

    let thread = order.thread("ada", ());
    for (item, amount) in [("apples", 4), ("pears", 2)] {
        if let EntrypointOutcome::Interrupted(questions) = thread.run(item.to_owned()).await? {
            println!("{} – {amount}", questions[0].value);
        }
        println!("{:?}", thread.resume(amount).await?.done());
    }
    Ok(())
}
