//! Authorizers: rules for kinds of objects and actions, in addition to scopes and owners.

use async_trait::async_trait;
use graph_server::{
    http::KeyHash,
    langgraph::{AccessRequest, Action, Authorize, Decision, Resource},
};
use reqwest::Method;
use serde_json::{Map, Value, json};

use crate::{
    auth::{User, guard, user},
    server::Server,
};

/// Clients share threads and runs, but may not delete threads, change assistants or run the graph `slow`.
#[derive(Debug)]
struct TeamRules;

#[async_trait]
impl Authorize for TeamRules {
    async fn authorize(&self, request: &AccessRequest<'_>) -> Decision {
        let deny = |reason: &str| Decision::Deny(reason.to_owned());
        match (request.resource, request.action) {
            (Resource::Assistants, Action::Create | Action::Update | Action::Delete) => {
                deny("assistants are read-only")
            }
            (Resource::Threads, Action::Delete) => deny("threads cannot be deleted"),
            (Resource::Runs, Action::Create) if request.body["assistant_id"] == "slow" => {
                deny("`slow` is too expensive")
            }
            (Resource::Threads | Resource::Runs, _) => Decision::AllowAs("team".to_owned()),
            _ => Decision::Allow,
        }
    }
}

fn detail(body: &Value) -> &str {
    body["detail"].as_str().unwrap_or_default()
}

#[tokio::test]
async fn actions_are_denied_by_resource_action_and_body() {
    let server = Server::start_authorized(guard(), TeamRules).await;
    let ada = user(&server, "ada");
    let (status, rejected) = ada.post("/assistants", json!({ "graph_id": "tiny" })).await;
    assert_eq!((status, detail(&rejected)), (403, "assistants are read-only"));
    assert_eq!(ada.post("/assistants/search", json!({})).await.0, 200);
    let thread = ada.new_thread().await;
    let (status, rejected) = ada.send(Method::DELETE, &thread, json!({})).await;
    assert_eq!((status, detail(&rejected)), (403, "threads cannot be deleted"));
    assert_eq!(ada.status(&thread).await, 200);
    let slow = json!({ "assistant_id": "slow", "input": {} });
    let (status, rejected) = ada.post(&format!("{thread}/runs/wait"), slow.clone()).await;
    assert_eq!((status, detail(&rejected)), (403, "`slow` is too expensive"));
    let tiny = json!({ "assistant_id": "tiny", "input": { "value": "x" } });
    assert_eq!(ada.post("/runs/batch", json!([tiny, slow])).await.0, 403);
    assert_eq!(ada.post("/runs/batch", json!([tiny])).await.0, 200);
    let (status, values) = ada.post(&format!("{thread}/runs/wait"), tiny).await;
    assert_eq!((status, &values["value"]), (200, &json!("xab")), "the handler reads the body too");
}

#[tokio::test]
async fn authorizer_can_give_a_client_access_to_the_objects_of_another_owner() {
    let server = Server::start_authorized(guard(), TeamRules).await;
    let (ada, bob, admin) = (user(&server, "ada"), user(&server, "bob"), user(&server, "admin"));
    let thread = ada.new_thread().await;
    assert_eq!((bob.status(&thread).await, admin.status(&thread).await), (200, 200));
    assert_eq!(bob.post("/threads/count", json!({})).await.1, 1);
    let cron = json!({ "assistant_id": "tiny", "schedule": "0 0 1 1 *", "input": {} });
    let (_, cron) = ada.post("/runs/crons", cron).await;
    let cron = format!("/runs/crons/{}", cron["cron_id"].as_str().unwrap());
    assert_eq!((ada.status(&cron).await, bob.status(&cron).await), (200, 404), "not shared");
}

#[tokio::test]
async fn an_authorizer_does_not_extend_scopes() {
    let server = Server::start_authorized(guard(), TeamRules).await;
    let reader = user(&server, "reader");
    let (status, rejected) = reader.post("/threads", json!({})).await;
    assert_eq!(status, 403);
    assert!(detail(&rejected).contains("`write`"), "{rejected}");
    assert_eq!(reader.post("/threads/search", json!({})).await.0, 200);
}

/// Clients see the objects of their team, whose name is in the metadata. `ada` and `root` are in one team.
#[derive(Debug)]
pub(crate) struct TeamMetadata;

#[async_trait]
impl Authorize for TeamMetadata {
    async fn authorize(&self, request: &AccessRequest<'_>) -> Decision {
        let team = if request.client.owner == "bob" { "west" } else { "east" };
        Decision::AllowWhere(Map::from_iter([("team".to_owned(), json!(team))]))
    }
}

/// Creates an object as `ada`, and returns its path. The client cannot choose another team.
async fn create_in_team(ada: &User<'_>, path: &str, id: &str, mut body: Value) -> String {
    body["metadata"] = json!({ "team": "west", "a": 1 });
    let (status, created) = ada.post(path, body).await;
    assert_eq!(status, 200, "{path}: {created}");
    assert_eq!(created["metadata"]["team"], "east", "{created}");
    assert_eq!(created["metadata"]["a"], 1, "{created}");
    format!("{path}/{}", created[id].as_str().unwrap())
}

