//! Checks that the library crates can be published. Covers the package contents and the minimum supported Rust
//! version.

use crate::{
    plan::{Depth, Skipped},
    step::{Step, output_of, succeeds},
};

/// The crates that are published, in dependency order.
const LIBRARIES: [&str; 9] = [
    "graph-macros", "graph-core", "checkpoint-testkit", "graph-trace", "graph-store", "llm",
    "graph-agents", "sandbox-vm", "graph-server",
];

/// The crates whose minimum supported Rust version is lower than that of the workspace.
const CORE: [&str; 3] = ["graph-macros", "graph-core", "graph-trace"];
/// Minimum supported Rust version of the crates in [`CORE`].
const MINIMUM_RUST: &str = "1.85";

/// Returns the step that packages the library crates. In the nightly run, it also builds each package from its
/// archive.
pub(crate) fn package(depth: Depth) -> Step {
    let verify = match depth {
        Depth::Usual => " --no-verify",
        Depth::Nightly => "",
    };
    Step::cargo("packages", &format!("package --allow-dirty{verify} {}", select(&LIBRARIES)))
}

/// Returns the step that checks the core crates with the minimum Rust version in their manifests.
pub(crate) fn minimum_rust() -> Step {
    Step::cargo("minimum Rust version", &format!("hack check --rust-version {}", select(&CORE)))
}

pub(crate) const MINIMUM_RUST_SKIPPED: Skipped = Skipped::new(
    "minimum Rust version",
    "cargo install cargo-hack --locked && rustup toolchain install 1.85 --profile minimal",
);

/// Returns whether cargo-hack and the toolchain for the minimum Rust version are installed.
pub(crate) fn can_check_minimum_rust() -> bool {
    // Does not run any toolchain, because rustup would install a missing one.
    let toolchains = output_of("rustup", &["toolchain", "list"]).unwrap_or_default();
    succeeds("cargo", &["hack", "--version"]) && toolchains.contains(MINIMUM_RUST)
}

fn select(packages: &[&str]) -> String {
    packages.iter().map(|it| format!("-p {it}")).collect::<Vec<_>>().join(" ")
}
