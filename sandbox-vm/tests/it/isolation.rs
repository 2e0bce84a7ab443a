//! How much isolation is wanted, on a machine that has none; and what a jail's root is made of.

use std::{env, process::Command};

use sandbox_vm::{
    Error, Image, Isolation, Program, Sandboxes, Spec,
    backend::{InProcess, Jail},
    testkit,
};

use crate::{HOSTILE, sandboxes};

#[tokio::test]
async fn where_it_is_required_and_nothing_isolates_no_sandbox_is_made() {
    let state = tempfile::tempdir().unwrap();
    let opening = || {
        let backend = InProcess::new(testkit::agent);
        Sandboxes::new().backend(backend).state_folder(state.path().join("state"))
    };
    // It is required unless something else is said.
    for refused in [opening().open().await, opening().isolation(Isolation::Required).open().await] {
        let error = refused.unwrap_err();
        assert!(matches!(error, Error::NoIsolation(_)), "{error}");
        assert!(error.to_string().contains("in-process: does not isolate"), "{error}");
    }
    let sandboxes = opening().isolation(Isolation::Preferred).open().await.unwrap();
    let sandbox = sandboxes.create_if_not_exists(Spec::new("open")).await.unwrap();
    let output = sandbox.exec(Program::new("true")).await.unwrap();
    assert!(!sandboxes.isolated() && !sandbox.isolated() && !output.isolated);
    sandbox.delete().await;
}

/// Set where the test below runs once more, with a mount in the image of its jail.
const AMONG_MOUNTS: &str = "SANDBOX_VM_AMONG_MOUNTS";

/// A folder that every image has, and the jail's programs do without.
const MOUNTED: &str = "/usr/share";

#[tokio::test]
async fn what_is_mounted_in_the_image_is_as_harmless_as_the_image() {
    if env::var_os(AMONG_MOUNTS).is_some() {
        return check_mounts().await;
    }
    if !rustix::process::geteuid().is_root() {
        crate::skipped("mounts in the image; only root can make one");
        return;
    }
    let script = format!("mount -t tmpfs tmpfs {MOUNTED} && exec \"$0\" \"$@\"");
    let this = env::current_exe().unwrap();
    let name = "isolation::what_is_mounted_in_the_image_is_as_harmless_as_the_image";
    let mut test = Command::new("unshare");
    test.args(["--mount", "sh", "-c", &script]).arg(this).args([name, "--exact"]);
    let output = test.env(AMONG_MOUNTS, "1").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

/// Landlock would hold what is tried here; so the guest says how its mounts are.
async fn check_mounts() {
    let (sandboxes, _folder) = sandboxes(Jail::program(HOSTILE)).await;
    let sandbox = sandboxes.create_if_not_exists(Spec::new("mounts").image(Image::Python)).await;
    let program = Program::new("cat").arg("/proc/self/mountinfo");
    let output = sandbox.unwrap().exec(program).await.unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let mounts: Vec<(&str, &str)> = text
        .lines()
        .filter_map(|it| {
            let mut fields = it.split(' ').skip(4);
            Some((fields.next()?, fields.next()?))
        })
        .filter(|(at, _)| at.starts_with("/usr") || *at == "/agent")
        .collect();
    assert!(mounts.iter().any(|it| it.0 == MOUNTED), "{text}");
    for (at, options) in mounts {
        let has = |it: &str| options.split(',').any(|option| option == it);
        assert!(has("ro") && has("nosuid") && has("nodev"), "{at} is {options}");
    }
}
