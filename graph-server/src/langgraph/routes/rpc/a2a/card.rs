//! Agent cards, which describe assistants to A2A clients.

use axum::{
    Json,
    extract::OriginalUri,
    http::{HeaderMap, Uri},
};
use serde_json::{Value, json};

use crate::langgraph::{
    access::Access,
    assistants::find_assistant,
    error::{ApiError, ApiResult},
    request::query::Query,
};

/// Path of the agent cards below the path of the API.
pub(super) const CARD_PATH: &str = "/.well-known/agent-card.json";

/// Describes the assistant that the query names.
pub(super) async fn agent_card(
    Access(manager): Access,
    mut query: Query,
    OriginalUri(uri): OriginalUri,
    headers: HeaderMap,
) -> ApiResult<Json<Value>> {
    let id = query.take_text("assistant_id")?;
    query.finish()?;
    let id =
        id.ok_or_else(|| ApiError::invalid("the query parameter `assistant_id` is missing"))?;
    let assistant = find_assistant(&manager.graphs, &manager.database, &id).await?;
    let description = assistant
        .description
        .unwrap_or_else(|| format!("Runs the graph `{}`.", assistant.graph_id));
    Ok(Json(json!({
        "protocolVersion": "0.3.0",
        "name": assistant.name,
        "description": description,
        "url": format!("{}/a2a/{}", api_url(&uri, &headers), assistant.assistant_id),
        "preferredTransport": "JSONRPC",
        "version": assistant.version.to_string(),
        "capabilities": {
            "streaming": true,
            "pushNotifications": false,
            "stateTransitionHistory": false,
        },
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain"],
        "skills": [{
            "id": assistant.graph_id,
            "name": assistant.name,
            "description": description,
            "tags": ["graph"],
        }],
    })))
}

/// Returns the URL of the API as the client sees it. A proxy that terminates TLS, or that removes a prefix from the
/// path, reports this with headers.
fn api_url(card: &Uri, headers: &HeaderMap) -> String {
    let header = |name: &str| headers.get(name).and_then(|it| it.to_str().ok());
    let host = header("host").unwrap_or("localhost");
    let scheme = match header("x-forwarded-proto") {
        Some(scheme) if scheme.eq_ignore_ascii_case("https") => "https",
        _ => "http",
    };
    let removed = header("x-forwarded-prefix").map(|it| it.trim_end_matches('/'));
    let removed = removed.filter(|it| is_absolute_path(it)).unwrap_or_default();
    // Path below which the application has nested the API.
    let nested = card.path().strip_suffix(CARD_PATH).unwrap_or_default();
    format!("{scheme}://{host}{removed}{nested}")
}

fn is_absolute_path(text: &str) -> bool {
    let is_allowed = |it: u8| it.is_ascii_alphanumeric() || b"/-._~%".contains(&it);
    text.starts_with('/') && !text.starts_with("//") && text.bytes().all(is_allowed)
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn url(path: &'static str, prefix: &'static str) -> String {
        let mut headers = HeaderMap::new();
        headers.insert("host", HeaderValue::from_static("graphs.example.org"));
        headers.insert("x-forwarded-prefix", HeaderValue::from_static(prefix));
        api_url(&Uri::from_static(path), &headers)
    }

    #[test]
    fn url_contains_the_prefixes_of_the_application_and_of_a_proxy() {
        let card = "/.well-known/agent-card.json?assistant_id=chat";
        assert_eq!(url(card, ""), "http://graphs.example.org");
        assert_eq!(url(card, "/team"), "http://graphs.example.org/team");
        let nested = "/langgraph/.well-known/agent-card.json";
        assert_eq!(url(nested, ""), "http://graphs.example.org/langgraph");
        assert_eq!(url(nested, "/team/a/"), "http://graphs.example.org/team/a/langgraph");
    }

    #[test]
    fn prefixes_that_are_not_paths_are_ignored() {
        for prefix in ["team", "@evil.example", "//evil.example", "/a b", "/a?b", "/a, /b"] {
            let url = url("/.well-known/agent-card.json", prefix);
            assert_eq!(url, "http://graphs.example.org", "{prefix}");
        }
    }
}
