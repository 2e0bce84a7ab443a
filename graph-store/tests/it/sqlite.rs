//! The saver on SQLite.

use std::{
    fs,
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Duration,
};

use graph_core::{
    CompiledGraph, Context, Durability, END, Exit, NodeError, Route, RunOptions, START, State,
    StateGraph,
    checkpoint::{
        CheckpointError, CheckpointId, Checkpointer, Event, History, Keep, Lookup, NewCheckpoint,
        TaskId, TaskRecord, testkit,
    },
    subgraph,
};
use graph_store::{OpenError, Retention, Rule, Sqlite, SqliteSaver, sqlite::Synchronous};
use tempfile::TempDir;
use tokio::task::JoinSet;

use crate::by_hand::new_checkpoint;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_saver_conforms() {
    let folders = Mutex::new(Vec::new());
    let report = testkit::run(|| async {
        let folder = tempfile::tempdir().unwrap();
        // Hundreds of files: that they survive a loss of power is not what is checked here.
        let settings = Sqlite::settings().synchronous(Synchronous::Normal);
        let database = settings.open(folder.path().join("threads.db")).unwrap();
        let saver = SqliteSaver::new(&database);
        folders.lock().unwrap().push(folder);
        Arc::new(saver) as Arc<dyn Checkpointer>
    });
    report.await.assert();
}

/// A folder with a database.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("threads.db")
    }

    fn saver(&self) -> SqliteSaver {
        SqliteSaver::open(self.path()).unwrap()
    }

    /// All that lies on the disk.
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
    let options = RunOptions::new().limit(1_000_000);
    let thread = diary(saver.clone()).thread(thread, ()).with(options);
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
async fn a_question_is_answered_after_the_file_was_closed_and_opened_again() {
    for durability in [Durability::Sync, Durability::Async, Durability::Exit] {
        let place = Place::new();
        let thread =
            order(place.saver()).thread("order", ()).with(RunOptions::new().durability(durability));
        let exit = thread.run(Order::default()).await.unwrap();
        assert!(matches!(exit, Exit::Interrupted { .. }));
        drop(thread);

        let thread = order(place.saver()).thread("order", ());
        let order = thread.resume(true).await.unwrap().into_state();
        assert_eq!((order.price, order.approved), (42, true));
    }
}

#[tokio::test]
async fn a_closed_database_is_one_file() {
    let place = Place::new();
    keep_diary(&place.saver(), "diary", 3).await;
    assert_eq!(place.names(), ["threads.db"]);
}

#[tokio::test]
async fn a_long_thread_takes_room_for_its_changes_and_is_read_from_few_rows() {
    let place = Place::new();
    let saver = place.saver();
    keep_diary(&saver, "short", 500).await;
    keep_diary(&saver, "long", 2_000).await;
    let short = saver.thread_sizes("short").await.unwrap();
    let long = saver.thread_sizes("long").await.unwrap();
    let ratio = long.bytes() as f64 / short.bytes() as f64;
    assert!((3.9..4.3).contains(&ratio), "four times the steps take {ratio} times the room");

    saver.prune(&["long".to_owned()], Keep::Newest(1)).await.unwrap();
    let rows = saver.thread_sizes("long").await.unwrap().links;
    assert!(rows < 250, "the newest checkpoint needs {rows} rows");
    let head = saver.get(&Lookup::head("long", "")).await.unwrap().unwrap();
    assert_eq!(head.values["days"].as_array().unwrap().len(), 2_000);
}

#[tokio::test]
async fn pruning_gives_room_back_and_breaks_no_fork() {
    let place = Place::new();
    let saver = place.saver();
    keep_diary(&saver, "diary", 600).await;
    let graph = diary(saver.clone());
    let thread = graph.thread("diary", ());
    let old = thread.history(None).await.unwrap().into_iter().find(|it| it.step == 300).unwrap();
    let fork = thread.at(old.id).run(Diary { wanted: 310, ..Diary::default() }).await.unwrap();
    let fork = fork.into_state();

    let before = saver.database().file_sizes().await.unwrap();
    let pruned = saver.prune(&["diary".to_owned()], Keep::Newest(3)).await.unwrap();
    assert!(pruned.checkpoints > 600, "{pruned:?}");
    let vacuumed = saver.database().vacuum().await.unwrap();
    let after = saver.database().file_sizes().await.unwrap();
    assert!(vacuumed.bytes > 0 && after.free_bytes == 0, "{vacuumed:?} {after:?}");
    assert!(after.file_bytes + after.log_bytes < (before.file_bytes + before.log_bytes) / 2);

    let kept = saver.list(&History::of("diary", "")).await.unwrap();
    assert_eq!(kept.len(), 3);
    assert_eq!(thread.state().await.unwrap().unwrap().values.days, fork.days);
    let more = thread.run(Diary { wanted: 315, ..Diary::default() }).await.unwrap().into_state();
    assert_eq!(more.days[..fork.days.len()], fork.days);
    assert_eq!(saver.database().vacuum().await.unwrap().links, 0);
}

