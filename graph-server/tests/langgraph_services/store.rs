//! The long-term store over HTTP.

use reqwest::Method;
use serde_json::{Value, json};

use crate::server::Server;

async fn put(server: &Server, namespace: Value, key: &str, value: Value) {
    let body = json!({ "namespace": namespace, "key": key, "value": value });
    let (status, _) = server.send(Method::PUT, "/store/items", &body).await;
    assert_eq!(status, 204);
}

#[tokio::test]
async fn items_are_put_read_and_deleted() {
    let server = Server::start().await;
    put(&server, json!(["users", "ada"]), "profile", json!({ "age": 36 })).await;
    let path = "/store/items?namespace=users.ada&key=profile";
    let (status, item) = server.get(path).await;
    assert_eq!(status, 200);
    assert_eq!(item["namespace"], json!(["users", "ada"]));
    assert_eq!(item["key"], "profile");
    assert_eq!(item["value"], json!({ "age": 36 }));
    assert!(item["created_at"].is_string() && item["updated_at"].is_string());

    let body = json!({ "namespace": ["users", "ada"], "key": "profile" });
    assert_eq!(server.send(Method::DELETE, "/store/items", &body).await.0, 204);
    assert_eq!(server.get(path).await, (200, Value::Null));
}

#[tokio::test]
async fn search_filters_and_pages() {
    let server = Server::start().await;
    for (key, age) in [("a", json!(10)), ("b", json!(20)), ("c", json!(30)), ("d", json!("old"))] {
        put(&server, json!(["people"]), key, json!({ "age": age })).await;
    }
    put(&server, json!(["animals"]), "e", json!({ "name": "Rex" })).await;
    let keys = async |body: Value| {
        let (status, found) = server.post("/store/items/search", &body).await;
        assert_eq!(status, 200, "{found}");
        let items = found["items"].as_array().unwrap().clone();
        items.iter().map(|it| it["key"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let mut all = keys(json!({ "namespace_prefix": [] })).await;
    all.sort();
    assert_eq!(all, ["a", "b", "c", "d", "e"]);
    let filter = json!({ "namespace_prefix": ["people"], "filter": { "age": { "$gt": 15 } } });
    let mut found = keys(filter).await;
    found.sort();
    assert_eq!(found, ["b", "c"]);
    let equal = json!({ "namespace_prefix": ["people"], "filter": { "age": 10 } });
    assert_eq!(keys(equal).await, ["a"]);
    let page = json!({ "namespace_prefix": ["people"], "limit": 3, "offset": 3 });
    assert_eq!(keys(page).await.len(), 1);
}

#[tokio::test]
async fn namespaces_are_listed_by_prefix_suffix_and_depth() {
    let server = Server::start().await;
    for namespace in [json!(["a", "b", "c"]), json!(["a", "b", "d"]), json!(["x", "c"])] {
        put(&server, namespace, "key", json!({})).await;
    }
    let list = async |body: Value| {
        let (status, found) = server.post("/store/namespaces", &body).await;
        assert_eq!(status, 200, "{found}");
        found["namespaces"].clone()
    };
    let all = json!([["a", "b", "c"], ["a", "b", "d"], ["x", "c"]]);
    assert_eq!(list(json!({})).await, all);
    assert_eq!(list(json!({ "prefix": ["a"], "max_depth": 2 })).await, json!([["a", "b"]]));
    let by_suffix = json!([["a", "b", "c"], ["x", "c"]]);
    assert_eq!(list(json!({ "suffix": ["c"] })).await, by_suffix);
    assert_eq!(list(json!({ "limit": 1, "offset": 1 })).await, json!([["a", "b", "d"]]));
}

#[tokio::test]
async fn invalid_requests_are_rejected() {
    let server = Server::start().await;
    let rejected = [
        (400, Method::PUT, "/store/items", json!({ "namespace": [], "key": "k", "value": {} })),
        (
            400,
            Method::PUT,
            "/store/items",
            json!({ "namespace": ["langgraph"], "key": "k", "value": {} }),
        ),
        (
            422,
            Method::PUT,
            "/store/items",
            json!({ "namespace": ["a.b"], "key": "k", "value": {} }),
        ),
        (422, Method::PUT, "/store/items", json!({ "namespace": ["a"], "key": "k", "value": 1 })),
        (
            422,
            Method::PUT,
            "/store/items",
            json!({ "namespace": ["a"], "key": "k", "value": {}, "ttl": -1 }),
        ),
        (
            422,
            Method::PUT,
            "/store/items",
            json!({ "namespace": ["a"], "key": "k", "value": {}, "other": 1 }),
        ),
        (400, Method::POST, "/store/items/search", json!({ "filter": { "a": { "$unknown": 1 } } })),
        (422, Method::POST, "/store/items/search", json!({ "limit": 0 })),
        (422, Method::POST, "/store/items/search", json!({ "query": "what?" })),
        (422, Method::POST, "/store/namespaces", json!({ "max_depth": 0 })),
    ];
    for (expected, method, path, body) in rejected {
        let (status, answer) = server.send(method, path, &body).await;
        assert_eq!(status, expected, "{body}");
        assert!(answer["detail"].is_string(), "{answer}");
    }
}
