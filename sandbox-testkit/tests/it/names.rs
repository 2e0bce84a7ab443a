//! Tests that a name identifies one sandbox, even if starts fail or callers are dropped.
//!
//! The clock advances only while all tasks wait, so the results do not depend on the speed of the machine.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use sandbox_vm::{
    Error, Spec,
    backend::{Backend, Guest, Handle, InProcess, Snapshot},
    report::Report,
    sandbox_dir::SandboxDir,
};
use tokio::time::{sleep, timeout};

use crate::{
    handle_override::{self, HandleOverride},
    pool::until,
    sandboxes,
};

/// Time that [`SlowBackend`] takes to start a guest, and to kill one.
const DELAY: Duration = Duration::from_millis(200);

/// A back end that starts and kills guests slowly. The first `fail` attempts to start a guest fail.
#[derive(Clone, Debug)]
struct SlowBackend {
    inner: InProcess,
    fail: usize,
    started: Arc<AtomicUsize>,
    killed: Arc<AtomicBool>,
}

impl SlowBackend {
    fn failing(fail: usize) -> Self {
        let inner = InProcess::new(sandbox_testkit::agent);
        Self { inner, fail, started: Arc::default(), killed: Arc::default() }
    }
}

#[async_trait]
impl Backend for SlowBackend {
    fn name(&self) -> &'static str {
        "slow"
    }

    async fn probe(&self) -> Report {
        self.inner.probe().await
    }

    async fn start(&self, spec: &Spec, sandbox_dir: &SandboxDir) -> Result<Guest, Error> {
        let nth = self.started.fetch_add(1, Ordering::SeqCst);
        sleep(DELAY).await;
        if nth < self.fail {
            return Err(Error::Start { backend: self.name(), problem: "not yet".to_owned() });
        }
        Ok(handle_override::with(
            SlowKill(self.killed.clone()),
            self.inner.start(spec, sandbox_dir).await?,
        ))
    }
}

/// Kills a guest slowly, and records that the guest was killed.
#[derive(Debug)]
struct SlowKill(Arc<AtomicBool>);

#[async_trait]
impl HandleOverride for SlowKill {
    async fn kill(&self, guest: &dyn Handle) {
        sleep(DELAY).await;
        guest.kill().await;
        self.0.store(true, Ordering::SeqCst);
    }
}

fn spec() -> Spec {
    Spec::new("job")
}

/// Returns a snapshot that the back end refuses to restore. The refusal shows that the sandbox name was free, because a
/// name in use causes an error before the back end is called.
fn snapshot(backend: &'static str) -> Snapshot {
    Snapshot { backend, dir: PathBuf::from("/no/such/snapshot") }
}

#[tokio::test(start_paused = true)]
async fn failed_start_is_retried_by_waiting_callers() {
    let slow = SlowBackend::failing(1);
    let (sandboxes, _dir) = sandboxes(slow.clone()).await;
    let create = || sandboxes.create_if_not_exists(spec());
    let (first, second, third) = tokio::join!(create(), create(), create());
    assert!(first.is_err());
    let (second, third) = (second.unwrap(), third.unwrap());
    assert_eq!((second.name(), third.name()), ("job", "job"));
    assert_eq!(sandboxes.list().len(), 1);
    assert!(sandboxes.get("job").is_some());
    create().await.unwrap();
    assert_eq!(
        slow.started.load(Ordering::SeqCst),
        2,
        "one failed start, and one for all other callers"
    );
    sandboxes.delete_all().await;
    assert!(second.termination_reason().is_some() && third.termination_reason().is_some());
}

#[tokio::test(start_paused = true)]
async fn cancelled_start_frees_its_name() {
    let (sandboxes, _dir) = sandboxes(SlowBackend::failing(0)).await;
    assert!(timeout(DELAY / 4, sandboxes.create_if_not_exists(spec())).await.is_err());
    let error = sandboxes.restore(spec(), snapshot("slow")).await.unwrap_err();
    assert!(matches!(error, Error::Unsupported { .. }), "{error}");
    // If a start is cancelled, a caller that was waiting for it creates the sandbox itself and registers it.
    let dropped = timeout(DELAY / 4, sandboxes.create_if_not_exists(spec()));
    let (dropped, made) = tokio::join!(dropped, sandboxes.create_if_not_exists(spec()));
    assert!(dropped.is_err() && made.is_ok());
    assert_eq!(sandboxes.list().len(), 1);
    sandboxes.delete_all().await;
}

#[tokio::test]
async fn deleting_a_sandbox_frees_its_name() {
    let (sandboxes, _dir) = sandboxes(InProcess::new(sandbox_testkit::agent)).await;
    let sandbox = sandboxes.create_if_not_exists(spec()).await.unwrap();
    let error = sandboxes.restore(spec(), snapshot("in-process")).await.unwrap_err();
    assert!(matches!(error, Error::BadSpec { .. }), "{error}");
    sandbox.delete().await;
    let error = sandboxes.restore(spec(), snapshot("in-process")).await.unwrap_err();
    assert!(matches!(error, Error::Unsupported { .. }), "{error}");
}

#[tokio::test]
async fn live_name_with_different_spec_is_an_error() {
    let (sandboxes, _dir) = sandboxes(InProcess::new(sandbox_testkit::agent)).await;
    let sandbox = sandboxes.create_if_not_exists(spec()).await.unwrap();
    for other in [spec().memory(1 << 30), spec().label("of", "somebody else")] {
        let error = sandboxes.create_if_not_exists(other).await.unwrap_err();
        assert!(error.to_string().contains("different spec"), "{error}");
    }
    assert!(sandboxes.create_if_not_exists(spec()).await.is_ok());
    sandbox.delete().await;
    assert!(sandboxes.create_if_not_exists(spec().memory(1 << 30)).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn requesting_a_sandbox_resets_its_idle_time() {
    let (sandboxes, _dir) = sandboxes(InProcess::new(sandbox_testkit::agent)).await;
    let mut spec = spec();
    spec.limits.idle = Duration::from_millis(800);
    let first = sandboxes.create_if_not_exists(spec.clone()).await.unwrap();
    for _ in 0..8 {
        sleep(Duration::from_millis(200)).await;
        let again = sandboxes.create_if_not_exists(spec.clone()).await.unwrap();
        assert!(again.termination_reason().is_none() && first.termination_reason().is_none());
    }
    until(|| first.termination_reason().is_some()).await;
}

#[tokio::test(start_paused = true)]
async fn cancelled_delete_still_kills_the_guest() {
    let slow = SlowBackend::failing(0);
    let (sandboxes, dir) = sandboxes(slow.clone()).await;
    let sandbox = sandboxes.create_if_not_exists(spec()).await.unwrap();
    assert!(timeout(DELAY / 4, sandbox.delete()).await.is_err());
    assert!(!slow.killed.load(Ordering::SeqCst));
    let sandbox_dirs = || std::fs::read_dir(dir.path().join("state")).unwrap().count();
    until(|| slow.killed.load(Ordering::SeqCst) && sandbox_dirs() == 0).await;
}
