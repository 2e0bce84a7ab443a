//! The one connection that writes.
//!
//! What many hand over at once is committed together, by a thread of its own. To go there and back costs a third of a
//! commit, so what comes alone is committed where it comes from, if that is a runtime of several threads and commits have
//! been quick for a while. Its thread waits for the disk then, and with it the sockets and timers that it looks after: for
//! less than half a millisecond as a rule, and longer once if a quick disk turns slow. Another process that writes, and
//! folding the log into the file, are waited for by the writer's thread alone.

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

use super::{failure::Failure, known::Known};

/// How many pieces of work one commit takes.
const BATCH: usize = 256;
/// How many pages the log may have before it is folded into the file.
const LOG: usize = 2_000;
/// What a commit may take that keeps a task's thread from other tasks, in microseconds.
const QUICK: u64 = 500;
/// How long a task's thread may be kept from other tasks by one commit after the other.
const LONG: Duration = Duration::from_millis(1);

/// Writes to a database, one commit after the other. Dropping it waits until what was handed over is written.
pub(super) struct Writer {
    shared: Arc<Shared>,
    /// Taken at the end, which ends the thread.
    queue: Option<Sender<Box<dyn Work>>>,
    thread: Option<JoinHandle<()>>,
}

/// The connection, and what it knows.
pub(super) struct Session {
    pub(super) connection: Connection,
    pub(super) known: Known,
}

/// What the thread shares with those who commit without it.
struct Shared {
    session: Mutex<Session>,
    busy_timeout: Duration,
    /// How much work was handed over to the thread and is not committed yet.
    waiting: AtomicUsize,
    /// What a commit is expected to take, in microseconds: what the slowest one took, less an eighth for each since.
    expected: AtomicU64,
    /// How long commits have kept tasks' threads since they let others run, in microseconds.
    kept: AtomicU64,
    /// How many pages the log has.
    log: Arc<AtomicUsize>,
}

impl Writer {
    pub(super) fn start(
        mut connection: Connection,
        busy_timeout: Duration,
    ) -> Result<Self, String> {
        let log = Arc::new(AtomicUsize::new(0));
        let pages = log.clone();
        // In place of SQLite's own way to fold the log in, which takes its time in the middle of a commit.
        let hook = move |_: &mut Wal, count: i32| {
            pages.store(usize::try_from(count).unwrap_or(0), Relaxed);
            Ok(())
        };
        connection.wal_hook(Some(hook)).map_err(|it| it.to_string())?;
        let shared = Arc::new(Shared {
            session: Mutex::new(Session { connection, known: Known::default() }),
            busy_timeout,
            waiting: AtomicUsize::new(0),
            // Until some were measured, none is quick.
            expected: AtomicU64::new(2 * QUICK),
            kept: AtomicU64::new(0),
            log,
        });
        let (queue, work) = mpsc::channel();
        let writing = shared.clone();
        let thread = std::thread::Builder::new()
            .name("graph-store writer".to_owned())
            .spawn(move || writing.write_all(&work))
            .map_err(|it| it.to_string())?;
        Ok(Self { shared, queue: Some(queue), thread: Some(thread) })
    }

    /// Does work in a transaction, and keeps what is known true; returns once it is committed.
    ///
    /// Work that takes a moment only is done on this very thread, if it comes alone and commits are quick; all other with
    /// whatever else has come, by the writer's thread.
    pub(super) async fn write<T, R>(
        &self,
        work: impl FnOnce(&mut Session) -> Result<T, Failure<R>> + Send + 'static,
        takes_a_moment: bool,
    ) -> Result<T, Failure<R>>
    where
        T: Send + 'static,
        R: Send + 'static,
    {
        let (task, answer) = Task::new(work);
        let task: Box<dyn Work> = Box::new(task);
        let left = if takes_a_moment { self.shared.commit_here(task) } else { Some(task) };
        match left {
            None => self.let_others_in().await,
            Some(task) => self.hand_over(task),
        }
        answer.await.unwrap_or_else(|_| Err(closed().into()))
    }

