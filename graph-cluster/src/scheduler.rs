//! The interface of schedulers, which decide which worker executes a run.

#[cfg(feature = "postgres-queue")]
pub(crate) mod postgres_queue;
#[cfg(feature = "restate")]
pub(crate) mod restate;

use std::{fmt, sync::Arc};

use async_trait::async_trait;

use crate::{error::ClusterError, leg::LegRunner, run::Ticket};

/// Assigns legs of runs to workers.
///
/// A scheduler guarantees that a submitted leg is executed, repeatedly if necessary, until it has ended. It also avoids
/// executing two legs of a thread at the same time, but cannot exclude it, for example if a worker is disconnected. The
/// fences of the run and of the thread's checkpointer then protect the state.
#[async_trait]
pub trait Scheduler: Send + Sync + fmt::Debug {
    /// Returns the name of the scheduler, which is stored with its runs.
    fn name(&self) -> &'static str;

    /// Makes a queued leg available to workers. A leg that has ended is not executed again, even if it is submitted
    /// again.
    async fn submit(&self, ticket: &Ticket) -> Result<(), ClusterError>;

    /// Executes legs on this worker until it shuts down and no leg is executing.
    async fn work(&self, runner: Arc<LegRunner>) -> Result<(), ClusterError>;
}
