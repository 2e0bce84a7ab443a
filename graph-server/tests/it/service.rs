//! Tests of the service without HTTP.

use std::{
    collections::HashMap,
    io,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use graph_server::{
    Capacity, EventSender, NewRun, ReadOutcome, Registry, RunEvent, RunInfo, Runner, RunnerError,
    RunnerOutcome, Service, ServiceError, Status,
};
use serde_json::{Value, json};
use tokio::{sync::Semaphore, time::timeout};

/// A runner that counts up to a number and sends one event per step. Each event needs a permit. The events outlive
/// the service, as if they were stored in files.
#[derive(Clone)]
pub(crate) struct Counter {
    stored: Arc<Mutex<HashMap<String, Vec<RunEvent>>>>,
    /// Number of events that all runs together may still send.
    allowed: Arc<Semaphore>,
    working: Arc<AtomicUsize>,
    max_working: Arc<AtomicUsize>,
    reads: Arc<AtomicUsize>,
}

impl Counter {
    pub(crate) fn new(allowed: usize) -> Self {
        Self {
            stored: Arc::default(),
            allowed: Arc::new(Semaphore::new(allowed)),
            working: Arc::default(),
            max_working: Arc::default(),
            reads: Arc::default(),
        }
    }

    pub(crate) fn allow(&self, events: usize) {
        self.allowed.add_permits(events);
    }

    /// Waits until this number of runs execute.
    async fn wait_for_working(&self, runs: usize) {
        while self.working.load(Ordering::SeqCst) < runs {
            tokio::task::yield_now().await;
        }
    }
}

struct Working(Arc<AtomicUsize>);

impl Drop for Working {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[async_trait]
impl Runner for Counter {
    async fn execute(
        &self,
        run: &RunInfo,
        sender: &EventSender,
    ) -> Result<RunnerOutcome, RunnerError> {
        let now = self.working.fetch_add(1, Ordering::SeqCst) + 1;
        self.max_working.fetch_max(now, Ordering::SeqCst);
        let _working = Working(self.working.clone());
        assert!(run.input["panics"].is_null(), "requested by the test");
        let goal = run.resume_args.as_u64().or(run.input["to"].as_u64()).unwrap_or(0);
        loop {
            let last = self.stored.lock().unwrap().get(&run.id).map_or(0, Vec::len) as u64;
            if last >= goal {
                break;
            }
            self.allowed.acquire().await.unwrap().forget();
            let data = json!({ "seq": last + 1 }).to_string();
            let event = RunEvent { seq: last + 1, data: data.into() };
            self.stored.lock().unwrap().entry(run.id.clone()).or_default().push(event.clone());
            sender.send(event);
        }
        if let Some(why) = run.input["fails"].as_str() {
            return Err(RunnerError(why.to_owned()));
        }
        let waits = run.input["waits"].as_bool().unwrap_or(false) && run.resume_args.is_null();
        Ok(if waits { RunnerOutcome::Waiting } else { RunnerOutcome::Complete(json!(goal)) })
    }

    fn can_continue(&self, run: &RunInfo) -> bool {
        run.input["open"] == json!(true)
    }

    fn events(&self, run: &str, after: u64, limit: usize) -> io::Result<Vec<RunEvent>> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        let stored = self.stored.lock().unwrap();
        let all = stored.get(run).map_or(&[][..], Vec::as_slice);
        Ok(all.iter().skip(after as usize).take(limit).cloned().collect())
    }
}

async fn open(dir: &Path, counter: &Counter, concurrent: usize) -> Service {
    let registry = Registry::open(dir.join("runs.db")).unwrap();
    let capacity = Capacity { concurrent, queued: 3 };
    Service::open(registry, Arc::new(counter.clone()), capacity).await.unwrap()
}

fn new(id: &str, input: Value) -> NewRun {
    NewRun { id: id.to_owned(), subject: "counting".to_owned(), input }
}

/// Reads all events after `after`. Returns their sequence numbers and the final status.
async fn all(service: &Service, id: &str, after: u64) -> (Vec<u64>, Status) {
    let mut reader = service.read_events(id, after).await.unwrap();
    let mut seqs = Vec::new();
    loop {
        let read =
            timeout(Duration::from_secs(120), reader.next()).await.expect("the run makes progress");
        match read.unwrap() {
            ReadOutcome::Events(events) => seqs.extend(events.iter().map(|it| it.seq)),
            ReadOutcome::End(status) => return (seqs, status),
            ReadOutcome::ShuttingDown => panic!("the service must not shut down"),
        }
    }
}

#[tokio::test]
async fn late_readers_receive_all_events_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let counter = Counter::new(500);
    let service = open(dir.path(), &counter, 2).await;
    service.start(new("a", json!({ "to": 1000 }))).await.unwrap();
    let early = tokio::spawn({
        let service = service.clone();
        async move { all(&service, "a", 0).await }
    });
    // Waits until half of the events have been sent. The service keeps fewer events than that in memory.
    while counter.allowed.available_permits() > 0 {
        tokio::task::yield_now().await;
    }
    let late = tokio::spawn({
        let service = service.clone();
        async move { all(&service, "a", 7).await }
    });
    counter.allow(500);
    let read = counter.reads.load(Ordering::SeqCst);
    assert_eq!(early.await.unwrap(), ((1..=1000).collect(), Status::Complete));
    assert_eq!(late.await.unwrap(), ((8..=1000).collect(), Status::Complete));
    // Readers that keep up do not read from disk. Disk reads are caused only by the late reader's first events, the
    // end of both streams, and delays on a busy machine. Reading every event from disk would take a thousand reads.
    let read = counter.reads.load(Ordering::SeqCst) - read;
    assert!(read < 200, "{read}");
    // Reading also works after the run has finished.
    assert_eq!(all(&service, "a", 990).await, ((991..=1000).collect(), Status::Complete));
    assert_eq!(all(&service, "a", 5000).await, (vec![], Status::Complete));
    assert_eq!(service.get("a").await.unwrap().outcome, json!(1000));
}

