//! Serves the studio, and runs the browser tests of `web/e2e/studio` against the example server `studio`.
#![expect(clippy::unwrap_used, reason = "tests and their helpers may panic")]

use std::{
    env,
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::Command,
};

use axum::{
    body::Body,
    http::{Request, StatusCode, header},
};
use graph_server::studio;
use tower::ServiceExt as _;

/// Environment variable that decides what happens if the web dependencies are missing: if it is set, the test fails;
/// otherwise the test is skipped.
const REQUIRE: &str = "GRAPH_REQUIRE_PAGE";

#[test]
fn browser_tests_pass() {
    let web = Path::new(env!("CARGO_MANIFEST_DIR")).join("../web");
    if !web.join("node_modules").is_dir() {
        let why =
            "the web dependencies are not installed; run `npm --prefix web ci` (requires Node)";
        assert!(env::var_os(REQUIRE).is_none(), "{why}");
        // Written directly, because the output of `eprintln!` is captured in passing tests.
        let _ = writeln!(io::stderr(), "SKIPPED: browser tests of the studio; {why}");
        return;
    }
    let screenshots = tempfile::tempdir().unwrap();
    let passed = Command::new("sh")
        .args(["-ec", "exec node --test --test-concurrency=1 e2e/studio/*.test.mjs"])
        .current_dir(web)
        .env("STUDIO_BIN", example())
        .env("SCREENSHOTS", screenshots.path())
        .status()
        .unwrap();
    assert!(passed.success());
}

/// Returns the path of the example server. Cargo builds examples before it runs tests.
fn example() -> PathBuf {
    let test = env::current_exe().unwrap();
    // The test is `target/<profile>/deps/studio-<hash>`; examples are in `target/<profile>/examples`.
    let program = test.ancestors().nth(2).unwrap().join("examples/studio");
    assert!(
        program.is_file(),
        "{} does not exist; run `cargo build -p graph-server --example studio`",
        program.display(),
    );
    program
}

#[tokio::test]
async fn page_is_served_below_studio() {
    let (status, policy, body) = get("/studio?graph=x").await;
    assert_eq!(status, StatusCode::OK);
    assert!(policy.contains("script-src 'self'"), "{policy}");
    let script = body.split('"').find(|it| it.ends_with(".js")).unwrap();
    assert!(script.starts_with("/studio/assets/"), "{script}");
    assert_eq!(get(script).await.0, StatusCode::OK);
    assert_eq!(get("/studio/assets/missing.js").await.0, StatusCode::NOT_FOUND);
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
