//! Batches. What a store with the default implementation cannot promise is not asked: that all is done or nothing.

use serde_json::json;

use super::support::*;
use crate::store::{
    Address, Get, ListNamespaces, Namespace, Op, Outcome as Answer, Put, Search, StoreError,
};

checks! {
    "batch: operations run in order, with one outcome each" => plain, in_order(),
    "batch: the last of several puts at one address stays" => plain, last_put(),
    "batch: one that is wrong is refused" => plain, refused(),
    "batch: an empty one gives nothing" => plain, empty(),
    "batch: one that only reads" => plain, only_reads(),
}

fn put(key: &str, n: usize) -> Result<Op, StoreError> {
    Put::new(&["a"], key, json!({"n": n})).map(Op::Put)
}

fn get(key: &str) -> Result<Op, StoreError> {
    Get::new(&["a"], key).map(Op::Get)
}

async fn in_order(bench: Bench) -> Outcome {
    let ops = vec![
        put("k", 1)?,
        get("k")?,
        Op::Search(Search::under(&["a"])?),
        Op::List(ListNamespaces::new()),
        Op::Delete(Address::new(&["a"], "k")?),
        get("k")?,
    ];
    let answers = bench.store.batch(ops).await?;
    let [Answer::Done, Answer::Item(Some(item)), Answer::Items(items), rest @ ..] = &answers[..]
    else {
        panic!("{answers:?}");
    };
    assert_eq!(item.value, json!({"n": 1}));
    assert_eq!(items, std::slice::from_ref(item));
    let namespaces = Answer::Namespaces(vec![Namespace::new(&["a"])?]);
    assert_eq!(rest, [namespaces, Answer::Done, Answer::Item(None)]);
    Ok(())
}

async fn last_put(bench: Bench) -> Outcome {
    bench.store.batch(vec![put("k", 1)?, put("l", 1)?, put("k", 2)?]).await?;
    assert_eq!(bench.k().await?.value, json!({"n": 2}));
    Ok(())
}

async fn refused(bench: Bench) -> Outcome {
    for (wrong, option) in [
        (Op::Search(Search::everything().limit(0)), "limit"),
        (Op::List(ListNamespaces::new().max_depth(0)), "max_depth"),
    ] {
        let refused = bench.store.batch(vec![wrong, put("k", 1)?]).await;
        assert!(matches!(refused, Err(StoreError::Zero { option: it }) if it == option));
        assert!(!bench.has("k").await?);
    }
    let query = Op::Search(Search::everything().query("tea"));
    let refused = bench.store.batch(vec![query, put("k", 1)?]).await;
    assert!(matches!(refused, Err(StoreError::NoIndex { .. })));
    assert!(!bench.has("k").await?);
    Ok(())
}

async fn empty(bench: Bench) -> Outcome {
    assert_eq!(bench.store.batch(Vec::new()).await?, []);
    Ok(())
}

async fn only_reads(bench: Bench) -> Outcome {
    bench.put_k(json!({"n": 1})).await?;
    let item = bench.k().await?;
    let ops = vec![get("k")?, get("l")?, Op::Search(Search::everything())];
    let expect = [Answer::Item(Some(item.clone())), Answer::Item(None), Answer::Items(vec![item])];
    assert_eq!(bench.store.batch(ops).await?, expect);
    Ok(())
}
