//! Tests of the SQLite saver.

use std::{
    fs,
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Duration,
};

use checkpoint_testkit::{checkpointer, sample::new_checkpoint};
use graph_core::{
    CompiledGraph, Context, Durability, END, NodeError, Route, RunOptions, RunOutcome, START,
    State, StateGraph,
    checkpoint::{
        CheckpointError, CheckpointId, Checkpointer, HistoryQuery, Keep, Lookup, NewCheckpoint,
        TaskEvent, TaskId, TaskRecord,
    },
    subgraph,
};
use graph_store::{OpenError, Retention, RetentionRule, Sqlite, SqliteSaver, sqlite::Synchronous};
use tempfile::TempDir;
use tokio::task::JoinSet;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_saver_passes_the_conformance_suite() {
    let dirs = Mutex::new(Vec::new());
    let report = checkpointer::run(|| async {
        let dir = tempfile::tempdir().unwrap();
        // This test creates hundreds of files, which need not survive a power failure.
        let settings = Sqlite::settings().synchronous(Synchronous::Normal);
        let database = settings.open(dir.path().join("threads.db")).unwrap();
        let saver = SqliteSaver::new(&database);
        dirs.lock().unwrap().push(dir);
        Arc::new(saver) as Arc<dyn Checkpointer>
    });
    report.await.assert();
}

/// A temporary directory with a database.
struct TestDir(TempDir);

