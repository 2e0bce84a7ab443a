//! Checks of filters and pages in searches without a query.

use graph_core::store::{Filter, Search, StoreError};
use serde_json::json;

use super::support::*;

checks! {
    "search: the default limit is 10" => plain, default_limit(),
    "search: filters apply before limit and offset" => plain, filters_then_pages(),
    "search: filters match on nested values" => plain, filters(),
    "search: a limit of 0 is an error" => plain, zero_limit(),
    "search: an empty store returns no items" => plain, empty(),
}

fn numbers() -> Result<Search, StoreError> {
    Search::under(&["n"])
}

async fn fill(fixture: &Fixture) -> CheckResult {
    for n in 10..40 {
        fixture.store.put(&["n"], &n.to_string(), json!({"n": n, "even": n % 2 == 0})).await?;
    }
    Ok(())
}

async fn default_limit(fixture: Fixture) -> CheckResult {
    fill(&fixture).await?;
    assert_eq!(fixture.store.search(numbers()?).await?.len(), 10);
    Ok(())
}

async fn filters_then_pages(fixture: Fixture) -> CheckResult {
    fill(&fixture).await?;
    let even = numbers()?.filter(Filter::eq("even", true));
    let both = even.clone().filter(Filter::gt("n", 30));
    assert_eq!(fixture.found_keys(both).await?, "32 34 36 38");
    assert_eq!(fixture.found_keys(even.clone().limit(2).offset(3)).await?, "16 18");
    assert_eq!(fixture.found_keys(even.clone().offset(14).limit(usize::MAX)).await?, "38");
    assert_eq!(fixture.found_keys(even.clone().offset(usize::MAX).limit(usize::MAX)).await?, "");
    Ok(())
}

async fn filters(fixture: Fixture) -> CheckResult {
    fixture
        .store
        .put(&["n"], "ada", json!({"age": 36, "home": {"city": "London", "zip": 1}}))
        .await?;
    fixture.store.put(&["n"], "bob", json!({"age": 17.5, "home": {"city": "Paris"}})).await?;
    fixture.store.put(&["n"], "eve", json!({"age": null, "home": {"city": "London"}})).await?;
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
        let found = fixture.found_keys(numbers()?.filter(Filter::parse(&filter)?)).await?;
        assert_eq!(found, expect, "{filter}");
    }
    Ok(())
}

async fn zero_limit(fixture: Fixture) -> CheckResult {
    let result = fixture.store.search(numbers()?.limit(0)).await;
    assert!(matches!(result, Err(StoreError::ZeroOption { option: "limit" })), "{result:?}");
    Ok(())
}

async fn empty(fixture: Fixture) -> CheckResult {
    assert_eq!(fixture.found_keys(Search::everything()).await?, "");
    assert_eq!(fixture.found_keys(Search::everything().offset(3)).await?, "");
    Ok(())
}
