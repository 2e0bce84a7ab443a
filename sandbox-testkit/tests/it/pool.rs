//! Tests of the pool of ready sandboxes.

use std::{
    collections::BTreeSet,
    panic::Location,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use async_trait::async_trait;
use sandbox_vm::{
    Error, ExceededLimit, Pool, Spec, TerminationReason,
    backend::{Backend, Guest, Handle, InProcess, Jail, Snapshot},
    protocol::{Frame, Kind, frame::encode, message::ReseedResult},
    report::{Guarantee, Report},
    sandbox_dir::SandboxDir,
};
use serde_json::{Value, json};
use tokio::io::{AsyncWriteExt, DuplexStream};

use crate::{
    HOSTILE,
    handle_override::{self, HandleOverride},
    sandboxes,
};

/// Waits until the condition is true. The deadline is real time, even if tokio's clock is paused.
#[track_caller]
pub(crate) fn until(holds: impl Fn() -> bool) -> impl Future<Output = ()> {
    let caller = Location::caller();
    async move {
        let deadline = Instant::now() + Duration::from_secs(300);
        while !holds() {
            assert!(Instant::now() < deadline, "the condition never became true: {caller}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

#[tokio::test]
async fn each_sandbox_is_used_once_and_replaced() {
    let (sandboxes, _dir) = sandboxes(Jail::program(HOSTILE)).await;
    let pool = Pool::of(sandboxes.clone(), Spec::new("pooled")).size(3).open();
    until(|| pool.metrics().ready == 3).await;
    let mut names = BTreeSet::new();
    for _ in 0..4 {
        until(|| pool.metrics().ready > 0).await;
        let sandbox = pool.acquire().await.unwrap();
        assert!(sandbox.fs().list("").await.unwrap().is_empty());
        sandbox.fs().write("secret", "of this user").await.unwrap();
        names.insert(sandbox.name().to_owned());
    }
    assert_eq!(names.len(), 4);
    until(|| pool.metrics().ready == 3 && sandboxes.list().len() == 3).await;
    let metrics = pool.metrics();
    assert_eq!((metrics.warm, metrics.cold), (4, 0));
    assert!(metrics.p50 <= metrics.p95, "{metrics:?}");
}

#[tokio::test]
async fn two_pools_of_one_spec_share_no_sandbox() {
    let (sandboxes, _dir) = sandboxes(InProcess::new(sandbox_testkit::agent)).await;
    let open = || Pool::of(sandboxes.clone(), Spec::new("pooled")).size(2).open();
    let pools = [open(), open()];
    until(|| pools.iter().all(|it| it.metrics().ready == 2)).await;
    assert_eq!(sandboxes.list().len(), 4);
    let (one, other) = (pools[0].acquire().await.unwrap(), pools[1].acquire().await.unwrap());
    one.fs().write("secret", "of this user").await.unwrap();
    assert!(other.fs().list("").await.unwrap().is_empty());
}

#[tokio::test]
async fn max_sandboxes_bounds_the_count() {
    let (sandboxes, _dir) = sandboxes(RestorableBackend(unrestorable())).await;
    let pool = Pool::of(sandboxes.clone(), Spec::new("pooled")).size(5).max_sandboxes(3).open();
    until(|| pool.metrics().ready == 3).await;
    let _taken = [pool.acquire().await, pool.acquire().await, pool.acquire().await];
    let fourth = tokio::time::timeout(Duration::from_millis(300), pool.acquire()).await;
    assert!(fourth.is_err(), "the pool has capacity for three only");
}

/// A snapshot takes as much of the pool's capacity as a sandbox, and is deleted when the pool becomes idle.
///
/// The clock is paused, because on a slow machine the pool could become idle before it is full.
#[tokio::test(start_paused = true)]
async fn snapshot_counts_as_sandbox_and_is_dropped_when_idle() {
    let backend = RestorableBackend(unrestorable());
    let (sandboxes, dir) = sandboxes(backend).await;
    let sandbox_dirs = || std::fs::read_dir(dir.path().join("state")).unwrap().count();
    let pool = Pool::of(sandboxes.clone(), Spec::new("pooled").memory(64 << 20));
    let pool = pool.size(5).memory((3 * 256) << 20).idle(Duration::from_secs(2)).open();
    until(|| pool.metrics().ready == 2).await;
    assert_eq!(sandbox_dirs(), 3, "two sandboxes and a snapshot");
    until(|| pool.metrics().ready == 0 && sandbox_dirs() == 0).await;
    drop(pool.acquire().await.unwrap());
    until(|| pool.metrics().ready == 2).await;
    assert_eq!(sandbox_dirs(), 3, "a new snapshot was taken");
}

#[tokio::test]
async fn memory_limit_bounds_the_count() {
    let (sandboxes, _dir) = sandboxes(Jail::program(HOSTILE)).await;
    let spec = Spec::new("pooled").memory(64 << 20);
    let pool = Pool::of(sandboxes.clone(), spec).size(5).memory(128 << 20).open();
    until(|| pool.metrics().ready == 2).await;
    let (first, second) = (pool.acquire().await.unwrap(), pool.acquire().await.unwrap());
    let third = tokio::time::timeout(Duration::from_millis(300), pool.acquire()).await;
    assert!(third.is_err(), "the pool has capacity for two only");
    drop(first);
    let third = pool.acquire().await.unwrap();
    assert_ne!(third.name(), second.name());
}

#[tokio::test(start_paused = true)]
async fn idle_pool_is_emptied() {
    let (sandboxes, _dir) = sandboxes(InProcess::new(sandbox_testkit::agent)).await;
    let pool = Pool::of(sandboxes.clone(), Spec::new("pooled"))
        .size(2)
        .idle(Duration::from_secs(2))
        .open();
    until(|| pool.metrics().ready == 2).await;
    until(|| pool.metrics().ready == 0 && sandboxes.list().is_empty()).await;
    // The idle pool is empty, so the next caller has to wait until a sandbox is created. The pool then fills again.
    drop(pool.acquire().await.unwrap());
    assert_eq!(pool.metrics().cold, 1);
    until(|| pool.metrics().ready == 2).await;
}

#[tokio::test]
async fn dropping_the_pool_removes_ready_sandboxes() {
    let (sandboxes, dir) = sandboxes(Jail::program(HOSTILE)).await;
    let pool = Pool::of(sandboxes.clone(), Spec::new("pooled")).size(2).open();
    until(|| pool.metrics().ready == 2).await;
    let taken = pool.acquire().await.unwrap();
    // Another sandbox may be starting when the pool is dropped. It must be removed too.
    drop(pool);
    let sandbox_dirs = || std::fs::read_dir(dir.path().join("state")).unwrap().count();
    until(|| sandboxes.list().len() == 1 && sandbox_dirs() == 1).await;
    taken.ping().await.unwrap();
    drop(taken);
    until(|| sandboxes.list().is_empty() && sandbox_dirs() == 0).await;
}

#[tokio::test(start_paused = true)]
async fn lifetime_starts_at_acquire() {
    let (sandboxes, _dir) = sandboxes(InProcess::new(sandbox_testkit::agent)).await;
    let mut spec = Spec::new("pooled").lifetime(Duration::from_secs(2));
    spec.limits.idle = Duration::from_secs(1);
    let pool = Pool::of(sandboxes.clone(), spec).size(1).open();
    until(|| pool.metrics().ready == 1).await;
    tokio::time::sleep(Duration::from_millis(2500)).await;
    let waiting = sandboxes.list()[0].name().to_owned();
    let sandbox = pool.acquire().await.unwrap();
    assert_eq!(sandbox.name(), waiting, "the sandbox expired in the pool");
    tokio::time::sleep(Duration::from_millis(600)).await;
    sandbox.ping().await.unwrap();
    until(|| sandbox.termination_reason().is_some()).await;
    assert_eq!(sandbox.termination_reason(), Some(&TerminationReason::Limit(ExceededLimit::Idle)));
}

/// A back end whose snapshots cannot be restored. It reports a footprint of four times a guest's memory limit.
#[derive(Clone, Debug)]
struct UnrestorableBackend {
    inner: InProcess,
    tried: Arc<AtomicUsize>,
}

#[async_trait]
impl Backend for UnrestorableBackend {
    fn name(&self) -> &'static str {
        "unrestorable"
    }

    async fn probe(&self) -> Report {
        Report::available(self.name(), [Guarantee::Snapshot])
    }

    fn footprint(&self, spec: &Spec) -> u64 {
        spec.limits.memory * 4
    }

    async fn start(&self, spec: &Spec, sandbox_dir: &SandboxDir) -> Result<Guest, Error> {
        Ok(handle_override::with(EmptySnapshot, self.inner.start(spec, sandbox_dir).await?))
    }

    async fn restore(&self, _: &Spec, _: &SandboxDir, from: &Snapshot) -> Result<Guest, Error> {
        self.tried.fetch_add(1, Ordering::SeqCst);
        Err(Error::Snapshot { dir: from.dir.clone(), problem: "it is empty".to_owned() })
    }
}

/// Like [`UnrestorableBackend`], but its snapshots can be restored. A restored guest replies to every request that it
/// succeeded.
#[derive(Clone, Debug)]
struct RestorableBackend(UnrestorableBackend);

#[async_trait]
impl Backend for RestorableBackend {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    async fn probe(&self) -> Report {
        self.0.probe().await
    }

    fn footprint(&self, spec: &Spec) -> u64 {
        self.0.footprint(spec)
    }

    async fn start(&self, spec: &Spec, sandbox_dir: &SandboxDir) -> Result<Guest, Error> {
        self.0.start(spec, sandbox_dir).await
    }

    async fn restore(
        &self,
        spec: &Spec,
        sandbox_dir: &SandboxDir,
        _: &Snapshot,
    ) -> Result<Guest, Error> {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        tokio::spawn(accept_everything(theirs));
        let guest = self.0.start(spec, sandbox_dir).await?;
        Ok(Guest { channel: Box::new(ours), ..guest })
    }
}

async fn accept_everything(mut stream: DuplexStream) {
    while let Ok(Some(frame)) = Frame::read(&mut stream).await {
        let answer = match frame.kind {
            Kind::Hello => {
                let mut hello: Value = rmp_serde::from_slice(&frame.payload).unwrap();
                hello["graphs"] = json!([]);
                encode(Kind::Hello, 0, &rmp_serde::to_vec_named(&hello).unwrap())
            }
            Kind::Request => {
                let done = rmp_serde::to_vec_named(&ReseedResult { random: true, clock: true });
                encode(Kind::Reply, frame.id, &done.unwrap())
            }
            _ => continue,
        };
        stream.write_all(&answer).await.unwrap();
    }
}

/// Reports that a snapshot was taken, but writes nothing.
#[derive(Debug)]
struct EmptySnapshot;

#[async_trait]
impl HandleOverride for EmptySnapshot {
    async fn snapshot(&self, _: &dyn Handle, dir: PathBuf) -> Result<Snapshot, Error> {
        Ok(Snapshot { backend: "unrestorable", dir })
    }
}

fn unrestorable() -> UnrestorableBackend {
    UnrestorableBackend { inner: InProcess::new(sandbox_testkit::agent), tried: Arc::default() }
}

#[tokio::test]
async fn failing_snapshot_is_tried_once() {
    let backend = unrestorable();
    let (sandboxes, dir) = sandboxes(backend.clone()).await;
    let pool = Pool::of(sandboxes, Spec::new("pooled")).size(3).open();
    until(|| pool.metrics().ready == 3).await;
    drop(pool.acquire().await.unwrap());
    until(|| pool.metrics().ready == 3).await;
    assert_eq!(backend.tried.load(Ordering::SeqCst), 1);
    // The snapshot that could not be restored was deleted, so only the directories of the three sandboxes remain.
    let state = dir.path().join("state");
    until(|| std::fs::read_dir(&state).unwrap().count() == 3).await;
}

#[tokio::test]
async fn backend_overhead_counts_towards_memory() {
    let (sandboxes, _dir) = sandboxes(unrestorable()).await;
    let spec = Spec::new("pooled").memory(64 << 20);
    let pool = Pool::of(sandboxes, spec).size(5).memory(512 << 20).open();
    let (_first, _second) = (pool.acquire().await.unwrap(), pool.acquire().await.unwrap());
    let third = tokio::time::timeout(Duration::from_millis(300), pool.acquire()).await;
    assert!(third.is_err(), "the pool has capacity for two only");
}
