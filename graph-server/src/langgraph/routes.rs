//! The routes of the API.

mod assistants;
mod run_response;
mod runs;
mod state;
mod stateless;
mod store;
mod system;
mod threads;

use std::sync::Arc;

use axum::Router;

use super::manager::Manager;

/// Returns the routes that need no API key.
pub(super) fn open_routes() -> Router {
    system::routes()
}

/// Returns the routes of the API.
pub(super) fn routes(manager: Arc<Manager>) -> Router {
    Router::new()
        .merge(assistants::routes())
        .merge(threads::routes())
        .merge(state::routes())
        .merge(runs::routes())
        .merge(stateless::routes())
        .merge(store::routes())
        .with_state(manager)
}
