//! Tests that the writer's cache stays valid when other connections write.

use std::{fs, thread};

use checkpoint_testkit::sample::new_checkpoint;
use graph_core::checkpoint::{
    Change, CheckpointError, CheckpointId, CheckpointKey, CheckpointWrite, Checkpointer,
    HistoryQuery, Keep, Lookup, MemorySaver, NewCheckpoint, TaskEvent, TaskId, TaskRecord,
};
use graph_store::{Sqlite, SqliteSaver, sqlite::Synchronous};
use proptest::{prelude::*, sample::Index};
use serde_json::json;
use tokio::{runtime::Builder, task::JoinSet};

const THREADS: [&str; 3] = ["a", "b", "c"];

/// An operation on a thread, made through one of two handles that are open on the same file.
#[derive(Clone, Copy, Debug)]
enum Operation {
    /// Stores a checkpoint that builds on the checkpoint `base`, or on the newest checkpoint if `base` is `None`.
    Put {
        base: Option<Index>,
        is_current: bool,
    },
    /// Stores a task record for the checkpoint `at`, or for one that does not exist yet if `at` is `None`.
    Record {
        at: Option<Index>,
    },
    Delete,
    CopyTo(usize),
    Prune,
    DeleteRun,
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        6 => Just(Operation::Put { base: None, is_current: true }),
        2 => any::<Index>().prop_map(|base| Operation::Put { base: Some(base), is_current: true }),
        1 => any::<Index>().prop_map(|base| Operation::Put { base: Some(base), is_current: false }),
        2 => any::<Option<Index>>().prop_map(|at| Operation::Record { at }),
        1 => Just(Operation::Delete),
        1 => (0..THREADS.len()).prop_map(Operation::CopyTo),
        1 => Just(Operation::Prune),
        1 => Just(Operation::DeleteRun),
    ]
}

/// Returns the id of the checkpoint with this number. Ids are predictable, so that records can be stored before
/// their checkpoint.
fn next_id(number: usize) -> CheckpointId {
    CheckpointId::from_bytes((number as u128).to_be_bytes())
}

async fn ids(saver: &impl Checkpointer, thread: &str) -> Vec<CheckpointId> {
    let history = saver.list(&HistoryQuery::new(thread, "")).await.unwrap();
    history.into_iter().map(|it| it.key.id).collect()
}

/// Applies an operation. `known` contains the ids of the thread's checkpoints, newest first. Returns an error as text.
async fn apply(
    saver: &impl Checkpointer,
    known: &[CheckpointId],
    thread: &str,
    number: usize,
    operation: Operation,
) -> Result<(), String> {
    let pick = |index: Index| known.get(index.index(known.len().max(1))).copied();
    let key = |id| CheckpointKey { thread: thread.into(), namespace: String::new(), id };
    let done = match operation {
        Operation::Put { base, is_current } => {
            let head = known.first().copied();
            let base = base.map_or(head, pick);
            let id = next_id(number);
            let changes = vec![
                ("last".into(), Change::Set(json!(number))),
                ("all".into(), Change::Extend(vec![json!(number)])),
            ];
            let expected_head = if is_current { head } else { base };
            let run = format!("run {}", number % 3);
            let put = new_checkpoint(thread, id, base, &run, changes);
            let put = NewCheckpoint { expected_head, ..put };
            saver.put(put).await
        }
        Operation::Record { at } => {
            let at = at.and_then(pick).unwrap_or(next_id(number + 1));
            let event = TaskEvent::Failed { error: number.to_string(), handled: false };
            let task = TaskId::from_parts(&[&number.to_be_bytes()]);
            let record = TaskRecord { task, node: "node".into(), event };
            saver.record(&key(at), vec![record]).await
        }
        Operation::Delete => saver.delete_thread(thread).await,
        Operation::CopyTo(to) => saver.copy_thread(thread, THREADS[to]).await,
        Operation::Prune => saver.prune(&[thread.into()], Keep::Newest(2)).await.map(|_| ()),
        Operation::DeleteRun => saver.delete_runs(&["run 1".into()]).await,
    };
    done.map_err(|it| it.to_string())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Two handles that are open on one file and used alternately behave like an in-memory saver.
    #[test]
    fn two_writers_never_use_stale_cache_entries(
        operations in prop::collection::vec((operation(), 0..THREADS.len(), any::<bool>()), 1..=40),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("threads.db");
        let open = || {
            // The files of this test need not survive a power failure.
            let settings = Sqlite::settings().synchronous(Synchronous::Normal);
            SqliteSaver::new(&settings.open(&path).unwrap())
        };
        let (one, other, model) = (open(), open(), MemorySaver::default());
        let runtime = Builder::new_multi_thread().worker_threads(2).build().unwrap();
        runtime.block_on(async {
            for (number, (operation, thread, by_one)) in operations.into_iter().enumerate() {
                let thread = THREADS[thread];
                let known = ids(&model, thread).await;
                let saver = if by_one { &one } else { &other };
                let expected = apply(&model, &known, thread, number + 1, operation).await;
                let found = apply(saver, &known, thread, number + 1, operation).await;
                prop_assert_eq!(found, expected, "{:?}", operation);
            }
            for thread in THREADS {
                for saver in [&one, &other] {
                    let history = HistoryQuery::new(thread, "");
                    let found = saver.list(&history).await.unwrap();
                    let expected = model.list(&history).await.unwrap();
                    prop_assert_eq!(json!(found), json!(expected));
                }
            }
            Ok(())
        })?;
    }
}

