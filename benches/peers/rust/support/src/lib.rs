//! Code that the programs of the Rust peers share: the line protocol, the data of the workloads, the nodes of the wide
//! state, and the creation of SQLite files. The first two are files of the main workspace.

#[path = "../../../../src/data.rs"]
pub mod data;
#[path = "../../../../src/protocol.rs"]
pub mod protocol;
mod wide;

use sqlx::{Connection, SqliteConnection};

/// Creates a SQLite file with a write-ahead log and returns its address. SQLite syncs every commit by default.
pub async fn create_database() -> String {
    let url = format!("sqlite://{}?mode=rwc", data::database_path().display());
    let mut connection = SqliteConnection::connect(&url).await.expect("the file can be created");
    let log = sqlx::query("PRAGMA journal_mode=WAL").execute(&mut connection).await;
    log.expect("the file can be written");
    connection.close().await.expect("the file can be closed");
    url
}
