//! Several tasks on one store at the same time.

use serde_json::json;
use tokio::task::JoinSet;

use super::support::*;
use crate::store::{Op, Put, Search, StoreError};

checks! {
    "at once: puts of many items are all there" => plain, many_items(),
    "at once: of many puts of one item one stays, whole" => plain, one_item(),
    "at once: batches that cross each other all end" => plain, crossing(),
}

/// How many tasks work at once, and how often each does it.
const TASKS: usize = 8;
const TIMES: usize = 10;

/// Runs `work` in many tasks, with the number of each time.
async fn at_once<F>(work: impl Fn(usize) -> F) -> Outcome
where
    F: Future<Output = Result<(), StoreError>> + Send + 'static,
{
    let mut tasks: JoinSet<_> = (0..TASKS * TIMES).map(work).collect();
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(())
}

async fn many_items(bench: Bench) -> Outcome {
    at_once(|n| {
        let store = bench.store.clone();
        async move { store.put(&["a"], &n.to_string(), json!({"n": n})).await }
    })
    .await?;
    let all = bench.store.search(Search::everything().limit(usize::MAX)).await?;
    assert_eq!(all.len(), TASKS * TIMES);
    assert!(all.iter().all(|it| it.value["n"].as_u64() == it.key.parse().ok()));
    Ok(())
}

async fn one_item(bench: Bench) -> Outcome {
    let created_at = bench.clock.now();
    bench.put_k(json!({})).await?;
    bench.clock.advance(1);
    at_once(|n| {
        let store = bench.store.clone();
        async move { store.put(&["a"], "k", json!({"n": n, "again": n})).await }
    })
    .await?;
    let item = bench.k().await?;
    assert_eq!(item.value["n"], item.value["again"]);
    assert_eq!((item.created_at, item.updated_at), (created_at, bench.clock.now()));
    Ok(())
}

async fn crossing(bench: Bench) -> Outcome {
    at_once(|n| {
        let store = bench.store.clone();
        async move {
            let put = |key| Put::new(&["a"], key, json!({"n": n})).map(Op::Put);
            let (first, last) = if n % 2 == 0 { ("x", "y") } else { ("y", "x") };
            store.batch(vec![put(first)?, put(last)?]).await.map(|_| ())
        }
    })
    .await?;
    assert_eq!(bench.found(Search::everything()).await?, "x y");
    Ok(())
}
