//! `cargo xtask book`: renders the book with mdBook.

use std::path::Path;

use crate::{error::Error, peers, plan::Plan, step::Step};

/// Directory of mdBook. Only the renderer and the search are needed, not the server.
const MDBOOK: &str = "mdbook-0.5.4";

/// Script that installs mdBook unless it is installed, renders the book and fails if mdBook prints a warning.
///
/// A build without optimisation takes a fraction of the time and renders the book within a second.
const BUILD: &str = "\
mdbook=\"$1/bin/mdbook\"
if [ ! -x \"$mdbook\" ]; then
    cargo install mdbook@0.5.4 --locked --debug --no-default-features --features search \\
        --root \"$1\" --target-dir \"$1/target\"
    rm -r \"$1/target\"
fi
log=$(\"$mdbook\" build book --dest-dir \"$2\" 2>&1) || { printf '%s\\n' \"$log\"; exit 1; }
printf '%s\\n' \"$log\"
case $log in *WARN*|*ERROR*) exit 1 ;; esac";

/// Renders the book into the directory of the API documentation, so that the documentation can link to it.
pub(crate) fn run(root: &Path) -> Result<(), Error> {
    let html = peers::target_dir().join("doc/book");
    let paths = [peers::dir().join(MDBOOK), html.clone()].map(|it| it.display().to_string());
    let build =
        Step::new("book", "sh", "-euc").args([BUILD.to_owned(), "book".to_owned()]).args(paths);
    Plan::sequence([build]).run(root)?;
    println!("\n{}", html.join("index.html").display());
    Ok(())
}
