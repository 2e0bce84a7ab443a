//! Extractors of JSON bodies and query parameters, with the error format of this API.

use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use serde::{Deserialize, Deserializer, de::DeserializeOwned};

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

/// Extracts the query parameters.
pub(in crate::langgraph) struct Query<T>(pub(in crate::langgraph) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let http::Params(query) = http::Params::<T>::from_request_parts(parts, state).await?;
        Ok(Self(query))
    }
}

/// Deserialises a value that may be null or missing. Null is the same as missing.
pub(in crate::langgraph) fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Deserialises a flag in a query string. Clients send `true`, `True` or `1`.
pub(in crate::langgraph) fn flag<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<bool, D::Error> {
    let text = String::deserialize(deserializer)?;
    match text.to_ascii_lowercase().as_str() {
        "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        _ => {
            Err(serde::de::Error::custom(format!("`{text}` is not a flag; use `true` or `false`")))
        }
    }
}
