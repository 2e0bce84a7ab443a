//! Leases of threads in a SQLite file, and files that cannot be opened.

use std::{fs, time::Duration};

use checkpoint_testkit::sample::next_checkpoint;
use graph_core::checkpoint::{
    CheckpointError, Checkpointer, Lookup, TaskEvent, TaskId, TaskRecord,
};
use graph_store::{OpenError, Sqlite, SqliteSaver};

use crate::diary::{TestDir, keep_diary};

#[tokio::test]
async fn a_thread_is_leased_by_one_open_database_at_a_time() {
    let dir = TestDir::new();
    let (one, two) = (dir.saver(), dir.saver());
    let lease = one.lease("t").await.unwrap();
    assert!(matches!(two.lease("t").await, Err(CheckpointError::Busy { .. })));
    drop(lease);
    let lease_of_two = loop {
        match two.lease("t").await {
            Err(CheckpointError::Busy { .. }) => tokio::task::yield_now().await,
            result => break result.unwrap(),
        }
    };
    assert!(matches!(one.lease("t").await, Err(CheckpointError::Busy { .. })));
    drop(lease_of_two);
}

#[tokio::test]
async fn a_thread_of_a_dead_owner_can_be_leased_and_stale_writes_are_rejected() {
    let dir = TestDir::new();
    let (one, two) = (dir.saver(), dir.saver());
    let _lease = one.lease("diary").await.unwrap();
    // Without its owner file, an owner counts as dead, as if its process had ended.
    for name in dir.names().iter().filter(|it| it.contains("-owner-")) {
        fs::remove_file(dir.0.path().join(name)).unwrap();
    }
    let _lease_of_two = two.lease("diary").await.unwrap();
    let first = next_checkpoint("diary", None, Vec::new());
    let key = first.key.clone();
    let late = one.put(first).await;
    assert!(matches!(late, Err(CheckpointError::LeaseLost { .. })), "{late:?}");
    // A process that lost its lease cannot store task records either, because they would replace those of the
    // active run.
    let event = TaskEvent::Failed { error: "late".into(), handled: false };
    let late = TaskRecord { task: TaskId::from_parts(&[b"task"]), node: "write".into(), event };
    let late = one.record(&key, vec![late]).await;
    assert!(matches!(late, Err(CheckpointError::LeaseLost { .. })), "{late:?}");
}

#[cfg(unix)]
#[tokio::test]
async fn a_lease_holds_for_symlinks_to_the_file() {
    let dir = TestDir::new();
    let one = dir.saver();
    let link = dir.0.path().join("link.db");
    std::os::unix::fs::symlink(dir.path(), &link).unwrap();
    let two = SqliteSaver::open(link).unwrap();
    let _lease = one.lease("t").await.unwrap();
    assert!(matches!(two.lease("t").await, Err(CheckpointError::Busy { .. })));
}

#[tokio::test]
async fn a_failed_release_does_not_lock_out_its_own_process() {
    let dir = TestDir::new();
    let saver = dir.saver();
    let lease = saver.lease("t").await.unwrap();
    let file = dir.connection();
    file.execute_batch(
        "CREATE TRIGGER no BEFORE DELETE ON lease BEGIN SELECT raise(ABORT, 'no'); END",
    )
    .unwrap();
    assert!(matches!(saver.lease("t").await, Err(CheckpointError::Busy { .. })));
    drop(lease);
    let _second = saver.lease("t").await.unwrap();
    assert!(matches!(dir.saver().lease("t").await, Err(CheckpointError::Busy { .. })));
}

#[tokio::test]
async fn readers_do_not_block_on_writers() {
    let dir = TestDir::new();
    let saver = dir.saver();
    keep_diary(&saver, "t", 2).await;
    let writing = dir.connection();
    writing.execute_batch("BEGIN IMMEDIATE").unwrap();
    let settings = Sqlite::settings().busy_timeout(Duration::ZERO);
    let other = SqliteSaver::new(&settings.open(dir.path()).unwrap());
    assert_eq!(other.threads().await.unwrap(), ["t"]);
    let days = other.get(&Lookup::head("t", "")).await.unwrap().unwrap().values["days"].clone();
    assert_eq!(days.as_array().unwrap().len(), 2);
    writing.execute_batch("ROLLBACK").unwrap();
}

#[tokio::test]
async fn paths_that_are_not_files_are_rejected() {
    for name in ["", ":memory:", "file:threads.db"] {
        let error = SqliteSaver::open(name).unwrap_err().to_string();
        assert!(error.contains("the path must specify a file"), "{error}");
    }
}

#[tokio::test]
async fn files_of_dead_owners_are_removed() {
    let dir = TestDir::new();
    let left = dir.0.path().join("threads.db-owner-0123456789abcdef");
    fs::write(&left, "").unwrap();
    let living = dir.saver();
    assert!(!left.exists());
    let _another = dir.saver();
    let owners = dir.names().iter().filter(|it| it.contains("-owner-")).count();
    assert_eq!(owners, 2);
    drop(living);
}

#[tokio::test]
async fn foreign_files_are_rejected_and_unchanged() {
    let dir = TestDir::new();
    fs::write(dir.path(), "this is a letter, and no database; it is long enough to be read")
        .unwrap();
    let error = SqliteSaver::open(dir.path()).unwrap_err();
    assert!(matches!(error, OpenError::Unreachable { .. }), "{error}");
    assert!(error.to_string().contains("choose another"), "{error}");
    assert!(fs::read(dir.path()).unwrap().starts_with(b"this is a letter"));

    let dir = TestDir::new();
    let file = dir.connection();
    file.execute_batch("CREATE TABLE mine (x)").unwrap();
    assert!(matches!(SqliteSaver::open(dir.path()), Err(OpenError::Foreign { .. })));

    let dir = TestDir::new();
    drop(dir.saver());
    let file = dir.connection();
    file.pragma_update(None, "user_version", 99).unwrap();
    let error = SqliteSaver::open(dir.path()).unwrap_err();
    assert!(matches!(error, OpenError::TooNew { found: 99, .. }), "{error}");

    let missing = TestDir::new().path().join("nowhere/threads.db");
    let error = SqliteSaver::open(missing).unwrap_err().to_string();
    assert!(error.contains("check that its directory exists"), "{error}");
}
