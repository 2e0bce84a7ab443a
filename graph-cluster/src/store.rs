//! The runs of a cluster, their events and the workers, in PostgreSQL.
//!
//! These tables say which runs exist and who executes them. The state of the graphs is in the graphs' checkpointer.

mod claims;
mod database;
mod events;
mod notices;
mod requests;
mod status;
mod tasks;

pub(crate) use self::{
    claims::{Claim, Heartbeat},
    notices::Notice,
    tasks::{NewTask, TaskClaim, TaskFilter},
};
pub use self::{
    database::RunStore,
    events::RunEvent,
    status::{ClusterStatus, WorkerRun, WorkerStatus},
};
