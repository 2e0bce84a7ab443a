//! The routes of the API.

mod assistant_admin;
mod assistant_search;
mod assistants;
mod crons;
mod protocol;
mod rpc;
mod run_control;
mod run_response;
mod runs;
mod state;
mod stateless;
mod store;
mod system;
mod thread_search;
mod thread_stream;
mod threads;
mod ui;

pub(super) use self::crons::start_timer;

use std::sync::Arc;

use axum::Router;

use super::manager::Manager;

/// Returns the routes that need no credentials.
pub(super) fn open_routes(manager: Arc<Manager>) -> Router {
    system::open_routes().with_state(manager)
}

/// Returns the routes of the API.
pub(super) fn routes(manager: Arc<Manager>) -> Router {
    Router::new()
        .merge(assistants::routes())
        .merge(assistant_admin::routes())
        .merge(assistant_search::routes())
        .merge(threads::routes())
        .merge(thread_search::routes())
        .merge(thread_stream::routes())
        .merge(state::routes())
        .merge(runs::routes())
        .merge(run_control::routes())
        .merge(stateless::routes())
        .merge(store::routes())
        .merge(protocol::routes())
        .merge(crons::routes())
        .merge(rpc::routes())
        .merge(ui::routes())
        .merge(system::routes())
        .with_state(manager)
}
