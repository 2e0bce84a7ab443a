//! The works on SQLite: a loop whose steps are durable, and resuming a long thread.

use std::sync::Arc;

use graph_core::{
    CompiledGraph, Durability, END, Route, RunOptions, START, State, StateGraph,
    checkpoint::Checkpointer,
};
use graph_store::{Sqlite, SqliteSaver, sqlite::Synchronous};
use tokio::task::JoinSet;

use super::simple::new_thread;
use crate::{
    data,
    protocol::{Job, job, runtime},
};

/// Number of threads in the work with concurrent threads.
pub(super) const THREADS: usize = 16;

pub(super) fn prepare(work: &str, size: usize) -> Option<Job> {
    let steps = size as u64;
    Some(match work {
        "sqlite-loop" => {
            let graph = chat_graph(Arc::new(open()));
            job(move || {
                let graph = graph.clone();
                async move { run(graph, steps).await.to_string() }
            })
        }
        "sqlite-loop-16" => {
            let graph = chat_graph(Arc::new(open()));
            job(move || {
                let graph = graph.clone();
                async move {
                    let mut threads = JoinSet::new();
                    for _ in 0..THREADS {
                        threads.spawn(run(graph.clone(), steps));
                    }
                    let mut sum = 0;
                    while let Some(count) = threads.join_next().await {
                        sum += count.expect("a thread does not panic");
                    }
                    sum.to_string()
                }
            })
        }
        "resume" => resume(steps),
        _ => return None,
    })
}

fn open() -> SqliteSaver {
    SqliteSaver::open(data::database_path()).expect("the database can be created")
}

/// A list of messages that grows by one per step.
#[derive(State, Clone, Debug, Default)]
pub(super) struct Chat {
    until: u64,
    count: u64,
    #[reduce(append)]
    messages: Vec<String>,
}

async fn say(chat: &Chat) -> ChatUpdate {
    let count = chat.count + 1;
    Chat::update().count(count).messages([data::message(count)])
}

#[derive(Route)]
enum Turn {
    #[to(say)]
    Again,
    #[to(END)]
    Enough,
}

fn turn(chat: &Chat) -> Turn {
    if chat.count < chat.until { Turn::Again } else { Turn::Enough }
}

pub(super) fn chat_graph(saver: Arc<dyn Checkpointer>) -> CompiledGraph<Chat> {
    let graph = StateGraph::new().node(say).edge(START, say).branch(say, turn);
    graph.shared_checkpointer(saver).compile().expect("the graph is valid")
}

/// Runs a new thread. Each step is on disk before the next one starts.
pub(super) async fn run(graph: CompiledGraph<Chat>, until: u64) -> u64 {
    run_thread(&graph, &new_thread(), until).await.messages.len() as u64
}

async fn run_thread(graph: &CompiledGraph<Chat>, thread: &str, until: u64) -> Chat {
    let options = RunOptions::new().step_limit(u32::MAX).durability(Durability::Sync);
    let thread = graph.thread(thread, ()).with_options(options);
    thread.run(Chat::update().until(until)).await.expect("the run succeeds").into_state()
}

/// Prepares a thread of many steps. Each run reads its last 100 messages and adds one step, as a new request does.
fn resume(steps: u64) -> Job {
    // Without waiting for the disk, so that the preparation takes seconds instead of minutes.
    let path = data::database_path();
    let settings = Sqlite::settings().synchronous(Synchronous::Normal);
    let database = settings.open(&path).expect("the database can be created");
    let graph = chat_graph(Arc::new(SqliteSaver::new(&database)));
    runtime().block_on(run_thread(&graph, "long", steps));
    drop((graph, database));
    job(move || {
        let path = path.clone();
        async move {
            // A new process: nothing of the thread is in memory.
            let saver = SqliteSaver::open(path).expect("the database exists");
            let graph = chat_graph(Arc::new(saver));
            let chat = run_thread(&graph, "long", steps).await;
            assert!(chat.messages.len() as u64 > steps, "the run adds a step");
            "resumed".to_owned()
        }
    })
}
