//! Tests with database files that were created by older versions.

use std::{fs, path::Path};

use checkpoint_testkit::sample::next_checkpoint;
use graph_core::{
    Context, END, NodeError, RunOutcome, START, State, StateGraph,
    checkpoint::{
        Checkpoint, Checkpointer, HistoryQuery, Lookup, NewCheckpoint, TaskEvent, TaskId,
        TaskRecord,
    },
};
use graph_store::SqliteSaver;
use rusqlite::Connection;

#[derive(State, Clone, Debug, Default)]
struct Tea {
    #[reduce(append)]
    log: Vec<String>,
}

async fn boil(_: &Tea, cx: &Context) -> Result<TeaUpdate, NodeError> {
    let minutes: u32 = cx.task("boil", &(), async { Ok(3) }).await?;
    Ok(Tea::update().log([format!("boiled for {minutes} minutes")]))
}

async fn pour(_: &Tea, cx: &Context) -> Result<TeaUpdate, NodeError> {
    let cups: u32 = cx.task("cups", &(), async { Ok(2) }).await?;
    let sure: bool = cx.interrupt("pour?")?;
    Ok(Tea::update().log([format!("poured {cups} cups: {sure}")]))
}

fn tea(saver: &SqliteSaver) -> graph_core::CompiledGraph<Tea> {
    let graph = StateGraph::<Tea>::new().node(boil).node(pour);
    let graph = graph.edge(START, boil).edge(boil, pour).edge(pour, END);
    graph.checkpointer(saver.clone()).compile().unwrap()
}

/// Creates the file that version 1 would have created for the threads in the file `newest`.
fn create_version_1_file(newest: &Path, path: &Path) {
    let file = Connection::open(path).unwrap();
    file.execute_batch(include_str!("../../src/sqlite/schema/1.sql")).unwrap();
    file.execute("ATTACH ?1 AS newest", [newest.to_str().unwrap()]).unwrap();
    // In version 1, each record had a separate row, and the checkpoint's row contained the body.
    file.execute_batch(
        "INSERT INTO main.namespace SELECT * FROM newest.namespace;
         INSERT INTO main.checkpoint
             SELECT c.namespace, c.id, c.made_at, c.run, c.tips, l.body
             FROM newest.checkpoint c JOIN newest.link l ON l.id = c.body;
         CREATE TEMP TABLE chain AS
             WITH RECURSIVE chain (namespace, checkpoint, link) AS (
                 SELECT namespace, id, records FROM newest.checkpoint WHERE records IS NOT NULL
                 UNION ALL SELECT namespace, checkpoint, records FROM newest.early
                 UNION ALL SELECT chain.namespace, chain.checkpoint, l.prev
                 FROM chain JOIN newest.link l ON l.id = chain.link WHERE l.prev IS NOT NULL
             ) SELECT * FROM chain;
         INSERT INTO main.record
             SELECT l.id, chain.namespace, chain.checkpoint, randomblob(16), 'slot', l.body
             FROM chain JOIN newest.link l ON l.id = chain.link;
         INSERT INTO main.link SELECT * FROM newest.link
             WHERE id NOT IN (SELECT link FROM chain) AND id NOT IN (SELECT body FROM newest.checkpoint);
         PRAGMA main.user_version = 1;
         PRAGMA main.application_id = 0x6753746f;",
    )
    .unwrap();
}

#[tokio::test]
async fn a_version_1_file_is_migrated() {
    let dir = tempfile::tempdir().unwrap();
    let (newest, old) = (dir.path().join("newest.db"), dir.path().join("old.db"));
    let saver = SqliteSaver::open(&newest).unwrap();
    for thread in ["a", "b"] {
        let exit = tea(&saver).thread(thread, ()).run(Tea::default()).await.unwrap();
        assert!(matches!(exit, RunOutcome::Interrupted { .. }));
    }
    let exit = tea(&saver).thread("b", ()).resume(true).await.unwrap();
    assert!(matches!(exit, RunOutcome::Done { .. }));
    let early = unstored_checkpoint();
    let record = done("early");
    saver.record(&early.key, vec![record.clone()]).await.unwrap();
    create_version_1_file(&newest, &old);

    let migrated = SqliteSaver::open(&old).unwrap();
    for thread in ["a", "b"] {
        let (before, after) = (history(&saver, thread).await, history(&migrated, thread).await);
        assert!(before.iter().any(|it| it.records.len() > 1), "there are records");
        assert_eq!(before.len(), after.len());
        for (before, after) in before.iter().zip(after) {
            assert_eq!(before.key, after.key);
            assert_eq!(before.header, after.header);
            assert_eq!(before.frontier, after.frontier);
            assert_eq!(before.values, after.values);
            assert_eq!(before.records, after.records);
        }
    }
    let sizes = |saver: &SqliteSaver| {
        let saver = saver.clone();
        async move { saver.sizes().await.unwrap() }
    };
    assert_eq!(sizes(&saver).await, sizes(&migrated).await);

    let tea = tea(&migrated).thread("a", ()).resume(false).await.unwrap().into_state();
    assert_eq!(tea.log, ["boiled for 3 minutes", "poured 2 cups: false"]);
    migrated.put(early.clone()).await.unwrap();
    let key = &early.key;
    let at = Lookup::exact(&*key.thread, &*key.namespace, key.id);
    assert_eq!(migrated.get(&at).await.unwrap().unwrap().records, [record]);
    assert_eq!(migrated.database().verify().await.unwrap(), Vec::<String>::new());

    // Opening the file again does not change it, and no old tables are left.
    drop(migrated);
    let bytes = fs::read(&old).unwrap();
    drop(SqliteSaver::open(&old).unwrap());
    assert_eq!(fs::read(&old).unwrap(), bytes);
    let file = Connection::open(&old).unwrap();
    let left: i64 = file
        .query_row(
            "SELECT count(*) FROM sqlite_schema WHERE name IN ('checkpoint_1', 'record_1')",
            [],
            |row| row.get(0),
        )
        .unwrap();
    assert_eq!(left, 0);
}

async fn history(saver: &SqliteSaver, thread: &str) -> Vec<Checkpoint> {
    saver.list(&HistoryQuery::new(thread, "")).await.unwrap()
}

fn done(task: &str) -> TaskRecord {
    let event = TaskEvent::Done { writes: Vec::new(), gotos: Vec::new() };
    TaskRecord { task: TaskId::from_parts(&[task.as_bytes()]), node: task.to_owned(), event }
}

/// Returns the first checkpoint of a thread. The checkpoint is not stored.
fn unstored_checkpoint() -> NewCheckpoint {
    next_checkpoint("early", None, Vec::new())
}
