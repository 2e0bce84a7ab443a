//! The storage of the API. SQLite serves one process; PostgreSQL is shared by several replicas.
//!
//! It has three parts: [`Documents`] are the objects of the API, the [`RunQueue`] contains the active runs, and, with
//! PostgreSQL, the [`SharedEvents`] let each replica read the events of runs that another replica executes.

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
    shared_events::{Notice, SharedEvents, StoredEvent},
    sqlite::open,
};
