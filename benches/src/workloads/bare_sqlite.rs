//! The floor of the stored loop: one plain SQLite transaction per step. It inserts the rows that the engine stored for
//! the same loop, with the same SQLite library and the same settings.

use std::{path::Path, sync::Arc};

use graph_store::SqliteSaver;
use rusqlite::{Connection, TransactionBehavior, params, types::Value};

use super::stored;
use crate::{
    data,
    protocol::{Job, runtime},
    storage::chat,
};

/// The rows of one commit.
struct Commit {
    /// Rows of `checkpoint` without the namespace: id, time, run, tips, body, records.
    checkpoint: Vec<Value>,
    /// Rows of `link` without the id: predecessor, depth, checksum, body.
    links: Vec<Vec<Value>>,
}

pub(super) fn prepare(steps: usize) -> Job {
    // Not in the directory of the harness, because the harness counts the bytes that are stored there.
    let directory = tempfile::tempdir().expect("a directory can be created");
    let recorded = directory.path().join("recorded.db");
    let saver = SqliteSaver::open(&recorded).expect("the database can be created");
    runtime().block_on(stored::run(chat::graph(Arc::new(saver)), steps));
    let connection = Connection::open(&recorded).expect("the database exists");
    let (schema, commits) = read(&connection).expect("the tables of the saver exist");
    let mut copy = create(&data::database_path(), &schema).expect("the database can be created");
    let mut runs = 0_i64;
    Box::new(move || {
        runs += 1;
        for commit in &commits {
            insert(&mut copy, runs, commit).expect("the rows can be inserted");
        }
        steps.to_string()
    })
}

/// Reads the tables and the rows of each commit.
fn read(connection: &Connection) -> rusqlite::Result<(Vec<String>, Vec<Commit>)> {
    let tables = "SELECT sql FROM sqlite_schema WHERE name IN ('checkpoint', 'link')";
    let schema =
        connection.prepare(tables)?.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    let rows = |sql: &str, columns: usize| -> rusqlite::Result<Vec<Vec<Value>>> {
        let mut statement = connection.prepare(sql)?;
        let row = |row: &rusqlite::Row<'_>| (0..columns).map(|it| row.get(it)).collect();
        statement.query_map([], row)?.collect()
    };
    let checkpoints =
        rows("SELECT id, made_at, run, tips, body, records FROM checkpoint ORDER BY id", 6)?;
    let links = rows("SELECT prev, depth, bound, body FROM link ORDER BY id", 4)?;
    // Distribute the links evenly: only the commit of the input may have stored a different number of them.
    let share = links.len().div_ceil(checkpoints.len().max(1)).max(1);
    let mut links = links.chunks(share).map(<[_]>::to_vec);
    let commit = |checkpoint| Commit { checkpoint, links: links.next().unwrap_or_default() };
    Ok((schema, checkpoints.into_iter().map(commit).collect()))
}

/// Creates a database with the settings of the saver.
fn create(path: &Path, schema: &[String]) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.pragma_update(None, "page_size", 4_096)?;
    connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    schema.iter().try_for_each(|sql| connection.execute_batch(sql))?;
    Ok(connection)
}

fn insert(connection: &mut Connection, namespace: i64, commit: &Commit) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut link = transaction
        .prepare_cached("INSERT INTO link (prev, depth, bound, body) VALUES (?1, ?2, ?3, ?4)")?;
    for row in &commit.links {
        link.execute(params![row[0], row[1], row[2], row[3]])?;
    }
    let mut checkpoint =
        transaction.prepare_cached("INSERT INTO checkpoint VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")?;
    let it = &commit.checkpoint;
    checkpoint.execute(params![namespace, it[0], it[1], it[2], it[3], it[4], it[5]])?;
    drop((link, checkpoint));
    transaction.commit()
}
