//! Health, version, metrics and documentation of the server.

use std::sync::Arc;

use axum::{
    Json, Router,
    extract::State,
    http::{HeaderValue, header},
    response::{IntoResponse, Response},
    routing::get,
};
use serde_json::{Value, json};

use crate::langgraph::{
    access::Access,
    error::{ApiError, ApiResult},
    manager::Manager,
    openapi::document,
    records::{Run, RunStatus},
    request::query::Query,
};

/// Returns the routes that need no credentials.
pub(super) fn open_routes() -> Router<Arc<Manager>> {
    Router::new()
        .route("/ok", get(ok))
        .route("/info", get(info))
        .route("/openapi.json", get(async || Json(document())))
        .route("/docs", get(async || page("text/html", include_str!("../docs/index.html"))))
        .route(
            "/docs/docs.js",
            get(async || page("text/javascript", include_str!("../docs/docs.js"))),
        )
}

pub(super) fn routes() -> Router<Arc<Manager>> {
    Router::new().route("/metrics", get(metrics))
}

/// Reports that the server runs. With `check_db=1`, also reads from the database.
async fn ok(State(manager): State<Arc<Manager>>, mut query: Query) -> ApiResult<Json<Value>> {
    let check_db = query.take_flag("check_db")?;
    query.finish()?;
    if check_db {
        manager.database.count_by_status::<Run>().await?;
    }
    Ok(Json(json!({ "ok": true })))
}

async fn info() -> Json<Value> {
    Json(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "engine_version": graph_core::VERSION,
        "flags": { "assistants": true, "crons": true, "langsmith": false },
        "host": { "kind": "self-hosted" },
    }))
}

async fn metrics(Access(manager): Access, mut query: Query) -> ApiResult<Response> {
    let format = query.take_text("format")?;
    query.finish()?;
    if let Some(format) = format.filter(|it| it != "prometheus") {
        let detail = format!("unknown metrics format `{format}`; the only format is `prometheus`");
        return Err(ApiError::invalid(detail));
    }
    let counts = manager.database.count_by_status::<Run>().await?;
    for status in RunStatus::ALL {
        let count = counts.iter().find(|it| it.0 == status.name()).map_or(0, |it| it.1);
        manager.metrics.set_runs(status.name(), count);
    }
    Ok(manager.metrics.render_prometheus()?)
}

/// Responds with a file of the documentation page. The page loads nothing from other servers.
fn page(kind: &'static str, text: &'static str) -> Response {
    let policy =
        "default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; connect-src 'self'";
    let headers = [(header::CONTENT_TYPE, kind), (header::CONTENT_SECURITY_POLICY, policy)];
    (headers.map(|(name, value)| (name, HeaderValue::from_static(value))), text).into_response()
}
