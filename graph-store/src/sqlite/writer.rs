//! The connection that writes to the database.
//!
//! Concurrent writes are committed together by a dedicated OS thread, the writer thread. Handing a write to that
//! thread takes about a third as long as a commit. A write that arrives alone is therefore committed on the calling
//! OS thread, if that thread belongs to a runtime with several workers and if recent commits have been fast. The
//! calling thread then blocks on the disk, and with it the sockets and timers that it drives. It usually blocks for
//! less than half a millisecond; if a fast disk becomes slow, it blocks once for longer. Only the writer thread waits
//! for writes by other processes and for WAL checkpoints.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
        mpsc::{self, Receiver, Sender},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use rusqlite::{Connection, hooks::Wal};
use tokio::{runtime::Handle, sync::oneshot};

use super::{failure::Failure, thread_cache::ThreadCache};

/// Maximum number of jobs per commit.
const MAX_BATCH: usize = 256;
/// Number of pages in the WAL at which the WAL is copied into the file.
const WAL_CHECKPOINT_PAGES: usize = 2_000;
/// Maximum expected duration of a commit on the calling OS thread, in microseconds.
const INLINE_COMMIT_MICROS: u64 = 500;
/// Maximum total time that consecutive commits may block a worker thread of the runtime before other tasks get a
/// turn.
const MAX_BLOCKING: Duration = Duration::from_millis(1);

/// Writes to a database, one commit at a time. Dropping the writer waits until all queued jobs are committed.
pub(super) struct Writer {
    shared: Arc<Shared>,
    /// Sender for queued jobs. It is taken on drop, which stops the writer thread.
    queue: Option<Sender<Box<dyn Job>>>,
    thread: Option<JoinHandle<()>>,
}

/// The connection that writes, and the cache that belongs to it.
pub(super) struct Session {
    pub(super) connection: Connection,
    pub(super) cache: ThreadCache,
}

/// State that the writer thread shares with callers that commit on their own OS thread ("inline").
struct Shared {
    session: Mutex<Session>,
    busy_timeout: Duration,
    /// Number of jobs that are queued for the writer thread and not yet committed.
    queued: AtomicUsize,
    /// Expected duration of a commit in microseconds. It is the duration of the slowest commit, reduced by an
    /// eighth for each commit since then.
    expected_micros: AtomicU64,
    /// Total time that inline commits have blocked worker threads of the runtime since the last yield, in
    /// microseconds.
    blocked_micros: AtomicU64,
    /// Number of pages in the WAL.
    wal_pages: Arc<AtomicUsize>,
}

impl Writer {
    pub(super) fn start(
        mut connection: Connection,
        busy_timeout: Duration,
    ) -> Result<Self, String> {
        let wal_pages = Arc::new(AtomicUsize::new(0));
        let hook_pages = wal_pages.clone();
        // Replaces SQLite's automatic WAL checkpoint, which would run in the middle of a commit.
        let hook = move |_: &mut Wal, count: i32| {
            hook_pages.store(usize::try_from(count).unwrap_or(0), Relaxed);
            Ok(())
        };
        connection.wal_hook(Some(hook)).map_err(|it| it.to_string())?;
        let shared = Arc::new(Shared {
            session: Mutex::new(Session { connection, cache: ThreadCache::default() }),
            busy_timeout,
            queued: AtomicUsize::new(0),
            // Commits count as slow until some commits have been measured.
            expected_micros: AtomicU64::new(2 * INLINE_COMMIT_MICROS),
            blocked_micros: AtomicU64::new(0),
            wal_pages,
        });
        let (queue, work) = mpsc::channel();
        let worker = shared.clone();
        let thread = std::thread::Builder::new()
            .name("graph-store writer".to_owned())
            .spawn(move || worker.run_thread(&work))
            .map_err(|it| it.to_string())?;
        Ok(Self { shared, queue: Some(queue), thread: Some(thread) })
    }

