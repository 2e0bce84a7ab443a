//! The conformance suite in VMs without a guest kernel, and tests specific to such VMs.
//!
//! They run the suite's program as Cargo builds it by default, which is dynamically linked, and the static agent that
//! `cargo xtask guest-image` builds. `cargo xtask test` builds that agent first.

use std::{env, fs, os::unix::fs::MetadataExt, process::Command, time::Duration};

use graph_core::RunOutcome;

use sandbox_vm::{
    Error, ExceededLimit, GraphRun, Image, Program, Sandbox, Spec,
    backend::{Backend, KvmProcess},
    report::Guarantee,
};
use serde_json::{Map, json};

use crate::{HOSTILE, microvm::agent, sandboxes, traces, vm_graph};

/// Environment variable that makes the tests fail, instead of being skipped, if KVM is not available.
const REQUIRE: &str = "GRAPH_REQUIRE_KVM";

/// Returns one back end for each way in which a guest's program can be linked. The list is empty, or has no entry for
/// static linking, if these tests must be skipped.
pub(crate) async fn backends() -> Vec<KvmProcess> {
    let skip = |why: String| {
        assert!(env::var_os(REQUIRE).is_none(), "{why}");
        test_support::report_skipped(&format!("tests of VMs without a guest kernel; {why}"));
    };
    let dynamic = KvmProcess::agent(HOSTILE);
    let report = dynamic.probe().await;
    if !report.is_available() {
        skip(report.to_string());
        return Vec::new();
    }
    let agent = agent().map(KvmProcess::agent);
    if agent.is_none() {
        skip("static guests: run `cargo xtask guest-image` first".to_owned());
    }
    [dynamic].into_iter().chain(agent).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kvm_process_passes_suite() {
    for backend in backends().await {
        let report = sandbox_testkit::run(HOSTILE, || backend.clone()).await;
        eprintln!("{backend:?}: {report}");
        report.assert();
        // All checks that need neither programs nor snapshots pass.
        assert!(report.passed() >= 26, "{report}");
    }
}

#[tokio::test]
async fn graph_trace_matches_in_process_trace() {
    for backend in backends().await {
        traces::check(backend, true).await;
    }
}

#[tokio::test]
async fn killed_guest_is_replaced_with_identical_trace() {
    for backend in backends().await {
        vm_graph::check_killed(backend).await;
    }
}

/// Returns the error of a graph that exhausts the resource `what`.
async fn exhaust(sandbox: &Sandbox, what: &str) -> Error {
    let run = GraphRun::new("exhaust").input(Map::from_iter([("item".to_owned(), json!(what))]));
    sandbox.run_graph(run).await.unwrap().finish().await.unwrap_err()
}

fn spec() -> Spec {
    let mut spec = Spec::new("bounded").memory(96 << 20);
    spec.limits.disk = 16 << 20;
    spec.limits.files = 128;
    spec
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn graph_resources_are_limited() {
    for backend in backends().await {
        check_limits(backend).await;
    }
}

async fn check_limits(backend: KvmProcess) {
    let (sandboxes, _dir) = sandboxes(backend).await;
    let sandbox = sandboxes.create_if_not_exists(spec()).await.unwrap();
    for (resource, expected) in [
        ("disk", "No space left"),
        ("files", "No space left"),
        ("threads", "temporarily unavailable"),
        ("programs", "not implemented"),
    ] {
        let error = exhaust(&sandbox, resource).await;
        assert!(
            matches!(&error, Error::Graph { error, .. } if error.contains(expected)),
            "{resource}: {error:?}"
        );
        sandbox.fs().list("").await.unwrap();
    }
    let error = exhaust(&sandbox, "memory").await;
    assert_eq!(error.exceeded_limit(), Some(ExceededLimit::Memory), "{error:?}");
    assert!(sandbox.termination_reason().is_some());
    let sandbox = sandboxes.create_if_not_exists(spec()).await.unwrap();
    let error = exhaust(&sandbox, "abort").await;
    assert_eq!(error.exceeded_limit(), None, "{error:?}");
    assert!(error.to_string().contains("the guest was ended by signal 6"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn endless_graph_exceeds_cpu_time() {
    for backend in backends().await {
        let (sandboxes, _dir) = sandboxes(backend).await;
        let mut spec = spec();
        spec.limits.cpu_time = Some(Duration::from_millis(500));
        let sandbox = sandboxes.create_if_not_exists(spec).await.unwrap();
        let run = GraphRun::new("hang").input(Map::new()).timeout(Duration::from_secs(240));
        let error = sandbox.run_graph(run).await.unwrap().finish().await.unwrap_err();
        assert_eq!(error.exceeded_limit(), Some(ExceededLimit::CpuTime), "{error:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn running_programs_is_unsupported_and_reported() {
    let Some(backend) = backends().await.into_iter().next() else { return };
    assert!(!backend.probe().await.has(Guarantee::Programs));
    let (sandboxes, _dir) = sandboxes(backend).await;
    let python = sandboxes.create_if_not_exists(Spec::new("python").image(Image::Python)).await;
    assert!(matches!(python, Err(Error::Unsupported { .. })), "{python:?}");
    let sandbox = sandboxes.create_if_not_exists(Spec::new("base")).await.unwrap();
    let refused = sandbox.exec(Program::new(sandbox_testkit::PROGRAM)).await;
    assert!(matches!(refused, Err(Error::Guest { .. })), "{refused:?}");
    sandbox.ping().await.unwrap();
}

#[tokio::test]
async fn guests_can_open_only_their_own_libraries_and_only_for_reading() {
    let own = "/lib/libc.so.6";
    // The guest's own libraries and dynamic loader, under their paths on the host, are among the files that it cannot
    // open.
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let mapped = maps.lines().filter_map(|it| it.find('/').map(|at| it[at..].to_owned()));
    let mut paths: Vec<String> = mapped.collect();
    assert!(paths.iter().any(|it| it.contains("libc.so")), "{paths:?}");
    let others = [
        HOSTILE, "/etc/passwd", "/etc/ld.so.cache", "/proc/self/exe", "/proc/self/maps", "/dev/kvm",
    ];
    let tricks = ["/lib/../etc/passwd", "/lib/libc.so.6/../../etc/passwd", "/lib", "/agent", own];
    paths.extend(others.into_iter().chain(tricks).map(str::to_owned));
    for backend in backends().await {
        let is_dynamic = format!("{backend:?}").contains(HOSTILE);
        let (sandboxes, _dir) = sandboxes(backend).await;
        let sandbox = sandboxes.create_if_not_exists(spec()).await.unwrap();
        let input = Map::from_iter([("paths".to_owned(), json!(paths))]);
        let run = sandbox.run_graph(GraphRun::new("open-files").input(input)).await.unwrap();
        let RunOutcome::Done(state) = run.finish().await.unwrap() else {
            panic!("it does not interrupt")
        };
        let readable = if is_dynamic { json!([own]) } else { json!([]) };
        assert_eq!((&state["readable"], &state["writable"]), (&readable, &json!([])));
    }
}

/// Group that owns the device in the test below. No user has this group otherwise.
const GROUP: u32 = 54_321;

#[test]
fn members_of_the_devices_group_can_start_guests() {
    let test = "kvm_process::graph_trace_matches_in_process_trace";
    let Ok(device) = fs::metadata("/dev/kvm") else {
        return test_support::report_skipped("the device /dev/kvm does not exist");
    };
    if !rustix::process::geteuid().is_root() {
        return test_support::report_skipped("only root can change the group of /dev/kvm");
    }
    let (major, minor) = (rustix::fs::major(device.rdev()), rustix::fs::minor(device.rdev()));
    // Replace the device, in a separate mount namespace, with one that belongs to a group.
    let script = format!(
        "mount -t tmpfs tmpfs /mnt && mknod -m 660 /mnt/kvm c {major} {minor} && chgrp {GROUP} /mnt/kvm && \
         mount --bind /mnt/kvm /dev/kvm && \
         exec setpriv --reuid 65534 --regid 65534 --groups {GROUP} \"$0\" {test} --exact --nocapture"
    );
    let dir = tempfile::tempdir().unwrap();
    std::os::unix::fs::chown(dir.path(), Some(65_534), Some(65_534)).unwrap();
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &script]).arg(env::current_exe().unwrap());
    command.env("TMPDIR", dir.path()).env_remove("XDG_RUNTIME_DIR").env_remove(REQUIRE);
    let output = command.current_dir(dir.path()).output().unwrap();
    let [out, err] = [&output.stdout, &output.stderr].map(|it| String::from_utf8_lossy(it));
    assert!(output.status.success() && out.contains("1 passed"), "{out}{err}");
    assert!(!err.contains("not available"), "{err}");
}
