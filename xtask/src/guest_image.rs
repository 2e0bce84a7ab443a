//! `cargo xtask guest-image`: builds the guest agents, the kernel and the images for VMs.
//!
//! Agents are statically linked. `sandbox-vm image build` builds the kernel and the images from Debian packages; that
//! command also works outside a checkout.

use std::{env, path::Path};

use crate::{
    error::Error,
    step::{Plan, Step, run_all},
};

/// Environment variable that enables static linking, which is needed because guests contain no shared libraries.
const STATIC: (&str, &str) = ("RUSTFLAGS", "-C target-feature=+crt-static");

/// Environment variable that reduces optimisation. Agents spend most of their time waiting, so a short build matters
/// more than fast code.
const LITTLE_OPTIMISATION: (&str, &str) = ("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1");

pub(crate) fn run(root: &Path) -> Result<(), Error> {
    run_all(root, &Plan { steps: vec![agents(), images()], skipped: vec![] })
}

const TARGET: &str = "--release --target x86_64-unknown-linux-gnu";

/// Returns the step that builds the agents. A VM without a guest kernel needs nothing else.
pub(crate) fn agents() -> Step {
    let build = format!("build -p sandbox-vm -p sandbox-testkit --bins {TARGET}");
    static_step("agents for VMs", &build)
}

/// Returns the step that builds the kernel and the images.
pub(crate) fn images() -> Step {
    let build = format!("run -q -p sandbox-vm --bin sandbox-vm {TARGET} -- image build");
    static_step("kernel and images for VMs", &build).args([image_dir()])
}

/// Returns a step that builds statically linked programs. All such steps use the same compiler flags, so dependencies
/// that they share are built only once.
fn static_step(name: &'static str, args: &str) -> Step {
    let step = Step::cargo(name, args).env(STATIC.0, STATIC.1);
    step.env(LITTLE_OPTIMISATION.0, LITTLE_OPTIMISATION.1)
}

/// Returns the directory in which the programs in this checkout look for images.
fn image_dir() -> String {
    // This program is `target/debug/xtask`, so its second ancestor is the target directory.
    let program = env::current_exe().unwrap_or_default();
    let target = program.ancestors().nth(2).unwrap_or(Path::new("target"));
    target.join("guest-image").display().to_string()
}
