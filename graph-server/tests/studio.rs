//! Serves the studio, and runs the browser tests of `web/e2e/studio` against the example server `studio`.
#![expect(clippy::unwrap_used, reason = "tests and their helpers may panic")]

#[path = "../../web/e2e/browser_tests.rs"]
mod browser_tests;

use axum::{
    body::Body,
    http::{Request, StatusCode, header},
};
use graph_server::studio;
use test_support::process::example;
use tower::ServiceExt as _;

#[test]
fn browser_tests_pass() {
    let studio = example("graph-server", "studio").unwrap();
    browser_tests::run("e2e/studio/*.test.mjs", [("STUDIO_BIN", studio)]);
}

#[tokio::test]
async fn page_is_served_below_studio() {
    let (status, policy, body) = get("/studio?graph=x").await;
    assert_eq!(status, StatusCode::OK);
    assert!(policy.contains("script-src 'self'"), "{policy}");
    let script = body.split('"').find(|it| it.ends_with(".js")).unwrap();
    assert!(script.starts_with("/studio/assets/"), "{script}");
    assert_eq!(get(script).await.0, StatusCode::OK);
    for missing in ["/studio/assets/missing.js", "/studio/missing"] {
        assert_eq!(get(missing).await.0, StatusCode::NOT_FOUND, "{missing}");
    }
}

#[tokio::test]
async fn trailing_slash_redirects_and_keeps_the_query() {
    let request = Request::get("/studio/?graph=x").body(Body::empty()).unwrap();
    let response = studio::routes().oneshot(request).await.unwrap();
    assert_eq!(response.status(), StatusCode::PERMANENT_REDIRECT);
    assert_eq!(response.headers()[header::LOCATION], "/studio?graph=x");
}

/// Returns the status, the content security policy and the body of a response.
async fn get(path: &str) -> (StatusCode, String, String) {
    let request = Request::get(path).body(Body::empty()).unwrap();
    let response = studio::routes().oneshot(request).await.unwrap();
    let policy = response.headers().get(header::CONTENT_SECURITY_POLICY);
    let policy = policy.map(|it| it.to_str().unwrap().to_owned()).unwrap_or_default();
    let (status, body) = (response.status(), response.into_body());
    let bytes = axum::body::to_bytes(body, usize::MAX).await.unwrap();
    (status, policy, String::from_utf8_lossy(&bytes).into_owned())
}
