//! The functional API: a function as a graph, with concurrent journaled calls, retries and an approval.
#![expect(clippy::print_stdout, reason = "an example for the terminal")]

use graph_core::{
    Context, Entrypoint, EntrypointOutcome, Final, MemorySaver, NodeError, TaskOptions,
};

async fn write(section: &str) -> Result<String, NodeError> {
    Ok(format!("about {section}"))
}

async fn essay(
    topic: String,
    previous: Option<String>,
    cx: Context,
) -> Result<Final<String, String>, NodeError> {
    let retried = TaskOptions::new().retry(3);
    // The calls are always created in this order, so they need no keys.
    let (why, how) = tokio::join!(
        cx.task("write", (), write("why")),
        cx.task_with(retried, "write", (), || write("how")),
    );
    let text = format!("{topic}: {}, {}", why?, how?);
    let approved: bool = cx.interrupt(format!("publish `{text}`?"))?;
    let value = if approved { text.clone() } else { previous.unwrap_or_default() };
    Ok(Final { value, save: text })
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let graph = Entrypoint::new("essay", essay).checkpointer(MemorySaver::new()).compile()?;
    let thread = graph.thread("t", ());
    if let EntrypointOutcome::Interrupted(questions) = thread.run("rust".to_owned()).await? {
        println!("{}", questions[0].value);
    }
    println!("{:?}", thread.resume(true).await?.done());
    println!("saved: {:?}", thread.saved::<String>().await?);
    Ok(())
}
