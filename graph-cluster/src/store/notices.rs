//! Notifications that connect the processes of a cluster.
//!
//! A notification only says that the tables have changed, and may be lost with its connection. Every receiver therefore
//! also reads the tables periodically.

use graph_store::postgres::connections::{Connections, Listener, Notification};
use tokio::{
    sync::broadcast::{self, error::RecvError},
    time::timeout,
};

use crate::limits::POLL_INTERVAL;

/// Number of notices that are kept for a slow receiver.
const BUFFER: usize = 1024;

/// A change that another process announced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    /// A run was queued, or a thread became free.
    Queued,
    /// A run should be cancelled.
    Cancel(String),
    /// The status or the events of a run changed.
    Changed(String),
    /// A task was posted for other workers.
    Task,
    /// Tasks of a run have new messages or outcomes.
    TaskUpdated(String),
    /// Notices may have been lost.
    Lost,
}

impl Notice {
    fn parse(payload: &str) -> Option<Self> {
        match payload.split_once(' ') {
            None if payload == "queued" => Some(Self::Queued),
            None if payload == "task" => Some(Self::Task),
            Some(("task_updated", run)) => Some(Self::TaskUpdated(run.to_owned())),
            Some(("cancel", run)) => Some(Self::Cancel(run.to_owned())),
            Some(("changed", run)) => Some(Self::Changed(run.to_owned())),
            _ => None,
        }
    }
}

/// A connection that receives notifications. Dropping it closes the connection.
pub(super) struct Notices {
    sender: broadcast::Sender<Notice>,
    _listener: Listener,
}

impl Notices {
    pub(super) fn listen(connections: &Connections) -> Self {
        let (sender, _) = broadcast::channel(BUFFER);
        let forward = sender.clone();
        let listener = connections.listen("graph_cluster", move |notification| {
            let notice = match notification {
                Notification::Payload(payload) => Notice::parse(payload),
                Notification::Connected => Some(Notice::Lost),
            };
            // An error means that there is no receiver at the moment.
            let _ = notice.map(|it| forward.send(it));
        });
        Self { sender, _listener: listener }
    }

    pub(super) fn subscribe(&self) -> broadcast::Receiver<Notice> {
        self.sender.subscribe()
    }
}

/// Waits for this notice, or until notices may have been lost. Returns false after [`POLL_INTERVAL`]: the caller then
/// reads the tables, too.
pub(crate) async fn wait_for_notice(
    notices: &mut broadcast::Receiver<Notice>,
    wanted: &Notice,
) -> bool {
    let notified = async {
        loop {
            match notices.recv().await {
                Ok(Notice::Lost) | Err(RecvError::Lagged(_)) => return,
                Ok(notice) if notice == *wanted => return,
                Ok(_) => {}
                Err(RecvError::Closed) => std::future::pending().await,
            }
        }
    };
    timeout(POLL_INTERVAL, notified).await.is_ok()
}
