//! The workloads on SQLite: a loop whose steps are durable, and resuming a long thread.

use std::sync::Arc;

use graph_core::{CompiledGraph, Durability, RunOptions};
use graph_store::{Sqlite, SqliteSaver, sqlite::Synchronous};

use crate::{
    data,
    protocol::{Job, concurrent, job, runtime},
    storage::chat::{self, Chat},
};

pub(super) fn prepare(workload: &str, size: usize) -> Option<Job> {
    Some(match workload {
        "sqlite-loop" => threads(1, size),
        "sqlite-loop-16" => threads(data::STORED_THREADS, size),
        "resume" => resume(size),
        _ => return None,
    })
}

/// Prepares concurrent threads on one file.
fn threads(count: usize, steps: usize) -> Job {
    let saver = SqliteSaver::open(data::database_path()).expect("the database can be created");
    let graph = chat::graph(Arc::new(saver));
    concurrent(count, move || run(graph.clone(), steps))
}

/// Runs a new thread and returns its number of messages. Each step is on disk before the next one starts.
pub(super) async fn run(graph: CompiledGraph<Chat>, until: usize) -> usize {
    run_thread(&graph, &data::new_thread(), until).await.messages.len()
}

async fn run_thread(graph: &CompiledGraph<Chat>, thread: &str, until: usize) -> Chat {
    let options = RunOptions::new().step_limit(u32::MAX).durability(Durability::Sync);
    let thread = graph.thread(thread, ()).with_options(options);
    let input = Chat::update().size(data::MESSAGE_SIZE).until(until);
    thread.run(input).await.expect("the run succeeds").into_state()
}

/// Prepares a thread of many steps. Each run reads its state and adds one step, as a new request does.
fn resume(steps: usize) -> Job {
    // Commits do not wait for the disk, so that the preparation takes seconds instead of minutes.
    let path = data::database_path();
    let settings = Sqlite::settings().synchronous(Synchronous::Normal);
    let database = settings.open(&path).expect("the database can be created");
    let graph = chat::graph(Arc::new(SqliteSaver::new(&database)));
    runtime().block_on(run_thread(&graph, "long", steps));
    drop((graph, database));
    job(move || {
        let path = path.clone();
        async move {
            // Like a new process, a new saver has nothing of the thread in memory.
            let saver = SqliteSaver::open(path).expect("the database exists");
            let graph = chat::graph(Arc::new(saver));
            let chat = run_thread(&graph, "long", steps).await;
            assert!(chat.messages.len() > steps, "the run adds a step");
            "resumed".to_owned()
        }
    })
}
