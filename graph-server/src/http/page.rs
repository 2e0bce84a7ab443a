//! A page whose files are part of the program.

use std::borrow::Cow;

use axum::{
    Router,
    http::{HeaderValue, StatusCode, Uri, header},
    response::{IntoResponse, Response},
    routing::get,
};

use super::Problem;

/// A file of the page.
pub type Asset = Cow<'static, [u8]>;

/// Only what the server sends runs, and only with the server does it talk. Styles may stand in elements: graph
/// libraries place their nodes so.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; \
                      font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Serves a page: its files by name, and `index.html` for every other path, which the page reads itself.
pub fn page<S: Clone + Send + Sync + 'static>(file: fn(&str) -> Option<Asset>) -> Router<S> {
    let serve = move |uri: Uri| async move { answer(file, uri.path()) };
    Router::new().route("/", get(serve)).route("/{*path}", get(serve))
}

fn answer(file: fn(&str) -> Option<Asset>, path: &str) -> Response {
    let name = path.trim_start_matches('/');
    if name == "api" || name.starts_with("api/") {
        return Problem::not_found("there is nothing at this address").into_response();
    }
    if let Some(bytes) = file(name).filter(|_| name != "index.html") {
        // Names of assets hold a hash of their content.
        let is_hashed = name.starts_with("assets/");
        let caching = if is_hashed { "public, max-age=31536000, immutable" } else { "no-cache" };
        return found(kind(name), caching, bytes);
    }
    if name.starts_with("assets/") {
        return (StatusCode::NOT_FOUND, "there is no such file").into_response();
    }
    match file("index.html") {
        Some(bytes) => found("text/html; charset=utf-8", "no-cache", bytes),
        None => Problem::not_found("this server has no page").into_response(),
    }
}

fn found(kind: &'static str, caching: &'static str, bytes: Asset) -> Response {
    let headers = [
        (header::CONTENT_TYPE, kind),
        (header::CACHE_CONTROL, caching),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    let mut response = axum::body::Body::from(bytes.into_owned()).into_response();
    for (name, value) in headers {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

fn kind(name: &str) -> &'static str {
    match name.rsplit('.').next().unwrap_or_default() {
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "ico" => "image/x-icon",
        "woff2" => "font/woff2",
        "json" | "webmanifest" => "application/json",
        _ => "application/octet-stream",
    }
}
