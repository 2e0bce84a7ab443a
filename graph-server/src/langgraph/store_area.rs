//! The part of the store that a request accesses.

use std::sync::Arc;

use axum::http::{Method, Uri};
use serde_json::{Map, Value};

use super::{error::ApiResult, request::query::Query};

/// The part of the store that a request accesses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum StoreArea {
    /// All namespaces.
    Everything,
    /// The namespaces that start with this label. The client does not see the label: it is added to requests and
    /// removed from responses.
    Below(String),
    /// Only this namespace, which replaces the namespace in the request.
    Namespace(Arc<[String]>),
}

impl StoreArea {
    /// Returns the area of an owner.
    pub(super) fn of_owner(owner: &str) -> Self {
        Self::Below(format!("owner:{}", escape(owner)))
    }

    /// Returns the area of the clients for which an authorizer requires these metadata entries.
    pub(super) fn of_entries(entries: &Map<String, Value>) -> Self {
        let mut entries = Value::Object(entries.clone());
        entries.sort_all_objects();
        Self::Below(format!("where:{}", escape(&entries.to_string())))
    }

    /// Converts the namespace that a request specifies to the namespace in the store.
    pub(super) fn inside(&self, labels: Vec<String>) -> Vec<String> {
        match self {
            Self::Everything => labels,
            Self::Below(label) => std::iter::once(label.clone()).chain(labels).collect(),
            Self::Namespace(namespace) => namespace.to_vec(),
        }
    }

    /// Converts the namespace of an item like [`inside`](Self::inside), but keeps an empty namespace.
    pub(super) fn of_item(&self, labels: Vec<String>) -> Vec<String> {
        match self {
            // The store rejects an empty namespace, so it must not become the namespace of the area.
            Self::Below(_) if labels.is_empty() => labels,
            _ => self.inside(labels),
        }
    }

    /// Converts a namespace in the store to the namespace that the client sees.
    pub(super) fn outside<'a>(&self, labels: Vec<&'a str>) -> Vec<&'a str> {
        labels.into_iter().skip(self.hidden_depth()).collect()
    }

    /// Returns the number of labels that the client does not see.
    pub(super) fn hidden_depth(&self) -> usize {
        usize::from(matches!(self, Self::Below(_)))
    }
}

/// Escapes the dots in a label, because labels must not contain dots.
fn escape(label: &str) -> String {
    label.replace('%', "%25").replace('.', "%2E")
}

/// Returns the namespace that a request to the store specifies: the namespace of an item, or the prefix of a search or
/// a list. Returns an empty namespace if the request specifies none, or an invalid one, which the handler rejects.
pub(super) fn requested_namespace(
    method: &Method,
    uri: &Uri,
    body: &Value,
) -> ApiResult<Vec<String>> {
    if matches!(*method, Method::GET | Method::HEAD) {
        let namespace = Query::of_uri(uri)?.take_text("namespace")?;
        return Ok(namespace.as_deref().map(split).unwrap_or_default());
    }
    // The handlers reject bodies with more than one of these fields.
    let fields = ["namespace", "namespace_prefix", "prefix"];
    let named = fields.iter().map(|it| &body[*it]).find(|it| !it.is_null());
    Ok(named.map(|it| serde_json::from_value(it.clone()).unwrap_or_default()).unwrap_or_default())
}

/// Returns the labels of a namespace in a query parameter.
pub(super) fn split(namespace: &str) -> Vec<String> {
    namespace.split('.').map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_namespace_of_every_request_is_found() {
        let in_body = |body: Value| {
            // The handlers of requests with a body do not read the query.
            let uri = "/store/items?namespace=other".parse().unwrap();
            requested_namespace(&Method::POST, &uri, &body).unwrap()
        };
        let labels = json!(["a", "b"]);
        assert_eq!(in_body(json!({ "namespace": labels })), ["a", "b"]);
        assert_eq!(in_body(json!({ "namespace_prefix": labels, "limit": 1 })), ["a", "b"]);
        assert_eq!(in_body(json!({ "prefix": labels, "suffix": ["c"] })), ["a", "b"]);
        assert!(in_body(Value::Null).is_empty());
        assert!(in_body(json!({ "namespace": "a" })).is_empty());

        let in_query = |query: &str| {
            let uri = format!("/store/items?{query}").parse().unwrap();
            requested_namespace(&Method::GET, &uri, &Value::Null)
        };
        assert_eq!(in_query("namespace=a%2Eb&key=k").unwrap(), ["a", "b"]);
        assert_eq!(in_query("namespace=%5B%22a.b%22%5D").unwrap(), ["a", "b"]);
        assert!(in_query("namespace=a&namespace=b").is_err());
        assert!(in_query("key=k").unwrap().is_empty());
    }

    #[test]
    fn areas_of_different_owners_and_entries_are_different() {
        let entries = |value: Value| StoreArea::of_entries(value.as_object().unwrap());
        let areas = [
            StoreArea::of_owner("a.b"),
            StoreArea::of_owner("a%2Eb"),
            entries(json!({ "owner": "a.b" })),
            entries(json!({ "owner": "a%2Eb" })),
        ];
        for (index, area) in areas.iter().enumerate() {
            assert!(!areas[..index].contains(area), "{area:?}");
            assert!(!area.inside(Vec::new())[0].contains('.'), "{area:?}");
        }
    }
}
