//! Clients see only the objects of their owner, and may do only what their scope allows.

use graph_server::http::{ApiKeys, Client, Guard, Jwt, JwtOptions, KeyHash, Scope};
use reqwest::{Method, RequestBuilder};
use ring::hmac;
use serde_json::{Value, json};

use crate::server::Server;

/// Requests of one client.
pub(crate) struct User<'a> {
    server: &'a Server,
    token: String,
}

impl User<'_> {
    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.server.request(method, path).bearer_auth(&self.token)
    }

    pub(crate) async fn send(&self, method: Method, path: &str, body: Value) -> (u16, Value) {
        let request = self.server.json_request(method, path, &body).bearer_auth(&self.token);
        let response = request.send().await.unwrap();
        let status = response.status().as_u16();
        (status, serde_json::from_str(&response.text().await.unwrap()).unwrap_or(Value::Null))
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> (u16, Value) {
        self.send(Method::POST, path, body).await
    }

    /// Creates a thread and returns its path.
    pub(crate) async fn new_thread(&self) -> String {
        let (status, thread) = self.post("/threads", json!({})).await;
        assert_eq!(status, 200, "{thread}");
        format!("/threads/{}", thread["thread_id"].as_str().unwrap())
    }

    pub(crate) async fn status(&self, path: &str) -> u16 {
        self.send(Method::GET, path, json!({})).await.0
    }
}

/// Returns a guard with the clients `ada`, `bob`, `admin` and `reader`. `reader` may read the objects of `bob`.
pub(crate) fn guard() -> Guard {
    let key = |name: &str| KeyHash::of(&format!("key of {name}"));
    let keys = ApiKeys::new()
        .add(key("ada"), Client::new("ada@example.org"))
        .add(key("bob"), Client::new("bob"))
        .add(key("reader"), Client::new("bob").with_scope(Scope::Read))
        .add(key("admin"), Client::new("root").with_scope(Scope::Admin));
    Guard::new().rate_limit(u32::MAX).authenticator(keys)
}

/// Starts a server with this guard.
pub(crate) async fn server() -> Server {
    Server::start_guarded(guard()).await
}

pub(crate) fn user<'a>(server: &'a Server, name: &str) -> User<'a> {
    User { server, token: format!("key of {name}") }
}

#[tokio::test]
async fn requests_without_valid_credentials_are_rejected() {
    let server = server().await;
    assert_eq!(server.get("/ok").await.0, 200);
    let (status, body) = server.post("/threads", &json!({})).await;
    assert_eq!(status, 401);
    assert!(body["detail"].as_str().unwrap().contains("API key"), "{body}");
    assert_eq!(user(&server, "nobody").post("/threads", json!({})).await.0, 401);
}

#[tokio::test]
async fn threads_and_runs_of_other_owners_are_invisible() {
    let server = server().await;
    let (ada, bob, admin) = (user(&server, "ada"), user(&server, "bob"), user(&server, "admin"));
    let (_, thread) = ada.post("/threads", json!({})).await;
    let thread = thread["thread_id"].as_str().unwrap();
    let body = json!({ "assistant_id": "tiny", "input": { "value": "x" } });
    let (status, run) = ada.post(&format!("/threads/{thread}/runs"), body.clone()).await;
    assert_eq!(status, 200, "{run}");
    let run = run["run_id"].as_str().unwrap();
    let paths = [
        format!("/threads/{thread}"),
        format!("/threads/{thread}/state"),
        format!("/threads/{thread}/runs"),
        format!("/threads/{thread}/runs/{run}"),
        format!("/threads/{thread}/runs/{run}/join"),
        format!("/threads/{thread}/runs/{run}/stream"),
        format!("/runs/{run}/stream"),
    ];
    for path in &paths {
        assert_eq!(ada.status(path).await, 200, "{path}");
        assert_eq!(admin.status(path).await, 200, "{path}");
        assert_eq!(bob.status(path).await, 404, "{path}");
    }
    // Streams of a thread stay open, so only the rejection is tested.
    assert_eq!(bob.status(&format!("/threads/{thread}/stream")).await, 404);
    let changes = [
        (format!("/threads/{thread}/runs/wait"), body.clone()),
        (format!("/threads/{thread}/state"), json!({ "values": { "value": "y" } })),
        (format!("/threads/{thread}/history"), json!({})),
        (format!("/threads/{thread}/copy"), json!({})),
        (format!("/threads/{thread}/runs/{run}/cancel"), json!({})),
        (format!("/threads/{thread}/stream/events"), json!({ "channels": ["values"] })),
        (format!("/threads/{thread}/commands"), json!({ "id": 1, "method": "state.get" })),
    ];
    for (path, change) in changes {
        assert_eq!(bob.post(&path, change).await.0, 404, "{path}");
    }
    let mut hijack = body;
    hijack["if_not_exists"] = json!("create");
    assert_eq!(bob.post(&format!("/threads/{thread}/runs/wait"), hijack).await.0, 404);
    assert_eq!(bob.post("/threads", json!({ "thread_id": thread })).await.0, 409);
    assert_eq!(bob.send(Method::DELETE, &format!("/threads/{thread}"), json!({})).await.0, 404);
    assert_eq!(bob.post("/threads/search", json!({})).await.1, json!([]));
    assert_eq!(ada.post("/threads/count", json!({})).await.1, 1);
    assert_eq!(admin.post("/threads/count", json!({})).await.1, 1);
}

