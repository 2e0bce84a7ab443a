//! The runs of a cluster, their events and the workers, in PostgreSQL.
//!
//! These tables contain the runs and the workers that execute them. The state of the graphs is in the graphs'
//! checkpointer.

mod claims;
mod database;
mod deletion;
mod events;
mod metrics;
mod notices;
mod requests;
#[cfg(test)]
mod simulation;
mod status;
mod task_writes;
mod tasks;
mod tenants;
mod values;

pub(crate) use self::{
    claims::{Claim, Heartbeat},
    notices::{Notice, wait_for_notice},
    status::WorkerReport,
    task_writes::TaskWrite,
    tasks::{NewTask, TaskClaim, TaskFilter},
};
pub use self::{
    database::RunStore,
    events::RunEvent,
    status::{ClusterStatus, WorkerRun, WorkerStatus},
};
