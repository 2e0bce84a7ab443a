//! The workloads without an engine, as a lower bound: loops, functions and tokio.

use std::sync::Arc;

use tokio::task::JoinSet;

use super::bare_sqlite;
use crate::{
    baseline, data,
    engine::Log,
    measure::Stopwatch,
    protocol::{Job, job},
};

pub(super) fn prepare(work: &str, size: usize) -> Result<Job, String> {
    let count = size as u64;
    Ok(match work {
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
        "react-agent" => job(move || async move { react_agent(size) }),
        "nested" => job(move || async move { baseline::run_loop(count).await.to_string() }),
        "cpu-branches" => cpu_branches(count),
        "sqlite-loop" => bare_sqlite::prepare(size),
        "threads" => threads(size),
        _ => return Err("no program by hand".to_owned()),
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

fn react_agent(calls: usize) -> String {
    let mut messages = vec!["hi?".to_owned()];
    for call in 0..calls {
        let query = data::query(call);
        messages.push(String::new());
        messages.push(data::tool_result(&query));
    }
    messages.push(data::final_answer());
    data::describe(messages)
}

fn cpu_branches(branches: u64) -> Job {
    job(move || async move {
        let mut tasks = JoinSet::new();
        for seed in 0..branches {
            tasks.spawn(async move { data::spin(seed) });
        }
        let results = tasks.join_all().await;
        results.iter().fold(0, |sum: u64, it| sum.wrapping_add(*it)).to_string()
    })
}

fn threads(count: usize) -> Job {
    job(move || async move {
        let mut tasks = JoinSet::new();
        for _ in 0..count {
            tasks.spawn(baseline::run_loop(data::THREAD_STEPS));
        }
        tasks.join_all().await.iter().sum::<u64>().to_string()
    })
}
