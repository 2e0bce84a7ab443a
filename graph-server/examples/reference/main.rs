//! Hosts nine small graphs for checking clients of LangGraph's API.
//!
//! ```text
//! cargo run --release -p graph-server --example reference -- --port 8123
//! ```
#![expect(clippy::print_stdout, reason = "reports the address of the server")]

mod graphs;
mod words;

use std::{net::Ipv4Addr, path::PathBuf, sync::Arc};

use clap::Parser;
use graph_core::store::IndexConfig;
use graph_server::{
    http::Guard,
    langgraph::{ApiOptions, Graphs, LangGraphApi},
    raise_descriptor_limit, serve_until,
};
use graph_store::{Sqlite, SqliteSaver, SqliteStore, sqlite::Synchronous};
use tokio::net::TcpListener;

use self::words::Words;

/// Host nine small graphs for checking clients of LangGraph's API.
#[derive(Parser)]
struct Options {
    /// Port on the loopback interface; 0 chooses a free one.
    #[arg(long, default_value_t = 8123)]
    port: u16,
    /// Directory of the databases; a temporary one by default.
    #[arg(long)]
    data: Option<PathBuf>,
    /// Allow webhooks to loopback and private addresses.
    #[arg(long)]
    private_webhooks: bool,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let options = Options::parse();
    raise_descriptor_limit()?;
    let temporary = tempfile::tempdir()?;
    let directory = options.data.unwrap_or_else(|| temporary.path().to_owned());
    std::fs::create_dir_all(&directory)?;
    // Commits survive a crash of the process. They need not survive a power failure.
    let durability = Sqlite::settings().synchronous(Synchronous::Normal);
    let database = durability.open(directory.join("threads.db"))?;
    let saver = Arc::new(SqliteSaver::new(&database));
    let index = IndexConfig::new(Words, words::DIMENSIONS);
    let store = Arc::new(SqliteStore::new(&database).with_index(index));
    let graphs = graphs::add_all(Graphs::new(saver, store))?;
    let settings = ApiOptions::default().private_webhooks(options.private_webhooks);
    let api = LangGraphApi::open_with(graphs, directory.join("api.db"), settings).await?;
    let guard = Guard::new().rate_limit(u32::MAX).local_origins().max_body(16 << 20);
    let guarded = guard.wrap(api.open_routes(), api.routes(), api.metrics());
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, options.port)).await?;
    println!("listening on http://{}", listener.local_addr()?);
    // The server runs until it is killed. Its active runs continue when it starts again with the same data.
    serve_until(listener, guarded, std::future::pending()).await?;
    Ok(())
}
