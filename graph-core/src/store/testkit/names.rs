//! Names: namespaces and keys of any characters are kept apart, and lie in the order of their characters.

use serde_json::json;

use super::support::*;
use crate::store::{Get, ListNamespaces, Search};

checks! {
    "names: a prefix matches whole labels" => plain, whole_labels(),
    "names: odd labels are kept apart" => plain, odd_labels(),
    "names: odd keys are kept apart" => plain, odd_keys(),
    "names: a namespace that was found leads back" => plain, leads_back(),
}

/// In the order in which they are found.
const ODD: &[&str] = &[
    "\u{1}",
    " ",
    "%",
    "'; DROP TABLE item; --",
    "*",
    "A",
    "\\",
    "_",
    "a",
    "a\u{1}",
    "a b",
    "aa",
    "ab",
    "b",
    "\u{7F}",
    "é",
    "日本",
    "\u{FFFF}",
    "\u{10000}",
    "\u{10FFFF}",
];

async fn whole_labels(bench: Bench) -> Outcome {
    for namespace in [&["a"][..], &["a", "b"], &["a", "b", "c"], &["a!"], &["ab"], &["A"], &["b"]] {
        bench.store.put(namespace, &namespace.join("-"), json!({})).await?;
    }
    assert_eq!(bench.found(Search::under(&["a"])?).await?, "a a-b a-b-c");
    assert_eq!(bench.found(Search::under(&["a", "b"])?).await?, "a-b a-b-c");
    assert_eq!(bench.found(Search::under(&["a", "c"])?).await?, "");
    assert_eq!(bench.found(Search::everything()).await?, "A a a-b a-b-c a! ab b");
    assert_eq!(bench.listed(ListNamespaces::new()).await?, "A a a.b a.b.c a! ab b");
    Ok(())
}

async fn odd_labels(bench: Bench) -> Outcome {
    for label in ODD.iter().rev() {
        bench.store.put(&["x", label, "y"], "k", json!({"label": label})).await?;
    }
    let all = bench.store.search(Search::everything().limit(100)).await?;
    assert_eq!(all.iter().map(|it| it.namespace[1].as_str()).collect::<Vec<_>>(), ODD);
    for label in ODD {
        let hits = bench.store.search(Search::under(&["x", label])?).await?;
        assert_eq!(hits.len(), 1, "{label:?}");
        assert_eq!(hits[0].value, json!({"label": label}));
        let listed =
            bench.store.list_namespaces(ListNamespaces::new().prefix(&["x", label])?).await?;
        let expect = if *label == "*" { ODD.len() } else { 1 };
        assert_eq!(listed.len(), expect, "{label:?}");
    }
    Ok(())
}

async fn odd_keys(bench: Bench) -> Outcome {
    let long = "k".repeat(2_000);
    let mut keys: Vec<&str> =
        ODD.iter().copied().chain(["\0", "a\0", "a\0b", "a.b", &long]).collect();
    for key in &keys {
        bench.store.put(&["x"], key, json!({"key": key})).await?;
    }
    keys.sort_unstable();
    let all = bench.store.search(Search::everything().limit(100)).await?;
    assert_eq!(super::support::keys(&all), keys);
    for key in &keys {
        let item = bench.store.get(&["x"], key).await?.ok_or_else(|| format!("no {key:?}"))?;
        assert_eq!((item.key.as_str(), item.value), (*key, json!({"key": key})));
        bench.store.delete(&["x"], key).await?;
        assert_eq!(bench.store.get(&["x"], key).await?, None);
    }
    Ok(())
}

async fn leads_back(bench: Bench) -> Outcome {
    bench.store.put(&["users", "ada"], "k", json!({})).await?;
    let found = bench.store.list_namespaces(ListNamespaces::new()).await?;
    assert_eq!(found.len(), 1);
    assert!(bench.store.get(&found[0].labels(), "k").await?.is_some());
    assert!(bench.store.get_item(Get::new(&found[0], "k")?).await?.is_some());
    assert_eq!(bench.store.search(Search::under(&found[0])?).await?.len(), 1);
    Ok(())
}
