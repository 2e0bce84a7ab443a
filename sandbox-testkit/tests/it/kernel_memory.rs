//! Tests of the limits on objects of the kernel in a jail, with a control group and without one.

use sandbox_vm::{
    Image, Program, Spec,
    backend::{Backend, Jail},
    report::Guarantee,
};

use crate::{HOSTILE, sandboxes, suite::as_nobody};

#[tokio::test]
async fn pending_signals_and_message_queues_are_limited() {
    let (sandboxes, _dir) = sandboxes(Jail::program(HOSTILE)).await;
    let spec = Spec::new("limits").image(Image::Python);
    let sandbox = sandboxes.create_if_not_exists(spec).await.unwrap();
    let output = sandbox.exec(Program::new("cat").arg("/proc/self/limits")).await.unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let limit = |name: &str| {
        let line = text.lines().find_map(|it| it.strip_prefix(name));
        line.and_then(|it| it.split_ascii_whitespace().next()).map(str::to_owned)
    };
    assert_eq!(limit("Max pending signals").as_deref(), Some("1024"), "{text}");
    assert_eq!(limit("Max msgqueue size").as_deref(), Some("0"), "{text}");
    let has_memory_limit = sandboxes.reports()[0].has(Guarantee::MemoryLimit);
    let open_files = if has_memory_limit { "4096" } else { "128" };
    assert_eq!(limit("Max open files").as_deref(), Some(open_files), "{text}");
}

/// The kernel counts the instances of all guests of a user together, so one guest must not take all of them.
#[tokio::test]
async fn inotify_instances_are_limited() {
    let (sandboxes, _dir) = sandboxes(Jail::program(HOSTILE)).await;
    let spec = Spec::new("inotify").image(Image::Python);
    let sandbox = sandboxes.create_if_not_exists(spec).await.unwrap();
    let program = Program::new(sandbox_testkit::PROGRAM).arg("inotify-instances");
    let output = sandbox.exec(program).await.unwrap();
    let count: usize = String::from_utf8(output.stdout).unwrap().parse().unwrap();
    if !sandboxes.reports()[0].has(Guarantee::MemoryLimit) {
        assert_eq!(count, 0);
        return;
    }
    // A container may mount the directory of the limits read-only.
    let limit = "/proc/sys/user/max_inotify_instances";
    let read_only = rustix::fs::StatVfsMountFlags::RDONLY;
    let is_writable = rustix::fs::statvfs(limit).is_ok_and(|it| !it.f_flag.contains(read_only));
    if !is_writable {
        test_support::report_skipped(&format!(
            "cannot limit the inotify instances: {limit} is not writable"
        ));
        return;
    }
    // The user's other processes may have taken some of the instances that the host allows.
    assert!((1..=16).contains(&count), "{count}");
}

#[test]
fn open_files_are_limited_for_an_unprivileged_user() {
    as_nobody("kernel_memory::pending_signals_and_message_queues_are_limited");
}

#[tokio::test]
async fn report_says_that_memory_is_not_bounded() {
    let report = Jail::program(HOSTILE).probe().await;
    let says_so = report.to_string().contains("memory is NOT BOUNDED");
    assert_eq!(says_so, !report.has(Guarantee::MemoryLimit), "{report}");
}

#[test]
fn report_of_an_unprivileged_user_says_that_memory_is_not_bounded() {
    as_nobody("kernel_memory::report_says_that_memory_is_not_bounded");
}