#[tokio::test]
async fn metadata_determines_which_objects_a_client_sees() {
    let server = Server::start_authorized(guard(), TeamMetadata).await;
    let (ada, bob, root) = (user(&server, "ada"), user(&server, "bob"), user(&server, "admin"));
    let schedule = json!({ "assistant_id": "tiny", "schedule": "0 0 1 1 *" });
    for (path, id, body) in [
        ("/threads", "thread_id", json!({})),
        ("/assistants", "assistant_id", json!({ "graph_id": "tiny" })),
        ("/runs/crons", "cron_id", schedule),
    ] {
        let object = create_in_team(&ada, path, id, body).await;
        assert_eq!((root.status(&object).await, bob.status(&object).await), (200, 404), "{object}");
        let count = format!("{path}/count");
        assert_eq!(root.post(&count, json!({})).await.1, 1, "{path}");
        assert_eq!(bob.post(&count, json!({})).await.1, 0, "{path}");
        // A search for another team finds nothing.
        let other = json!({ "metadata": { "team": "east" } });
        assert_eq!(bob.post(&format!("{path}/search"), other).await.1, json!([]), "{path}");
        let change = json!({ "metadata": { "team": "west" } });
        assert_eq!(bob.send(Method::PATCH, &object, change.clone()).await.0, 404, "{object}");
        assert_eq!(bob.send(Method::DELETE, &object, Value::Null).await.0, 404, "{object}");
        let (_, changed) = root.send(Method::PATCH, &object, change).await;
        assert_eq!(changed["metadata"]["team"], "east", "objects stay in their team: {changed}");
    }
}

#[tokio::test]
async fn runs_have_the_metadata_of_their_thread() {
    let server = Server::start_authorized(guard(), TeamMetadata).await;
    let (ada, bob, root) = (user(&server, "ada"), user(&server, "bob"), user(&server, "admin"));
    let thread = create_in_team(&ada, "/threads", "thread_id", json!({})).await;
    let slow = json!({ "assistant_id": "slow", "input": { "steps": 1, "delay": 3600 } });
    let run = create_in_team(&ada, &format!("{thread}/runs"), "run_id", slow).await;
    assert_eq!((root.status(&run).await, bob.status(&run).await), (200, 404));
    let id = run.rsplit('/').next().unwrap();
    let tiny = json!({ "assistant_id": "tiny", "input": { "value": "x" } });
    let mut create = tiny.clone();
    create["if_not_exists"] = json!("create");
    for (path, body) in [
        (format!("{thread}/state"), json!({ "values": { "value": "y" } })),
        (format!("{thread}/history"), json!({})),
        (format!("{thread}/copy"), json!({})),
        (format!("{thread}/runs/wait"), tiny.clone()),
        (format!("{thread}/runs/wait"), create),
        (format!("{thread}/stream/events"), json!({ "channels": ["values"] })),
        (format!("{thread}/commands"), json!({ "id": 1, "method": "state.get" })),
        (format!("{run}/cancel"), json!({})),
        ("/runs/cancel".to_owned(), json!({ "status": "all" })),
    ] {
        assert_eq!(bob.post(&path, body).await.0, 404, "{path}");
    }
    for path in [format!("{run}/join"), format!("{run}/stream"), format!("/runs/{id}/stream")] {
        assert_eq!(bob.status(&path).await, 404, "{path}");
    }
    let taken = json!({ "thread_id": thread.rsplit('/').next().unwrap() });
    assert_eq!(bob.post("/threads", taken).await.0, 409);
    assert_eq!(root.post(&format!("{run}/cancel?wait=1"), json!({})).await.0, 200);
    let thread = create_in_team(&ada, "/threads", "thread_id", json!({})).await;
    let (_, values) = root.post(&format!("{thread}/runs/wait"), tiny.clone()).await;
    assert_eq!(values["value"], "xab", "{values}");
    // A run without a thread creates a thread with the metadata.
    let mut kept = tiny;
    kept["on_completion"] = json!("keep");
    assert_eq!(bob.post("/runs/wait", kept).await.0, 200);
    assert_eq!(bob.post("/threads/count", json!({})).await.1, 1);
}

const NOTE: &str = "/store/items?namespace=notes&key=k";

/// Stores an item in the namespace `notes`.
async fn put_note(user: &User<'_>) {
    let item = json!({ "namespace": ["notes"], "key": "k", "value": { "a": 1 } });
    assert_eq!(user.send(Method::PUT, "/store/items", item).await.0, 204);
}

/// Returns the namespaces that a client sees.
async fn namespaces(user: &User<'_>) -> Value {
    user.post("/store/namespaces", json!({})).await.1["namespaces"].clone()
}