#[tokio::test]
async fn slow_readers_do_not_block_others() {
    let dir = tempfile::tempdir().unwrap();
    let counter = Counter::new(100_000);
    let service = open(dir.path(), &counter, 2).await;
    service.start(new("a", json!({ "to": 100_000 }))).await.unwrap();
    let mut slow = service.read_events("a", 0).await.unwrap();
    let ReadOutcome::Events(first) = slow.next().await.unwrap() else { panic!() };
    let (seqs, _) = all(&service, "a", 0).await;
    assert_eq!(seqs.len(), 100_000);
    // The reader continues where it stopped and reads stored events.
    let ReadOutcome::Events(next) = slow.next().await.unwrap() else { panic!() };
    assert_eq!(next[0].seq, first.last().unwrap().seq + 1);
}

#[tokio::test]
async fn concurrency_and_queue_length_are_limited() {
    let dir = tempfile::tempdir().unwrap();
    let counter = Counter::new(0);
    let service = open(dir.path(), &counter, 2).await;
    for idx in 0..5 {
        service.start(new(&format!("r{idx}"), json!({ "to": 1 }))).await.unwrap();
    }
    let rejected = service.start(new("r5", json!({ "to": 1 }))).await;
    assert!(matches!(rejected, Err(ServiceError::QueueFull(3))), "{rejected:?}");
    assert!(service.get("r5").await.is_err(), "a rejected run is not stored");
    counter.wait_for_working(2).await;
    counter.allow(5);
    for idx in 0..5 {
        assert_eq!(all(&service, &format!("r{idx}"), 0).await.1, Status::Complete);
    }
    assert_eq!(counter.max_working.load(Ordering::SeqCst), 2);
    // If the queue limit is zero, runs that can execute immediately are still accepted.
    let registry = Registry::in_memory().unwrap();
    let capacity = Capacity { concurrent: 1, queued: 0 };
    let service = Service::open(registry, Arc::new(Counter::new(0)), capacity).await.unwrap();
    service.start(new("first", json!({ "to": 1 }))).await.unwrap();
    let rejected = service.start(new("second", json!({ "to": 1 }))).await;
    assert!(matches!(rejected, Err(ServiceError::QueueFull(0))), "{rejected:?}");
}