    /// Runs work in a transaction and returns once the transaction is committed. The work must keep the cache
    /// consistent.
    ///
    /// If `may_commit_inline` is true, no other write is queued and recent commits were fast, the work runs on the
    /// calling OS thread. Otherwise the writer thread runs it, together with other queued work.
    pub(super) async fn write<T: Send + 'static, R: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Session) -> Result<T, Failure<R>> + Send + 'static,
        may_commit_inline: bool,
    ) -> Result<T, Failure<R>> {
        let (job, answer) = ClosureJob::new(work);
        let job: Box<dyn Job> = Box::new(job);
        let remaining = if may_commit_inline { self.shared.commit_inline(job) } else { Some(job) };
        match remaining {
            None => self.yield_if_due().await,
            Some(job) => self.enqueue(job),
        }
        answer.await.unwrap_or_else(|_| Err(closed().into()))
    }

    /// Applies `check` to the cache. Returns `None` if a write is in progress.
    pub(super) fn inspect_cache(&self, check: impl FnOnce(&ThreadCache) -> bool) -> Option<bool> {
        self.shared.session.try_lock().ok().map(|session| check(&session.cache))
    }

    /// Yields to other tasks on this worker thread, once inline commits have blocked it for a while.
    async fn yield_if_due(&self) {
        let blocked = &self.shared.blocked_micros;
        if blocked.fetch_add(self.shared.expected_micros.load(Relaxed), Relaxed)
            >= MAX_BLOCKING.as_micros() as u64
        {
            blocked.store(0, Relaxed);
            tokio::task::yield_now().await;
        }
    }

    /// Queues work without waiting for it.
    pub(super) fn send<R: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Session) -> Result<(), Failure<R>> + Send + 'static,
    ) {
        self.enqueue(Box::new(ClosureJob::new(work).0));
    }

    fn enqueue(&self, job: Box<dyn Job>) {
        if let Some(queue) = &self.queue {
            self.shared.queued.fetch_add(1, Relaxed);
            // If the writer thread has ended, the job is dropped together with its reply channel.
            let _ = queue.send(job);
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        drop(self.queue.take());
        // A panic in the writer thread has already been reported.
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// Runs the writer thread, which takes all queued jobs, commits them together and replies to each caller.
    fn run_thread(&self, queue: &Receiver<Box<dyn Job>>) {
        while let Ok(first) = queue.recv() {
            let mut batch = vec![first];
            let committed = {
                let mut session = self.lock();
                batch.extend(queue.try_iter().take(MAX_BATCH - 1));
                self.measure_commit(|| {
                    begin(&session.connection).and_then(|()| commit(&mut session, &mut batch))
                })
            };
            // Reply after the connection is unlocked, so that a caller that immediately writes again can commit
            // inline.
            self.queued.fetch_sub(batch.len(), Relaxed);
            for work in batch {
                work.answer(committed.clone());
            }
            if self.wal_pages.load(Relaxed) >= WAL_CHECKPOINT_PAGES {
                // Pages that an active reader still needs are copied by a later WAL checkpoint.
                let _ = self.lock().connection.execute_batch("PRAGMA wal_checkpoint(PASSIVE)");
            }
        }
        // Saves query planner statistics for the next process that opens the file. Best effort.
        let _ = self.lock().connection.execute_batch("PRAGMA optimize");
    }

    /// Commits a job on the calling OS thread, or returns the job if committing might take too long.
    fn commit_inline(&self, job: Box<dyn Job>) -> Option<Box<dyn Job>> {
        let is_quick = self.expected_micros.load(Relaxed) < INLINE_COMMIT_MICROS;
        if !is_quick
            || self.queued.load(Relaxed) > 0
            || self.wal_pages.load(Relaxed) >= WAL_CHECKPOINT_PAGES
        {
            return Some(job);
        }
        // If this is the runtime's only worker thread, all other tasks would wait, and nothing could run
        // concurrently with the commit.
        let has_other_workers =
            Handle::try_current().is_ok_and(|it| it.metrics().num_workers() > 1);
        if !has_other_workers {
            return Some(job);
        }
        let Ok(mut session) = self.session.try_lock() else { return Some(job) };
        if !self.try_begin(&session.connection) {
            return Some(job);
        }
        let mut batch = [job];
        let committed = self.measure_commit(|| commit(&mut session, &mut batch));
        drop(session);
        let [job] = batch;
        job.answer(committed);
        None
    }

    /// Begins a transaction, unless another process is writing. Returns whether the transaction has begun.
    fn try_begin(&self, connection: &Connection) -> bool {
        let is_set = connection.busy_timeout(Duration::ZERO).is_ok();
        let begun = is_set && begin(connection).is_ok();
        // Restores the timeout for later transactions; a transaction that has begun waits for no lock. Setting the
        // timeout cannot fail.
        let _ = connection.busy_timeout(self.busy_timeout);
        begun
    }

    /// Runs a commit and measures its duration. A commit that wrote nothing can show that the disk is slow, but not
    /// that it is fast.
    fn measure_commit<T>(&self, commit: impl FnOnce() -> T) -> T {
        let (started, pages_before) = (Instant::now(), self.wal_pages.load(Relaxed));
        let committed = commit();
        let took = started.elapsed().as_micros().try_into().unwrap_or(u64::MAX);
        if took >= INLINE_COMMIT_MICROS || self.wal_pages.load(Relaxed) != pages_before {
            let before = self.expected_micros.load(Relaxed);
            self.expected_micros.store(took.max(before - before / 8), Relaxed);
        }
        committed
    }

    fn lock(&self) -> MutexGuard<'_, Session> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the error for a writer that has stopped because it panicked or because the runtime is shutting down.
pub(super) fn closed() -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(
        rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_MISUSE),
        Some("the database is closed".to_owned()),
    )
}

