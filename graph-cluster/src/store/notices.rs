//! Notifications that connect the processes of a cluster.
//!
//! A notification only says that the tables have changed, and may be lost with its connection. Every receiver therefore
//! also reads the tables periodically.

use std::{future::poll_fn, time::Duration};

use tokio::{sync::broadcast, task::JoinHandle};
use tokio_postgres::{AsyncMessage, Config, Error, NoTls};

/// Delay before the connection is opened again after it was lost.
const RECONNECT_DELAY: Duration = Duration::from_millis(500);
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
    task: JoinHandle<()>,
}

impl Notices {
    pub(super) fn listen(config: Config) -> Self {
        let (sender, _) = broadcast::channel(BUFFER);
        let forward = sender.clone();
        let task = tokio::spawn(async move {
            loop {
                if let Err(error) = receive(&config, &forward).await {
                    tracing::warn!(%error, "lost the connection for notifications; reconnecting");
                }
                tokio::time::sleep(RECONNECT_DELAY).await;
            }
        });
        Self { sender, task }
    }

    pub(super) fn subscribe(&self) -> broadcast::Receiver<Notice> {
        self.sender.subscribe()
    }
}

impl Drop for Notices {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Forwards notifications until the connection ends.
async fn receive(config: &Config, sender: &broadcast::Sender<Notice>) -> Result<(), Error> {
    let (client, mut connection) = config.connect(NoTls).await?;
    let listen = async {
        client.batch_execute("LISTEN graph_cluster").await?;
        // Earlier announcements were not received.
        let _ = sender.send(Notice::Lost);
        std::future::pending().await
    };
    let forward = async {
        while let Some(message) = poll_fn(|cx| connection.poll_message(cx)).await {
            if let AsyncMessage::Notification(it) = message?
                && let Some(notice) = Notice::parse(it.payload())
            {
                // An error means that there is no receiver at the moment.
                let _ = sender.send(notice);
            }
        }
        Ok(())
    };
    tokio::select! {
        result = listen => result,
        result = forward => result,
    }
}
