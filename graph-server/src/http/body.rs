//! Strict extractors, which reject every invalid part of a request with an explanation.

use std::time::Duration;

use axum::{
    Json,
    body::Bytes,
    extract::{
        FromRequest, FromRequestParts, Query, Request,
        rejection::{BytesRejection, JsonRejection},
    },
    http::{StatusCode, header, request::Parts},
};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::Problem;

/// Maximum time for receiving a request body.
const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// Extracts a JSON body. A missing or null body is treated as `{}`.
///
/// ```
/// use axum::{Router, body::Body as RequestBody, http::Request, routing::post};
/// use graph_server::http::{Body, Path};
/// use serde::Deserialize;
/// use tower::ServiceExt;
///
/// #[derive(Deserialize)]
/// #[serde(deny_unknown_fields)]
/// struct Rename {
///     title: String,
/// }
///
/// async fn rename(Path(id): Path<u32>, Body(body): Body<Rename>) -> String {
///     format!("{id}: {}", body.title)
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let routes = Router::new().route("/reports/{id}", post(rename));
/// let request = |body: &'static str| {
///     let request = Request::post("/reports/7").header("content-type", "application/json");
///     request.body(RequestBody::from(body))
/// };
/// let valid = routes.clone().oneshot(request(r#"{"title": "Tea"}"#)?).await?;
/// assert_eq!(valid.status(), 200);
/// let invalid = routes.oneshot(request(r#"{"titel": "Tea"}"#)?).await?;
/// assert_eq!(invalid.status(), 422);
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Body<T>(pub T);

/// Extracts the query parameters.
#[derive(Debug, Clone, Copy)]
pub struct Params<T>(pub T);

/// Extracts the path parameters.
#[derive(Debug, Clone, Copy)]
pub struct Path<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let bytes = read_json(request, state).await?;
        // serde would accept an array and assign its elements to the fields of a struct in order.
        if bytes.trim_ascii().starts_with(b"[") {
            return Err(Problem::invalid("the body must be an object, but it is a list"));
        }
        let is_empty = matches!(bytes.trim_ascii(), b"" | b"null");
        let text: &[u8] = if is_empty { b"{}" } else { &bytes };
        Json::from_bytes(text).map(|Json(it)| Self(it)).map_err(|error| match error {
            JsonRejection::JsonSyntaxError(_) => {
                invalid("the body is not valid JSON", &error.body_text())
            }
            _ => invalid("the body", &error.body_text()),
        })
    }
}

/// Reads the body of a request, which must be JSON or empty. Does not parse it.
pub(crate) async fn read_json<S: Send + Sync>(
    request: Request,
    state: &S,
) -> Result<Bytes, Problem> {
    let kind = request.headers().get(header::CONTENT_TYPE).and_then(|it| it.to_str().ok());
    let is_json = kind.is_some_and(|it| {
        it.split(';').next().is_some_and(|it| it.trim().eq_ignore_ascii_case("application/json"))
    });
    let bytes = timeout(READ_TIMEOUT, Bytes::from_request(request, state)).await;
    let too_slow = |_| {
        Problem::new(
            StatusCode::REQUEST_TIMEOUT,
            "too_slow",
            "the request body was not received in time; send the whole body without pauses",
        )
    };
    let bytes = bytes.map_err(too_slow)?.map_err(|error| match error {
        BytesRejection::FailedToBufferBody(_) => {
            let message = "the request body is larger than this server accepts, or incomplete";
            Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", message)
        }
        other => Problem::invalid(other.to_string()),
    })?;
    // Requiring this content type prevents cross-site form posts, because browsers send it cross-origin only after a
    // preflight request.
    if !is_json && !bytes.is_empty() {
        let message = "the body must be JSON with `content-type: application/json`";
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "not_json", message));
    }
    Ok(bytes)
}

/// Builds an error from the text of an axum rejection. `what` replaces axum's introduction, which ends at the first
/// colon.
fn invalid(what: &str, text: &str) -> Problem {
    let detail = text.split_once(": ").map_or(text, |it| it.1);
    Problem::invalid(format!("{what}: {detail}"))
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Params<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        let read = Query::try_from_uri(&parts.uri);
        read.map(|Query(it)| Self(it)).map_err(|error| invalid("the query", &error.body_text()))
    }
}

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let read = axum::extract::Path::<T>::from_request_parts(parts, state).await;
        let missing = |_| Problem::not_found("no resource exists at this URL; check the path");
        read.map(|it| Self(it.0)).map_err(missing)
    }
}