#[tokio::test]
async fn clients_with_the_same_entries_share_store_items() {
    let server = Server::start_authorized(guard(), TeamMetadata).await;
    let (ada, bob, root) = (user(&server, "ada"), user(&server, "bob"), user(&server, "admin"));
    put_note(&ada).await;
    let (_, found) = root.send(Method::GET, NOTE, json!({})).await;
    assert_eq!((&found["namespace"], &found["value"]), (&json!(["notes"]), &json!({ "a": 1 })));
    assert_eq!(namespaces(&root).await, json!([["notes"]]));
    assert_eq!(bob.send(Method::GET, NOTE, json!({})).await.1, Value::Null);
    assert_eq!(bob.post("/store/items/search", json!({})).await.1["items"], json!([]));
    assert_eq!(namespaces(&bob).await, json!([]));
    let name = json!({ "namespace": ["notes"], "key": "k" });
    assert_eq!(bob.send(Method::DELETE, "/store/items", name.clone()).await.0, 204);
    put_note(&bob).await;
    assert_eq!(root.send(Method::DELETE, "/store/items", name).await.0, 204);
    assert_eq!(ada.send(Method::GET, NOTE, json!({})).await.1, Value::Null);
    assert_eq!(namespaces(&bob).await, json!([["notes"]]), "the item of the other team stays");
}

/// Clients access the namespaces of the store that start with their team. `ada` and `root` are in one team.
#[derive(Debug)]
struct TeamNamespaces;

#[async_trait]
impl Authorize for TeamNamespaces {
    async fn authorize(&self, request: &AccessRequest<'_>) -> Decision {
        let team = if request.client.owner == "bob" { "west" } else { "east" };
        let mut namespace = request.namespace.to_vec();
        if namespace.first().is_none_or(|it| it != team) {
            namespace.insert(0, team.to_owned());
        }
        Decision::AllowNamespace(namespace)
    }
}

#[tokio::test]
async fn authorizer_can_rewrite_the_namespace_of_a_request() {
    let server = Server::start_authorized(guard(), TeamNamespaces).await;
    let (ada, bob, root) = (user(&server, "ada"), user(&server, "bob"), user(&server, "admin"));
    put_note(&ada).await;
    for path in [NOTE, "/store/items?namespace=east.notes&key=k"] {
        let (_, found) = root.send(Method::GET, path, json!({})).await;
        assert_eq!(found["namespace"], json!(["east", "notes"]), "{path}");
        assert_eq!(bob.send(Method::GET, path, json!({})).await.1, Value::Null, "{path}");
    }
    for prefix in [json!([]), json!(["notes"]), json!(["east", "notes"])] {
        let search = json!({ "namespace_prefix": prefix });
        let (_, found) = ada.post("/store/items/search", search.clone()).await;
        assert_eq!(found["items"][0]["namespace"], json!(["east", "notes"]), "{prefix}");
        let (_, found) = bob.post("/store/items/search", search).await;
        assert_eq!(found["items"], json!([]), "{prefix}");
    }
    assert_eq!(namespaces(&ada).await, json!([["east", "notes"]]));
    assert_eq!(namespaces(&bob).await, json!([]));
    let foreign = json!({ "namespace": ["east", "notes"], "key": "k" });
    assert_eq!(bob.send(Method::DELETE, "/store/items", foreign.clone()).await.0, 204);
    assert_eq!(namespaces(&ada).await, json!([["east", "notes"]]));
    assert_eq!(ada.send(Method::DELETE, "/store/items", foreign).await.0, 204);
    assert_eq!(namespaces(&ada).await, json!([]));
    let twice = "/store/items?namespace=west&namespace=east.notes&key=k";
    assert_eq!(bob.status(twice).await, 422);
    assert_eq!(ada.post("/threads", json!({})).await.0, 500, "threads have no namespace");
}

/// Denies every request.
#[derive(Debug)]
struct DenyAll;

#[async_trait]
impl Authorize for DenyAll {
    async fn authorize(&self, _: &AccessRequest<'_>) -> Decision {
        Decision::Deny("denied by a test".to_owned())
    }
}

#[tokio::test]
async fn every_route_calls_the_authorizer() {
    let server = Server::start_authorized(guard(), DenyAll).await;
    let admin = user(&server, "admin");
    let (_, document) = server.get("/openapi.json").await;
    let mut asked = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        if ["/ok", "/info"].contains(&path.as_str()) {
            continue;
        }
        let id = "0190a1b2-0000-7000-8000-000000000000";
        let segment = |it: &str| (if it.starts_with('{') { id } else { it }).to_owned();
        let path = path.split('/').map(segment).collect::<Vec<_>>().join("/");
        for method in methods.as_object().unwrap().keys() {
            let method: Method = method.to_uppercase().parse().unwrap();
            let (status, rejected) = admin.send(method.clone(), &path, json!({})).await;
            assert_eq!((status, detail(&rejected)), (403, "denied by a test"), "{method} {path}");
            asked += 1;
        }
    }
    assert!(asked > 50, "{asked}");
    let socket = "/threads/0190a1b2-0000-7000-8000-000000000000/stream/events";
    assert_eq!(admin.status(socket).await, 403);
}

#[tokio::test]
async fn authorizer_is_not_called_for_the_operator() {
    let guard = guard().key(KeyHash::of("key of operator"));
    let server = Server::start_authorized(guard, DenyAll).await;
    assert_eq!(user(&server, "operator").post("/threads", json!({})).await.0, 200);
}
