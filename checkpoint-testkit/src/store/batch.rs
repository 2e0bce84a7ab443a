//! Checks of batches. Atomicity is checked separately, because not every store guarantees it.

use graph_core::store::{
    Address, Get, ListNamespaces, Namespace, Op, OpOutput, Put, Search, StoreError,
};
use serde_json::json;

use super::support::*;

checks! {
    "batch: operations run in order and return one output each" => plain, in_order(),
    "batch: the last of several puts at one address wins" => plain, last_put(),
    "batch: an invalid operation is rejected" => plain, invalid_operation(),
    "batch: an empty batch returns no outputs" => plain, empty(),
    "batch: a batch may consist of reads only" => plain, only_reads(),
}

fn put(key: &str, n: usize) -> Result<Op, StoreError> {
    Put::new(&["a"], key, json!({"n": n})).map(Op::Put)
}

fn get(key: &str) -> Result<Op, StoreError> {
    Get::new(&["a"], key).map(Op::Get)
}

async fn in_order(fixture: Fixture) -> CheckResult {
    let ops = vec![
        put("k", 1)?,
        get("k")?,
        Op::Search(Search::under(&["a"])?),
        Op::List(ListNamespaces::new()),
        Op::Delete(Address::new(&["a"], "k")?),
        get("k")?,
    ];
    let outputs = fixture.store.batch(ops).await?;
    let [OpOutput::Done, OpOutput::Item(Some(item)), OpOutput::Items(items), rest @ ..] =
        &outputs[..]
    else {
        panic!("{outputs:?}");
    };
    assert_eq!(item.value, json!({"n": 1}));
    assert_eq!(items, std::slice::from_ref(item));
    let namespaces = OpOutput::Namespaces(vec![Namespace::new(&["a"])?]);
    assert_eq!(rest, [namespaces, OpOutput::Done, OpOutput::Item(None)]);
    Ok(())
}

async fn last_put(fixture: Fixture) -> CheckResult {
    fixture.store.batch(vec![put("k", 1)?, put("l", 1)?, put("k", 2)?]).await?;
    assert_eq!(fixture.get_k().await?.value, json!({"n": 2}));
    Ok(())
}

async fn invalid_operation(fixture: Fixture) -> CheckResult {
    for (invalid, option) in [
        (Op::Search(Search::everything().limit(0)), "limit"),
        (Op::List(ListNamespaces::new().max_depth(0)), "max_depth"),
    ] {
        let result = fixture.store.batch(vec![invalid, put("k", 1)?]).await;
        assert!(matches!(result, Err(StoreError::ZeroOption { option: it }) if it == option));
        assert!(!fixture.has("k").await?);
    }
    let query = Op::Search(Search::everything().query("tea"));
    let result = fixture.store.batch(vec![query, put("k", 1)?]).await;
    assert!(matches!(result, Err(StoreError::NoIndex { .. })));
    assert!(!fixture.has("k").await?);
    Ok(())
}

async fn empty(fixture: Fixture) -> CheckResult {
    assert_eq!(fixture.store.batch(Vec::new()).await?, []);
    Ok(())
}

async fn only_reads(fixture: Fixture) -> CheckResult {
    fixture.put_k(json!({"n": 1})).await?;
    let item = fixture.get_k().await?;
    let ops = vec![get("k")?, get("l")?, Op::Search(Search::everything())];
    let expect =
        [OpOutput::Item(Some(item.clone())), OpOutput::Item(None), OpOutput::Items(vec![item])];
    assert_eq!(fixture.store.batch(ops).await?, expect);
    Ok(())
}
