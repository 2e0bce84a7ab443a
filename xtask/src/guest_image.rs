//! `cargo xtask guest-image`: builds the guest agents, the kernel and the images for VMs.
//!
//! Agents are statically linked. `sandbox-vm image build` builds the kernel and the images from Debian packages; that
//! command also works outside a checkout.

use std::path::Path;

use crate::{
    error::Error,
    plan::Plan,
    step::{Step, target_dir},
};

/// Environment variable that enables static linking, which is needed because guests contain no shared libraries.
const STATIC: (&str, &str) = ("RUSTFLAGS", "-C target-feature=+crt-static");

/// Environment variable that reduces optimisation. Agents spend most of their time waiting, so a short build matters
/// more than fast code.
const LITTLE_OPTIMISATION: (&str, &str) = ("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1");

pub(crate) fn run(root: &Path) -> Result<(), Error> {
    Plan::sequence([agents(), images()]).run(root)
}

const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Returns the step that builds the agents. A VM without a guest kernel needs nothing else.
pub(crate) fn agents() -> Step {
    let build =
        format!("build -p sandbox-vm -p sandbox-testkit --bins --release --target {TARGET}");
    let step = Step::cargo("agents for VMs", &build).env(STATIC.0, STATIC.1);
    step.env(LITTLE_OPTIMISATION.0, LITTLE_OPTIMISATION.1)
}

/// Returns the step that builds the kernel and the images. It uses a program that the step [`agents`] builds.
pub(crate) fn images() -> Step {
    let program = format!("{TARGET}/release/sandbox-vm");
    let step = Step::built("kernel and images for VMs", &program, "image build");
    // The directory in which the programs in this checkout look for images.
    step.args([target_dir().join("guest-image").display().to_string()])
}
