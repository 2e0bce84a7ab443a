//! Tests of the writer thread.

use std::thread;

use tempfile::TempDir;
use tokio::runtime::Builder;

use super::*;

const WRITE: &str = "INSERT INTO t VALUES (1)";

fn writer() -> (TempDir, Writer) {
    let dir = tempfile::tempdir().unwrap();
    let connection = Connection::open(dir.path().join("file.db")).unwrap();
    // `synchronous = OFF` skips `fsync`, so that commits are fast on any disk.
    let set_up = "PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF; CREATE TABLE t (n INTEGER)";
    connection.execute_batch(set_up).unwrap();
    (dir, Writer::start(connection, Duration::from_secs(1)).unwrap())
}

/// Executes a statement and returns whether the writer thread executed it.
async fn runs_on_writer_thread(
    writer: &Writer,
    sql: &'static str,
    may_commit_inline: bool,
) -> bool {
    let work = move |session: &mut Session| {
        session.connection.execute_batch(sql)?;
        Ok::<_, Failure<()>>(thread::current().name() == Some("graph-store writer"))
    };
    writer.write(work, may_commit_inline).await.unwrap()
}

/// Repeats a write until it is committed inline. On a busy machine a commit may be slow, and the following
/// commits then go to the writer thread.
async fn write_until_inline(writer: &Writer) {
    let mut tries = 0;
    while runs_on_writer_thread(writer, WRITE, true).await {
        tries += 1;
        assert!(tries < 100_000, "no write was committed inline");
    }
}

#[test]
fn a_small_single_write_is_committed_inline() {
    let (_dir, writer) = writer();
    let runtime = Builder::new_multi_thread().worker_threads(2).build().unwrap();
    runtime.block_on(async {
        // Expected: a commit that writes nothing does not count as evidence that the disk is fast.
        for _ in 0..3 {
            assert!(runs_on_writer_thread(&writer, "SELECT 1", true).await);
        }
        write_until_inline(&writer).await;
        assert!(runs_on_writer_thread(&writer, WRITE, false).await);
    });
    let alone = Builder::new_current_thread().build().unwrap();
    alone.block_on(async {
        for _ in 0..10 {
            assert!(
                runs_on_writer_thread(&writer, WRITE, true).await,
                "the runtime has one worker"
            );
        }
    });
}

#[test]
fn writes_after_a_slow_commit_go_to_the_writer_thread() {
    let (_dir, writer) = writer();
    let runtime = Builder::new_multi_thread().worker_threads(2).build().unwrap();
    runtime.block_on(async {
        write_until_inline(&writer).await;
        // Expected: the duration of a job that fails is measured too.
        let slow = |_: &mut Session| {
            thread::sleep(Duration::from_millis(10));
            Err::<(), _>(Failure::Rejected(()))
        };
        assert!(writer.write(slow, true).await.is_err());
        // It takes 23 reductions by one eighth for 10 ms to fall below half a millisecond, so 20 more commits count
        // as slow.
        for _ in 0..20 {
            assert!(runs_on_writer_thread(&writer, WRITE, true).await);
        }
    });
}

#[test]
fn a_transaction_rolled_back_by_sqlite_is_reported_as_failed() {
    let (_dir, writer) = writer();
    let runtime = Builder::new_current_thread().build().unwrap();
    let rolled_back = |session: &mut Session| {
        session.connection.execute_batch("INSERT INTO t VALUES (1); ROLLBACK")?;
        Ok::<_, Failure<()>>(())
    };
    let answer = runtime.block_on(writer.write(rolled_back, false));
    assert!(matches!(answer, Err(Failure::Database(_))), "{answer:?}");
    // The next job is not affected.
    assert!(runtime.block_on(runs_on_writer_thread(&writer, "INSERT INTO t VALUES (2)", false)));
}
