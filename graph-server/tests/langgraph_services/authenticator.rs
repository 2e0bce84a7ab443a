//! Clients that an authenticator of the application identifies.

use async_trait::async_trait;
use axum::http::{HeaderMap, HeaderValue};
use graph_server::http::{AuthError, Authenticator, Client, Guard};
use reqwest::Method;
use serde_json::{Value, json};

use crate::server::Server;

/// Trusts the name that a proxy in front of the server sets.
#[derive(Debug)]
struct BehindProxy;

#[async_trait]
impl Authenticator for BehindProxy {
    async fn authenticate(&self, headers: &HeaderMap) -> Result<Option<Client>, AuthError> {
        let Some(user) = headers.get("x-user") else { return Ok(None) };
        let user = user.to_str().map_err(|_| AuthError::new("`X-User` must be ASCII"))?;
        Ok(Some(Client::new(user)))
    }
}

#[tokio::test]
async fn an_authenticator_of_the_application_identifies_the_owner() {
    let server = Server::start_guarded(Guard::new().authenticator(BehindProxy)).await;
    let (status, _) = server.post("/threads", &json!({})).await;
    assert_eq!(status, 401, "the request has no credentials");
    let send = async |method: Method, path: &str, user: HeaderValue| {
        let request = server.json_request(method, path, &json!({})).header("x-user", user);
        let response = request.send().await.unwrap();
        let status = response.status().as_u16();
        let body: Value = serde_json::from_str(&response.text().await.unwrap()).unwrap();
        (status, body)
    };
    let [ada, bob] = ["ada", "bob"].map(HeaderValue::from_static);
    let (status, thread) = send(Method::POST, "/threads", ada.clone()).await;
    assert_eq!(status, 200, "{thread}");
    let path = format!("/threads/{}", thread["thread_id"].as_str().unwrap());
    assert_eq!(send(Method::GET, &path, ada).await.0, 200);
    assert_eq!(send(Method::GET, &path, bob).await.0, 404);
    let invalid = HeaderValue::from_bytes(b"\xff").unwrap();
    let (status, rejected) = send(Method::POST, "/threads", invalid).await;
    assert_eq!(status, 401);
    assert!(rejected["detail"].as_str().unwrap().contains("must be ASCII"), "{rejected}");
}
