//! Batches that are prepared and done whole or not at all: more than every store promises.

use serde_json::json;

use super::support::*;
use crate::store::{Get, ListNamespaces, Op, Outcome as Answer, Put, Search, StoreError};

checks! {
    "atomic: what is wrong at the end leaves nothing written" => plain, wrong_at_end(),
    "atomic: a batch asks the embedder once" => indexed, one_call(),
    "atomic: a failing embedder leaves nothing written" => indexed, failing_embedder(),
    "atomic: others see all of a batch or nothing" => plain, seen_whole(),
}

fn put(key: &str, n: usize) -> Result<Op, StoreError> {
    Put::new(&["a"], key, json!({"n": n})).map(Op::Put)
}

async fn wrong_at_end(bench: Bench) -> Outcome {
    for wrong in [
        Op::Search(Search::everything().limit(0)),
        Op::Search(Search::everything().query("tea")),
        Op::List(ListNamespaces::new().max_depth(0)),
    ] {
        assert!(bench.store.batch(vec![put("k", 1)?, wrong]).await.is_err());
        assert!(!bench.has("k").await?);
    }
    Ok(())
}

async fn one_call(bench: Bench) -> Outcome {
    let put = |key, text| Put::new(&["a"], key, json!({"text": text})).map(Op::Put);
    let tea = Op::Search(Search::everything().query("tea"));
    let ops = vec![put("1", "cake")?, put("2", "tea")?, tea, put("3", "tea")?];
    let answers = bench.store.batch(ops).await?;
    assert_eq!(bench.words.calls(), 1);
    let Answer::Items(found) = &answers[2] else { panic!("{answers:?}") };
    assert_eq!(keys(found), ["2", "1"]);
    bench.store.get(&["a"], "1").await?;
    bench.store.search(Search::everything()).await?;
    assert_eq!(bench.words.calls(), 1, "only texts are embedded");
    Ok(())
}

async fn failing_embedder(bench: Bench) -> Outcome {
    bench.words.tell(Err("no connection"));
    let text = Op::Put(Put::new(&["a"], "text", json!({"text": "tea"}))?);
    assert!(bench.store.batch(vec![put("k", 1)?, text]).await.is_err());
    assert!(!bench.has("k").await?);
    Ok(())
}

async fn seen_whole(bench: Bench) -> Outcome {
    let store = bench.store.clone();
    let writer = tokio::spawn(async move {
        for n in 0..60 {
            store.batch(vec![put("x", n)?, put("y", n)?]).await?;
        }
        Ok::<_, StoreError>(())
    });
    while !writer.is_finished() {
        let hits = bench.store.search(Search::everything()).await?;
        assert!(hits.is_empty() || hits[0].value == hits[1].value, "{hits:?}");
        let both = ["x", "y"].map(|key| Get::new(&["a"], key).map(Op::Get));
        let answers = bench.store.batch(both.into_iter().collect::<Result<_, _>>()?).await?;
        let [Answer::Item(x), Answer::Item(y)] = &answers[..] else { panic!("{answers:?}") };
        assert_eq!(x.as_ref().map(|it| &it.value), y.as_ref().map(|it| &it.value));
        tokio::task::yield_now().await;
    }
    Ok(writer.await??)
}
