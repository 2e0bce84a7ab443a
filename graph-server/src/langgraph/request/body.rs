//! Extractors of JSON bodies and query parameters, with the error format of this API.

use axum::extract::{FromRequest, Request};
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, Error},
};
use serde_json::{Map, Value};

use crate::{http, langgraph::error::ApiError};

/// Extracts a JSON object. A missing body is treated as `{}`.
pub(in crate::langgraph) struct Body<T>(pub(in crate::langgraph) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let http::Body(body) = http::Body::<T>::from_request(request, state).await?;
        Ok(Self(body))
    }
}

/// Extracts a JSON list of objects.
pub(in crate::langgraph) struct BodyList<T>(pub(in crate::langgraph) Vec<T>);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for BodyList<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let bytes = http::read_json(request, state).await?;
        axum::Json::from_bytes(&bytes)
            .map(|axum::Json(list)| Self(list))
            .map_err(|error| ApiError::invalid(error.body_text()))
    }
}

/// Deserialises an object. Without this, serde would accept a list and assign its elements to the fields in order.
pub(in crate::langgraph) fn object<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    let fields = Map::<String, Value>::deserialize(deserializer)?;
    T::deserialize(Value::Object(fields)).map_err(Error::custom)
}

/// Deserialises a value. Null becomes the default value.
pub(in crate::langgraph) fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Deserialises a field in which null has a meaning: null is `Some(None)`, and a missing field is `None`.
pub(in crate::langgraph) fn nullable<'de, D, T>(
    deserializer: D,
) -> Result<Option<Option<T>>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Option::deserialize(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use axum::{
        body::{Body as RequestBody, Bytes},
        http::StatusCode,
        response::IntoResponse,
    };
    use futures_util::stream;

    use super::*;

    async fn status_of(request: Request) -> StatusCode {
        match BodyList::<Value>::from_request(request, &()).await {
            Ok(_) => StatusCode::OK,
            Err(error) => error.into_response().status(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn lists_that_do_not_arrive_in_time_are_rejected() {
        let never = stream::pending::<Result<Bytes, std::io::Error>>();
        let status = status_of(Request::new(RequestBody::from_stream(never))).await;
        assert_eq!(status, StatusCode::REQUEST_TIMEOUT);
    }

    #[tokio::test]
    async fn lists_that_are_not_json_are_rejected() {
        let send = |kind: &'static str, body: &'static str| {
            let mut request = Request::new(RequestBody::from(body));
            request.headers_mut().insert("content-type", kind.parse().unwrap());
            status_of(request)
        };
        assert_eq!(send("application/json", "[{}]").await, StatusCode::OK);
        assert_eq!(send("application/json", "{}").await, StatusCode::UNPROCESSABLE_ENTITY);
        assert_eq!(send("application/json", "[").await, StatusCode::UNPROCESSABLE_ENTITY);
        assert_eq!(send("text/plain", "[]").await, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    }
}