impl TestDir {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("threads.db")
    }

    fn saver(&self) -> SqliteSaver {
        SqliteSaver::open(self.path()).unwrap()
    }

    /// Opens the file with SQLite. Statements wait until the saver has finished writing.
    fn connection(&self) -> rusqlite::Connection {
        let connection = rusqlite::Connection::open(self.path()).unwrap();
        connection.busy_timeout(Duration::from_secs(120)).unwrap();
        connection
    }

    /// Returns the concatenated contents of all files in the directory.
    #[cfg(feature = "encryption")]
    fn bytes(&self) -> Vec<u8> {
        let files = fs::read_dir(self.0.path()).unwrap();
        files.flat_map(|it| fs::read(it.unwrap().path()).unwrap()).collect()
    }

    fn names(&self) -> Vec<String> {
        let files = fs::read_dir(self.0.path()).unwrap();
        let mut names: Vec<_> =
            files.map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

#[derive(State, Clone, Debug, Default)]
struct Diary {
    #[reduce(append)]
    days: Vec<String>,
    wanted: usize,
}

async fn write(diary: &Diary) -> DiaryUpdate {
    Diary::update().days([format!("day {}: {}", diary.days.len(), "x".repeat(200))])
}

#[derive(Route)]
enum Next {
    #[to(write)]
    More,
    #[to(END)]
    Enough,
}

fn enough(diary: &Diary) -> Next {
    if diary.days.len() < diary.wanted { Next::More } else { Next::Enough }
}

fn diary(saver: SqliteSaver) -> CompiledGraph<Diary> {
    let graph = StateGraph::<Diary>::new().node(write).edge(START, write).branch(write, enough);
    graph.checkpointer(saver).compile().unwrap()
}

async fn keep_diary(saver: &SqliteSaver, thread: &str, days: usize) {
    let options = RunOptions::new().step_limit(1_000_000);
    let thread = diary(saver.clone()).thread(thread, ()).with_options(options);
    let exit = thread.run(Diary { wanted: days, ..Diary::default() }).await.unwrap();
    assert_eq!(exit.into_state().days.len(), days);
}

#[derive(State, Clone, Debug, Default)]
struct Order {
    approved: bool,
    price: u64,
}

async fn buy(_: &Order, cx: &Context) -> Result<OrderUpdate, NodeError> {
    let price = cx.task("price", &"tea", async { Ok(42) }).await?;
    let approved: bool = cx.interrupt("buy tea?")?;
    Ok(Order::update().price(price).approved(approved))
}

fn order(saver: SqliteSaver) -> CompiledGraph<Order> {
    StateGraph::<Order>::new().node(buy).edge(START, buy).checkpointer(saver).compile().unwrap()
}

#[tokio::test]
async fn an_interrupt_is_resumed_after_reopening_the_file() {
    for durability in [Durability::Sync, Durability::Async, Durability::Exit] {
        let dir = TestDir::new();
        let thread = order(dir.saver())
            .thread("order", ())
            .with_options(RunOptions::new().durability(durability));
        let exit = thread.run(Order::default()).await.unwrap();
        assert!(matches!(exit, RunOutcome::Interrupted { .. }));
        drop(thread);

        let thread = order(dir.saver()).thread("order", ());
        let order = thread.resume(true).await.unwrap().into_state();
        assert_eq!((order.price, order.approved), (42, true));
    }
}

#[tokio::test]
async fn a_closed_database_is_one_file() {
    let dir = TestDir::new();
    keep_diary(&dir.saver(), "diary", 3).await;
    assert_eq!(dir.names(), ["threads.db"]);
}

#[tokio::test]
async fn storage_grows_linearly_and_a_long_thread_is_read_from_few_rows() {
    let dir = TestDir::new();
    let saver = dir.saver();
    keep_diary(&saver, "short", 500).await;
    keep_diary(&saver, "long", 2_000).await;
    let short = saver.thread_sizes("short").await.unwrap();
    let long = saver.thread_sizes("long").await.unwrap();
    let ratio = long.bytes() as f64 / short.bytes() as f64;
    assert!((3.9..4.3).contains(&ratio), "four times the steps take {ratio} times the space");

    saver.prune(&["long".to_owned()], Keep::Newest(1)).await.unwrap();
    let rows = saver.thread_sizes("long").await.unwrap().links;
    assert!(rows < 250, "the newest checkpoint needs {rows} rows");
    let head = saver.get(&Lookup::head("long", "")).await.unwrap().unwrap();
    assert_eq!(head.values["days"].as_array().unwrap().len(), 2_000);
}

#[tokio::test]
async fn pruning_frees_space_and_keeps_forks_intact() {
    let dir = TestDir::new();
    let saver = dir.saver();
    keep_diary(&saver, "diary", 600).await;
    let graph = diary(saver.clone());
    let thread = graph.thread("diary", ());
    let old = thread.history(None).await.unwrap().into_iter().find(|it| it.step == 300).unwrap();
    let fork = thread.at(old.id).run(Diary::update().wanted(310)).await.unwrap();
    let fork = fork.into_state();

    let before = saver.database().file_sizes().await.unwrap();
    let pruned = saver.prune(&["diary".to_owned()], Keep::Newest(3)).await.unwrap();
    assert!(pruned.checkpoints > 600, "{pruned:?}");
    let vacuumed = saver.database().vacuum().await.unwrap();
    let after = saver.database().file_sizes().await.unwrap();
    assert!(vacuumed.bytes > 0 && after.free_bytes == 0, "{vacuumed:?} {after:?}");
    assert!(after.file_bytes + after.log_bytes < (before.file_bytes + before.log_bytes) / 2);

    let kept = saver.list(&HistoryQuery::new("diary", "")).await.unwrap();
    assert_eq!(kept.len(), 3);
    assert_eq!(thread.state().await.unwrap().unwrap().values.days, fork.days);
    let more = thread.run(Diary::update().wanted(315)).await.unwrap().into_state();
    assert_eq!(more.days[..fork.days.len()], fork.days);
    assert_eq!(saver.database().vacuum().await.unwrap().links, 0);
}

#[tokio::test]
async fn subgraphs_of_removed_steps_are_pruned() {
    let dir = TestDir::new();
    let saver = dir.saver();
    let inner = StateGraph::<Diary>::new().node(write).edge(START, write).compile().unwrap();
    let visit = subgraph(
        "visit",
        &inner,
        |_: &Diary| Diary::default(),
        |it: Diary| Diary::update().days(it.days),
    );
    let graph = StateGraph::<Diary>::new().node(visit).node(write);
    let graph = graph.edge(START, "visit").edge("visit", write).branch(write, again);
    let graph = graph.checkpointer(saver.clone()).compile().unwrap();
    let thread = graph.thread("diary", ());
    let exit = thread.run(Diary { wanted: 40, ..Diary::default() }).await.unwrap();
    assert_eq!(exit.into_state().days.len(), 40);
    assert_eq!(saver.namespaces("diary").await.unwrap().len(), 21);

    saver.prune(&["diary".to_owned()], Keep::Newest(3)).await.unwrap();
    // The newest three checkpoints are those after `write`, after `visit` and before `visit`. The subgraph belongs to
    // the step that follows the third one, so its namespace is kept.
    assert_eq!(saver.namespaces("diary").await.unwrap().len(), 2);
    let history = thread.history(None).await.unwrap();
    assert_eq!(history.len(), 3);
    let again = thread.at(history[2].id).proceed().await.unwrap();
    assert_eq!(again.into_state().days.len(), 40);
    assert_eq!(saver.database().vacuum().await.unwrap().links, 0);
}

fn again(diary: &Diary) -> Again {
    if diary.days.len() < diary.wanted { Again::More } else { Again::Enough }
}

#[derive(Route)]
enum Again {
    #[to("visit")]
    More,
    #[to(END)]
    Enough,
}

#[tokio::test]
async fn vacuum_removes_links_left_by_a_crash() {
    let dir = TestDir::new();
    let saver = dir.saver();
    keep_diary(&saver, "diary", 20).await;
    keep_diary(&saver, "other", 2).await;
    // Simulates a process that crashed after it removed the checkpoints and before it swept their links.
    let file = dir.connection();
    file.execute_batch(
        "DELETE FROM checkpoint WHERE namespace IN (SELECT id FROM namespace WHERE thread = 'diary')",
    )
    .unwrap();
    assert!(saver.database().vacuum().await.unwrap().links >= 20);
    let other = saver.get(&Lookup::head("other", "")).await.unwrap().unwrap();
    assert_eq!(other.values["days"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn retention_applies_its_rules() {
    let dir = TestDir::new();
    let saver = dir.saver();
    for thread in ["a", "audit", "busy"] {
        keep_diary(&saver, thread, 10).await;
    }
    let waiting = order(saver.clone()).thread("waiting", ()).run(Order::default()).await.unwrap();
    assert!(matches!(waiting, RunOutcome::Interrupted { .. }));
    let _busy = saver.lease("busy").await.unwrap();

    let count = async |thread| saver.list(&HistoryQuery::new(thread, "")).await.unwrap().len();
    let retention = Retention::new(RetentionRule::keep_all().keep_last(4))
        .thread("audit", RetentionRule::keep_all());
    let report = retention.apply(&saver).await.unwrap();
    assert_eq!((report.threads, report.checkpoints), (0, 8));
    assert_eq!((count("a").await, count("audit").await, count("busy").await), (4, 12, 12));

    let none = Retention::new(RetentionRule::keep_all().max_age(Duration::from_secs(3600)));
    assert_eq!(none.apply(&saver).await.unwrap().checkpoints, 0);
    let old = Retention::new(RetentionRule::keep_all().max_age(Duration::ZERO));
    old.apply(&saver).await.unwrap();
    assert_eq!((count("a").await, count("busy").await), (1, 12));

    let idle = Retention::new(RetentionRule::keep_all().delete_idle(Duration::ZERO));
    assert_eq!(idle.apply(&saver).await.unwrap().threads, 2);
    assert_eq!(saver.threads().await.unwrap(), ["busy", "waiting"]);
    let order = order(saver.clone()).thread("waiting", ()).resume(true).await.unwrap();
    assert!(order.into_state().approved);
}

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
    let first = first_checkpoint(CheckpointId::next(), "late");
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

/// Returns the first checkpoint of a thread.
fn first_checkpoint(id: CheckpointId, run: &str) -> NewCheckpoint {
    new_checkpoint("diary", id, None, run, Vec::new())
}

#[tokio::test]
async fn a_second_checkpoint_with_the_same_id_is_rejected() {
    let dir = TestDir::new();
    let saver = dir.saver();
    let id = CheckpointId::next();
    saver.put(first_checkpoint(id, "one")).await.unwrap();
    saver.put(first_checkpoint(id, "one")).await.unwrap();
    let other = saver.put(first_checkpoint(id, "another")).await;
    assert!(matches!(other, Err(CheckpointError::HeadMoved { .. })), "{other:?}");
    let mut older = first_checkpoint(CheckpointId::from_bytes([0; 16]), "one");
    older.expected_head = Some(id);
    let older = saver.put(older).await;
    assert!(matches!(older, Err(CheckpointError::NotNewer { .. })), "{older:?}");
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
async fn changed_and_cyclic_chains_are_reported_as_damaged() {
    for change in ["prev = prev - 1", "prev = id", "prev = id + 1", "depth = depth + 1"] {
        let dir = TestDir::new();
        let saver = dir.saver();
        keep_diary(&saver, "diary", 5).await;
        let file = dir.connection();
        // Damages the newest change to a field that has a predecessor. Bodies have no predecessor, and records have
        // depth 0.
        let changed = format!(
            "UPDATE link SET {change} WHERE id = (
                 SELECT max(id) FROM link WHERE prev IS NOT NULL AND depth > 0
             )"
        );
        assert_eq!(file.execute(&changed, []).unwrap(), 1);
        let head = saver.get(&Lookup::head("diary", "")).await;
        assert!(matches!(head, Err(CheckpointError::Corrupt { .. })), "{change}: {head:?}");
    }
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
async fn retention_skips_a_damaged_thread() {
    let dir = TestDir::new();
    let saver = dir.saver();
    for thread in ["a", "b"] {
        keep_diary(&saver, thread, 5).await;
    }
    let file = dir.connection();
    file.execute_batch(
        "UPDATE checkpoint SET tips = x'00' WHERE namespace IN (SELECT id FROM namespace WHERE thread = 'a')",
    )
    .unwrap();
    let report =
        Retention::new(RetentionRule::keep_all().keep_last(1)).apply(&saver).await.unwrap();
    assert_eq!(report.failed.len(), 1);
    assert_eq!(report.failed[0].0, "a");
    assert_eq!(report.checkpoints, 6);
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
async fn verify_finds_a_damaged_table() {
    let dir = TestDir::new();
    let saver = dir.saver();
    keep_diary(&saver, "diary", 5).await;
    assert_eq!(saver.database().verify().await.unwrap(), Vec::<String>::new());
    let file = dir.connection();
    file.execute_batch(
        "PRAGMA writable_schema = ON;
         UPDATE sqlite_schema SET sql = replace(sql, 'depth INTEGER', 'depth TEXT') WHERE name = 'link'",
    )
    .unwrap();
    drop((file, saver));
    let problems = dir.saver().database().verify().await.unwrap();
    assert!(!problems.is_empty());
}

#[tokio::test]
async fn a_value_above_the_limit_is_rejected() {
    let dir = TestDir::new();
    let database = Sqlite::settings().max_value_bytes(1_000).open(dir.path()).unwrap();
    let saver = SqliteSaver::new(&database);
    let thread = diary(saver.clone()).thread("diary", ());
    let days = vec!["y".repeat(2_000)];
    let error = thread.run(Diary { days, wanted: 1 }).await.unwrap_err().to_string();
    assert!(error.contains("more than the limit of 1000"), "{error}");
    // The thread is unchanged and can be run again.
    let exit = thread.run(Diary { wanted: 1, ..Diary::default() }).await.unwrap();
    assert_eq!(exit.into_state().days.len(), 1);
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixteen_concurrent_threads_keep_their_own_states() {
    let dir = TestDir::new();
    let saver = dir.saver();
    let runs = (0..16).map(|index| {
        let saver = saver.clone();
        tokio::spawn(async move { keep_diary(&saver, &format!("t{index}"), 20 + index).await })
    });
    for run in runs.collect::<Vec<_>>() {
        run.await.unwrap();
    }
    for index in 0..16 {
        let head = saver.get(&Lookup::head(format!("t{index}"), "")).await.unwrap().unwrap();
        assert_eq!(head.values["days"].as_array().unwrap().len(), 20 + index);
    }
    assert_eq!(saver.sizes().await.unwrap().threads, 16);
}

/// Runs are not disturbed by pruning and vacuuming, whether these use the same database handle as the runs or another
/// handle.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_and_cleanup_do_not_disturb_each_other() {
    let dir = TestDir::new();
    let saver = dir.saver();
    let names: Vec<_> = (0..8).map(|it| format!("t{it}")).collect();
    for cleaner in [saver.clone(), dir.saver()] {
        let mut runs = JoinSet::new();
        for name in names.clone() {
            let saver = saver.clone();
            runs.spawn(async move { keep_diary(&saver, &name, 30).await });
        }
        while !runs.is_empty() {
            cleaner.prune(&names, Keep::Newest(3)).await.unwrap();
            cleaner.database().vacuum().await.unwrap();
            while let Some(done) = runs.try_join_next() {
                done.unwrap();
            }
        }
        cleaner.prune(&names, Keep::Newest(3)).await.unwrap();
        assert_eq!(saver.sizes().await.unwrap().checkpoints, 8 * 3);
        for name in &names {
            let head = saver.get(&Lookup::head(name, "")).await.unwrap().unwrap();
            assert_eq!(head.values["days"].as_array().unwrap().len(), 30);
            saver.delete_thread(name).await.unwrap();
        }
        // Pruning has already removed all unneeded links.
        assert_eq!(cleaner.database().vacuum().await.unwrap().links, 0);
    }
}

#[cfg(feature = "encryption")]
mod encrypted {
    use graph_store::Keys;

    use super::*;

    const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

    #[tokio::test]
    async fn an_encrypted_state_is_not_readable_on_disk() {
        let dir = TestDir::new();
        let settings = Sqlite::settings().encrypt(Keys::parse(KEY).unwrap());
        let saver = SqliteSaver::new(&settings.open(dir.path()).unwrap());
        let day = "met a submarine".to_owned();
        let thread = diary(saver.clone()).thread("diary", ());
        let exit = thread.run(Diary { days: vec![day.clone()], wanted: 2 }).await.unwrap();
        assert_eq!(exit.into_state().days.len(), 2);
        let found = dir.bytes().windows(9).any(|it| it == b"submarine");
        assert!(!found, "the state is readable on disk");
        let state = thread.state().await.unwrap().unwrap();
        assert_eq!(state.values.days[0], day);
        drop((saver, thread));

        let error = dir.saver().get(&Lookup::head("diary", "")).await.unwrap_err().to_string();
        assert!(error.contains("is encrypted"), "{error}");
    }
}
