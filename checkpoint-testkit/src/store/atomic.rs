//! Checks for stores whose batches are atomic. Not every store guarantees atomicity.

use graph_core::store::{Get, ListNamespaces, Op, OpOutput, Put, Search, StoreError};
use serde_json::json;

use super::support::*;

checks! {
    "atomic: an invalid last operation leaves nothing written" => plain, invalid_last_operation(),
    "atomic: a batch calls the embedder once" => indexed, one_call(),
    "atomic: a failing embedder leaves nothing written" => indexed, failing_embedder(),
    "atomic: concurrent readers see all of a batch or nothing" => plain, isolated(),
}

fn put(key: &str, n: usize) -> Result<Op, StoreError> {
    Put::new(&["a"], key, json!({"n": n})).map(Op::Put)
}

async fn invalid_last_operation(fixture: Fixture) -> CheckResult {
    for invalid in [
        Op::Search(Search::everything().limit(0)),
        Op::Search(Search::everything().query("tea")),
        Op::List(ListNamespaces::new().max_depth(0)),
    ] {
        assert!(fixture.store.batch(vec![put("k", 1)?, invalid]).await.is_err());
        assert!(!fixture.has("k").await?);
    }
    Ok(())
}

async fn one_call(fixture: Fixture) -> CheckResult {
    let put = |key, text| Put::new(&["a"], key, json!({"text": text})).map(Op::Put);
    let tea = Op::Search(Search::everything().query("tea"));
    let ops = vec![put("1", "cake")?, put("2", "tea")?, tea, put("3", "tea")?];
    let outputs = fixture.store.batch(ops).await?;
    assert_eq!(fixture.embedder.calls(), 1);
    let OpOutput::Items(found) = &outputs[2] else { panic!("{outputs:?}") };
    assert_eq!(keys(found), ["2", "1"]);
    fixture.store.get(&["a"], "1").await?;
    fixture.store.search(Search::everything()).await?;
    assert_eq!(fixture.embedder.calls(), 1, "operations without texts do not call the embedder");
    Ok(())
}

async fn failing_embedder(fixture: Fixture) -> CheckResult {
    fixture.embedder.set_result(Err("no connection"));
    let text = Op::Put(Put::new(&["a"], "text", json!({"text": "tea"}))?);
    assert!(fixture.store.batch(vec![put("k", 1)?, text]).await.is_err());
    assert!(!fixture.has("k").await?);
    Ok(())
}

async fn isolated(fixture: Fixture) -> CheckResult {
    let store = fixture.store.clone();
    let writer = tokio::spawn(async move {
        for n in 0..60 {
            store.batch(vec![put("x", n)?, put("y", n)?]).await?;
        }
        Ok::<_, StoreError>(())
    });
    while !writer.is_finished() {
        let hits = fixture.store.search(Search::everything()).await?;
        assert!(hits.is_empty() || hits[0].value == hits[1].value, "{hits:?}");
        let both = ["x", "y"].map(|key| Get::new(&["a"], key).map(Op::Get));
        let outputs = fixture.store.batch(both.into_iter().collect::<Result<_, _>>()?).await?;
        let [OpOutput::Item(x), OpOutput::Item(y)] = &outputs[..] else { panic!("{outputs:?}") };
        assert_eq!(x.as_ref().map(|it| &it.value), y.as_ref().map(|it| &it.value));
        tokio::task::yield_now().await;
    }
    Ok(writer.await??)
}
