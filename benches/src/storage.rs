//! Stored threads: the same chat on our savers, on LangGraph's, and the bare cost of its fsyncs.
//!
//! Every step is on the disk before the next one starts, on each side.

pub mod chat;
pub mod counting_hook;
pub mod database;
pub mod disk;
pub mod floor;
pub mod insert;
pub mod langgraph;
pub mod size;
pub mod table;
pub mod timed;

use std::io;

use serde::Serialize;
use tokio::runtime::Handle;

use crate::langgraph::LangGraph;
use database::Databases;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// One thread in a SQLite file.
    SqliteOne,
    /// Sixteen threads in a SQLite file, all at once.
    SqliteMany,
    /// How large the SQLite file of a long thread is.
    SqliteBytes,
    /// One thread in PostgreSQL.
    PostgresOne,
    /// Sixteen threads in PostgreSQL, all at once.
    PostgresMany,
}

/// Where threads are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Store {
    /// In a file.
    Sqlite,
    /// On a server.
    Postgres,
}

/// How much one row runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct StorageLoad {
    /// How many threads, all at once.
    pub threads: usize,
    /// How many steps each takes.
    pub steps: usize,
    /// How many bytes each step appends.
    pub message: usize,
}

impl StorageLoad {
    /// The steps of all threads.
    pub fn all_steps(self) -> usize {
        self.threads * self.steps
    }
}

impl Workload {
    /// All of them, in the order of the tables.
    pub const ALL: [Self; 5] = [
        Self::SqliteOne,
        Self::SqliteMany,
        Self::SqliteBytes,
        Self::PostgresOne,
        Self::PostgresMany,
    ];

    /// The name, on the command line and in the tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::SqliteOne => "sqlite-one",
            Self::SqliteMany => "sqlite-16",
            Self::SqliteBytes => "sqlite-bytes",
            Self::PostgresOne => "postgres-one",
            Self::PostgresMany => "postgres-16",
        }
    }

    /// Where its threads are stored.
    pub fn store(self) -> Store {
        match self {
            Self::SqliteOne | Self::SqliteMany | Self::SqliteBytes => Store::Sqlite,
            Self::PostgresOne | Self::PostgresMany => Store::Postgres,
        }
    }

    /// The rows of a workload that is timed; none for one that is weighed.
    pub fn loads(self) -> Vec<StorageLoad> {
        let (threads, steps) = match self {
            Self::SqliteOne | Self::PostgresOne => (1, 300),
            Self::SqliteMany | Self::PostgresMany => (16, 100),
            Self::SqliteBytes => return Vec::new(),
        };
        [100, 1_024].map(|message| StorageLoad { threads, steps, message }).to_vec()
    }

    /// How many times LangGraph's steps per second it must take.
    pub fn min_speedup(self) -> Option<f64> {
        match self {
            Self::SqliteOne | Self::PostgresOne => Some(5.0),
            Self::SqliteMany | Self::PostgresMany => Some(20.0),
            Self::SqliteBytes => None,
        }
    }

    /// How many times the bare cost of its fsyncs it may take.
    pub fn max_floor_ratio(self) -> Option<f64> {
        match self {
            Self::SqliteOne | Self::PostgresOne => Some(2.0),
            // Several threads share an fsync, so that the bare cost of one each is no floor.
            Self::SqliteMany | Self::PostgresMany | Self::SqliteBytes => None,
        }
    }
}

/// All that was measured.
#[derive(Debug, Default)]
pub struct Report {
    /// What is to be known about the surroundings.
    pub notes: Vec<String>,
    /// The times.
    pub timed: Vec<timed::Row>,
    /// The sizes.
    pub sizes: Vec<size::Row>,
}

/// Measures these workloads.
pub fn measure(
    workloads: &[Workload],
    rounds: usize,
    runtime: &Handle,
    langgraph: &mut Option<LangGraph>,
) -> io::Result<Report> {
    let scratch_dir = disk::scratch_dir()?;
    let mut report = Report {
        notes: vec![format!("the target folder {}", disk::describe(scratch_dir.path()))],
        ..Report::default()
    };
    report.notes.extend(langgraph::describe(langgraph.as_ref()));
    let mut databases = Databases::new(scratch_dir.path(), runtime);
    for &workload in workloads {
        for load in workload.loads() {
            eprintln!("{} {} …", workload.name(), load.message);
            report.timed.push(timed::row(workload, load, rounds, &mut databases, langgraph)?);
        }
        if workload == Workload::SqliteBytes {
            report.sizes = size::rows(scratch_dir.path(), runtime, langgraph)?;
        }
    }
    report.notes.extend(databases.about_server());
    Ok(report)
}
