//! Tests that the conformance suite (crate `checkpoint-testkit`) does not cover: messages and typed values.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::*;

#[tokio::test]
async fn errors_contain_the_invalid_input() {
    let store: Arc<dyn Store> = Arc::new(InMemoryStore::new());
    let deep = (0..200).fold(json!(1), |inner, _| json!([inner]));
    for (namespace, key, value, message) in [
        (
            &[][..],
            "k",
            json!({}),
            r#"the namespace is empty; it needs at least one label, such as ["users", "ada"]"#,
        ),
        (
            &["a", ""],
            "k",
            json!({}),
            r#"label 1 of namespace ["a", ""] is empty; remove it or use a non-empty label"#,
        ),
        (
            &["a", "b.c"],
            "k",
            json!({}),
            r#"label "b.c" of namespace ["a", "b.c"] contains '.', which is not allowed; remove the character or split the label in two"#,
        ),
        (
            &["a\0"],
            "k",
            json!({}),
            r#"label "a\0" of namespace ["a\0"] contains '\0', which is not allowed; remove the character or split the label in two"#,
        ),
        (
            &["graph"],
            "k",
            json!({}),
            r#"namespace ["graph"] starts with a reserved label; use another first label"#,
        ),
        (
            &["langgraph", "a"],
            "k",
            json!({}),
            r#"namespace ["langgraph", "a"] starts with a reserved label; use another first label"#,
        ),
        (&["a", "b"], "", json!({}), "the key in namespace `a.b` is empty; use a non-empty key"),
        (
            &["a", "b"],
            "k",
            json!([1]),
            r#"the value for `a.b/k` is an array, not an object; wrap it in an object, such as {"value": ..}"#,
        ),
        (
            &["a", "b"],
            "k",
            json!({"deep": deep}),
            "the value for `a.b/k` is nested too deeply to be stored; flatten it",
        ),
    ] {
        let error = store.put(namespace, key, value).await.unwrap_err();
        assert_eq!(error.to_string(), message);
    }
    assert!(Namespace::new(&["a", "graph"]).is_ok(), "only the root is reserved");
    assert!(matches!(ListNamespaces::new().prefix(&["a.b"]), Err(StoreError::InvalidLabel { .. })));
    assert!(matches!(ListNamespaces::new().suffix(&[""]), Err(StoreError::EmptyLabel { .. })));
    assert!(matches!(Search::under(&["graph"]), Err(StoreError::ReservedRoot { .. })));
    let put = Put::new(&["a"], "k", json!({})).unwrap();
    assert!(matches!(put.index(&["a..b"]), Err(StoreError::InvalidPath { .. })));
}

#[tokio::test]
async fn invalid_searches_are_rejected() {
    let store = InMemoryStore::new();
    for (search, message) in [
        (
            Search::everything().limit(0),
            "`limit` is 0, so nothing can be found; set it to at least 1 or omit it",
        ),
        (
            Search::everything().query("tea"),
            r#"cannot search for "tea": the store has no index; configure one with `IndexConfig`, or search by filter only"#,
        ),
    ] {
        let error = store.search(search).await.unwrap_err();
        assert_eq!(error.to_string(), message);
    }
}

#[tokio::test]
async fn values_are_deserialised_as_the_requested_type() {
    #[derive(Serialize, Deserialize, PartialEq, Debug)]
    struct Profile {
        name: String,
    }
    let ada = Profile { name: "Ada".into() };
    let store: Arc<dyn Store> = Arc::new(InMemoryStore::new());
    store.put_item(Put::new(&["users"], "ada", &ada).unwrap()).await.unwrap();
    store.put(&["users"], "bob", json!({"name": 7})).await.unwrap();

    let shared = Arc::clone(&store);
    let read = tokio::spawn(async move { shared.get_as(&["users"], "ada").await });
    assert_eq!(read.await.unwrap().unwrap(), Some(ada));
    assert_eq!(store.get_as::<Profile>(&["users"], "eve").await.unwrap(), None);
    let error = store.get_as::<Profile>(&["users"], "bob").await.unwrap_err();
    let expected = "the value of `users/bob` cannot be deserialised as `";
    assert!(error.to_string().starts_with(expected), "{error}");
    assert!(matches!(
        Put::new(&["users"], "k", std::collections::BTreeMap::from([((1, 2), 3)])),
        Err(StoreError::Encode { .. })
    ));
}

#[test]
fn similarity_is_never_negative_zero() {
    assert!(similarity(&[0.0], &[-1.0]).is_sign_positive());
}
