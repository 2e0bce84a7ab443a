//! Checks that namespaces and keys with unusual characters stay distinct and sort by code point.

use graph_core::store::{Get, ListNamespaces, Search};
use serde_json::json;

use super::support::*;

checks! {
    "names: a prefix matches whole labels" => plain, whole_labels(),
    "names: unusual labels stay distinct and sorted" => plain, unusual_labels(),
    "names: unusual keys stay distinct and sorted" => plain, unusual_keys(),
    "names: a listed namespace can be used in requests" => plain, listed_namespace(),
}

/// Unusual labels and keys, in the order in which a search must return them.
const UNUSUAL: &[&str] = &[
    "\u{1}", " ", "%", "'; DROP TABLE item; --", "*", "A", "\\", "_", "a", "a\u{1}", "a b", "aa",
    "ab", "b", "\u{7F}", "é", "日本", "\u{FFFF}", "\u{10000}", "\u{10FFFF}",
];

async fn whole_labels(fixture: Fixture) -> CheckResult {
    for namespace in [&["a"][..], &["a", "b"], &["a", "b", "c"], &["a!"], &["ab"], &["A"], &["b"]] {
        fixture.store.put(namespace, &namespace.join("-"), json!({})).await?;
    }
    assert_eq!(fixture.found_keys(Search::under(&["a"])?).await?, "a a-b a-b-c");
    assert_eq!(fixture.found_keys(Search::under(&["a", "b"])?).await?, "a-b a-b-c");
    assert_eq!(fixture.found_keys(Search::under(&["a", "c"])?).await?, "");
    assert_eq!(fixture.found_keys(Search::everything()).await?, "A a a-b a-b-c a! ab b");
    assert_eq!(fixture.listed_namespaces(ListNamespaces::new()).await?, "A a a.b a.b.c a! ab b");
    Ok(())
}

async fn unusual_labels(fixture: Fixture) -> CheckResult {
    for label in UNUSUAL.iter().rev() {
        fixture.store.put(&["x", label, "y"], "k", json!({"label": label})).await?;
    }
    let all = fixture.store.search(Search::everything().limit(100)).await?;
    assert_eq!(all.iter().map(|it| it.namespace[1].as_str()).collect::<Vec<_>>(), UNUSUAL);
    for label in UNUSUAL {
        let hits = fixture.store.search(Search::under(&["x", label])?).await?;
        assert_eq!(hits.len(), 1, "{label:?}");
        assert_eq!(hits[0].value, json!({"label": label}));
        let listed =
            fixture.store.list_namespaces(ListNamespaces::new().prefix(&["x", label])?).await?;
        let expect = if *label == "*" { UNUSUAL.len() } else { 1 };
        assert_eq!(listed.len(), expect, "{label:?}");
    }
    Ok(())
}

async fn unusual_keys(fixture: Fixture) -> CheckResult {
    let long = "k".repeat(2_000);
    let mut keys: Vec<&str> =
        UNUSUAL.iter().copied().chain(["\0", "a\0", "a\0b", "a.b", &long]).collect();
    for key in &keys {
        fixture.store.put(&["x"], key, json!({"key": key})).await?;
    }
    keys.sort_unstable();
    let all = fixture.store.search(Search::everything().limit(100)).await?;
    assert_eq!(super::support::keys(&all), keys);
    for key in &keys {
        let item = fixture
            .store
            .get(&["x"], key)
            .await?
            .ok_or_else(|| format!("item {key:?} is missing"))?;
        assert_eq!((item.key.as_str(), item.value), (*key, json!({"key": key})));
        fixture.store.delete(&["x"], key).await?;
        assert_eq!(fixture.store.get(&["x"], key).await?, None);
    }
    Ok(())
}

async fn listed_namespace(fixture: Fixture) -> CheckResult {
    fixture.store.put(&["users", "ada"], "k", json!({})).await?;
    let found = fixture.store.list_namespaces(ListNamespaces::new()).await?;
    assert_eq!(found.len(), 1);
    assert!(fixture.store.get(&found[0].labels(), "k").await?.is_some());
    assert!(fixture.store.get_item(Get::new(&found[0], "k")?).await?.is_some());
    assert_eq!(fixture.store.search(Search::under(&found[0])?).await?.len(), 1);
    Ok(())
}
