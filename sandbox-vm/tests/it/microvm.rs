//! The suite in micro VMs, and what only they can show.
//!
//! `cargo xtask guest-image` builds the agent and the images that these tests need, and `cargo xtask test` calls it.

use std::{env, path::PathBuf};

use sandbox_vm::{backend::MicroVm, testkit};

/// Lets the tests fail, and not skip, where there is nothing to start.
const REQUIRE: &str = "GRAPH_REQUIRE_MICROVM";

/// The suite's program as a VM's agent: linked without libraries, in the folder that cargo builds into.
fn agent() -> Option<PathBuf> {
    let program = env::current_exe().unwrap();
    let folders = program.ancestors().map(|it| it.join("x86_64-unknown-linux-gnu/release"));
    let mut agents = folders.map(|it| it.join("sandbox-vm-hostile"));
    agents.find(|it| it.is_file())
}

fn micro_vm() -> Option<MicroVm> {
    let found = agent().map(MicroVm::agent);
    if found.is_none() {
        assert!(env::var_os(REQUIRE).is_none(), "no agent for VMs; run `cargo xtask guest-image`");
        eprintln!("SKIPPED: tests of micro VMs; run `cargo xtask guest-image` first");
    }
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_micro_vm_passes() {
    let Some(vm) = micro_vm() else { return };
    let report = testkit::run(super::HOSTILE, || vm.clone()).await;
    eprintln!("microvm: {report}");
    report.assert();
    assert!(report.passed() > 40, "{report}");
}
