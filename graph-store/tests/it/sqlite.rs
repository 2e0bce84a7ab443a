//! Tests of the SQLite saver.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use checkpoint_testkit::checkpointer;
use graph_core::{
    CompiledGraph, Context, Durability, END, NodeError, Route, RunOptions, RunOutcome, START,
    State, StateGraph,
    checkpoint::{CheckpointError, Checkpointer, HistoryQuery, Keep, Lookup},
    subgraph,
};
use graph_store::{Retention, RetentionRule, Sqlite, SqliteSaver, sqlite::Synchronous};
use tokio::task::JoinSet;

use crate::diary::{Diary, TestDir, diary, keep_diary, write};

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