fn put(
    thread: &str,
    id: CheckpointId,
    head: Option<CheckpointId>,
    change: Change,
) -> NewCheckpoint {
    new_checkpoint(thread, id, head, "run", vec![("field".into(), change)])
}

/// If the second checkpoint of a write is rejected, the first one is rolled back with it and must not stay in the
/// cache.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rolled_back_checkpoints_are_not_cached() {
    let dir = tempfile::tempdir().unwrap();
    let saver = SqliteSaver::open(dir.path().join("threads.db")).unwrap();
    let mut threads = JoinSet::new();
    // In the first round, a single thread writes, so its writes are committed alone. In the second round, many
    // threads write and share commits.
    for round in [1, 40] {
        for number in 0..round {
            let saver = saver.clone();
            threads.spawn(async move {
                let (thread, id) = (format!("{round} {number}"), CheckpointId::next());
                let put = |id| put(&thread, id, None, Change::Extend(vec![json!(1)]));
                let second = put(CheckpointId::after(Some(id)));
                let both =
                    vec![CheckpointWrite::Put(put(id).into()), CheckpointWrite::Put(second.into())];
                let result = saver.write(both).await;
                assert!(matches!(result, Err(CheckpointError::HeadMoved { .. })), "{result:?}");
                saver.put(put(CheckpointId::after(Some(id)))).await.unwrap();
                let found = saver.get(&Lookup::head(thread.clone(), "")).await.unwrap().unwrap();
                assert_eq!(found.values["field"], json!([1]));
            });
        }
        while let Some(done) = threads.join_next().await {
            done.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_wal_stays_short_while_one_thread_writes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("threads.db");
    let settings = Sqlite::settings().synchronous(Synchronous::Normal);
    let saver = SqliteSaver::new(&settings.open(&path).unwrap());
    let mut head = None;
    for number in 0..800 {
        let id = CheckpointId::after(head);
        let change = Change::Set(json!(format!("{number:50000}")));
        saver.put(put("thread", id, head, change)).await.unwrap();
        head = Some(id);
    }
    // The test has written 40 MB. The WAL stays smaller only if it is regularly copied into the file and reused.
    let wal_bytes = fs::metadata(path.with_extension("db-wal")).unwrap().len();
    assert!(wal_bytes < 12 << 20, "{wal_bytes} bytes");
}

/// Starts writes without waiting for their completion.
async fn start_writes(saver: &SqliteSaver, threads: &[String]) {
    for thread in threads {
        let put = saver.put(put(thread, CheckpointId::next(), None, Change::Set(json!(1))));
        // The future is polled once and then dropped.
        tokio::select! { biased; _ = put => {}, () = std::future::ready(()) => {} }
    }
}

#[tokio::test]
async fn started_writes_complete_before_the_file_is_closed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("threads.db");
    let saver = SqliteSaver::open(&path).unwrap();
    let lease = saver.lease("0").await.unwrap();
    let threads: Vec<_> = (0..50).map(|it| it.to_string()).collect();
    start_writes(&saver, &threads).await;
    drop((lease, saver));
    let saver = SqliteSaver::open(&path).unwrap();
    assert_eq!(saver.threads().await.unwrap().len(), threads.len());
}

/// Another process may take over a thread as soon as the owner file is gone, so that file must be removed last.
#[tokio::test]
async fn the_owner_file_exists_until_everything_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("threads.db");
    let saver = SqliteSaver::open(&path).unwrap();
    let threads: Vec<_> = (0..2_000).map(|it| it.to_string()).collect();
    start_writes(&saver, &threads).await;
    let closing = thread::spawn(move || drop(saver));
    let mut is_closed = false;
    while !is_closed {
        is_closed = closing.is_finished();
        let mut names = fs::read_dir(dir.path()).unwrap().map(|it| it.unwrap().file_name());
        let has_owner = names.any(|it| it.to_string_lossy().contains("-owner-"));
        // Look for the WAL after looking for the owner file. If the owner file is gone, the WAL must already be gone.
        let has_wal = path.with_extension("db-wal").exists();
        assert!(has_owner || !has_wal);
    }
    closing.join().unwrap();
}
