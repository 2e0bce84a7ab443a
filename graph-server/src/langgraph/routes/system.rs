//! `/ok` and `/info`.

use axum::{Json, Router, routing::get};
use serde_json::{Value, json};

pub(super) fn routes() -> Router {
    Router::new().route("/ok", get(ok)).route("/info", get(info))
}

async fn ok() -> Json<Value> {
    Json(json!({ "ok": true }))
}

async fn info() -> Json<Value> {
    Json(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "engine_version": graph_core::VERSION,
        "flags": { "assistants": true, "crons": true, "langsmith": false },
        "host": { "kind": "self-hosted" },
    }))
}
