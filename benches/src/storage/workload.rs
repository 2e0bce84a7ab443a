//! The storage workloads: their names, loads and limits.

use serde::Serialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredWorkload {
    /// One thread in a SQLite file.
    SqliteOne,
    /// Sixteen concurrent threads in a SQLite file.
    SqliteMany,
    /// Size of the SQLite file of a long thread.
    SqliteBytes,
    /// One thread in PostgreSQL.
    PostgresOne,
    /// Sixteen concurrent threads in PostgreSQL.
    PostgresMany,
}

/// The kind of database that a workload uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Store {
    Sqlite,
    Postgres,
}

/// The amount of workload for one row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct StorageLoad {
    pub threads: usize,
    /// Number of steps per thread.
    pub steps: usize,
    /// Number of bytes appended per step.
    pub message: usize,
}

impl StorageLoad {
    /// Returns the total number of steps of all threads.
    pub fn all_steps(self) -> usize {
        self.threads * self.steps
    }
}

impl StoredWorkload {
    /// All workloads, in the order of the tables.
    pub const ALL: [Self; 5] = [
        Self::SqliteOne,
        Self::SqliteMany,
        Self::SqliteBytes,
        Self::PostgresOne,
        Self::PostgresMany,
    ];

    /// Returns the name used on the command line and in the tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::SqliteOne => "sqlite-one",
            Self::SqliteMany => "sqlite-16",
            Self::SqliteBytes => "sqlite-bytes",
            Self::PostgresOne => "postgres-one",
            Self::PostgresMany => "postgres-16",
        }
    }

    /// Returns the kind of database that the workload uses.
    pub fn store(self) -> Store {
        match self {
            Self::SqliteOne | Self::SqliteMany | Self::SqliteBytes => Store::Sqlite,
            Self::PostgresOne | Self::PostgresMany => Store::Postgres,
        }
    }

    /// Returns the loads of a workload that measures time. Returns an empty list for a workload that measures size.
    pub fn loads(self) -> Vec<StorageLoad> {
        let (threads, steps) = match self {
            Self::SqliteOne | Self::PostgresOne => (1, 300),
            Self::SqliteMany | Self::PostgresMany => (16, 100),
            Self::SqliteBytes => return Vec::new(),
        };
        [100, 1_024].map(|message| StorageLoad { threads, steps, message }).to_vec()
    }

    /// Returns the minimum ratio of our steps per second to LangGraph's, if there is a limit.
    pub fn min_speedup(self) -> Option<f64> {
        match self {
            Self::SqliteOne | Self::PostgresOne => Some(5.0),
            Self::SqliteMany | Self::PostgresMany => Some(20.0),
            Self::SqliteBytes => None,
        }
    }

    /// Returns the maximum ratio of a step's cost to the cost of its fsyncs, if there is a limit.
    pub fn max_floor_ratio(self) -> Option<f64> {
        match self {
            Self::SqliteOne | Self::PostgresOne => Some(2.0),
            // Several threads share an fsync, so the cost of one fsync per step is not a lower bound here.
            Self::SqliteMany | Self::PostgresMany | Self::SqliteBytes => None,
        }
    }
}
