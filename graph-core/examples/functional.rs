//! The functional API: a function as a graph, with concurrent journaled calls, retries and an approval.
#![expect(clippy::print_stdout, reason = "an example for the terminal")]

use graph_core::{
    Context, Entrypoint, EntrypointOutcome, Final, MemorySaver, NodeError, TaskOptions,
};

async fn write(section: &str) -> Result<String, NodeError> {
    Ok(format!("about {section}"))
}

/// The output of a run, and the value that is saved for the next one.
type Essay = Final<String, String>;

async fn essay(topic: String, previous: Option<String>, cx: Context) -> Result<Essay, NodeError> {
    let retried = TaskOptions::new().retry(3);
    let section = |name| cx.task_with(retried.clone(), "write", (), move || write(name));
    // The calls are always created in this order, so they need no keys.
    let (why, how) = tokio::try_join!(section("why"), section("how"))?;
    let text = format!("{topic}: {why}, {how}");
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
