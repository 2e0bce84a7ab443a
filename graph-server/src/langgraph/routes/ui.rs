//! Endpoints for user interfaces: AG-UI, and the AI SDK's UI message stream. A request carries the conversation; the
//! response streams the events of one run.

mod ag_ui;
mod ai_sdk;
mod conversation;

use std::sync::Arc;

use axum::Router;

use crate::langgraph::manager::Manager;

pub(super) fn routes() -> Router<Arc<Manager>> {
    Router::new().merge(ag_ui::routes()).merge(ai_sdk::routes())
}
