//! The page, which is part of the program.

use graph_server::http::Asset;
use rust_embed::RustEmbed;

#[derive(RustEmbed)]
#[folder = "../web/dist"]
struct Dist;

/// A file of the page.
pub(super) fn file(name: &str) -> Option<Asset> {
    Dist::get(name).map(|it| it.data)
}
