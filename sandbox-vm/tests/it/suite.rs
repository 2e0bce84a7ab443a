//! The suite on every back end of this machine.

use std::{fs, os::unix::fs::PermissionsExt};

use sandbox_vm::{
    backend::{Backend, Gvisor, InProcess, Jail},
    testkit,
};

use crate::HOSTILE;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jail_passes_suite() {
    let report = testkit::run(HOSTILE, || Jail::program(HOSTILE)).await;
    eprintln!("jail: {report}");
    report.assert();
    // Root has all that a jail can have, and leaves out snapshots alone; an ordinary user may have no control groups.
    let floor = if rustix::process::geteuid().is_root() { 45 } else { 40 };
    assert!(report.passed() > floor, "{report}");
}

/// Lets the tests of gVisor fail, and not skip, where it cannot be used.
const REQUIRE_GVISOR: &str = "GRAPH_REQUIRE_GVISOR";

/// The back end, or `None` where the test is to be skipped: where gVisor is not installed, and need not be.
pub(crate) async fn gvisor() -> Option<Gvisor> {
    let gvisor = Gvisor::program(HOSTILE);
    let report = gvisor.probe().await;
    if report.is_available() {
        return Some(gvisor);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_installed = std::env::split_paths(&path).any(|it| it.join("runsc").is_file());
    assert!(!is_installed && std::env::var_os(REQUIRE_GVISOR).is_none(), "{report}");
    crate::report_skipped(&format!("tests in gVisor; {report}"));
    None
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gvisor_passes_suite() {
    let Some(gvisor) = gvisor().await else { return };
    let report = testkit::run(HOSTILE, || gvisor.clone()).await;
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
    assert!(passes(), "where it is not installed they are skipped");
    let runsc = dir.path().join("runsc");
    fs::write(&runsc, "#!/bin/sh\nexit 1\n").unwrap();
    fs::set_permissions(&runsc, fs::Permissions::from_mode(0o755)).unwrap();
    assert!(!passes());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_process_passes_supported_checks() {
    let report = testkit::run(HOSTILE, || InProcess::new(testkit::agent)).await;
    eprintln!("in-process: {report}");
    report.assert();
}

#[test]
fn jail_passes_suite_as_unprivileged_user() {
    as_nobody("suite::jail_passes_suite");
}

#[test]
fn gvisor_passes_suite_as_unprivileged_user() {
    as_nobody("suite::gvisor_passes_suite");
}

/// Root starts this test program once more as nobody, who runs one test of the suite.
#[track_caller]
fn as_nobody(test: &str) {
    use std::os::unix::{fs::chown, process::CommandExt};
    if !rustix::process::geteuid().is_root() {
        // Then the test itself was run by an ordinary user already.
        return;
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
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    // Not isolated would pass too, with almost nothing checked.
    let checked = text.contains("checks passed") && !text.contains("has no network");
    assert!(checked || text.contains("SKIPPED"), "{text}");
}
