//! Tests of the isolation levels without an isolating back end, and of a jail's namespaces and mounts.

use std::{env, fs, process::Command};

use sandbox_vm::{
    Error, Image, Isolation, Program, Sandboxes, Spec,
    backend::{InProcess, Jail, Workload},
    report::IsolationLevel,
};

use crate::{HOSTILE, sandboxes, suite};

#[tokio::test]
async fn required_isolation_fails_without_isolating_backend() {
    let state = tempfile::tempdir().unwrap();
    let builder = || {
        let backend = InProcess::new(sandbox_testkit::agent);
        Sandboxes::builder().backend(backend).state_dir(state.path().join("state"))
    };
    for isolation in [Isolation::Process, Isolation::Kernel, Isolation::Vm] {
        let error = builder().isolation(isolation).open().await.unwrap_err();
        assert!(
            matches!(error, Error::NoIsolation { required, .. } if required == isolation.minimum())
        );
        assert!(error.to_string().contains("in-process: does not isolate"), "{error}");
    }
    // `Process` is the default.
    let error = builder().open().await.unwrap_err();
    assert!(error.to_string().contains("isolation `process` is required"), "{error}");
    let sandboxes = builder().isolation(Isolation::Preferred).open().await.unwrap();
    let sandbox = sandboxes.create_if_not_exists(Spec::new("open")).await.unwrap();
    let output = sandbox.exec(Program::new("true")).await.unwrap();
    assert!(!sandboxes.isolated() && !sandbox.isolated() && !output.isolated);
    sandbox.delete().await;
}

#[tokio::test]
async fn weaker_back_end_does_not_meet_a_required_level() {
    let state = tempfile::tempdir().unwrap();
    let builder = || {
        let backend = Jail::program(HOSTILE);
        Sandboxes::builder().backend(backend).state_dir(state.path().join("state"))
    };
    for isolation in [Isolation::Kernel, Isolation::Vm] {
        let error = builder().isolation(isolation).open().await.unwrap_err().to_string();
        assert!(error.contains("jail: provides only isolation `process`"), "{error}");
    }
    let sandboxes = builder().isolation(Isolation::Process).open().await.unwrap();
    assert_eq!(sandboxes.level(), IsolationLevel::Process);
}

/// Environment variable that is set when the test below reruns itself without VMs.
const WITHOUT_VMS: &str = "SANDBOX_VM_WITHOUT_VMS";

#[tokio::test]
async fn without_vms_gvisor_is_preferred_to_the_jail() {
    if env::var_os(WITHOUT_VMS).is_some() {
        return check_that_gvisor_is_preferred().await;
    }
    if suite::gvisor().await.is_none() {
        return;
    }
    let has_kvm = fs::File::options().read(true).write(true).open("/dev/kvm").is_ok();
    if has_kvm && !rustix::process::geteuid().is_root() {
        return test_support::report_skipped("only root can hide /dev/kvm");
    }
    let this = env::current_exe().unwrap();
    let mut test = match has_kvm {
        true => {
            // Not even root can open a device on a `nodev` mount.
            let script = "mount --bind /dev/kvm /dev/kvm && mount -o remount,bind,nodev /dev/kvm && exec \"$0\" \"$@\"";
            let mut test = Command::new("unshare");
            test.args(["--mount", "sh", "-c", script]).arg(this);
            test
        }
        false => Command::new(this),
    };
    test.args(["isolation::without_vms_gvisor_is_preferred_to_the_jail", "--exact"]);
    let no_images = tempfile::tempdir().unwrap();
    test.env(WITHOUT_VMS, "1").env("SANDBOX_VM_IMAGES", no_images.path());
    let output = test.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

async fn check_that_gvisor_is_preferred() {
    for workload in [Workload::Graphs, Workload::Programs] {
        let dir = tempfile::tempdir().unwrap();
        let builder = Sandboxes::builder().isolating_backends(HOSTILE, workload);
        let sandboxes = builder.state_dir(dir.path().join("state")).open().await.unwrap();
        assert_eq!(sandboxes.backend(), "gvisor", "{:?}", sandboxes.reports());
        assert_eq!(sandboxes.level(), IsolationLevel::Kernel);
        // The jail works too, so gVisor is not the only choice.
        let mut reports = sandboxes.reports().iter();
        assert!(reports.any(|it| it.backend == "jail" && it.is_available()));
    }
}

/// The suite checks the other namespaces on all back ends, but a container may share these two with the host.
#[tokio::test]
async fn jail_has_its_own_user_and_control_group_namespaces() {
    let (sandboxes, _dir) = sandboxes(Jail::program(HOSTILE)).await;
    let spec = Spec::new("namespaces").image(Image::Python);
    let sandbox = sandboxes.create_if_not_exists(spec).await.unwrap();
    for kind in ["cgroup", "user"] {
        let path = format!("/proc/self/ns/{kind}");
        let of_host = fs::read_link(&path).unwrap();
        let output = sandbox.exec(Program::new("readlink").arg(path)).await.unwrap();
        let of_guest = String::from_utf8(output.stdout).unwrap();
        assert!(of_guest.starts_with(&format!("{kind}:[")), "{kind}: {of_guest:?}");
        assert_ne!(of_guest.trim_end(), of_host.to_str().unwrap());
    }
}

/// Environment variable that is set when the test below reruns itself with a mount inside the jail's image.
const WITH_MOUNT: &str = "SANDBOX_VM_WITH_MOUNT";

/// Directory on which the test mounts a file system. Every image contains it, and the jail's programs do not need it.
const MOUNTED: &str = "/usr/share";

#[tokio::test]
async fn mounts_inside_the_image_are_read_only_nosuid_nodev() {
    if env::var_os(WITH_MOUNT).is_some() {
        return check_mounts().await;
    }
    if !rustix::process::geteuid().is_root() {
        test_support::report_skipped("only root can create a mount in the image");
        return;
    }
    let script = format!("mount -t tmpfs tmpfs {MOUNTED} && exec \"$0\" \"$@\"");
    let this = env::current_exe().unwrap();
    let name = "isolation::mounts_inside_the_image_are_read_only_nosuid_nodev";
    let mut test = Command::new("unshare");
    test.args(["--mount", "sh", "-c", &script]).arg(this).args([name, "--exact"]);
    let output = test.env(WITH_MOUNT, "1").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

/// Checks the mount options instead of attempting to write, because Landlock would block write attempts anyway.
async fn check_mounts() {
    let (sandboxes, _dir) = sandboxes(Jail::program(HOSTILE)).await;
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
