//! The files of the page.

use axum::{Router, extract::RawQuery, response::Redirect, routing::get};
use rust_embed::RustEmbed;

use crate::http::{Asset, single_page};

/// The built files of the page. Their source is in the directory `web/studio` of the repository.
#[derive(RustEmbed)]
#[folder = "studio"]
struct Files;

/// Returns the routes of the page, below `/studio`. They contain no data of the server, so they need no API key.
///
/// ```
/// use axum::Router;
/// use graph_server::{
///     http::{Guard, Metrics},
///     studio,
/// };
///
/// // The page is open to everyone. It asks for the key that the locked routes require.
/// let guarded = Guard::new().wrap(studio::routes(), Router::new(), Metrics::default());
/// # let _ = guarded;
/// ```
pub fn routes() -> Router {
    Router::new().nest("/studio", single_page(file)).route("/studio/", get(redirect_to_page))
}

fn file(name: &str) -> Option<Asset> {
    Files::get(name).map(|it| it.data)
}

/// Redirects to the page. Keeps the query, which names the graph and the thread.
async fn redirect_to_page(RawQuery(query): RawQuery) -> Redirect {
    let query = query.map(|it| format!("?{it}")).unwrap_or_default();
    Redirect::permanent(&format!("/studio{query}"))
}