#[tokio::test]
async fn a_run_that_an_admin_starts_belongs_to_the_owner_of_its_thread() {
    let server = server().await;
    let (ada, admin) = (user(&server, "ada"), user(&server, "admin"));
    let runs = format!("{}/runs", ada.new_thread().await);
    let body = json!({ "assistant_id": "tiny", "input": { "value": "x" } });
    let (_, run) = admin.post(&runs, body).await;
    let path = format!("{runs}/{}/join", run["run_id"].as_str().unwrap());
    assert_eq!(ada.status(&path).await, 200);
}

#[tokio::test]
async fn assistants_and_crons_belong_to_their_owner() {
    let server = server().await;
    let (ada, bob, admin) = (user(&server, "ada"), user(&server, "bob"), user(&server, "admin"));
    let (_, own) = ada.post("/assistants", json!({ "graph_id": "tiny" })).await;
    let own = format!("/assistants/{}", own["assistant_id"].as_str().unwrap());
    assert_eq!((ada.status(&own).await, bob.status(&own).await), (200, 404));
    let count = async |it: &User<'_>| it.post("/assistants/count", json!({})).await.1;
    let (of_ada, of_bob) = (count(&ada).await, count(&bob).await);
    assert_eq!(of_ada.as_u64(), of_bob.as_u64().map(|it| it + 1), "the graphs are shared");
    let (_, shared) = bob.post("/assistants/search", json!({ "graph_id": "chat" })).await;
    let shared = format!("/assistants/{}", shared[0]["assistant_id"].as_str().unwrap());
    let rename = json!({ "name": "mine" });
    assert_eq!(bob.send(Method::PATCH, &shared, rename.clone()).await.0, 403);
    assert_eq!(bob.send(Method::DELETE, &shared, json!({})).await.0, 403);
    assert_eq!(admin.send(Method::PATCH, &shared, rename).await.0, 200);
    let cron = json!({ "assistant_id": "tiny", "schedule": "0 0 1 1 *", "input": {} });
    let (_, cron) = ada.post("/runs/crons", cron).await;
    let cron = format!("/runs/crons/{}", cron["cron_id"].as_str().unwrap());
    assert_eq!((ada.status(&cron).await, bob.status(&cron).await), (200, 404));
    assert_eq!(bob.post("/runs/crons/count", json!({})).await.1, 0);
}

#[tokio::test]
async fn store_items_belong_to_their_owner() {
    let server = server().await;
    let (ada, bob, admin) = (user(&server, "ada"), user(&server, "bob"), user(&server, "admin"));
    let item = json!({ "namespace": ["notes"], "key": "k", "value": { "a": 1 } });
    assert_eq!(ada.send(Method::PUT, "/store/items", item).await.0, 204);
    let read = "/store/items?namespace=notes&key=k";
    let (_, found) = ada.send(Method::GET, read, json!({})).await;
    assert_eq!((&found["namespace"], &found["value"]), (&json!(["notes"]), &json!({ "a": 1 })));
    assert_eq!(bob.send(Method::GET, read, json!({})).await.1, Value::Null);
    let everything = json!({ "namespace_prefix": [] });
    let search = async |it: &User<'_>| it.post("/store/items/search", everything.clone()).await.1;
    assert_eq!(search(&bob).await["items"], json!([]));
    assert_eq!(search(&ada).await["items"][0]["namespace"], json!(["notes"]));
    let (_, namespaces) = ada.post("/store/namespaces", json!({ "max_depth": 1 })).await;
    assert_eq!(namespaces["namespaces"], json!([["notes"]]));
    let label = "owner:ada@example%2Eorg";
    assert_eq!(search(&admin).await["items"][0]["namespace"], json!([label, "notes"]));
    let foreign = json!({ "namespace": [], "key": "k", "value": {} });
    assert_eq!(bob.send(Method::PUT, "/store/items", foreign).await.0, 400);
    let name = json!({ "namespace": ["notes"], "key": "k" });
    assert_eq!(bob.send(Method::DELETE, "/store/items", name).await.0, 204);
    assert_eq!(search(&ada).await["items"][0]["key"], "k", "the item of the other owner stays");
}

