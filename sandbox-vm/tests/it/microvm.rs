//! The suite in micro VMs, and what only they can show.
//!
//! `cargo xtask guest-image` builds the agent and the images that these tests need, and `cargo xtask test` calls it.

use std::{
    env, fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use rustix::process::Pid;
use sandbox_vm::{Pool, Spec, backend::MicroVm, berth::Leftover, testkit};

use crate::{pool::until, sandboxes};

/// Lets the tests fail, and not skip, where there is nothing to start.
const REQUIRE: &str = "GRAPH_REQUIRE_MICROVM";

/// Names, by a part of their names, the checks to run: all of them take minutes where VMs are emulated.
const CHECKS: &str = "SANDBOX_VM_CHECKS";

/// The suite's program as a VM's agent: linked without libraries, in the folder that cargo builds into.
pub(crate) fn agent() -> Option<PathBuf> {
    let program = env::current_exe().unwrap();
    let folders = program.ancestors().map(|it| it.join("x86_64-unknown-linux-gnu/release"));
    let mut agents = folders.map(|it| it.join("sandbox-vm-hostile"));
    agents.find(|it| it.is_file())
}

/// The back end, or `None` where the test is to be skipped.
pub(crate) fn micro_vm() -> Option<MicroVm> {
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
    let wanted = env::var(CHECKS).unwrap_or_default();
    let checks = testkit::checks().filter(|it| it.name().contains(&wanted));
    let report = testkit::run_some(super::HOSTILE, || vm.clone(), checks).await;
    eprintln!("microvm: {report}");
    report.assert();
    assert!(report.passed() > 40 || !wanted.is_empty(), "{report}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_starts_all_but_the_first_from_a_snapshot() {
    let Some(vm) = micro_vm() else { return };
    let (sandboxes, folder) = sandboxes(vm).await;
    let state = folder.path().join("state");
    let pool = Pool::of(sandboxes.clone(), Spec::new("pooled")).size(1).open();
    for from_snapshot in [false, true, true] {
        until(|| pool.metrics().ready == 1).await;
        let machine = machines(&state)[0];
        let line = fs::read_to_string(format!("/proc/{machine}/cmdline")).unwrap();
        assert_eq!(line.contains("-incoming"), from_snapshot, "{line}");
        let sandbox = pool.acquire().await.unwrap();
        assert!(sandbox.fs().list("").await.unwrap().is_empty());
        sandbox.fs().write("secret", "of this user").await.unwrap();
        sandbox.delete().await;
    }
    assert_eq!(pool.metrics().cold, 0);
    drop(pool);
    sandboxes.delete_all().await;
    // The snapshot goes with the pool.
    until(|| fs::read_dir(&state).unwrap().count() == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_that_was_changed_is_refused() {
    let Some(vm) = micro_vm() else { return };
    let (sandboxes, folder) = sandboxes(vm).await;
    let sandbox = sandboxes.create_if_not_exists(Spec::new("kept")).await.unwrap();
    let kept = folder.path().join("kept");
    let snapshot = sandbox.snapshot(&kept).await.unwrap();
    sandbox.delete().await;
    let refused = async |words: &str| {
        let outcome = sandboxes.restore(Spec::new("copy"), snapshot.clone()).await;
        let error = outcome.unwrap_err().to_string();
        assert!(error.contains(words) && error.ends_with("make a new one"), "{error}");
    };
    let list = kept.join("machine.json");
    let true_list = fs::read_to_string(&list).unwrap();
    let mut other: serde_json::Value = serde_json::from_str(&true_list).unwrap();
    other["by"] = "QEMU 1.0".into();
    fs::write(&list, other.to_string()).unwrap();
    refused("it was made by QEMU 1.0, and here is").await;

    fs::write(&list, true_list).unwrap();
    fs::set_permissions(&kept, fs::Permissions::from_mode(0o777)).unwrap();
    refused("nobody else can write to").await;
    fs::set_permissions(&kept, fs::Permissions::from_mode(0o700)).unwrap();
    let state = fs::File::options().write(true).open(kept.join("state")).unwrap();
    state.set_len(state.metadata().unwrap().len() - 1).unwrap();
    refused("another length").await;
    fs::remove_file(list).unwrap();
    refused("No such file").await;
    assert!(sandboxes.list().is_empty());
}

/// The processes of the VMs whose berths are in the folder.
pub(crate) fn machines(state: &Path) -> Vec<Pid> {
    let berths = fs::read_dir(state).unwrap().map(|it| it.unwrap().path());
    let lists = berths.map(|it| fs::read_to_string(it.join("leftovers")).unwrap());
    let leftovers: Vec<Leftover> = lists
        .flat_map(|it| it.lines().map(|it| serde_json::from_str(it).unwrap()).collect::<Vec<_>>())
        .collect();
    let pid = |it: &Leftover| match it {
        Leftover::Process { pid, .. } => Pid::from_raw(i32::try_from(*pid).unwrap()),
        _ => None,
    };
    leftovers.iter().filter_map(pid).collect()
}
