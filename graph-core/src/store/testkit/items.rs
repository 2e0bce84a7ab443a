//! Single items: what is put is read, as it was, until it is deleted.

use serde_json::{Value, json};

use super::support::*;
use crate::store::{Put, Search, StoreError};

checks! {
    "put: an item is read as it was put" => plain, put_and_read(),
    "put: a second one replaces the value and keeps the creation" => plain, replaced(),
    "put: an update is never dated before the creation" => plain, clock_set_back(),
    "put: an item after a delete is a new one" => plain, new_after_delete(),
    "put: what is wrong is not written" => plain, bad_input(),
    "get: another namespace or key is nothing" => plain, elsewhere(),
    "delete: only the item itself goes, and twice is no error" => plain, delete(),
    "values: an empty object" => plain, keeps(json!({})),
    "values: numbers are kept to the last digit" => plain, keeps(numbers()),
    "values: texts of any characters" => plain, keeps(texts()),
    "values: objects in lists in objects, a hundred levels deep" => plain, keeps(deep()),
    "values: a text of a megabyte" => plain, keeps(json!({"text": "é".repeat(500_000)})),
}

async fn put_and_read(bench: Bench) -> Outcome {
    let now = bench.clock.now();
    bench.store.put(&["users", "ada"], "profile", json!({"age": 36})).await?;
    bench.clock.advance(1);
    let item = bench.store.get(&["users", "ada"], "profile").await?.ok_or("it was put")?;
    assert_eq!(item.namespace.labels(), ["users", "ada"]);
    assert_eq!(item.key, "profile");
    assert_eq!(item.value, json!({"age": 36}));
    assert_eq!((item.created_at, item.updated_at), (now, now));
    assert_eq!(item.score, None);
    Ok(())
}

async fn replaced(bench: Bench) -> Outcome {
    let created_at = bench.clock.now();
    bench.put_k(json!({"old": 1})).await?;
    bench.clock.advance(5);
    bench.put_k(json!({"new": 2})).await?;
    let item = bench.k().await?;
    assert_eq!(item.value, json!({"new": 2}));
    assert_eq!((item.created_at, item.updated_at), (created_at, bench.clock.now()));
    Ok(())
}

async fn clock_set_back(bench: Bench) -> Outcome {
    bench.put_k(json!({})).await?;
    bench.clock.set_back(60);
    bench.put_k(json!({})).await?;
    let item = bench.k().await?;
    assert_eq!(item.updated_at, item.created_at);
    Ok(())
}

async fn new_after_delete(bench: Bench) -> Outcome {
    bench.put_k(json!({})).await?;
    bench.store.delete(&["a"], "k").await?;
    bench.clock.advance(5);
    bench.put_k(json!({})).await?;
    assert_eq!(bench.k().await?.created_at, bench.clock.now());
    Ok(())
}

async fn bad_input(bench: Bench) -> Outcome {
    for (namespace, key, value) in
        [(&[][..], "k", json!({})), (&["a"], "", json!({})), (&["a"], "k", json!([1]))]
    {
        let put = bench.store.put(namespace, key, value).await;
        assert!(put.is_err(), "{namespace:?} {key:?}");
    }
    assert_eq!(bench.store.search(Search::everything()).await?, []);
    let get = bench.store.get(&["a"], "").await;
    assert!(matches!(get, Err(StoreError::EmptyKey { .. })), "{get:?}");
    let delete = bench.store.delete(&[], "k").await;
    assert!(matches!(delete, Err(StoreError::EmptyNamespace)), "{delete:?}");
    Ok(())
}

async fn elsewhere(bench: Bench) -> Outcome {
    bench.store.put(&["a", "b"], "k", json!({})).await?;
    for (namespace, key) in [(&["a"][..], "k"), (&["a", "b", "c"], "k"), (&["a", "b"], "K")] {
        assert_eq!(bench.store.get(namespace, key).await?, None, "{namespace:?} {key}");
    }
    Ok(())
}

async fn delete(bench: Bench) -> Outcome {
    for (namespace, key) in [(&["a"][..], "k"), (&["a"], "l"), (&["a", "b"], "k")] {
        bench.store.put(namespace, key, json!({})).await?;
    }
    bench.store.delete(&["a"], "k").await?;
    bench.store.delete(&["a"], "k").await?;
    assert!(!bench.has("k").await?);
    assert!(bench.has("l").await?);
    assert!(bench.store.get(&["a", "b"], "k").await?.is_some());
    Ok(())
}

async fn keeps(bench: Bench, value: Value) -> Outcome {
    bench.store.put_item(Put::new(&["a"], "k", &value)?).await?;
    let hits = bench.store.search(Search::everything()).await?;
    for read in [bench.k().await?, hits[0].clone()] {
        // As text, for `1` equals `1.0` otherwise.
        let (read, put) = (read.value.to_string(), value.to_string());
        assert!(read == put, "{read} is not what was put");
    }
    Ok(())
}

fn numbers() -> Value {
    json!({
        "floats": [0.1, 1.0, -0.0, f64::MAX, f64::MIN_POSITIVE, 9_399_999_944.939_999],
        "integers": [0, -1, i64::MIN, i64::MAX, u64::MAX, 9_007_199_254_740_993_i64],
    })
}

fn texts() -> Value {
    json!({"a\0b": "\0", "": "", "quotes": "'\"`\\", "é\u{1F980}": "\u{10FFFF}\u{FEFF}\n\r\t", "null": null})
}

fn deep() -> Value {
    let inner = (0..49).fold(json!(1), |inner, _| json!([{"in": inner}]));
    json!({"out": inner})
}
