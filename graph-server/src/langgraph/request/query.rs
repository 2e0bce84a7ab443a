//! Query parameters. Clients send a list by repeating a parameter or as JSON, and may send an empty value instead of
//! omitting a parameter.

use std::collections::BTreeMap;

use axum::{
    extract::{FromRequestParts, rejection::QueryRejection},
    http::{Uri, request::Parts},
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{
    http::Params,
    langgraph::error::{ApiError, ApiResult},
};

/// The query parameters of a request. Each handler removes the parameters that it knows, and rejects the rest.
pub(in crate::langgraph) struct Query(BTreeMap<String, Vec<String>>);

impl<S: Send + Sync> FromRequestParts<S> for Query {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let Params(pairs) = Params::from_request_parts(parts, state).await?;
        Ok(Self::new(pairs))
    }
}

impl Query {
    /// Returns the query parameters of a URI.
    pub(in crate::langgraph) fn of_uri(uri: &Uri) -> ApiResult<Self> {
        let invalid = |error: QueryRejection| ApiError::invalid(error.body_text());
        let axum::extract::Query(pairs) =
            axum::extract::Query::try_from_uri(uri).map_err(invalid)?;
        Ok(Self::new(pairs))
    }

    fn new(pairs: Vec<(String, String)>) -> Self {
        let mut query = BTreeMap::<_, Vec<_>>::new();
        for (name, value) in pairs {
            let values = query.entry(name).or_default();
            match serde_json::from_str(&value) {
                Ok(Value::Array(items)) => values.extend(items.into_iter().map(|it| match it {
                    Value::String(text) => text,
                    other => other.to_string(),
                })),
                _ if !value.is_empty() => values.push(value),
                _ => {}
            }
        }
        Self(query)
    }

    /// Removes a parameter and returns its values.
    pub(in crate::langgraph) fn take_list(&mut self, name: &str) -> Vec<String> {
        self.0.remove(name).unwrap_or_default()
    }

    /// Removes a parameter that may occur once, and returns its value.
    pub(in crate::langgraph) fn take_text(&mut self, name: &str) -> ApiResult<Option<String>> {
        let mut values = self.take_list(name);
        match values.len() {
            0 | 1 => Ok(values.pop()),
            _ => Err(ApiError::invalid(format!(
                "the query parameter `{name}` occurs several times; send it once"
            ))),
        }
    }

    /// Removes a flag and returns its value. A missing flag is false.
    pub(in crate::langgraph) fn take_flag(&mut self, name: &str) -> ApiResult<bool> {
        match self.take_text(name)?.map(|it| it.to_ascii_lowercase()).as_deref() {
            None | Some("false" | "0") => Ok(false),
            Some("true" | "1") => Ok(true),
            Some(value) => Err(ApiError::invalid(format!(
                "the query parameter `{name}` is `{value}`; it must be `true` or `false`"
            ))),
        }
    }

    /// Removes a number and returns it.
    pub(in crate::langgraph) fn take_number(&mut self, name: &str) -> ApiResult<Option<usize>> {
        let Some(value) = self.take_text(name)? else { return Ok(None) };
        value.parse().map(Some).map_err(|_| {
            ApiError::invalid(format!(
                "the query parameter `{name}` is `{value}`; it must be a non-negative integer"
            ))
        })
    }

    /// Removes a parameter whose value belongs to an enumeration, and returns the value.
    pub(in crate::langgraph) fn take_choice<T: DeserializeOwned>(
        &mut self,
        name: &str,
    ) -> ApiResult<Option<T>> {
        let invalid =
            |error| ApiError::invalid(format!("invalid query parameter `{name}`: {error}"));
        let value = self.take_text(name)?;
        value.map(|it| serde_json::from_value(Value::String(it)).map_err(invalid)).transpose()
    }

    /// Fails if the request has parameters that the handler did not remove.
    pub(in crate::langgraph) fn finish(self) -> ApiResult<()> {
        match self.0.into_keys().next() {
            None => Ok(()),
            Some(name) => Err(ApiError::invalid(format!("unknown query parameter `{name}`"))),
        }
    }
}
