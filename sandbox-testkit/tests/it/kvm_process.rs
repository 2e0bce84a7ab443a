//! The conformance suite in VMs without a guest kernel, and tests specific to such VMs.
//!
//! These tests need the static agent that `cargo xtask guest-image` builds. `cargo xtask test` builds it first.

use std::{env, path::PathBuf, time::Duration};

use sandbox_vm::{
    Error, ExceededLimit, GraphRun, Image, Program, Sandbox, Spec,
    backend::{Backend, KvmProcess},
    report::Guarantee,
};
use serde_json::{Map, json};

use crate::{microvm::agent, sandboxes, traces, vm_graph};

/// Environment variable that makes the tests fail, instead of being skipped, if KVM is not available.
const REQUIRE: &str = "GRAPH_REQUIRE_KVM";

/// Returns the back end, or `None` if the test must be skipped.
pub(crate) async fn kvm_process() -> Option<KvmProcess> {
    let skip = |why: String| {
        assert!(env::var_os(REQUIRE).is_none(), "{why}");
        crate::report_skipped(&format!("tests of VMs without a guest kernel; {why}"));
        None
    };
    let Some(agent): Option<PathBuf> = agent() else {
        return skip("run `cargo xtask guest-image` first".to_owned());
    };
    let backend = KvmProcess::agent(agent);
    let report = backend.probe().await;
    if report.is_available() { Some(backend) } else { skip(report.to_string()) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kvm_process_passes_suite() {
    let Some(backend) = kvm_process().await else { return };
    let report = sandbox_testkit::run(super::HOSTILE, || backend.clone()).await;
    eprintln!("kvm-process: {report}");
    report.assert();
    assert!(report.passed() >= 15, "{report}");
}

#[tokio::test]
async fn graph_trace_matches_in_process_trace() {
    let Some(backend) = kvm_process().await else { return };
    traces::check(backend, true).await;
}

#[tokio::test]
async fn killed_guest_is_replaced_with_identical_trace() {
    let Some(backend) = kvm_process().await else { return };
    vm_graph::check_killed(backend).await;
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
    let Some(backend) = kvm_process().await else { return };
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
    let Some(backend) = kvm_process().await else { return };
    let (sandboxes, _dir) = sandboxes(backend).await;
    let mut spec = spec();
    spec.limits.cpu_time = Some(Duration::from_millis(500));
    let sandbox = sandboxes.create_if_not_exists(spec).await.unwrap();
    let run = GraphRun::new("hang").input(Map::new()).timeout(Duration::from_secs(60));
    let error = sandbox.run_graph(run).await.unwrap().finish().await.unwrap_err();
    assert_eq!(error.exceeded_limit(), Some(ExceededLimit::CpuTime), "{error:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn running_programs_is_unsupported_and_reported() {
    let Some(backend) = kvm_process().await else { return };
    assert!(!backend.probe().await.has(Guarantee::Programs));
    let (sandboxes, _dir) = sandboxes(backend).await;
    let python = sandboxes.create_if_not_exists(Spec::new("python").image(Image::Python)).await;
    assert!(matches!(python, Err(Error::Unsupported { .. })), "{python:?}");
    let sandbox = sandboxes.create_if_not_exists(Spec::new("base")).await.unwrap();
    let refused = sandbox.exec(Program::new(sandbox_testkit::PROGRAM)).await;
    assert!(matches!(refused, Err(Error::Guest { .. })), "{refused:?}");
    sandbox.ping().await.unwrap();
}
