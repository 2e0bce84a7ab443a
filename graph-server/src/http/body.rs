//! What a request carries, read strictly: anything that is wrong with it is an error that says what.

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

/// A body that takes longer is not waited for.
const PATIENCE: Duration = Duration::from_secs(30);

/// A JSON body. Where there is none, or null, it counts as `{}`.
#[derive(Debug, Clone, Copy)]
pub struct Body<T>(pub T);

/// The parameters after the `?`.
#[derive(Debug, Clone, Copy)]
pub struct Params<T>(pub T);

/// The parameters in the path.
#[derive(Debug, Clone, Copy)]
pub struct Path<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let kind = request.headers().get(header::CONTENT_TYPE).and_then(|it| it.to_str().ok());
        let is_json = kind.is_some_and(|it| {
            it.split(';')
                .next()
                .is_some_and(|it| it.trim().eq_ignore_ascii_case("application/json"))
        });
        let bytes = timeout(PATIENCE, Bytes::from_request(request, state)).await;
        let too_slow =
            |_| Problem::new(StatusCode::REQUEST_TIMEOUT, "too_slow", "the body took too long");
        let bytes = bytes.map_err(too_slow)?.map_err(|error| match error {
            BytesRejection::FailedToBufferBody(_) => {
                let message = "the body is too large, or was cut off";
                Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", message)
            }
            other => Problem::invalid(other.to_string()),
        })?;
        // A page of another site can send anything but this without asking the browser first.
        if !is_json && !bytes.is_empty() {
            let message = "send JSON, with `content-type: application/json`";
            return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "not_json", message));
        }
        // A list would count as the values of an object, in its order.
        if bytes.trim_ascii().starts_with(b"[") {
            return Err(Problem::invalid("the body: it has to be an object, and is a list"));
        }
        let is_nothing = matches!(bytes.trim_ascii(), b"" | b"null");
        let text: &[u8] = if is_nothing { b"{}" } else { &bytes };
        Json::from_bytes(text).map(|Json(it)| Self(it)).map_err(|error| match error {
            JsonRejection::JsonSyntaxError(_) => wrong("the body is no JSON", &error.body_text()),
            _ => wrong("the body", &error.body_text()),
        })
    }
}

/// What is wrong, in place of the words with which the reader of it begins.
fn wrong(what: &str, text: &str) -> Problem {
    let detail = text.split_once(": ").map_or(text, |it| it.1);
    Problem::invalid(format!("{what}: {detail}"))
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Params<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        let read = Query::try_from_uri(&parts.uri);
        read.map(|Query(it)| Self(it)).map_err(|error| wrong("the query", &error.body_text()))
    }
}

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let read = axum::extract::Path::<T>::from_request_parts(parts, state).await;
        let missing = |_| Problem::not_found("there is nothing at this address");
        read.map(|it| Self(it.0)).map_err(missing)
    }
}