    /// Whether this holds of what is known; `None` while somebody writes.
    pub(super) fn is_known(&self, holds: impl FnOnce(&Known) -> bool) -> Option<bool> {
        self.shared.session.try_lock().ok().map(|session| holds(&session.known))
    }

    /// Lets other tasks of this thread run, once it has been kept from them for a while.
    async fn let_others_in(&self) {
        let kept = &self.shared.kept;
        if kept.fetch_add(self.shared.expected.load(Relaxed), Relaxed) >= LONG.as_micros() as u64 {
            kept.store(0, Relaxed);
            tokio::task::yield_now().await;
        }
    }

    /// Hands work over without waiting for it.
    pub(super) fn send<R: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Session) -> Result<(), Failure<R>> + Send + 'static,
    ) {
        self.hand_over(Box::new(Task::new(work).0));
    }

    fn hand_over(&self, task: Box<dyn Work>) {
        if let Some(queue) = &self.queue {
            self.shared.waiting.fetch_add(1, Relaxed);
            // Without a thread the task is dropped, and its answer with it.
            let _ = queue.send(task);
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        drop(self.queue.take());
        // A thread that panicked has said so already.
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// The thread: takes what has come, commits it at once, and answers.
    fn write_all(&self, queue: &Receiver<Box<dyn Work>>) {
        while let Ok(first) = queue.recv() {
            let mut batch = vec![first];
            let committed = {
                let mut session = self.lock();
                batch.extend(queue.try_iter().take(BATCH - 1));
                self.timed(|| {
                    begin(&session.connection).and_then(|()| commit(&mut session, &mut batch))
                })
            };
            // Answered once the connection is free: whoever comes with the next write at once may commit it.
            self.waiting.fetch_sub(batch.len(), Relaxed);
            for work in batch {
                work.answer(committed.clone());
            }
            if self.log.load(Relaxed) >= LOG {
                // What it cannot do now, because somebody reads an older state, it does another time.
                let _ = self.lock().connection.execute_batch("PRAGMA wal_checkpoint(PASSIVE)");
            }
        }
        // What SQLite has learnt of its tables helps whoever opens the file next; it is no harm if it cannot be kept.
        let _ = self.lock().connection.execute_batch("PRAGMA optimize");
    }

    /// Commits work on this very thread, or gives it back if that may take longer.
    fn commit_here(&self, task: Box<dyn Work>) -> Option<Box<dyn Work>> {
        let is_quick = self.expected.load(Relaxed) < QUICK;
        if !is_quick || self.waiting.load(Relaxed) > 0 || self.log.load(Relaxed) >= LOG {
            return Some(task);
        }
        // Where this thread is the only one, all other tasks would wait, and storing could not go on beside them.
        let has_others = Handle::try_current().is_ok_and(|it| it.metrics().num_workers() > 1);
        if !has_others {
            return Some(task);
        }
        let Ok(mut session) = self.session.try_lock() else { return Some(task) };
        if !self.begin_at_once(&session.connection) {
            return Some(task);
        }
        let mut batch = [task];
        let committed = self.timed(|| commit(&mut session, &mut batch));
        drop(session);
        let [task] = batch;
        task.answer(committed);
        None
    }

    /// Begins a transaction, unless another process has begun one.
    fn begin_at_once(&self, connection: &Connection) -> bool {
        let at_once = connection.busy_timeout(Duration::ZERO).is_ok();
        let begun = at_once && begin(connection).is_ok();
        // It cannot fail, and the rest of the transaction waits for nobody.
        let _ = connection.busy_timeout(self.busy_timeout);
        begun
    }

    /// Notes how long a commit takes. One that wrote nothing shows how slow the disk is, not how quick.
    fn timed<T>(&self, commit: impl FnOnce() -> T) -> T {
        let (started, log) = (Instant::now(), self.log.load(Relaxed));
        let committed = commit();
        let took = started.elapsed().as_micros().try_into().unwrap_or(u64::MAX);
        if took >= QUICK || self.log.load(Relaxed) != log {
            let before = self.expected.load(Relaxed);
            self.expected.store(took.max(before - before / 8), Relaxed);
        }
        committed
    }

    fn lock(&self) -> MutexGuard<'_, Session> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The writer is gone: it panicked, or the runtime shuts down.
pub(super) fn closed() -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(
        rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_MISUSE),
        Some("the database is closed".to_owned()),
    )
}

