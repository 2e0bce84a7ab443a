//! Searching without a query: filters and pages.

use serde_json::json;

use super::support::*;
use crate::store::{Filter, Search, StoreError};

checks! {
    "search: ten unless told otherwise" => plain, default_limit(),
    "search: filters first, then pages" => plain, filters_then_pages(),
    "search: filters look into values" => plain, filters(),
    "search: a limit of 0 is an error" => plain, zero_limit(),
    "search: an empty store has nothing" => plain, empty(),
}

fn numbers() -> Result<Search, StoreError> {
    Search::under(&["n"])
}

async fn fill(bench: &Bench) -> Outcome {
    for n in 10..40 {
        bench.store.put(&["n"], &n.to_string(), json!({"n": n, "even": n % 2 == 0})).await?;
    }
    Ok(())
}

async fn default_limit(bench: Bench) -> Outcome {
    fill(&bench).await?;
    assert_eq!(bench.store.search(numbers()?).await?.len(), 10);
    Ok(())
}

async fn filters_then_pages(bench: Bench) -> Outcome {
    fill(&bench).await?;
    let even = numbers()?.filter(Filter::eq("even", true));
    let both = even.clone().filter(Filter::gt("n", 30));
    assert_eq!(bench.found(both).await?, "32 34 36 38");
    assert_eq!(bench.found(even.clone().limit(2).offset(3)).await?, "16 18");
    assert_eq!(bench.found(even.clone().offset(14).limit(usize::MAX)).await?, "38");
    assert_eq!(bench.found(even.clone().offset(usize::MAX).limit(usize::MAX)).await?, "");
    Ok(())
}

async fn filters(bench: Bench) -> Outcome {
    bench
        .store
        .put(&["n"], "ada", json!({"age": 36, "home": {"city": "London", "zip": 1}}))
        .await?;
    bench.store.put(&["n"], "bob", json!({"age": 17.5, "home": {"city": "Paris"}})).await?;
    bench.store.put(&["n"], "eve", json!({"age": null, "home": {"city": "London"}})).await?;
    for (filter, expect) in [
        (json!({}), "ada bob eve"),
        (json!({"age": {"$gte": 17}}), "ada bob"),
        (json!({"age": {"$gte": 17, "$lt": 36}}), "bob"),
        (json!({"age": {"$ne": 36}}), "bob eve"),
        (json!({"age": null}), "eve"),
        (json!({"home": {"city": "London"}}), "ada eve"),
        (json!({"home": {"$eq": {"city": "London"}}}), "eve"),
        (json!({"home": {"city": "Lon'don"}}), ""),
    ] {
        let found = bench.found(numbers()?.filter(Filter::parse(&filter)?)).await?;
        assert_eq!(found, expect, "{filter}");
    }
    Ok(())
}

async fn zero_limit(bench: Bench) -> Outcome {
    let refused = bench.store.search(numbers()?.limit(0)).await;
    assert!(matches!(refused, Err(StoreError::Zero { option: "limit" })), "{refused:?}");
    Ok(())
}

async fn empty(bench: Bench) -> Outcome {
    assert_eq!(bench.found(Search::everything()).await?, "");
    assert_eq!(bench.found(Search::everything().offset(3)).await?, "");
    Ok(())
}
