//! Checks of concurrent access to one store.

use graph_core::store::{Op, Put, Search, StoreError};
use serde_json::json;
use tokio::task::JoinSet;

use super::support::*;

checks! {
    "concurrency: concurrent puts of different items are all kept" => plain, many_items(),
    "concurrency: concurrent puts of one item do not mix their values" => plain, one_item(),
    "concurrency: batches that lock items in opposite order do not deadlock" => plain, crossing(),
}

/// Number of concurrent tasks.
const TASKS: usize = 80;

/// Runs `work` in [`TASKS`] concurrent tasks and passes each task its number.
async fn run_concurrently<F>(work: impl Fn(usize) -> F) -> CheckResult
where
    F: Future<Output = Result<(), StoreError>> + Send + 'static,
{
    let mut tasks: JoinSet<_> = (0..TASKS).map(work).collect();
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(())
}

async fn many_items(fixture: Fixture) -> CheckResult {
    run_concurrently(|n| {
        let store = fixture.store.clone();
        async move { store.put(&["a"], &n.to_string(), json!({"n": n})).await }
    })
    .await?;
    let all = fixture.store.search(Search::everything().limit(usize::MAX)).await?;
    assert_eq!(all.len(), TASKS);
    assert!(all.iter().all(|it| it.value["n"].as_u64() == it.key.parse().ok()));
    Ok(())
}

async fn one_item(fixture: Fixture) -> CheckResult {
    let created_at = fixture.clock.now();
    fixture.put_k(json!({})).await?;
    fixture.clock.advance(1);
    run_concurrently(|n| {
        let store = fixture.store.clone();
        async move { store.put(&["a"], "k", json!({"n": n, "again": n})).await }
    })
    .await?;
    let item = fixture.get_k().await?;
    assert_eq!(item.value["n"], item.value["again"]);
    assert_eq!((item.created_at, item.updated_at), (created_at, fixture.clock.now()));
    Ok(())
}

async fn crossing(fixture: Fixture) -> CheckResult {
    run_concurrently(|n| {
        let store = fixture.store.clone();
        async move {
            let put = |key| Put::new(&["a"], key, json!({"n": n})).map(Op::Put);
            let (first, last) = if n % 2 == 0 { ("x", "y") } else { ("y", "x") };
            store.batch(vec![put(first)?, put(last)?]).await.map(|_| ())
        }
    })
    .await?;
    assert_eq!(fixture.found_keys(Search::everything()).await?, "x y");
    Ok(())
}