fn panicked() -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(
        rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_INTERNAL),
        Some("work on the database panicked; it was undone".to_owned()),
    )
}

/// A piece of work, and who waits for it.
trait Work: Send {
    /// Does it, and says whether what it did may stay.
    fn run(&mut self, session: &mut Session) -> Ran;

    /// Tells what came of it, once that is certain.
    fn answer(self: Box<Self>, committed: Result<(), Arc<rusqlite::Error>>);
}

/// What a piece of work came to.
enum Ran {
    Done,
    /// It refuses, or something in it failed.
    Undone(Option<Arc<rusqlite::Error>>),
}

struct Task<F, T, R> {
    work: Option<F>,
    result: Option<Result<T, Failure<R>>>,
    answer: oneshot::Sender<Result<T, Failure<R>>>,
}

impl<F, T, R> Task<F, T, R> {
    fn new(work: F) -> (Self, oneshot::Receiver<Result<T, Failure<R>>>)
    where
        F: FnOnce(&mut Session) -> Result<T, Failure<R>>,
    {
        let (answer, answered) = oneshot::channel();
        (Self { work: Some(work), result: None, answer }, answered)
    }
}

impl<F, T, R> Work for Task<F, T, R>
where
    F: FnOnce(&mut Session) -> Result<T, Failure<R>> + Send,
    T: Send,
    R: Send,
{
    fn run(&mut self, session: &mut Session) -> Ran {
        let Some(work) = self.work.take() else { return Ran::Undone(None) };
        // A panic is this work's alone: others wait for the same thread.
        let result = catch_unwind(AssertUnwindSafe(|| work(session)));
        match self.result.insert(result.unwrap_or_else(|_| Err(panicked().into()))) {
            Ok(_) => Ran::Done,
            Err(Failure::Database(error)) => Ran::Undone(Some(error.clone())),
            Err(Failure::Refused(_)) => Ran::Undone(None),
        }
    }

    fn answer(self: Box<Self>, committed: Result<(), Arc<rusqlite::Error>>) {
        let result = match (self.result, committed) {
            // A refusal stays one, whatever became of the others.
            (Some(Err(failure)), _) => Err(failure),
            (_, Err(error)) => Err(Failure::Database(error)),
            (Some(result), Ok(())) => result,
            (None, Ok(())) => Err(closed().into()),
        };
        // Nobody waits any more if the caller was dropped.
        let _ = self.answer.send(result);
    }
}

fn begin(connection: &Connection) -> Result<(), Arc<rusqlite::Error>> {
    execute(connection, "BEGIN IMMEDIATE")
}

/// Does all work in the transaction that was begun, and ends it.
fn commit(session: &mut Session, batch: &mut [Box<dyn Work>]) -> Result<(), Arc<rusqlite::Error>> {
    let done = run_all(session, batch).and_then(|is_undone| match is_undone {
        true => Ok(()),
        false => execute(&session.connection, "COMMIT"),
    });
    if done.is_err() {
        session.known.forget();
        if !session.connection.is_autocommit() {
            // The first error is the one to tell.
            let _ = execute(&session.connection, "ROLLBACK");
        }
    }
    done
}