#[tokio::test]
async fn visits_of_steps_that_are_gone_are_pruned_with_them() {
    let place = Place::new();
    let saver = place.saver();
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
    // The last three are those of `write`, of `visit`, and the one before it, whose step the visit belongs to.
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
async fn what_a_crash_left_behind_is_swept() {
    let place = Place::new();
    let saver = place.saver();
    keep_diary(&saver, "diary", 20).await;
    keep_diary(&saver, "other", 2).await;
    // As if a process had died between removing the checkpoints and sweeping their changes.
    let file = rusqlite::Connection::open(place.path()).unwrap();
    file.execute_batch(
        "DELETE FROM checkpoint WHERE namespace IN (SELECT id FROM namespace WHERE thread = 'diary')",
    )
    .unwrap();
    assert!(saver.database().vacuum().await.unwrap().links >= 20);
    let other = saver.get(&Lookup::head("other", "")).await.unwrap().unwrap();
    assert_eq!(other.values["days"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn retention_keeps_what_its_rules_say() {
    let place = Place::new();
    let saver = place.saver();
    for thread in ["a", "audit", "busy"] {
        keep_diary(&saver, thread, 10).await;
    }
    let waiting = order(saver.clone()).thread("waiting", ()).run(Order::default()).await.unwrap();
    assert!(matches!(waiting, Exit::Interrupted { .. }));
    let _busy = saver.lease("busy").await.unwrap();

    let count = async |thread| saver.list(&History::of(thread, "")).await.unwrap().len();
    let retention = Retention::new(Rule::keep_all().keep_last(4)).thread("audit", Rule::keep_all());
    let cleaned = retention.apply(&saver).await.unwrap();
    assert_eq!((cleaned.threads, cleaned.checkpoints), (0, 8));
    assert_eq!((count("a").await, count("audit").await, count("busy").await), (4, 12, 12));

    let none = Retention::new(Rule::keep_all().max_age(Duration::from_secs(3600)));
    assert_eq!(none.apply(&saver).await.unwrap().checkpoints, 0);
    let old = Retention::new(Rule::keep_all().max_age(Duration::ZERO));
    old.apply(&saver).await.unwrap();
    assert_eq!((count("a").await, count("busy").await), (1, 12));

    let idle = Retention::new(Rule::keep_all().delete_idle(Duration::ZERO));
    assert_eq!(idle.apply(&saver).await.unwrap().threads, 2);
    assert_eq!(saver.threads().await.unwrap(), ["busy", "waiting"]);
    let order = order(saver.clone()).thread("waiting", ()).resume(true).await.unwrap();
    assert!(order.into_state().approved);
}

#[tokio::test]
async fn a_thread_is_held_by_one_open_database_at_a_time() {
    let place = Place::new();
    let (one, two) = (place.saver(), place.saver());
    let lease = one.lease("t").await.unwrap();
    assert!(matches!(two.lease("t").await, Err(CheckpointError::Busy { .. })));
    drop(lease);
    let taken = loop {
        match two.lease("t").await {
            Err(CheckpointError::Busy { .. }) => tokio::task::yield_now().await,
            taken => break taken.unwrap(),
        }
    };
    assert!(matches!(one.lease("t").await, Err(CheckpointError::Busy { .. })));
    drop(taken);
}

#[tokio::test]
async fn a_thread_of_a_dead_owner_is_free_and_its_late_writes_are_refused() {
    let place = Place::new();
    let (one, two) = (place.saver(), place.saver());
    let _lease = one.lease("diary").await.unwrap();
    // Its file is gone as if its process were: the lock is what tells.
    for name in place.names().iter().filter(|it| it.contains("-owner-")) {
        fs::remove_file(place.0.path().join(name)).unwrap();
    }
    let _taken = two.lease("diary").await.unwrap();
    let first = first_checkpoint(CheckpointId::next(), "late");
    let place = first.place.clone();
    let late = one.put(first).await;
    assert!(matches!(late, Err(CheckpointError::LeaseLost { .. })), "{late:?}");
    // Nor can it say what a task came to: that would take the place of what the living run says.
    let event = Event::Failed { error: "late".into(), handled: false };
    let late = TaskRecord { task: TaskId::of(&[b"task"]), node: "write".into(), event };
    let late = one.record(&place, vec![late]).await;
    assert!(matches!(late, Err(CheckpointError::LeaseLost { .. })), "{late:?}");
}

/// The first checkpoint of a thread, made by hand.
fn first_checkpoint(id: CheckpointId, run: &str) -> NewCheckpoint {
    new_checkpoint("diary", id, None, run, Vec::new())
}

#[tokio::test]
async fn of_two_checkpoints_of_one_id_the_second_is_told_so() {
    let place = Place::new();
    let saver = place.saver();
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
async fn a_thread_is_held_whatever_way_leads_to_the_file() {
    let place = Place::new();
    let one = place.saver();
    let link = place.0.path().join("link.db");
    std::os::unix::fs::symlink(place.path(), &link).unwrap();
    let two = SqliteSaver::open(link).unwrap();
    let _lease = one.lease("t").await.unwrap();
    assert!(matches!(two.lease("t").await, Err(CheckpointError::Busy { .. })));
}

#[tokio::test]
async fn whoever_reads_waits_for_nobody_who_writes() {
    let place = Place::new();
    let saver = place.saver();
    keep_diary(&saver, "t", 2).await;
    let writing = rusqlite::Connection::open(place.path()).unwrap();
    writing.execute_batch("BEGIN IMMEDIATE").unwrap();
    let settings = Sqlite::settings().busy_timeout(Duration::ZERO);
    let other = SqliteSaver::new(&settings.open(place.path()).unwrap());
    assert_eq!(other.threads().await.unwrap(), ["t"]);
    let days = other.get(&Lookup::head("t", "")).await.unwrap().unwrap().values["days"].clone();
    assert_eq!(days.as_array().unwrap().len(), 2);
    writing.execute_batch("ROLLBACK").unwrap();
}

#[tokio::test]
async fn a_changed_chain_is_noticed_and_one_without_an_end_has_an_end() {
    for change in ["prev = prev - 1", "prev = id", "prev = id + 1", "depth = depth + 1"] {
        let place = Place::new();
        let saver = place.saver();
        keep_diary(&saver, "diary", 5).await;
        let file = rusqlite::Connection::open(place.path()).unwrap();
        // The newest change of a field hooks on to another; the head of a checkpoint does not.
        let changed = format!(
            "UPDATE link SET {change} WHERE id = (
                 SELECT max(id) FROM link WHERE prev IS NOT NULL AND depth > 0
             )"
        );
        assert_eq!(file.execute(&changed, []).unwrap(), 1);
        let head = saver.get(&Lookup::head("diary", "")).await;
        assert!(matches!(head, Err(CheckpointError::Damaged { .. })), "{change}: {head:?}");
    }
}

#[tokio::test]
async fn what_is_no_file_is_refused() {
    for name in ["", ":memory:", "file:threads.db"] {
        let error = SqliteSaver::open(name).unwrap_err().to_string();
        assert!(error.contains("it has to be a file"), "{error}");
    }
}

#[tokio::test]
async fn files_of_dead_owners_are_removed() {
    let place = Place::new();
    let left = place.0.path().join("threads.db-owner-0123456789abcdef");
    fs::write(&left, "").unwrap();
    let living = place.saver();
    assert!(!left.exists());
    let _another = place.saver();
    let owners = place.names().iter().filter(|it| it.contains("-owner-")).count();
    assert_eq!(owners, 2);
    drop(living);
}

#[tokio::test]
async fn a_damaged_thread_does_not_keep_others_from_being_cleaned() {
    let place = Place::new();
    let saver = place.saver();
    for thread in ["a", "b"] {
        keep_diary(&saver, thread, 5).await;
    }
    let file = rusqlite::Connection::open(place.path()).unwrap();
    file.execute_batch(
        "UPDATE checkpoint SET tips = x'00' WHERE namespace IN (SELECT id FROM namespace WHERE thread = 'a')",
    )
    .unwrap();
    let cleaned = Retention::new(Rule::keep_all().keep_last(1)).apply(&saver).await.unwrap();
    assert_eq!(cleaned.failed.len(), 1);
    assert_eq!(cleaned.failed[0].0, "a");
    assert_eq!(cleaned.checkpoints, 6);
}

#[tokio::test]
async fn a_release_that_failed_does_not_lock_its_own_process_out() {
    let place = Place::new();
    let saver = place.saver();
    let lease = saver.lease("t").await.unwrap();
    let file = rusqlite::Connection::open(place.path()).unwrap();
    file.execute_batch(
        "CREATE TRIGGER no BEFORE DELETE ON lease BEGIN SELECT raise(ABORT, 'no'); END",
    )
    .unwrap();
    assert!(matches!(saver.lease("t").await, Err(CheckpointError::Busy { .. })));
    drop(lease);
    let _again = saver.lease("t").await.unwrap();
    assert!(matches!(place.saver().lease("t").await, Err(CheckpointError::Busy { .. })));
}

#[tokio::test]
async fn a_damaged_index_is_found() {
    let place = Place::new();
    let saver = place.saver();
    keep_diary(&saver, "diary", 5).await;
    assert_eq!(saver.database().verify().await.unwrap(), Vec::<String>::new());
    let file = rusqlite::Connection::open(place.path()).unwrap();
    file.execute_batch(
        "PRAGMA writable_schema = ON;
         UPDATE sqlite_schema SET sql = replace(sql, 'depth INTEGER', 'depth TEXT') WHERE name = 'link'",
    )
    .unwrap();
    drop((file, saver));
    let problems = place.saver().database().verify().await.unwrap();
    assert!(!problems.is_empty());
}

#[tokio::test]
async fn a_value_that_is_too_large_is_an_error_that_says_so() {
    let place = Place::new();
    let database = Sqlite::settings().max_value_bytes(1_000).open(place.path()).unwrap();
    let saver = SqliteSaver::new(&database);
    let thread = diary(saver.clone()).thread("diary", ());
    let days = vec!["y".repeat(2_000)];
    let error = thread.run(Diary { days, wanted: 1 }).await.unwrap_err().to_string();
    assert!(error.contains("at most 1000 are stored"), "{error}");
    // The thread is as it was, and free.
    let exit = thread.run(Diary { wanted: 1, ..Diary::default() }).await.unwrap();
    assert_eq!(exit.into_state().days.len(), 1);
}

#[tokio::test]
async fn other_files_are_not_touched() {
    let place = Place::new();
    fs::write(place.path(), "this is a letter, and no database; it is long enough to be read")
        .unwrap();
    let error = SqliteSaver::open(place.path()).unwrap_err();
    assert!(matches!(error, OpenError::Unreachable { .. }), "{error}");
    assert!(error.to_string().contains("choose another"), "{error}");
    assert!(fs::read(place.path()).unwrap().starts_with(b"this is a letter"));

    let place = Place::new();
    let file = rusqlite::Connection::open(place.path()).unwrap();
    file.execute_batch("CREATE TABLE mine (x)").unwrap();
    assert!(matches!(SqliteSaver::open(place.path()), Err(OpenError::Foreign { .. })));

    let place = Place::new();
    drop(place.saver());
    let file = rusqlite::Connection::open(place.path()).unwrap();
    file.pragma_update(None, "user_version", 99).unwrap();
    let error = SqliteSaver::open(place.path()).unwrap_err();
    assert!(matches!(error, OpenError::TooNew { found: 99, .. }), "{error}");

    let missing = Place::new().path().join("nowhere/threads.db");
    let error = SqliteSaver::open(missing).unwrap_err().to_string();
    assert!(error.contains("does its folder exist"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixteen_threads_at_once_keep_their_own_states() {
    let place = Place::new();
    let saver = place.saver();
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

/// Whoever clears up may have the same open database, or another one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_and_who_clears_up_do_not_disturb_each_other() {
    let place = Place::new();
    let saver = place.saver();
    let names: Vec<_> = (0..8).map(|it| format!("t{it}")).collect();
    for cleaner in [saver.clone(), place.saver()] {
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
        // What no checkpoint needs is gone already.
        assert_eq!(cleaner.database().vacuum().await.unwrap().links, 0);
    }
}

#[cfg(feature = "encryption")]
mod encrypted {
    use graph_store::Keys;

    use super::*;

    const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

    #[tokio::test]
    async fn nothing_of_a_state_lies_open_on_the_disk() {
        let place = Place::new();
        let settings = Sqlite::settings().encrypt(Keys::parse(KEY).unwrap());
        let saver = SqliteSaver::new(&settings.open(place.path()).unwrap());
        let day = "met a submarine".to_owned();
        let thread = diary(saver.clone()).thread("diary", ());
        let exit = thread.run(Diary { days: vec![day.clone()], wanted: 2 }).await.unwrap();
        assert_eq!(exit.into_state().days.len(), 2);
        let found = place.bytes().windows(9).any(|it| it == b"submarine");
        assert!(!found, "the state can be read on the disk");
        let state = thread.state().await.unwrap().unwrap();
        assert_eq!(state.values.days[0], day);
        drop((saver, thread));

        let error = place.saver().get(&Lookup::head("diary", "")).await.unwrap_err().to_string();
        assert!(error.contains("is encrypted"), "{error}");
    }
}
