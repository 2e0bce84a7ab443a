//! Authorizers: rules for kinds of objects and actions, in addition to scopes and owners.

use async_trait::async_trait;
use graph_server::{
    http::KeyHash,
    langgraph::{AccessRequest, Action, Authorize, Decision, Resource},
};
use reqwest::Method;
use serde_json::{Value, json};

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

async fn new_thread(user: &User<'_>) -> String {
    let (status, thread) = user.post("/threads", json!({})).await;
    assert_eq!(status, 200, "{thread}");
    format!("/threads/{}", thread["thread_id"].as_str().unwrap())
}

#[tokio::test]
async fn actions_are_denied_by_resource_action_and_body() {
    let server = Server::start_authorized(guard(), TeamRules).await;
    let ada = user(&server, "ada");
    let (status, refused) = ada.post("/assistants", json!({ "graph_id": "tiny" })).await;
    assert_eq!((status, detail(&refused)), (403, "assistants are read-only"));
    assert_eq!(ada.post("/assistants/search", json!({})).await.0, 200);
    let thread = new_thread(&ada).await;
    let (status, refused) = ada.send(Method::DELETE, &thread, json!({})).await;
    assert_eq!((status, detail(&refused)), (403, "threads cannot be deleted"));
    assert_eq!(ada.status(&thread).await, 200);
    let slow = json!({ "assistant_id": "slow", "input": {} });
    let (status, refused) = ada.post(&format!("{thread}/runs/wait"), slow.clone()).await;
    assert_eq!((status, detail(&refused)), (403, "`slow` is too expensive"));
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
    let thread = new_thread(&ada).await;
    assert_eq!((bob.status(&thread).await, admin.status(&thread).await), (200, 200));
    assert_eq!(bob.post("/threads/count", json!({})).await.1, 1);
    let cron = json!({ "assistant_id": "tiny", "schedule": "0 0 1 1 *", "input": {} });
    let (_, cron) = ada.post("/runs/crons", cron).await;
    let cron = format!("/runs/crons/{}", cron["cron_id"].as_str().unwrap());
    assert_eq!((ada.status(&cron).await, bob.status(&cron).await), (200, 404), "not shared");
}

#[tokio::test]
async fn scopes_hold_with_an_authorizer() {
    let server = Server::start_authorized(guard(), TeamRules).await;
    let reader = user(&server, "reader");
    let (status, refused) = reader.post("/threads", json!({})).await;
    assert_eq!(status, 403);
    assert!(detail(&refused).contains("`write`"), "{refused}");
    assert_eq!(reader.post("/threads/search", json!({})).await.0, 200);
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
            let (status, refused) = admin.send(method.clone(), &path, json!({})).await;
            assert_eq!((status, detail(&refused)), (403, "denied by a test"), "{method} {path}");
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
