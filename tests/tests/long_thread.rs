//! Tests that the newest checkpoint of a long thread (100,000 steps in nightly runs) is read from few rows.
#![expect(clippy::unwrap_used, reason = "test code, including helper functions")]

use checkpoint_testkit::sample::next_checkpoint;
use graph_core::checkpoint::{Change, Checkpointer, Keep, Lookup};
use graph_store::{PostgresSaver, Sizes, Sqlite, SqliteSaver, sqlite::Synchronous};
use graph_tests::postgres;
use serde_json::{Value, json};
use test_support::is_nightly;

fn steps() -> i64 {
    if is_nightly() { 100_000 } else { 2_000 }
}

/// Writes a thread that sets one field once and appends to another field in each step.
async fn write_long_thread(saver: &impl Checkpointer) {
    let mut head = None;
    for step in 0..steps() {
        let mut changes = vec![("log".to_owned(), Change::Extend(vec![json!(step)]))];
        if step == 0 {
            changes.push(("topic".to_owned(), Change::Set(json!("rows"))));
        }
        let new = next_checkpoint("t", head, changes);
        head = Some(new.key.id);
        saver.put(new).await.unwrap();
    }
}

/// Prunes all rows that the newest checkpoint does not need, and then reads that checkpoint.
async fn prune_and_read_newest(saver: &impl Checkpointer) {
    saver.prune(&["t".to_owned()], Keep::Newest(1)).await.unwrap();
    let head = saver.get(&Lookup::head("t", "")).await.unwrap().unwrap();
    let log: Vec<_> = (0..steps()).map(Value::from).collect();
    assert!(head.values["log"] == Value::Array(log));
    assert_eq!(head.values["topic"], "rows");
}

/// Checks the number of rows. The growing field needs at most 200 rows per compaction level, and every level compacts
/// 200 rows of the level below. The field that is set once and the header add one row each.
fn check(sizes: &Sizes) {
    let levels = 1.0 + (steps() as f64).ln() / 200_f64.ln();
    assert!(sizes.links as f64 <= 200.0 * levels + 2.0, "{} rows", sizes.links);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn newest_checkpoint_of_a_long_sqlite_thread_is_read_from_few_rows() {
    let dir = tempfile::tempdir().unwrap();
    let settings = Sqlite::settings().synchronous(Synchronous::Normal);
    let saver = SqliteSaver::new(&settings.open(dir.path().join("threads.db")).unwrap());
    write_long_thread(&saver).await;
    prune_and_read_newest(&saver).await;
    check(&saver.thread_sizes("t").await.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn newest_checkpoint_of_a_long_postgres_thread_is_read_from_few_rows() {
    let Some(server) = postgres::shared() else { return };
    let saver = PostgresSaver::connect(&server.fresh_database()).await.unwrap();
    write_long_thread(&saver).await;
    prune_and_read_newest(&saver).await;
    check(&saver.thread_sizes("t").await.unwrap());
}
