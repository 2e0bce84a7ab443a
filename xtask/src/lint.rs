//! `cargo xtask lint`: checks formatting, lints and documentation.

use std::path::Path;

use crate::{error::Error, plan::Plan, step::Step};

pub(crate) fn run(root: &Path) -> Result<(), Error> {
    Plan::sequence([format(), clippy(), doc()]).run(root)
}

pub(crate) fn format() -> Step {
    Step::cargo("format", "fmt --all -- --check")
}

pub(crate) fn clippy() -> Step {
    Step::cargo("clippy", "clippy --workspace --all-targets --all-features -- -D warnings")
}

pub(crate) fn doc() -> Step {
    Step::cargo("documentation", "doc --workspace --no-deps --all-features")
        .env("RUSTDOCFLAGS", "-D warnings")
}
