//! Checks of single items: put, get, delete, and values that must round-trip.

use graph_core::store::{Put, Search, StoreError};
use serde_json::{Value, json};

use super::support::*;

checks! {
    "put: an item reads back unchanged" => plain, put_and_read(),
    "put: replacing an item keeps its creation time" => plain, replaced(),
    "put: the update time is never before the creation time" => plain, clock_set_back(),
    "put: an item put after a delete has a new creation time" => plain, new_after_delete(),
    "put: invalid input is not written" => plain, invalid_input(),
    "get: another namespace or key finds nothing" => plain, other_address(),
    "delete: only the addressed item is removed, and deleting twice succeeds" => plain, delete(),
    "values: an empty object is kept" => plain, round_trips(json!({})),
    "values: numbers keep full precision" => plain, round_trips(numbers()),
    "values: strings with any characters are kept" => plain, round_trips(strings()),
    "values: objects and arrays nested 100 levels deep are kept" => plain, round_trips(deep()),
    "values: a string of one megabyte is kept" => plain, round_trips(json!({"text": "é".repeat(500_000)})),
}

async fn put_and_read(fixture: Fixture) -> CheckResult {
    let now = fixture.clock.now();
    fixture.store.put(&["users", "ada"], "profile", json!({"age": 36})).await?;
    fixture.clock.advance(1);
    let item =
        fixture.store.get(&["users", "ada"], "profile").await?.ok_or("the item is missing")?;
    assert_eq!(item.namespace.labels(), ["users", "ada"]);
    assert_eq!(item.key, "profile");
    assert_eq!(item.value, json!({"age": 36}));
    assert_eq!((item.created_at, item.updated_at), (now, now));
    assert_eq!(item.score, None);
    Ok(())
}

async fn replaced(fixture: Fixture) -> CheckResult {
    let created_at = fixture.clock.now();
    fixture.put_k(json!({"old": 1})).await?;
    fixture.clock.advance(5);
    fixture.put_k(json!({"new": 2})).await?;
    let item = fixture.get_k().await?;
    assert_eq!(item.value, json!({"new": 2}));
    assert_eq!((item.created_at, item.updated_at), (created_at, fixture.clock.now()));
    Ok(())
}

async fn clock_set_back(fixture: Fixture) -> CheckResult {
    fixture.put_k(json!({})).await?;
    fixture.clock.set_back(60);
    fixture.put_k(json!({})).await?;
    let item = fixture.get_k().await?;
    assert_eq!(item.updated_at, item.created_at);
    Ok(())
}

async fn new_after_delete(fixture: Fixture) -> CheckResult {
    fixture.put_k(json!({})).await?;
    fixture.store.delete(&["a"], "k").await?;
    fixture.clock.advance(5);
    fixture.put_k(json!({})).await?;
    assert_eq!(fixture.get_k().await?.created_at, fixture.clock.now());
    Ok(())
}

async fn invalid_input(fixture: Fixture) -> CheckResult {
    for (namespace, key, value) in
        [(&[][..], "k", json!({})), (&["a"], "", json!({})), (&["a"], "k", json!([1]))]
    {
        let put = fixture.store.put(namespace, key, value).await;
        assert!(put.is_err(), "{namespace:?} {key:?}");
    }
    assert_eq!(fixture.store.search(Search::everything()).await?, []);
    let get = fixture.store.get(&["a"], "").await;
    assert!(matches!(get, Err(StoreError::EmptyKey { .. })), "{get:?}");
    let delete = fixture.store.delete(&[], "k").await;
    assert!(matches!(delete, Err(StoreError::EmptyNamespace)), "{delete:?}");
    Ok(())
}

async fn other_address(fixture: Fixture) -> CheckResult {
    fixture.store.put(&["a", "b"], "k", json!({})).await?;
    for (namespace, key) in [(&["a"][..], "k"), (&["a", "b", "c"], "k"), (&["a", "b"], "K")] {
        assert_eq!(fixture.store.get(namespace, key).await?, None, "{namespace:?} {key}");
    }
    Ok(())
}

async fn delete(fixture: Fixture) -> CheckResult {
    for (namespace, key) in [(&["a"][..], "k"), (&["a"], "l"), (&["a", "b"], "k")] {
        fixture.store.put(namespace, key, json!({})).await?;
    }
    fixture.store.delete(&["a"], "k").await?;
    fixture.store.delete(&["a"], "k").await?;
    assert!(!fixture.has("k").await?);
    assert!(fixture.has("l").await?);
    assert!(fixture.store.get(&["a", "b"], "k").await?.is_some());
    Ok(())
}

async fn round_trips(fixture: Fixture, value: Value) -> CheckResult {
    fixture.store.put_item(Put::new(&["a"], "k", &value)?).await?;
    let hits = fixture.store.search(Search::everything()).await?;
    for read in [fixture.get_k().await?, hits[0].clone()] {
        // The values are compared as text, because `1` and `1.0` are different values but may compare as equal.
        let (read, put) = (read.value.to_string(), value.to_string());
        assert!(read == put, "{read} differs from the value that was put");
    }
    Ok(())
}

fn numbers() -> Value {
    json!({
        "floats": [0.1, 1.0, -0.0, f64::MAX, f64::MIN_POSITIVE, 9_399_999_944.939_999],
        "integers": [0, -1, i64::MIN, i64::MAX, u64::MAX, 9_007_199_254_740_993_i64],
    })
}

fn strings() -> Value {
    json!({"a\0b": "\0", "": "", "quotes": "'\"`\\", "é\u{1F980}": "\u{10FFFF}\u{FEFF}\n\r\t", "null": null})
}

fn deep() -> Value {
    let inner = (0..49).fold(json!(1), |inner, _| json!([{"in": inner}]));
    json!({"out": inner})
}
