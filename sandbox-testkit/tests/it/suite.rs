//! Runs the conformance suite on the back ends that this machine supports.

use std::{fs, os::unix::fs::PermissionsExt};

use sandbox_testkit::Outcome;
use sandbox_vm::backend::{Backend, Gvisor, InProcess, Jail};

use crate::HOSTILE;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jail_passes_suite() {
    let report = sandbox_testkit::run(HOSTILE, || Jail::program(HOSTILE)).await;
    eprintln!("jail: {report}");
    report.assert();
    // Check that few checks were skipped. A root user's jail provides every guarantee that a check needs, except
    // snapshots. An unprivileged user's jail may also lack the guarantees that need control groups.
    let floor = if rustix::process::geteuid().is_root() { 50 } else { 44 };
    assert!(report.passed() > floor, "{report}");
    // A jail filters system calls for every user, so the check of the kernel's memory must not be skipped.
    let kernel_memory = report.outcomes.iter().find(|it| it.0.starts_with("limits: kernel"));
    assert_eq!(kernel_memory.map(|it| &it.1), Some(&Outcome::Passed), "{report}");
}

/// Environment variable that makes the tests fail, instead of being skipped, if gVisor cannot be used.
const REQUIRE_GVISOR: &str = "GRAPH_REQUIRE_GVISOR";

/// Returns the back end, or `None` if the test must be skipped because gVisor is neither installed nor required.
pub(crate) async fn gvisor() -> Option<Gvisor> {
    let gvisor = Gvisor::program(HOSTILE);
    let report = gvisor.probe().await;
    if report.is_available() {
        return Some(gvisor);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_installed = std::env::split_paths(&path).any(|it| it.join("runsc").is_file());
    assert!(!is_installed && std::env::var_os(REQUIRE_GVISOR).is_none(), "{report}");
    test_support::report_skipped(&format!("tests in gVisor; {report}"));
    None
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gvisor_passes_suite() {
    let Some(gvisor) = gvisor().await else { return };
    let report = sandbox_testkit::run(HOSTILE, || gvisor.clone()).await;
    eprintln!("gvisor: {report}");
    report.assert();
    assert!(report.passed() > 35, "{report}");
}

#[test]
fn broken_gvisor_installation_fails_tests() {
    let dir = tempfile::tempdir().unwrap();
    let passes = || {
        let mut test = std::process::Command::new(std::env::current_exe().unwrap());
        test.args(["suite::gvisor_passes_suite", "--exact"]).env("PATH", dir.path());
        test.env_remove(REQUIRE_GVISOR).output().unwrap().status.success()
    };
    assert!(passes(), "tests must be skipped if gVisor is not installed");
    let runsc = dir.path().join("runsc");
    fs::write(&runsc, "#!/bin/sh\nexit 1\n").unwrap();
    fs::set_permissions(&runsc, fs::Permissions::from_mode(0o755)).unwrap();
    assert!(!passes());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_process_passes_supported_checks() {
    let report = sandbox_testkit::run(HOSTILE, || InProcess::new(sandbox_testkit::agent)).await;
    eprintln!("in-process: {report}");
    report.assert();
}

#[test]
fn jail_passes_suite_as_unprivileged_user() {
    check_was_isolated(&as_nobody("suite::jail_passes_suite"));
}

#[test]
fn gvisor_passes_suite_as_unprivileged_user() {
    check_was_isolated(&as_nobody("suite::gvisor_passes_suite"));
}

/// Checks, in the output of a suite, that the guests were isolated. Without isolation, the suite would pass too, but it
/// would skip most checks and list `the guest has no network` among the missing guarantees.
#[track_caller]
pub(crate) fn check_was_isolated(text: &str) {
    let checked = text.contains("checks passed") && !text.contains("has no network");
    assert!(checked || text.contains("SKIPPED"), "{text}");
}

/// If this process runs as root, reruns one of this program's tests as user `nobody`, and returns its error output.
#[track_caller]
pub(crate) fn as_nobody(test: &str) -> String {
    use std::os::unix::{fs::chown, process::CommandExt};
    if !rustix::process::geteuid().is_root() {
        return "SKIPPED: the test itself has already run as an unprivileged user".to_owned();
    }
    let nobody = 65_534;
    let dir = tempfile::tempdir().unwrap();
    chown(dir.path(), Some(nobody), Some(nobody)).unwrap();
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture"])
        .env("TMPDIR", dir.path())
        .env_remove("XDG_RUNTIME_DIR")
        .current_dir(dir.path())
        .uid(nobody)
        .gid(nobody)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{text}");
    text
}
