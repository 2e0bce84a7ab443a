//! A job that survives restarts: stop it with Ctrl-C at any time and start it again.
//!
//! Every call to `fetch` is journaled, so no page is fetched twice, except a page whose fetch is in flight when the
//! program is stopped.
#![expect(clippy::print_stdout, reason = "an example for the terminal")]

use std::{env, time::Duration};

use graph_core::{
    Context, Durability, END, NodeError, Route, RunOptions, START, State, StateGraph,
};
use graph_store::SqliteSaver;

#[derive(State, Clone, Debug, Default)]
struct Crawl {
    pages: usize,
    #[reduce(append)]
    titles: Vec<String>,
}

async fn fetch(crawl: &Crawl, cx: &Context) -> Result<CrawlUpdate, NodeError> {
    let page = crawl.titles.len() + 1;
    let title = cx
        .task("fetch", page, async move {
            tokio::time::sleep(Duration::from_millis(50)).await;
            println!("fetched page {page}");
            Ok(format!("Page {page}"))
        })
        .await?;
    Ok(Crawl::update().titles([title]))
}

#[derive(Route)]
enum Next {
    #[to(fetch)]
    Another,
    #[to(END)]
    Done,
}

fn next(crawl: &Crawl) -> Next {
    if crawl.titles.len() < crawl.pages { Next::Another } else { Next::Done }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let file = env::temp_dir().join("graph-store-durable.db");
    let graph = StateGraph::<Crawl>::new()
        .node(fetch)
        .edge(START, fetch)
        .branch(fetch, next)
        .checkpointer(SqliteSaver::open(&file)?)
        .compile()?;
    let thread =
        graph.thread("crawl", ()).with_options(RunOptions::new().durability(Durability::Sync));
    let outcome = thread.start_or_continue(Crawl { pages: 20, ..Crawl::default() }).await?;
    let n_titles = outcome.state().titles.len();
    println!("{n_titles} titles, stored in {}; delete the file to start again", file.display());
    Ok(())
}
