//! What every user of a store relies on.

mod index;
mod listing;
mod ttl;

use std::{
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::*;

/// A clock that moves only when a test moves it.
#[derive(Clone)]
struct Clock(Arc<Mutex<SystemTime>>);

impl Clock {
    fn new() -> Self {
        Self(Arc::new(Mutex::new(SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000))))
    }

    fn now(&self) -> SystemTime {
        *self.0.lock().unwrap()
    }

    fn advance(&self, secs: u64) {
        *self.0.lock().unwrap() += Duration::from_secs(secs);
    }

    fn store(&self) -> InMemoryStore {
        let clock = self.clone();
        InMemoryStore::new().with_clock(move || clock.now())
    }
}

fn keys(items: &[Item]) -> Vec<&str> {
    items.iter().map(|it| it.key.as_str()).collect()
}

#[tokio::test]
async fn an_item_can_be_put_read_and_deleted() {
    let clock = Clock::new();
    let store = clock.store();
    store.put(&["users", "ada"], "profile", json!({"age": 36})).await.unwrap();

    let item = store.get(&["users", "ada"], "profile").await.unwrap().unwrap();
    assert_eq!(item.namespace.labels(), ["users", "ada"]);
    assert_eq!(item.key, "profile");
    assert_eq!(item.value, json!({"age": 36}));
    assert_eq!((item.created_at, item.updated_at), (clock.now(), clock.now()));
    assert_eq!(item.score, None);
    assert_eq!(store.get(&["users"], "profile").await.unwrap(), None);
    assert_eq!(store.get(&["users", "ada"], "other").await.unwrap(), None);

    store.delete(&["users", "ada"], "profile").await.unwrap();
    store.delete(&["users", "ada"], "profile").await.unwrap();
    assert_eq!(store.get(&["users", "ada"], "profile").await.unwrap(), None);
}

#[tokio::test]
async fn a_second_put_replaces_the_value_and_keeps_the_creation() {
    let clock = Clock::new();
    let store = clock.store();
    let created_at = clock.now();
    store.put(&["a"], "k", json!({"old": 1})).await.unwrap();
    clock.advance(5);
    store.put(&["a"], "k", json!({"new": 2})).await.unwrap();

    let item = store.get(&["a"], "k").await.unwrap().unwrap();
    assert_eq!(item.value, json!({"new": 2}));
    assert_eq!(item.created_at, created_at);
    assert_eq!(item.updated_at, clock.now());
}

#[tokio::test]
async fn an_update_is_never_dated_before_the_creation() {
    let clock = Clock::new();
    let store = clock.store();
    store.put(&["a"], "k", json!({})).await.unwrap();
    *clock.0.lock().unwrap() -= Duration::from_secs(60);
    store.put(&["a"], "k", json!({})).await.unwrap();
    let item = store.get(&["a"], "k").await.unwrap().unwrap();
    assert_eq!(item.updated_at, item.created_at);
}

#[tokio::test]
async fn clones_share_the_items() {
    let store = InMemoryStore::new();
    store.clone().put(&["a"], "k", json!({})).await.unwrap();
    assert!(store.get(&["a"], "k").await.unwrap().is_some());
}

#[tokio::test]
async fn bad_input_is_named_and_not_written() {
    let store: Arc<dyn Store> = Arc::new(InMemoryStore::new());
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
    ] {
        let error = store.put(namespace, key, value).await.unwrap_err();
        assert_eq!(error.to_string(), message);
    }
    assert_eq!(store.search(Search::everything()).await.unwrap(), []);
    assert!(matches!(store.get(&["a"], "").await, Err(StoreError::EmptyKey { .. })));
    assert!(matches!(store.delete(&[], "k").await, Err(StoreError::EmptyNamespace)));
    assert!(Namespace::new(&["a", "graph"]).is_ok(), "only the root is reserved");
}

#[tokio::test]
async fn a_namespace_that_was_found_leads_back() {
    let store = InMemoryStore::new();
    store.put(&["users", "ada"], "k", json!({})).await.unwrap();
    let [namespace] = &store.list_namespaces(ListNamespaces::new()).await.unwrap()[..] else {
        panic!("there is one namespace");
    };
    assert!(store.get(&namespace.labels(), "k").await.unwrap().is_some());
    assert!(store.get_item(Get::new(namespace, "k").unwrap()).await.unwrap().is_some());
    assert_eq!(store.search(Search::under(namespace).unwrap()).await.unwrap().len(), 1);
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

#[tokio::test]
async fn a_batch_runs_in_order_and_whole_or_not_at_all() {
    let store = InMemoryStore::new();
    let ops = vec![
        Op::Put(Put::new(&["a"], "k", json!({"n": 1})).unwrap()),
        Op::Get(Get::new(&["a"], "k").unwrap()),
        Op::Search(Search::under(&["a"]).unwrap()),
        Op::List(ListNamespaces::new()),
        Op::Delete(Address::new(&["a"], "k").unwrap()),
        Op::Get(Get::new(&["a"], "k").unwrap()),
    ];
    let outcomes = store.batch(ops).await.unwrap();
    let [Outcome::Done, Outcome::Item(Some(item)), Outcome::Items(items), rest @ ..] =
        &outcomes[..]
    else {
        panic!("{outcomes:?}");
    };
    assert_eq!(items, std::slice::from_ref(item));
    let namespaces = Outcome::Namespaces(vec![Namespace::new(&["a"]).unwrap()]);
    assert_eq!(rest, [namespaces, Outcome::Done, Outcome::Item(None)]);

    for (wrong, option) in [
        (Op::Search(Search::everything().limit(0)), "limit"),
        (Op::List(ListNamespaces::new().max_depth(0)), "max_depth"),
    ] {
        let put = Op::Put(Put::new(&["a"], "k", json!({})).unwrap());
        let error = store.batch(vec![put, wrong]).await.unwrap_err();
        assert!(matches!(error, StoreError::Zero { option: it } if it == option));
        assert_eq!(store.get(&["a"], "k").await.unwrap(), None);
    }
}

/// A store that only writes what a back end must.
#[derive(Debug)]
struct Plain(InMemoryStore);

#[async_trait]
impl Store for Plain {
    async fn put_item(&self, put: Put) -> Result<(), StoreError> {
        self.0.put_item(put).await
    }
    async fn get_item(&self, get: Get) -> Result<Option<Item>, StoreError> {
        self.0.get_item(get).await
    }
    async fn delete_item(&self, at: Address) -> Result<(), StoreError> {
        self.0.delete_item(at).await
    }
    async fn search(&self, search: Search) -> Result<Vec<Item>, StoreError> {
        self.0.search(search).await
    }
    async fn list_namespaces(&self, list: ListNamespaces) -> Result<Vec<Namespace>, StoreError> {
        self.0.list_namespaces(list).await
    }
}

#[tokio::test]
async fn the_default_batch_gives_the_same_outcomes() {
    let clock = Clock::new();
    let ops = vec![
        Op::Put(Put::new(&["a"], "k", json!({"n": 1})).unwrap()),
        Op::Put(Put::new(&["a"], "l", json!({"n": 2})).unwrap()),
        Op::Delete(Address::new(&["a"], "l").unwrap()),
        Op::Get(Get::new(&["a"], "k").unwrap()),
        Op::Search(Search::under(&["a"]).unwrap()),
        Op::List(ListNamespaces::new()),
    ];
    let plain = Plain(clock.store()).batch(ops.clone()).await.unwrap();
    assert_eq!(plain, clock.store().batch(ops).await.unwrap());
}
