//! The storage of the API. SQLite serves one process; PostgreSQL is shared by several replicas.
//!
//! It has four parts: [`Documents`] are the objects of the API, the [`RunQueue`] contains the active runs, the
//! [`EventLog`] contains events of runs, and, with PostgreSQL, the [`SharedEvents`] let each replica follow the runs
//! that another replica executes.

mod documents;
mod parts;
#[cfg(feature = "postgres")]
mod postgres;
mod queue;
mod shared_events;
mod sqlite;

#[cfg(feature = "postgres")]
pub(super) use self::postgres::connect;
pub(super) use self::{
    documents::{Documents, Filter, Found, Row, Search},
    parts::Storage,
    queue::{
        ActiveRun, CancelOutcome, Claim, Decide, NewRun, Next, RunQueue, ThreadChange, ThreadEntry,
    },
    shared_events::{EventLog, Notice, SharedEvents, StoredEvent},
    sqlite::open,
};
