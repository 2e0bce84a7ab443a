//! Searches: filters, order, pages and the selection of fields.

use axum::{
    Json,
    http::HeaderValue,
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::langgraph::{
    error::{ApiError, ApiResult},
    storage::Search,
};

/// Largest number of objects on a page.
const MAX_LIMIT: usize = 1000;
/// Largest number of objects that a page can skip.
const MAX_OFFSET: usize = 1_000_000;
/// Number of objects on a page if the client does not choose one.
const DEFAULT_LIMIT: usize = 10;

/// The order of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(in crate::langgraph) enum SortOrder {
    Asc,
    #[default]
    Desc,
}

/// A page of a search.
#[derive(Debug, Clone, Copy)]
pub(in crate::langgraph) struct Page {
    limit: usize,
    offset: usize,
}

impl Page {
    /// Creates a page. Fails if the limit is not between 1 and 1000, or if the offset is too large.
    pub(in crate::langgraph) fn new(
        limit: Option<usize>,
        offset: Option<usize>,
    ) -> ApiResult<Self> {
        let limit = limit.unwrap_or(DEFAULT_LIMIT);
        if !(1..=MAX_LIMIT).contains(&limit) {
            let detail = format!("`limit` is {limit}; it must be between 1 and {MAX_LIMIT}");
            return Err(ApiError::invalid(detail));
        }
        Ok(Self { limit, offset: check_offset(offset)? })
    }

    /// Returns a page without objects, for a search that only counts.
    pub(in crate::langgraph) fn empty() -> Self {
        Self { limit: 0, offset: 0 }
    }

    /// Returns a search without conditions for the objects on the page.
    pub(in crate::langgraph) fn search(self, sort_by: &str, order: SortOrder) -> Search<'_> {
        let descending = order == SortOrder::Desc;
        Search { sort_by, descending, limit: self.limit, offset: self.offset, ..Search::default() }
    }

    /// Returns the largest number of objects on the page.
    pub(in crate::langgraph) fn limit(&self) -> usize {
        self.limit
    }

    /// Returns the objects on the page.
    pub(in crate::langgraph) fn of<T>(&self, all: Vec<T>) -> Vec<T> {
        all.into_iter().skip(self.offset).take(self.limit).collect()
    }

    /// Responds with the objects on the page, the total number of objects, and the offset of the next page.
    pub(in crate::langgraph) fn respond(&self, objects: &[Value], total: usize) -> Response {
        let next = self.offset.saturating_add(self.limit);
        let mut response = Json(objects).into_response();
        let headers = response.headers_mut();
        headers.insert("x-pagination-total", HeaderValue::from(total));
        if next < total {
            headers.insert("x-pagination-next", HeaderValue::from(next));
        }
        response
    }
}

/// Returns the number of objects to skip. Fails if it is too large.
pub(in crate::langgraph) fn check_offset(offset: Option<usize>) -> ApiResult<usize> {
    match offset.unwrap_or(0) {
        offset if offset > MAX_OFFSET => {
            let detail = format!("`offset` is {offset}; it must be at most {MAX_OFFSET}");
            Err(ApiError::invalid(detail))
        }
        offset => Ok(offset),
    }
}

/// Fails if one of the selected fields is unknown.
pub(in crate::langgraph) fn check_fields(fields: &[String], known: &[&str]) -> ApiResult<()> {
    match fields.iter().find(|it| !known.contains(&it.as_str())) {
        Some(unknown) => {
            let known = known.join(", ");
            Err(ApiError::invalid(format!("cannot select `{unknown}`; the fields are {known}")))
        }
        None => Ok(()),
    }
}

/// Returns the field by which a client sorts objects, or the default. Fails if the field is not one of `known`.
pub(in crate::langgraph) fn sort_field<'a>(
    field: Option<&'a str>,
    known: &[&str],
    default: &'a str,
) -> ApiResult<&'a str> {
    let field = field.unwrap_or(default);
    let invalid = || ApiError::invalid(format!("`sort_by` must be one of {}", known.join(", ")));
    known.contains(&field).then_some(field).ok_or_else(invalid)
}

/// Encodes an object and keeps only the selected fields. An empty selection keeps all fields. Fails if a selected field
/// is unknown.
pub(in crate::langgraph) fn select(
    object: &impl Serialize,
    fields: &[String],
    known: &[&str],
) -> ApiResult<Value> {
    check_fields(fields, known)?;
    let mut value = serde_json::to_value(object).map_err(|error| ApiError::internal(&error))?;
    if let (Value::Object(object), false) = (&mut value, fields.is_empty()) {
        object.retain(|key, _| fields.contains(key));
    }
    Ok(value)
}
