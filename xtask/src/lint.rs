//! `cargo xtask lint`: checks formatting, lints and documentation.

use std::path::Path;

use crate::{
    error::Error,
    step::{Plan, Step, run_all},
};

pub(crate) fn run(root: &Path) -> Result<(), Error> {
    run_all(root, &Plan { steps: vec![format(), clippy(), doc()], skipped: vec![] })
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
