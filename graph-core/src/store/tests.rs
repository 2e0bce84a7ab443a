//! What the suite for all stores ([`testkit`](super::testkit)) does not ask: messages, types and handles.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::*;

#[tokio::test]
async fn clones_share_the_items() {
    let store = InMemoryStore::new();
    store.clone().put(&["a"], "k", json!({})).await.unwrap();
    assert!(store.get(&["a"], "k").await.unwrap().is_some());
}

#[tokio::test]
async fn bad_input_is_named() {
    let store: Arc<dyn Store> = Arc::new(InMemoryStore::new());
    let deep = (0..200).fold(json!(1), |inner, _| json!([inner]));
    for (namespace, key, value, message) in [
        (
            &[][..],
            "k",
            json!({}),
            r#"the namespace is empty; give it at least one label, such as ["users", "ada"]"#,
        ),
        (
            &["a", ""],
            "k",
            json!({}),
            r#"label 1 of namespace ["a", ""] is empty; fill it or leave it out"#,
        ),
        (
            &["a", "b.c"],
            "k",
            json!({}),
            r#"label "b.c" of namespace ["a", "b.c"] contains '.'; replace it, or make two labels of it"#,
        ),
        (
            &["a\0"],
            "k",
            json!({}),
            r#"label "a\0" of namespace ["a\0"] contains '\0'; replace it, or make two labels of it"#,
        ),
        (
            &["graph"],
            "k",
            json!({}),
            r#"namespace ["graph"] starts with a reserved label; start it with another one"#,
        ),
        (
            &["langgraph", "a"],
            "k",
            json!({}),
            r#"namespace ["langgraph", "a"] starts with a reserved label; start it with another one"#,
        ),
        (
            &["a", "b"],
            "",
            json!({}),
            "the key under namespace `a.b` is empty; give the item a name",
        ),
        (
            &["a", "b"],
            "k",
            json!([1]),
            r#"the value of `a.b/k` is a list; wrap it in an object, such as {"value": ..}"#,
        ),
        (
            &["a", "b"],
            "k",
            json!({"deep": deep}),
            "the value of `a.b/k` is nested too deeply to be stored; make it flatter",
        ),
    ] {
        let error = store.put(namespace, key, value).await.unwrap_err();
        assert_eq!(error.to_string(), message);
    }
    assert!(Namespace::new(&["a", "graph"]).is_ok(), "only the root is reserved");
    assert!(matches!(ListNamespaces::new().prefix(&["a.b"]), Err(StoreError::BadLabel { .. })));
    assert!(matches!(ListNamespaces::new().suffix(&[""]), Err(StoreError::EmptyLabel { .. })));
    assert!(matches!(Search::under(&["graph"]), Err(StoreError::ReservedRoot { .. })));
    let put = Put::new(&["a"], "k", json!({})).unwrap();
    assert!(matches!(put.index(&["a..b"]), Err(StoreError::BadPath { .. })));
}

#[tokio::test]
async fn a_bad_search_is_named() {
    let store = InMemoryStore::new();
    for (search, message) in [
        (
            Search::everything().limit(0),
            "`limit` is 0, so nothing can be found; give at least 1 or leave it out",
        ),
        (
            Search::everything().query("tea"),
            r#"the store has no index to search for "tea"; give it an `IndexConfig`, or search with a filter only"#,
        ),
    ] {
        let error = store.search(search).await.unwrap_err();
        assert_eq!(error.to_string(), message);
    }
}

#[tokio::test]
async fn values_can_be_typed() {
    #[derive(Serialize, Deserialize, PartialEq, Debug)]
    struct Profile {
        name: String,
    }
    let ada = Profile { name: "Ada".into() };
    let store: Arc<dyn Store> = Arc::new(InMemoryStore::new());
    store.put_item(Put::new(&["users"], "ada", &ada).unwrap()).await.unwrap();
    store.put(&["users"], "bob", json!({"name": 7})).await.unwrap();

    let elsewhere = Arc::clone(&store);
    let read = tokio::spawn(async move { elsewhere.get_as(&["users"], "ada").await });
    assert_eq!(read.await.unwrap().unwrap(), Some(ada));
    assert_eq!(store.get_as::<Profile>(&["users"], "eve").await.unwrap(), None);
    let error = store.get_as::<Profile>(&["users"], "bob").await.unwrap_err();
    assert!(error.to_string().starts_with("the value of `users/bob` is no `"), "{error}");
    assert!(matches!(
        Put::new(&["users"], "k", std::collections::BTreeMap::from([((1, 2), 3)])),
        Err(StoreError::Encode { .. })
    ));
}

#[test]
fn zeros_rank_alike() {
    assert!(similarity(&[0.0], &[-1.0]).is_sign_positive());
}
