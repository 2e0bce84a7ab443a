//! `cargo xtask guest-image`: builds what a micro VM starts.
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
    run_all(root, &Plan { steps: steps().into(), left_out: vec![] })
}

pub(crate) fn steps() -> [Step; 2] {
    let target = "--release --features testkit --target x86_64-unknown-linux-gnu";
    let agents = Step::cargo("agents for VMs", &format!("build -p sandbox-vm --bins {target}"));
    let images = format!("run -q -p sandbox-vm --bin sandbox-vm {target} -- image build");
    let images = Step::cargo("kernel and images for VMs", &images).args([folder()]);
    [agents, images].map(|it| it.env(STATIC.0, STATIC.1))
}

/// Where a program of this checkout finds the images: beside the folder that cargo puts it in.
fn folder() -> String {
    // We are `target/debug/xtask`.
    let program = env::current_exe().unwrap_or_default();
    let target = program.ancestors().nth(2).unwrap_or(Path::new("target"));
    target.join("guest-image").display().to_string()
}