#[tokio::test]
async fn runs_can_be_cancelled_and_resumed() {
    let dir = tempfile::tempdir().unwrap();
    let counter = Counter::new(3);
    let service = open(dir.path(), &counter, 1).await;
    service.start(new("a", json!({ "to": 6 }))).await.unwrap();
    service.start(new("queued", json!({ "to": 1 }))).await.unwrap();
    assert!(matches!(service.resume("a", Value::Null).await, Err(ServiceError::AlreadyActive(_))));
    while counter.allowed.available_permits() > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(service.cancel("queued").await.unwrap().status, Status::Cancelled);
    assert_eq!(service.cancel("a").await.unwrap().status, Status::Cancelled);
    assert_eq!(counter.working.load(Ordering::SeqCst), 0, "nothing executes it any more");
    assert_eq!(all(&service, "a", 0).await, ((1..=3).collect(), Status::Cancelled));
    assert!(matches!(service.cancel("a").await, Err(ServiceError::NotActive { .. })));
    counter.allow(3);
    service.resume("a", Value::Null).await.unwrap();
    assert_eq!(all(&service, "a", 3).await, ((4..=6).collect(), Status::Complete));
    assert!(matches!(service.cancel("missing").await, Err(ServiceError::UnknownRun(_))));
    let over = service.resume("a", json!(9)).await;
    assert!(matches!(over, Err(ServiceError::Complete(_))), "{over:?}");
    assert_eq!(
        service.get("a").await.unwrap().status,
        Status::Complete,
        "its status does not change"
    );
}

#[tokio::test]
async fn waiting_runs_can_be_cancelled_and_resumed() {
    let dir = tempfile::tempdir().unwrap();
    let service = open(dir.path(), &Counter::new(100), 1).await;
    service.start(new("a", json!({ "to": 1, "waits": true }))).await.unwrap();
    assert_eq!(all(&service, "a", 0).await, (vec![1], Status::Waiting));
    assert_eq!(service.cancel("a").await.unwrap().status, Status::Cancelled);
    assert!(matches!(service.cancel("a").await, Err(ServiceError::NotActive { .. })));
    service.resume("a", json!(2)).await.unwrap();
    assert_eq!(all(&service, "a", 0).await, (vec![1, 2], Status::Complete));
}

#[tokio::test]
async fn complete_runs_resume_if_their_runner_can_continue() {
    let dir = tempfile::tempdir().unwrap();
    let service = open(dir.path(), &Counter::new(100), 1).await;
    service.start(new("a", json!({ "to": 2, "open": true }))).await.unwrap();
    assert_eq!(all(&service, "a", 0).await, (vec![1, 2], Status::Complete));
    service.resume("a", json!(5)).await.unwrap();
    assert_eq!(all(&service, "a", 2).await, (vec![3, 4, 5], Status::Complete));
    assert_eq!(service.get("a").await.unwrap().outcome, json!(5));
}

#[tokio::test]
async fn failures_and_panics_affect_only_their_run() {
    let dir = tempfile::tempdir().unwrap();
    let service = open(dir.path(), &Counter::new(100), 2).await;
    service.start(new("fails", json!({ "to": 1, "fails": "no luck" }))).await.unwrap();
    service.start(new("panics", json!({ "panics": true }))).await.unwrap();
    service.start(new("waits", json!({ "to": 1, "waits": true }))).await.unwrap();
    assert_eq!(all(&service, "fails", 0).await.1, Status::Error);
    assert_eq!(service.get("fails").await.unwrap().error.as_deref(), Some("no luck"));
    assert_eq!(all(&service, "panics", 0).await.1, Status::Error);
    assert_eq!(all(&service, "waits", 0).await.1, Status::Waiting);
    service.resume("waits", json!(2)).await.unwrap();
    assert_eq!(all(&service, "waits", 0).await, (vec![1, 2], Status::Complete));
    let ids = ["waits", "waits", "no/id", ""];
    for id in ids {
        assert!(service.start(new(id, json!({}))).await.is_err(), "{id}");
    }
}

#[tokio::test]
async fn runs_start_once_their_status_can_be_stored() {
    let dir = tempfile::tempdir().unwrap();
    let service = open(dir.path(), &Counter::new(100), 2).await;
    let broken = rusqlite::Connection::open(dir.path().join("runs.db")).unwrap();
    broken.busy_timeout(Duration::from_secs(120)).unwrap();
    let full = "CREATE TRIGGER full BEFORE UPDATE ON runs BEGIN SELECT RAISE(FAIL, 'full'); END";
    broken.execute_batch(full).unwrap();
    service.start(new("a", json!({ "to": 1 }))).await.unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(service.get("a").await.unwrap().status, Status::Queued);
    broken.execute_batch("DROP TRIGGER full").unwrap();
    assert_eq!(all(&service, "a", 0).await, (vec![1], Status::Complete));
}

