//! The web page, embedded in the program.

use graph_server::http::Asset;
use rust_embed::RustEmbed;

#[derive(RustEmbed)]
#[folder = "page"]
struct Dist;

/// Returns a file of the web page.
pub(super) fn file(name: &str) -> Option<Asset> {
    Dist::get(name).map(|it| it.data)
}
