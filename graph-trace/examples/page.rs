//! Renders a run as an HTML page. Run `cargo run -p graph-trace --example page > run.html` and open the file.
//!
//! A report is planned, researched by three concurrent tasks, written, and reviewed by a subgraph. It is then
//! written again, because the first review contains a remark.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "an example for the terminal")]

use std::time::Duration;

use graph_core::{
    Context, END, NodeError, NodeExt, RetryPolicy, Route, RunOptions, START, State, StateGraph,
    subgraph,
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::time::sleep;

#[derive(State, Clone, Debug, Default)]
struct Report {
    question: String,
    #[reduce(append)]
    findings: Vec<Finding>,
    draft: String,
    #[reduce(append)]
    remarks: Vec<String>,
    approved: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Finding {
    source: String,
    says: String,
}

#[derive(State, Clone, Debug, Default)]
struct Review {
    draft: String,
    #[reduce(append)]
    remarks: Vec<String>,
    approved: bool,
}

#[derive(Route)]
enum Searches {
    #[to(search)]
    For(Vec<String>),
}

fn searches(_: &Report) -> Searches {
    Searches::For(["encyclopedia", "newspapers", "statistics"].map(str::to_owned).into())
}

#[derive(Route)]
enum Verdict {
    #[to(write)]
    Again,
    #[to(publish)]
    Publish,
    #[to(give_up)]
    GiveUp,
}

fn verdict(report: &Report) -> Verdict {
    match (report.approved, report.remarks.len()) {
        (true, _) => Verdict::Publish,
        (false, ..3) => Verdict::Again,
        (false, _) => Verdict::GiveUp,
    }
}

async fn plan(_: &Report, cx: &Context) {
    cx.emit(json!({ "plan": ["ask three sources", "write", "have it reviewed"] })).await;
    sleep(Duration::from_millis(14)).await;
}

async fn search(source: String, cx: &Context) -> Result<ReportUpdate, NodeError> {
    let time = [22, 9, 31][source.len() % 3];
    if source == "newspapers" && cx.attempt() == 1 {
        sleep(Duration::from_millis(8)).await;
        return Err("the archive did not answer in time".into());
    }
    let says = cx.task("fetch", &source, async {
        sleep(Duration::from_millis(time)).await;
        Ok(format!("tea was first drunk as a medicine ({source})"))
    });
    let says = says.await?;
    Ok(Report::update().findings([Finding { source, says }]))
}

async fn write(report: &Report, cx: &Context) -> ReportUpdate {
    for token in ["Tea ", "began ", "as ", "a ", "medicine."] {
        cx.message(json!({ "token": token })).await;
        sleep(Duration::from_millis(4)).await;
    }
    let number = report.remarks.len() + 1;
    let sources = report.findings.len();
    Report::update().draft(format!("Draft {number}: tea began as a medicine ({sources} sources)."))
}

async fn check_facts(review: &Review) -> ReviewUpdate {
    sleep(Duration::from_millis(18)).await;
    match review.draft.starts_with("Draft 1") {
        true => Review::update().remarks(["the year is missing".to_owned()]),
        false => Review::update(),
    }
}

async fn check_style(_: &Review) {
    sleep(Duration::from_millis(11)).await;
}

async fn judge(review: &Review) -> ReviewUpdate {
    sleep(Duration::from_millis(5)).await;
    Review::update().approved(review.remarks.is_empty())
}

async fn publish(_: &Report) {
    sleep(Duration::from_millis(6)).await;
}

async fn give_up(_: &Report) {}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let review = StateGraph::<Review>::new()
        .node(check_facts)
        .node(check_style)
        .node(judge)
        .edge(START, check_facts)
        .edge(START, check_style)
        .join((check_facts, check_style), judge)
        .edge(judge, END)
        .compile()?;
    let review = subgraph(
        "review",
        &review,
        |report: &Report| Review { draft: report.draft.clone(), ..Review::default() },
        |review: Review| Report::update().remarks(review.remarks).approved(review.approved),
    );
    let retry =
        RetryPolicy::max_attempts(3).backoff(Duration::from_millis(10), 2.0).without_jitter();
    let graph = StateGraph::<Report>::new()
        .node(plan)
        .node(search.retry(retry))
        .node(write)
        .node(review)
        .node(publish)
        .node(give_up)
        .edge(START, plan)
        .branch(plan, searches)
        .edge(search, write)
        .edge(write, "review")
        .branch("review", verdict)
        .edge(publish, END)
        .edge(give_up, END)
        .compile()?;
    let report = Report { question: "Where does tea come from?".into(), ..Report::default() };
    let recorded = graph_trace::record(&graph, report, (), RunOptions::new()).await;
    eprint!("{}", recorded.trace.timeline(100));
    print!("{}", recorded.trace.html("A report on tea", &graph.drawing(1)));
    Ok(())
}