#[tokio::test]
async fn the_next_service_resumes_unfinished_runs() {
    let dir = tempfile::tempdir().unwrap();
    let counter = Counter::new(4);
    let service = open(dir.path(), &counter, 1).await;
    service.start(new("a", json!({ "to": 10 }))).await.unwrap();
    service.start(new("b", json!({ "to": 2 }))).await.unwrap();
    let reader = tokio::spawn({
        let service = service.clone();
        async move {
            let mut reader = service.read_events("a", 0).await.unwrap();
            let mut seqs = Vec::new();
            while let ReadOutcome::Events(events) = reader.next().await.unwrap() {
                seqs.extend(events.iter().map(|it| it.seq));
            }
            seqs
        }
    });
    while counter.allowed.available_permits() > 0 {
        tokio::task::yield_now().await;
    }
    service.shut_down(Duration::from_millis(50)).await;
    assert!(matches!(service.start(new("c", json!({}))).await, Err(ServiceError::ShuttingDown)));
    let mut seen = reader.await.unwrap();
    assert_eq!(
        service.get("a").await.unwrap().status,
        Status::Running,
        "the run stays active so that the next service resumes it"
    );
    drop(service);

    counter.allow(100);
    let service = open(dir.path(), &counter, 1).await;
    let (rest, status) = all(&service, "a", seen.last().copied().unwrap_or(0)).await;
    seen.extend(rest);
    assert_eq!((seen, status), ((1..=10).collect(), Status::Complete));
    assert_eq!(all(&service, "b", 0).await, (vec![1, 2], Status::Complete));
}

#[tokio::test]
async fn dropped_requests_still_take_effect() {
    let dir = tempfile::tempdir().unwrap();
    let counter = Counter::new(1000);
    let registry = Registry::open(dir.path().join("runs.db")).unwrap();
    let capacity = Capacity { concurrent: 2, queued: 100 };
    let service = Service::open(registry, Arc::new(counter.clone()), capacity).await.unwrap();
    for idx in 0..30 {
        let start = service.start(new(&format!("r{idx}"), json!({ "to": 2 })));
        // A client that disconnects can drop the future at any point.
        let _ = timeout(Duration::from_micros(idx * 40), start).await;
    }
    let resume = service.resume("r29", Value::Null);
    let _ = timeout(Duration::ZERO, resume).await;
    for run in service.list(None, 99).await.unwrap() {
        assert_eq!(all(&service, &run.id, 0).await, (vec![1, 2], Status::Complete), "{}", run.id);
    }
    timeout(Duration::from_secs(120), service.shut_down(Duration::ZERO))
        .await
        .expect("the service shuts down");
}

#[tokio::test]
async fn queued_runs_do_not_start_during_shutdown() {
    let dir = tempfile::tempdir().unwrap();
    let counter = Counter::new(0);
    let service = open(dir.path(), &counter, 1).await;
    service.start(new("a", json!({ "to": 1 }))).await.unwrap();
    service.start(new("b", json!({ "to": 1 }))).await.unwrap();
    while service.get("a").await.unwrap().status == Status::Queued {
        tokio::task::yield_now().await;
    }
    let ending = tokio::spawn({
        let service = service.clone();
        async move { service.shut_down(Duration::from_secs(120)).await }
    });
    while !matches!(service.start(new("c", json!({}))).await, Err(ServiceError::ShuttingDown)) {}
    counter.allow(10);
    ending.await.unwrap();
    assert_eq!(service.get("a").await.unwrap().status, Status::Complete);
    assert_eq!(service.get("b").await.unwrap().status, Status::Queued);
}

#[tokio::test]
async fn active_runs_may_finish_during_shutdown() {
    let dir = tempfile::tempdir().unwrap();
    let counter = Counter::new(0);
    let service = open(dir.path(), &counter, 1).await;
    service.start(new("a", json!({ "to": 1 }))).await.unwrap();
    counter.wait_for_working(1).await;
    let ending = tokio::spawn({
        let service = service.clone();
        async move { service.shut_down(Duration::from_secs(120)).await }
    });
    tokio::task::yield_now().await;
    counter.allow(1);
    ending.await.unwrap();
    assert_eq!(service.get("a").await.unwrap().status, Status::Complete);
}