fn panicked() -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(
        rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_INTERNAL),
        Some("an operation on the database panicked and was rolled back".to_owned()),
    )
}

/// A unit of work and the caller that is waiting for it.
trait Job: Send {
    /// Runs the work and returns whether its changes may be committed.
    fn run(&mut self, session: &mut Session) -> JobOutcome;

    /// Sends the result to the caller, once the commit has succeeded or failed.
    fn answer(self: Box<Self>, committed: Result<(), Arc<rusqlite::Error>>);
}

/// The result of running a job.
enum JobOutcome {
    Succeeded,
    /// The work was rejected or has failed, so its changes must be rolled back.
    Failed(Option<Arc<rusqlite::Error>>),
}

struct ClosureJob<F, T, R> {
    work: Option<F>,
    result: Option<Result<T, Failure<R>>>,
    answer: oneshot::Sender<Result<T, Failure<R>>>,
}

impl<F, T, R> ClosureJob<F, T, R> {
    fn new(work: F) -> (Self, oneshot::Receiver<Result<T, Failure<R>>>)
    where
        F: FnOnce(&mut Session) -> Result<T, Failure<R>>,
    {
        let (answer, answered) = oneshot::channel();
        (Self { work: Some(work), result: None, answer }, answered)
    }
}

impl<F, T, R> Job for ClosureJob<F, T, R>
where
    F: FnOnce(&mut Session) -> Result<T, Failure<R>> + Send,
    T: Send,
    R: Send,
{
    fn run(&mut self, session: &mut Session) -> JobOutcome {
        let Some(work) = self.work.take() else { return JobOutcome::Failed(None) };
        // A panic must not affect other jobs in the same batch.
        let result = catch_unwind(AssertUnwindSafe(|| work(session)));
        match self.result.insert(result.unwrap_or_else(|_| Err(panicked().into()))) {
            Ok(_) => JobOutcome::Succeeded,
            Err(Failure::Database(error)) => JobOutcome::Failed(Some(error.clone())),
            Err(Failure::Rejected(_)) => JobOutcome::Failed(None),
        }
    }

    fn answer(self: Box<Self>, committed: Result<(), Arc<rusqlite::Error>>) {
        let result = match (self.result, committed) {
            // A failed job reports its own error, whether or not the commit succeeded.
            (Some(Err(failure)), _) => Err(failure),
            (_, Err(error)) => Err(Failure::Database(error)),
            (Some(result), Ok(())) => result,
            (None, Ok(())) => Err(closed().into()),
        };
        // Sending fails if the caller has been dropped.
        let _ = self.answer.send(result);
    }
}

fn begin(connection: &Connection) -> Result<(), Arc<rusqlite::Error>> {
    execute(connection, "BEGIN IMMEDIATE")
}

/// Runs all jobs in the current transaction and then commits it or rolls it back.
fn commit(session: &mut Session, batch: &mut [Box<dyn Job>]) -> Result<(), Arc<rusqlite::Error>> {
    let done = run_all(session, batch).and_then(|is_rolled_back| match is_rolled_back {
        true => Ok(()),
        false => execute(&session.connection, "COMMIT"),
    });
    if done.is_err() {
        session.cache.clear();
        if !session.connection.is_autocommit() {
            // Only the first error is reported, so an error of the rollback is ignored.
            let _ = execute(&session.connection, "ROLLBACK");
        }
    }
    done
}

/// Runs the jobs. Returns whether the whole transaction has already been rolled back.
fn run_all(
    session: &mut Session,
    batch: &mut [Box<dyn Job>],
) -> Result<bool, Arc<rusqlite::Error>> {
    session.cache.validate(&session.connection)?;
    if let [only] = batch {
        let is_rolled_back = matches!(only.run(session), JobOutcome::Failed(_));
        // A single job is rolled back with its transaction, so it needs no savepoint.
        if is_rolled_back {
            session.cache.clear();
            if !session.connection.is_autocommit() {
                execute(&session.connection, "ROLLBACK")?;
            }
        }
        return Ok(is_rolled_back);
    }
    for work in batch {
        execute(&session.connection, "SAVEPOINT work")?;
        if let JobOutcome::Failed(error) = work.run(session) {
            session.cache.clear();
            // After some errors, SQLite has already rolled back the whole transaction.
            if session.connection.is_autocommit() {
                return Err(error.unwrap_or_else(|| Arc::new(closed())));
            }
            execute(&session.connection, "ROLLBACK TO work")?;
        }
        execute(&session.connection, "RELEASE work")?;
    }
    Ok(false)
}

fn execute(connection: &Connection, statement: &str) -> Result<(), Arc<rusqlite::Error>> {
    let executed = connection.prepare_cached(statement).and_then(|mut it| it.execute([]));
    executed.map(|_| ()).map_err(Arc::new)
}

#[cfg(test)]
mod tests;
