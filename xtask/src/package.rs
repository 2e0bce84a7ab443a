//! Checks that the library crates can be published: package contents and minimum supported Rust version.

use std::process::Command;

use crate::{
    step::{Skipped, Step},
    test::{Depth, succeeds},
};

/// The crates that are published, in dependency order.
const LIBRARIES: [&str; 7] = [
    "graph-macros",
    "graph-core",
    "graph-trace",
    "graph-store",
    "llm",
    "sandbox-vm",
    "graph-server",
];

/// The crates whose minimum supported Rust version is lower than that of the workspace, and that version.
const CORE: [&str; 3] = ["graph-macros", "graph-core", "graph-trace"];
const MINIMUM_RUST: &str = "1.85";

/// Packages the library crates. The nightly run also builds each package from its archive.
pub(crate) fn package(depth: Depth) -> Step {
    let verify = match depth {
        Depth::Usual => " --no-verify",
        Depth::Nightly => "",
    };
    Step::cargo("packages", &format!("package --allow-dirty{verify} {}", select(&LIBRARIES)))
}

/// Checks the core crates with the minimum Rust version that their manifests state.
pub(crate) fn minimum_rust() -> Step {
    Step::cargo("minimum Rust version", &format!("hack check --rust-version {}", select(&CORE)))
}

pub(crate) const MINIMUM_RUST_SKIPPED: Skipped = Skipped::new(
    "minimum Rust version",
    "cargo install cargo-hack --locked && rustup toolchain install 1.85 --profile minimal",
);

/// Returns whether cargo-hack and the toolchain of the minimum Rust version are installed.
pub(crate) fn can_check_minimum_rust() -> bool {
    succeeds(&["hack", "--version"]) && installed_toolchains().contains(MINIMUM_RUST)
}

/// Lists the toolchains without running one, because rustup would install a missing toolchain.
fn installed_toolchains() -> String {
    let output = Command::new("rustup").args(["toolchain", "list"]).output();
    output.map(|it| String::from_utf8_lossy(&it.stdout).into_owned()).unwrap_or_default()
}

fn select(packages: &[&str]) -> String {
    packages.iter().map(|it| format!("-p {it}")).collect::<Vec<_>>().join(" ")
}
