//! The storage workloads in LangGraph.

use std::{io, time::Duration};

use serde::{Deserialize, Serialize};

use super::workload::{StorageLoad, Store};
use crate::langgraph::{FULL_SYNC, LangGraph, Savers};

/// Determines when LangGraph's SQLite syncs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SyncMode {
    /// Syncs when LangGraph's default settings require it.
    Default,
    /// Syncs at every commit, as our saver does.
    Full,
}

/// Describes LangGraph's savers.
pub(crate) fn describe(langgraph: &LangGraph) -> String {
    let Savers { sqlite_saver, postgres_saver, sqlite, synchronous } = langgraph.savers();
    let mode = match synchronous {
        0 => "OFF",
        1 => "NORMAL",
        2 => "FULL",
        _ => "EXTRA",
    };
    format!(
        "compared with SqliteSaver {sqlite_saver} (SQLite {sqlite}, synchronous={mode} by default) \
         and PostgresSaver {postgres_saver}"
    )
}

#[derive(Serialize)]
struct Request<'a> {
    workload: &'static str,
    store: &'static str,
    at: &'a str,
    synchronous: Option<u8>,
    name: String,
    #[serde(flatten)]
    load: StorageLoad,
}

#[derive(Deserialize)]
struct Seconds {
    seconds: f64,
}

#[derive(Deserialize)]
struct Bytes {
    bytes: u64,
}

/// Runs a workload once, with a new LangGraph thread id, and returns the duration.
pub(crate) fn run(
    langgraph: &mut LangGraph,
    (store, at): (Store, &str),
    sync_mode: SyncMode,
    name: String,
    load: StorageLoad,
) -> io::Result<Duration> {
    let store = match store {
        Store::Sqlite => "sqlite",
        Store::Postgres => "postgres",
    };
    let synchronous = match sync_mode {
        SyncMode::Default => None,
        SyncMode::Full => Some(FULL_SYNC),
    };
    let request = Request { workload: "storage", store, at, synchronous, name, load };
    let Seconds { seconds } = langgraph.request(&request)?;
    Duration::try_from_secs_f64(seconds).map_err(io::Error::other)
}

/// Runs a workload once in a new SQLite file and returns the file's size.
pub(crate) fn size(langgraph: &mut LangGraph, at: &str, load: StorageLoad) -> io::Result<u64> {
    let workload = "storage-size";
    let name = "thread".to_owned();
    let request = Request { workload, store: "sqlite", at, synchronous: None, name, load };
    let Bytes { bytes } = langgraph.request(&request)?;
    Ok(bytes)
}