/// Does the work, and says whether all of it is undone already.
fn run_all(
    session: &mut Session,
    batch: &mut [Box<dyn Work>],
) -> Result<bool, Arc<rusqlite::Error>> {
    session.known.check(&session.connection)?;
    if let [only] = batch {
        let is_undone = matches!(only.run(session), Ran::Undone(_));
        // One alone is undone by undoing all.
        if is_undone {
            session.known.forget();
            if !session.connection.is_autocommit() {
                execute(&session.connection, "ROLLBACK")?;
            }
        }
        return Ok(is_undone);
    }
    for work in batch {
        execute(&session.connection, "SAVEPOINT work")?;
        if let Ran::Undone(error) = work.run(session) {
            session.known.forget();
            // After some failures SQLite has undone the whole transaction already, and all that was in it.
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
mod tests {
    use std::thread;

    use tempfile::TempDir;
    use tokio::runtime::Builder;

    use super::*;

    const WRITE: &str = "INSERT INTO t VALUES (1)";

    fn writer() -> (TempDir, Writer) {
        let folder = tempfile::tempdir().unwrap();
        let connection = Connection::open(folder.path().join("file.db")).unwrap();
        // Quick on any disk: nothing waits for it.
        let set_up =
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF; CREATE TABLE t (n INTEGER)";
        connection.execute_batch(set_up).unwrap();
        (folder, Writer::start(connection, Duration::from_secs(1)).unwrap())
    }

    /// Does this, and says whether the writer's thread did it.
    async fn is_handed_over(writer: &Writer, sql: &'static str, takes_a_moment: bool) -> bool {
        let work = move |session: &mut Session| {
            session.connection.execute_batch(sql)?;
            Ok::<_, Failure<()>>(thread::current().name() == Some("graph-store writer"))
        };
        writer.write(work, takes_a_moment).await.unwrap()
    }

    /// On a busy machine a commit may take long, and the next ones are handed over.
    async fn write_until_done_here(writer: &Writer) {
        let mut tries = 0;
        while is_handed_over(writer, WRITE, true).await {
            tries += 1;
            assert!(tries < 1_000, "all are handed over");
        }
    }

    #[test]
    fn a_small_write_alone_is_committed_where_it_comes_from() {
        let (_folder, writer) = writer();
        let runtime = Builder::new_multi_thread().worker_threads(2).build().unwrap();
        runtime.block_on(async {
            // What writes nothing does not show how quick the disk is.
            for _ in 0..3 {
                assert!(is_handed_over(&writer, "SELECT 1", true).await);
            }
            write_until_done_here(&writer).await;
            assert!(is_handed_over(&writer, WRITE, false).await);
        });
        let alone = Builder::new_current_thread().build().unwrap();
        alone.block_on(async {
            for _ in 0..10 {
                assert!(is_handed_over(&writer, WRITE, true).await, "it is the only thread");
            }
        });
    }

    #[test]
    fn after_a_slow_one_the_writers_thread_commits_for_a_while() {
        let (_folder, writer) = writer();
        let runtime = Builder::new_multi_thread().worker_threads(2).build().unwrap();
        runtime.block_on(async {
            write_until_done_here(&writer).await;
            // One that comes to nothing shows it too.
            let slow = |_: &mut Session| {
                thread::sleep(Duration::from_millis(10));
                Err::<(), _>(Failure::Refused(()))
            };
            assert!(writer.write(slow, true).await.is_err());
            // From 10 ms to half a millisecond it is 23 times an eighth less.
            for _ in 0..20 {
                assert!(is_handed_over(&writer, WRITE, true).await);
            }
        });
    }

    #[test]
    fn what_sqlite_has_undone_is_not_answered_as_done() {
        let (_folder, writer) = writer();
        let runtime = Builder::new_current_thread().build().unwrap();
        let undone = |session: &mut Session| {
            session.connection.execute_batch("INSERT INTO t VALUES (1); ROLLBACK")?;
            Ok::<_, Failure<()>>(())
        };
        let answer = runtime.block_on(writer.write(undone, false));
        assert!(matches!(answer, Err(Failure::Database(_))), "{answer:?}");
        // The next one is none the worse.
        assert!(runtime.block_on(is_handed_over(&writer, "INSERT INTO t VALUES (2)", false)));
    }
}