#[tokio::test]
async fn scopes_limit_what_a_client_may_do() {
    let server = server().await;
    let (bob, reader, admin) =
        (user(&server, "bob"), user(&server, "reader"), user(&server, "admin"));
    let (_, thread) = bob.post("/threads", json!({})).await;
    let path = format!("/threads/{}", thread["thread_id"].as_str().unwrap());
    assert_eq!(reader.status(&path).await, 200);
    assert_eq!(reader.post("/threads/search", json!({})).await.0, 200);
    let (status, body) = reader.post("/threads", json!({})).await;
    assert_eq!(status, 403);
    assert!(body["detail"].as_str().unwrap().contains("`write`"), "{body}");
    assert_eq!(reader.send(Method::DELETE, &path, json!({})).await.0, 403);
    assert_eq!((bob.status("/metrics").await, admin.status("/metrics").await), (403, 200));
}

fn base64url(bytes: &[u8]) -> String {
    use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

const SECRET: &[u8] = b"a shared secret of more than 32 bytes";
/// 1 January 2100.
const FAR: u64 = 4_102_444_800;

/// Returns a token that is signed with the shared secret.
fn hs256(claims: &Value) -> String {
    let header = base64url(br#"{"alg":"HS256","typ":"JWT"}"#);
    let message = format!("{header}.{}", base64url(claims.to_string().as_bytes()));
    let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET);
    let signature = hmac::sign(&key, message.as_bytes());
    format!("{message}.{}", base64url(signature.as_ref()))
}

#[tokio::test]
async fn tokens_with_a_shared_secret_identify_clients() {
    let jwt = Jwt::with_secret(SECRET, JwtOptions::default());
    let server = Server::start_guarded(Guard::new().authenticator(jwt)).await;
    let status = async |exp: u64, scope: Value| {
        let token = hs256(&json!({ "sub": "ada", "exp": exp, "scope": scope }));
        let user = User { server: &server, token };
        user.post("/threads", json!({})).await.0
    };
    assert_eq!(status(FAR, json!("openid write")).await, 200);
    assert_eq!(status(FAR, json!(["write"])).await, 200);
    assert_eq!(status(FAR, json!("openid")).await, 403, "the default scope is `read`");
    assert_eq!(status(1, json!("write")).await, 401, "the token has expired");
}

/// Returns a new ES256 key as a JWK, and a function that signs with it.
fn es256(id: &str) -> (Value, impl Fn(&Value) -> String) {
    use ring::{
        rand::SystemRandom,
        signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair},
    };
    let random = SystemRandom::new();
    let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
    let document = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
    let pair = EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref(), &random).unwrap();
    // The public key is the byte 4, followed by the two coordinates.
    let (x, y) = pair.public_key().as_ref()[1..].split_at(32);
    let jwk =
        json!({ "kty": "EC", "crv": "P-256", "kid": id, "x": base64url(x), "y": base64url(y) });
    let id = id.to_owned();
    let sign = move |claims: &Value| {
        let header = json!({ "alg": "ES256", "kid": id }).to_string();
        let parts = [header, claims.to_string()].map(|it| base64url(it.as_bytes()));
        let message = parts.join(".");
        let signature = pair.sign(&SystemRandom::new(), message.as_bytes()).unwrap();
        format!("{message}.{}", base64url(signature.as_ref()))
    };
    (jwk, sign)
}

#[tokio::test]
async fn keys_of_a_jwks_url_are_requested_when_they_are_needed() {
    use axum::{Json, Router, routing::get};
    let (key, sign) = es256("e1");
    let keys = json!({ "keys": [key] });
    let router = Router::new().route("/keys", get(async move || Json(keys.clone())));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/keys", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    let jwt = Jwt::with_jwks_url(url, JwtOptions::default().default_scope(Scope::Write));
    let server = Server::start_guarded(Guard::new().authenticator(jwt)).await;
    let claims = json!({ "sub": "ada", "exp": FAR });
    let user = User { server: &server, token: sign(&claims) };
    assert_eq!(user.post("/threads", json!({})).await.0, 200);
    let unknown = User { server: &server, token: es256("e2").1(&claims) };
    assert_eq!(unknown.post("/threads", json!({})).await.0, 401);
}
