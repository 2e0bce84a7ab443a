//! A server that shares its runs with other replicas through PostgreSQL.
//!
//! Start the program several times with the same database. The graph `jobs` reports the process that executes each
//! round of a job:
//!
//! ```text
//! cargo run --release -p graph-server --features postgres --example replica -- --database postgresql://user@host/name
//! ```
#![expect(clippy::print_stdout, reason = "reports the address of the server")]

use std::{
    fs::OpenOptions,
    io::{self, Write},
    net::Ipv4Addr,
    path::{Path, PathBuf},
    process,
    sync::Arc,
    time::Duration,
};

use clap::Parser;
use graph_core::{Context, END, NodeError, Route, START, State, StateGraph};
use graph_server::{
    http::{ApiKeys, Client, Guard, KeyHash},
    langgraph::{ApiOptions, Graphs, LangGraphApi, Schemas},
    serve_until,
};
use graph_store::{Postgres, PostgresSaver, PostgresStore};
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;

/// Serve the graph `jobs`, and share its runs with other replicas.
#[derive(Parser)]
struct Options {
    /// URL of the PostgreSQL database.
    #[arg(long)]
    database: String,
    /// Port on the loopback interface; 0 chooses a free one.
    #[arg(long, default_value_t = 8123)]
    port: u16,
    /// Maximum number of runs that this process executes at a time.
    #[arg(long, default_value_t = 16)]
    concurrent_runs: usize,
    /// File to which each round of a job appends a line.
    #[arg(long)]
    effects: Option<PathBuf>,
    /// API key of a client, as `OWNER=KEY`. Repeat it for several clients. Without keys, everyone on this machine has
    /// access.
    #[arg(long)]
    api_key: Vec<String>,
    /// Allow webhooks to loopback and private addresses.
    #[arg(long)]
    private_webhooks: bool,
}

/// A job that takes several rounds.
#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Job {
    label: String,
    rounds: u32,
    /// Duration of a round, in milliseconds.
    pause: u64,
    /// Round that waits for a file with the name of the effects file and the extension `continue`. 0: none.
    hold: u32,
    #[reduce(add)]
    done: u32,
}

/// File to which each round appends a line.
struct Effects(Option<PathBuf>);

async fn work(job: &Job, cx: &Context<Effects>) -> Result<JobUpdate, NodeError> {
    let line = format!("{} {} {}", job.label, job.done + 1, process::id());
    cx.emit(serde_json::json!({ "round": job.done + 1 })).await;
    // The line is not appended again if the node runs again after its result was stored.
    cx.task("effect", job.done, async {
        if let Effects(Some(path)) = cx.deps() {
            append(path, &line)?;
        }
        Ok(())
    })
    .await?;
    if let Effects(Some(path)) = cx.deps()
        && job.hold == job.done + 1
    {
        while !path.with_extension("continue").exists() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    tokio::time::sleep(Duration::from_millis(job.pause)).await;
    Ok(Job::update().done(1))
}

/// Appends a line with a single write, so that a killed process leaves no partial line.
fn append(path: &Path, line: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().append(true).create(true).open(path)?;
    file.write_all(format!("{line}\n").as_bytes())
}

#[derive(Route)]
enum Next {
    #[to(work)]
    Again,
    #[to(END)]
    Done,
}

fn next(job: &Job) -> Next {
    if job.done < job.rounds { Next::Again } else { Next::Done }
}

/// Returns a guard that accepts these API keys.
fn guard(api_keys: &[String]) -> Result<Guard, String> {
    let guard = Guard::new().rate_limit(u32::MAX);
    if api_keys.is_empty() {
        return Ok(guard);
    }
    let mut keys = ApiKeys::new();
    for option in api_keys {
        let (owner, key) = option.split_once('=').ok_or("`--api-key` must be `OWNER=KEY`")?;
        keys = keys.add(KeyHash::of(key), Client::new(owner));
    }
    Ok(guard.authenticator(keys))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let options = Options::parse();
    let database = Postgres::connect(&options.database).await?;
    let saver = Arc::new(PostgresSaver::new(&database));
    let store = Arc::new(PostgresStore::new(&database));
    let jobs = StateGraph::<Job, Effects>::new().node(work).edge(START, work).branch(work, next);
    let effects = options.effects;
    let graphs = Graphs::new(saver, store).add_with_context(
        "jobs",
        jobs,
        Schemas::default(),
        move |_| Ok(Effects(effects.clone())),
    )?;
    let settings = ApiOptions::default()
        .max_concurrent_runs(options.concurrent_runs)
        .private_webhooks(options.private_webhooks);
    let api = LangGraphApi::connect(graphs, &options.database, settings).await?;
    let guard = guard(&options.api_key)?;
    let guarded = guard.wrap(api.open_routes(), api.routes(), api.metrics());
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, options.port)).await?;
    println!("listening on http://{}", listener.local_addr()?);
    // The server runs until it is killed. The other replicas then continue its runs.
    serve_until(listener, guarded, std::future::pending()).await?;
    Ok(())
}
