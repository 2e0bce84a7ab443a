//! A node that fails. It is retried, and then its error handler continues with another node.
#![expect(clippy::print_stdout, reason = "an example for the terminal")]

use std::time::Duration;

use graph_core::{
    Command, Context, NodeError, NodeExt, RetryPolicy, Route, START, State, StateGraph,
};

#[derive(State, Clone, Debug, Default)]
struct Report {
    numbers: Vec<u64>,
    #[reduce(append)]
    notes: Vec<String>,
}

async fn fetch(_: &Report, cx: &Context) -> Result<ReportUpdate, NodeError> {
    println!("attempt {}", cx.attempt());
    Err("the source is down".into())
}

#[derive(Route)]
enum Fallback {
    #[to(estimate)]
    Estimate,
}

async fn fall_back(_: &Report, cx: &Context) -> Command<Report, Fallback> {
    let cause = cx.failure().map(|it| it.error.clone()).unwrap_or_default();
    Report::update().notes([format!("no data: {cause}")]).goto(Fallback::Estimate)
}

async fn estimate(_: &Report) -> ReportUpdate {
    Report::update().numbers([1, 2, 3])
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let retry =
        RetryPolicy::max_attempts(3).backoff(Duration::from_millis(10), 2.0).without_jitter();
    let graph = StateGraph::<Report>::new()
        .node(fetch.retry(retry).timeout(Duration::from_secs(5)).on_error(fall_back))
        .node(estimate)
        .edge(START, fetch)
        .compile()?;
    println!("{:?}", graph.invoke(Report::default(), ()).await?);
    Ok(())
}
