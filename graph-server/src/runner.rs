//! The interface between the service and the code that executes its runs.

use std::{io, sync::Arc};

use async_trait::async_trait;
use serde_json::Value;

use crate::{
    recent_events::RecentEvents,
    run::{RunEvent, RunInfo},
};

/// Executes the runs of a service.
///
/// A runner itself stores the progress and the events of its runs. After a crash, the service calls
/// [`execute`](Self::execute) again, and the runner continues from the stored state.
///
/// ```
/// use std::{io, sync::Arc};
/// use async_trait::async_trait;
/// use graph_server::{
///     Capacity, EventSender, NewRun, ReadOutcome, Registry, RunEvent, RunInfo, Runner, RunnerError,
///     RunnerOutcome, Service, Status,
/// };
/// use serde_json::json;
///
/// /// Doubles a number. Its runs have no events.
/// struct Doubler;
///
/// #[async_trait]
/// impl Runner for Doubler {
///     async fn execute(&self, run: &RunInfo, _: &EventSender) -> Result<RunnerOutcome, RunnerError> {
///         let number = run.input.as_i64().ok_or_else(|| RunnerError("no number".to_owned()))?;
///         Ok(RunnerOutcome::Complete(json!(2 * number)))
///     }
///
///     fn events(&self, _: &str, _: u64, _: usize) -> io::Result<Vec<RunEvent>> {
///         Ok(Vec::new())
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let service = Service::open(Registry::in_memory()?, Arc::new(Doubler), Capacity::default()).await?;
/// service.start(NewRun { id: "run-1".into(), subject: "doubler".into(), input: json!(21) }).await?;
/// let mut events = service.read_events("run-1", 0).await?;
/// assert_eq!(events.next().await?, ReadOutcome::End(Status::Complete));
/// assert_eq!(service.get("run-1").await?.outcome, json!(42));
/// # Ok(()) }
/// ```
#[async_trait]
pub trait Runner: Send + Sync + 'static {
    /// Executes a run, or resumes it from its last stored state. Sends each event after storing it.
    ///
    /// The future is dropped if the run is cancelled or the server shuts down. `execute` may later be called again
    /// for the same run.
    async fn execute(
        &self,
        run: &RunInfo,
        sender: &EventSender,
    ) -> Result<RunnerOutcome, RunnerError>;

    /// Returns whether resuming a complete run can produce more results. May block.
    fn can_continue(&self, _run: &RunInfo) -> bool {
        false
    }

    /// Returns up to `limit` stored events of the run with sequence numbers greater than `after`. May block.
    fn events(&self, run: &str, after: u64, limit: usize) -> io::Result<Vec<RunEvent>>;
}

/// Outcome of a [`Runner::execute`] call that did not fail.
#[derive(Debug, Clone, PartialEq)]
pub enum RunnerOutcome {
    /// The run has finished. The value is a short result for display in lists of runs.
    Complete(Value),
    /// The run is interrupted and is waiting for an answer.
    Waiting,
}

/// The error returned when a run fails. The message is shown to clients.
#[derive(thiserror::Error)]
#[error("{0}")]
pub struct RunnerError(pub String);

graph_core::readable_debug!(RunnerError);

/// Sends the events of one run to its readers.
#[derive(Debug)]
pub struct EventSender {
    pub(crate) recent: Arc<RecentEvents>,
}

impl EventSender {
    /// Sends an event that is already stored. Its sequence number must be one greater than that of the previous
    /// event.
    pub fn send(&self, event: RunEvent) {
        self.recent.push(event);
    }
}
