//! Finding items and namespaces without vectors.

use serde_json::json;

use super::super::*;
use super::keys;

async fn filled(namespaces: &[&[&str]]) -> InMemoryStore {
    let store = InMemoryStore::new();
    for namespace in namespaces {
        let key = namespace.join("-");
        store.put(namespace, &key, json!({"depth": namespace.len()})).await.unwrap();
    }
    store
}

async fn found(store: &InMemoryStore, search: Search) -> String {
    keys(&store.search(search).await.unwrap()).join(" ")
}

#[tokio::test]
async fn a_prefix_matches_whole_labels() {
    let store = filled(&[&["a"], &["a", "b"], &["a", "b", "c"], &["a!"], &["ab"], &["A"], &["b"]]);
    let store = store.await;
    assert_eq!(found(&store, Search::under(&["a"]).unwrap()).await, "a a-b a-b-c");
    assert_eq!(found(&store, Search::under(&["a", "b"]).unwrap()).await, "a-b a-b-c");
    assert_eq!(found(&store, Search::under(&["a", "c"]).unwrap()).await, "");
    assert_eq!(found(&store, Search::everything()).await, "A a a-b a-b-c a! ab b");
}

#[tokio::test]
async fn a_search_filters_then_pages() {
    let store = InMemoryStore::new();
    for n in 10..40 {
        store.put(&["n"], &n.to_string(), json!({"n": n, "even": n % 2 == 0})).await.unwrap();
    }
    let search = || Search::under(&["n"]).unwrap();
    assert_eq!(store.search(search()).await.unwrap().len(), 10, "the default limit");

    let even = search().filter(Filter::eq("even", true));
    let both = even.clone().filter(Filter::gt("n", 30));
    assert_eq!(found(&store, both).await, "32 34 36 38");
    assert_eq!(found(&store, even.clone().limit(2).offset(3)).await, "16 18");
    assert_eq!(found(&store, even.clone().offset(14).limit(usize::MAX)).await, "38");
    assert_eq!(found(&store, even.clone().offset(usize::MAX).limit(usize::MAX)).await, "");

    let error = store.search(even.limit(0)).await.unwrap_err();
    let message = "`limit` is 0, so nothing can be found; give at least 1 or leave it out";
    assert_eq!(error.to_string(), message);
}

#[tokio::test]
async fn namespaces_match_by_both_ends() {
    let store = filled(&[
        &["docs", "v1"],
        &["users", "ada", "notes"],
        &["users", "bob", "notes", "old"],
        &["users", "bob", "v1"],
        &["users"],
    ]);
    let store = store.await;
    let listed = async |list: ListNamespaces| {
        let namespaces = store.list_namespaces(list).await.unwrap();
        namespaces.iter().map(Namespace::to_string).collect::<Vec<_>>().join(" ")
    };
    let all = ListNamespaces::new;
    assert_eq!(
        listed(all()).await,
        "docs.v1 users users.ada.notes users.bob.notes.old users.bob.v1"
    );
    let notes = "users.ada.notes users.bob.notes.old";
    assert_eq!(listed(all().prefix(&["users", "*", "notes"]).unwrap()).await, notes);
    assert_eq!(listed(all().prefix(&["*", "v1"]).unwrap()).await, "docs.v1");
    assert_eq!(listed(all().suffix(&["v1"]).unwrap()).await, "docs.v1 users.bob.v1");
    assert_eq!(listed(all().suffix(&["notes", "*"]).unwrap()).await, "users.bob.notes.old");
    let both = all().prefix(&["users"]).unwrap().suffix(&["v1"]).unwrap();
    assert_eq!(listed(both).await, "users.bob.v1");
    assert_eq!(listed(all().max_depth(2)).await, "docs.v1 users users.ada users.bob");
    assert_eq!(listed(all().max_depth(1).offset(1)).await, "users");
    assert_eq!(listed(all().limit(1).offset(1)).await, "users");
}

#[tokio::test]
async fn a_listing_is_checked() {
    let store = InMemoryStore::new();
    let list = ListNamespaces::new;
    let error = store.list_namespaces(list().limit(0)).await.unwrap_err();
    assert!(matches!(error, StoreError::Zero { option: "limit" }));
    let error = store.list_namespaces(list().max_depth(0)).await.unwrap_err();
    assert!(matches!(error, StoreError::Zero { option: "max_depth" }));
    assert!(matches!(list().prefix(&["a.b"]), Err(StoreError::BadLabel { .. })));
    assert!(matches!(list().suffix(&[""]), Err(StoreError::EmptyLabel { .. })));
    assert!(matches!(Search::under(&["graph"]), Err(StoreError::ReservedRoot { .. })));
}

#[tokio::test]
async fn a_hundred_namespaces_are_listed_by_default() {
    let store = InMemoryStore::new();
    for n in 0..101 {
        store.put(&["n", &n.to_string()], "k", json!({})).await.unwrap();
    }
    assert_eq!(store.list_namespaces(ListNamespaces::new()).await.unwrap().len(), 100);
}

#[tokio::test]
async fn a_namespace_goes_with_its_last_item() {
    let store = filled(&[&["a"]]).await;
    store.delete(&["a"], "a").await.unwrap();
    assert_eq!(store.list_namespaces(ListNamespaces::new()).await.unwrap(), []);
}
