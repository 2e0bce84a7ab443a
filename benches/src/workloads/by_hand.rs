//! The workloads without an engine, as a lower bound: loops, functions and tokio.

use std::sync::Arc;

use tokio::task::JoinSet;

use super::bare_sqlite;
use crate::{
    baseline,
    data::{self, Texts},
    engine::Log,
    measure::Stopwatch,
    protocol::{Job, concurrent, job},
};

pub(super) fn prepare(workload: &str, size: usize) -> Result<Job, String> {
    let count = size as u64;
    Ok(match workload {
        "loop" => job(move || async move { baseline::run_loop(count).await.to_string() }),
        "fan-out" => job(move || async move { baseline::run_fan_out(count).await.to_string() }),
        "growing-list" => job(move || async move {
            baseline::run_append(Log::filled(0, size), &Stopwatch::default()).await.to_string()
        }),
        "sequential" => {
            let nodes = Arc::new(baseline::chain(size));
            job(move || {
                let nodes = nodes.clone();
                async move { baseline::run_chain(&nodes).await.to_string() }
            })
        }
        "fanout-to-subgraph" => fanout_to_subgraph(size),
        "react-agent" => job(move || async move { agent(size, Texts::Long) }),
        "agent-loop" => job(move || async move { agent(size, Texts::Short) }),
        "nested" => job(move || async move { baseline::run_loop(count).await.to_string() }),
        "cpu-branches" => cpu_branches(count),
        "sqlite-loop" => bare_sqlite::prepare(size),
        "threads" => threads(size),
        _ => return Err("no handwritten program".to_owned()),
    })
}

fn fanout_to_subgraph(size: usize) -> Job {
    let subjects: Vec<Arc<Vec<String>>> = (0..size).map(|it| Arc::new(data::subject(it))).collect();
    job(move || {
        let subjects = subjects.clone();
        async move {
            let mut tasks = JoinSet::new();
            for (index, subject) in subjects.into_iter().enumerate() {
                tasks.spawn(async move {
                    let mut joke = data::joke(&data::edit(&subject));
                    while !data::is_bumped(&joke) {
                        joke = data::bump(&joke);
                    }
                    (index, joke)
                });
            }
            let mut jokes = tasks.join_all().await;
            jokes.sort_by_key(|(index, _)| *index);
            data::describe(jokes.iter().map(|(_, joke)| joke))
        }
    })
}

fn agent(calls: usize, texts: Texts) -> String {
    let mut messages = vec!["hi?".to_owned()];
    for call in 0..calls {
        let query = texts.query(call);
        messages.push(String::new());
        messages.push(texts.result(&query));
    }
    messages.push(texts.answer());
    data::describe(messages)
}

fn cpu_branches(branches: u64) -> Job {
    job(move || async move {
        let mut tasks = JoinSet::new();
        for seed in 0..branches {
            tasks.spawn(async move { data::spin(seed) });
        }
        data::spin_answer(tasks.join_all().await)
    })
}

fn threads(count: usize) -> Job {
    concurrent(count, || async { baseline::run_loop(data::THREAD_STEPS).await as usize })
}
