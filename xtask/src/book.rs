//! `cargo xtask book`: renders the book with mdBook.
//!
//! mdBook is installed into the target directory once, by this command or by `cargo xtask test`; after that, rendering
//! needs no network. It is not a dependency of the workspace, because it enables the feature `preserve_order` of
//! `serde_json`. Cargo would enable this feature for all crates that are built together with mdBook, and the tests
//! would run with a different order of JSON fields than users' programs.

use std::path::Path;

use crate::{error::Error, peers, plan::Plan, step::Step};

/// Script that installs mdBook. Only the renderer and the search are needed, not the server.
///
/// A build without optimisation takes a fraction of the time and renders the book within a second. As its last action,
/// the script renames the directory into place, so that an installation that was interrupted is repeated.
const INSTALL: &str = "\
rm -rf \"$1\" \"$1.new\"
cargo install mdbook@0.5.4 --locked --debug --no-default-features --features search \\
    --root \"$1.new\" --target-dir \"$1.new/target\"
rm -r \"$1.new/target\"
mv \"$1.new\" \"$1\"";

/// Script that renders the book and fails if mdBook prints a warning.
const RENDER: &str = "\
log=$(\"$1/bin/mdbook\" build book --dest-dir \"$2\" 2>&1) || { printf '%s\\n' \"$log\"; exit 1; }
printf '%s\\n' \"$log\"
case $log in *WARN*|*ERROR*) echo 'error: fix the warnings above'; exit 1 ;; esac";

/// Renders the book. Installs mdBook first if it is missing.
pub(crate) fn run(root: &Path) -> Result<(), Error> {
    let install = (!is_installed()).then(install);
    Plan::sequence(install.into_iter().chain([render()])).run(root)?;
    println!("\n{}/index.html", html_dir());
    Ok(())
}

pub(crate) fn is_installed() -> bool {
    peers::dir().join(peers::MDBOOK).join("bin/mdbook").is_file()
}

pub(crate) fn install() -> Step {
    Step::new("mdBook", "sh", "-euc").args([INSTALL.to_owned(), "install".to_owned(), mdbook_dir()])
}

/// Returns the step that renders the book into the directory of the API documentation, so that the documentation can
/// link to it.
pub(crate) fn render() -> Step {
    let args = [RENDER.to_owned(), "render".to_owned(), mdbook_dir(), html_dir()];
    Step::new("book", "sh", "-euc").args(args)
}

fn mdbook_dir() -> String {
    peers::dir().join(peers::MDBOOK).display().to_string()
}

fn html_dir() -> String {
    peers::target_dir().join("doc/book").display().to_string()
}
