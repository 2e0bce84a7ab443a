//! `cargo xtask guest-image`: builds what a VM starts.
//!
//! That is agents that are linked without libraries, and the kernel and the images, which the agent's own program
//! builds from Debian's packages: `sandbox-vm image build` does the same where there is no checkout.

use std::{env, path::Path};

use crate::{
    error::Error,
    step::{Plan, Step, run_all},
};

/// Links everything in: a guest has no libraries.
const STATIC: (&str, &str) = ("RUSTFLAGS", "-C target-feature=+crt-static");

pub(crate) fn run(root: &Path) -> Result<(), Error> {
    run_all(root, &Plan { steps: vec![agents(), images()], left_out: vec![] })
}

const TARGET: &str = "--release --features testkit --target x86_64-unknown-linux-gnu";

/// Builds the agents, which are all that a VM without a kernel needs.
pub(crate) fn agents() -> Step {
    let build = format!("build -p sandbox-vm --bins {TARGET}");
    Step::cargo("agents for VMs", &build).env(STATIC.0, STATIC.1)
}

/// Builds the kernel and the images, by an agent.
pub(crate) fn images() -> Step {
    let build = format!("run -q -p sandbox-vm --bin sandbox-vm {TARGET} -- image build");
    let step = Step::cargo("kernel and images for VMs", &build).env(STATIC.0, STATIC.1);
    step.args([folder()])
}

/// Where a program of this checkout finds the images: beside the folder that cargo puts it in.
fn folder() -> String {
    // We are `target/debug/xtask`.
    let program = env::current_exe().unwrap_or_default();
    let target = program.ancestors().nth(2).unwrap_or(Path::new("target"));
    target.join("guest-image").display().to_string()
}
