//! The suite on every back end of this machine.

use sandbox_vm::{
    backend::{InProcess, Jail},
    testkit,
};

use crate::HOSTILE;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_jail_passes() {
    let report = testkit::run(HOSTILE, || Jail::program(HOSTILE)).await;
    eprintln!("jail: {report}");
    report.assert();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_host_process_passes_what_it_can() {
    let report = testkit::run(HOSTILE, || InProcess::new(testkit::agent)).await;
    eprintln!("in-process: {report}");
    report.assert();
}

/// Root starts this test program once more as nobody, who runs the jail's part of the suite.
#[test]
fn the_jail_passes_for_an_ordinary_user() {
    use std::os::unix::{fs::chown, process::CommandExt};
    if !rustix::process::geteuid().is_root() {
        // Then `the_jail_passes` was run by an ordinary user already.
        return;
    }
    let nobody = 65_534;
    let folder = tempfile::tempdir().unwrap();
    chown(folder.path(), Some(nobody), Some(nobody)).unwrap();
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["suite::the_jail_passes", "--exact", "--nocapture"])
        .env("TMPDIR", folder.path())
        .env_remove("XDG_RUNTIME_DIR")
        .current_dir(folder.path())
        .uid(nobody)
        .gid(nobody)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    // Not isolated would pass too, with almost nothing checked.
    assert!(text.contains("checks passed") && !text.contains("has no network"), "{text}");
}
