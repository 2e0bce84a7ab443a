//! Serves a web page whose files are embedded in the program.

use std::borrow::Cow;

use axum::{
    Router,
    http::{HeaderValue, Uri, header},
    response::{IntoResponse, Response},
    routing::get,
};

use super::Problem;

/// The content of an embedded file.
pub type Asset = Cow<'static, [u8]>;

/// Content security policy of the page. Only scripts from this server may run, and they may connect only to this
/// server. Inline styles are allowed because graph libraries use them to position nodes.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; \
                      font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Serves a page whose client-side routes are paths. Its files are served by name; every other path returns
/// `index.html`.
pub fn page<S: Clone + Send + Sync + 'static>(file: fn(&str) -> Option<Asset>) -> Router<S> {
    router(move |path| find(file, path).unwrap_or_else(|| index(file)))
}

/// Serves a page that has a single path and reads everything else from the query. Its files are served by name; every
/// other path returns 404.
pub fn single_page<S: Clone + Send + Sync + 'static>(file: fn(&str) -> Option<Asset>) -> Router<S> {
    router(move |path| match find(file, path) {
        Some(response) => response,
        None if path.is_empty() => index(file),
        None => not_found(),
    })
}

/// Returns a router that passes every path, without its leading slash, to `respond`.
fn router<S: Clone + Send + Sync + 'static>(
    respond: impl Fn(&str) -> Response + Clone + Send + Sync + 'static,
) -> Router<S> {
    let serve = move |uri: Uri| async move { respond(uri.path().trim_start_matches('/')) };
    Router::new().route("/", get(serve.clone())).route("/{*path}", get(serve))
}

/// Returns the response for a path at which only a file may be served: the file, or 404 if it is missing. Returns
/// `None` for all other paths, which may be routes of the page.
fn find(file: fn(&str) -> Option<Asset>, name: &str) -> Option<Response> {
    if name == "api" || name.starts_with("api/") {
        return Some(not_found());
    }
    // The names of assets contain a hash of their content, so assets never change.
    let is_hashed = name.starts_with("assets/");
    if let Some(bytes) = file(name).filter(|_| name != "index.html") {
        let caching = if is_hashed { "public, max-age=31536000, immutable" } else { "no-cache" };
        return Some(file_response(content_type(name), caching, bytes));
    }
    is_hashed.then(not_found)
}

fn index(file: fn(&str) -> Option<Asset>) -> Response {
    match file("index.html") {
        Some(bytes) => file_response("text/html; charset=utf-8", "no-cache", bytes),
        None => Problem::not_found("this server has no web page").into_response(),
    }
}

fn not_found() -> Response {
    Problem::not_found("no resource exists at this URL; check the path").into_response()
}

fn file_response(kind: &'static str, caching: &'static str, bytes: Asset) -> Response {
    let headers = [
        (header::CONTENT_TYPE, kind),
        (header::CACHE_CONTROL, caching),
        (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    let mut response = axum::body::Body::from(bytes.into_owned()).into_response();
    for (name, value) in headers {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

fn content_type(name: &str) -> &'static str {
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
