//! LangGraph's side of the stored workloads.

use std::{io, time::Duration};

use serde::{Deserialize, Serialize};

use super::{StorageLoad, Store};
use crate::langgraph::LangGraph;

/// The mode in which SQLite syncs at every commit, and so the one that promises what we promise.
const FULL: u8 = 2;

/// How LangGraph's SQLite syncs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncMode {
    /// As LangGraph leaves it.
    Default,
    /// At every commit, as ours.
    Full,
}

/// What is known about the savers on the other side.
#[derive(Clone, Debug, Deserialize)]
pub struct Savers {
    sqlite_saver: String,
    postgres_saver: String,
    sqlite: String,
    synchronous: u8,
}

impl Savers {
    /// Whether LangGraph, as it is installed, promises less than we do.
    pub fn syncs_less(&self) -> bool {
        self.synchronous < FULL
    }
}

/// Says which savers stand beside ours.
pub fn describe(langgraph: Option<&LangGraph>) -> Option<String> {
    let Some(savers) = langgraph?.savers() else {
        return Some(
            "LangGraph is here without its savers: benches/langgraph/requirements.txt lists them"
                .to_owned(),
        );
    };
    let Savers { sqlite_saver, postgres_saver, sqlite, synchronous } = savers;
    let mode = match synchronous {
        0 => "OFF",
        1 => "NORMAL",
        2 => "FULL",
        _ => "EXTRA",
    };
    Some(format!(
        "beside SqliteSaver {sqlite_saver} (SQLite {sqlite}, synchronous={mode} as installed) \
         and PostgresSaver {postgres_saver}"
    ))
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

/// Runs a load once, under names of its own, and gives the time it took.
pub fn run(
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
        SyncMode::Full => Some(FULL),
    };
    let request = Request { workload: "storage", store, at, synchronous, name, load };
    let Seconds { seconds } = langgraph.request(&request)?;
    Duration::try_from_secs_f64(seconds).map_err(io::Error::other)
}

/// Runs a load once in a new SQLite file, and gives the file's size.
pub fn size(langgraph: &mut LangGraph, at: &str, load: StorageLoad) -> io::Result<u64> {
    let workload = "storage-size";
    let name = "thread".to_owned();
    let request = Request { workload, store: "sqlite", at, synchronous: None, name, load };
    let Bytes { bytes } = langgraph.request(&request)?;
    Ok(bytes)
}
