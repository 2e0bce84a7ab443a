//! Notices between replicas.
//!
//! A notice is only a hint to look at the tables: it may be lost with its connection. After a connection was opened
//! again, `Notice::Lost` makes all receivers look at the tables.

use std::{future::poll_fn, sync::Arc, time::Duration};

use tokio::{
    sync::{Notify, broadcast},
    task::JoinHandle,
};
use tokio_postgres::{AsyncMessage, Config, Error, NoTls};
use uuid::Uuid;

use crate::langgraph::storage::Notice;

/// Delay before the connection is opened again after it was lost.
const RECONNECT_DELAY: Duration = Duration::from_millis(500);
/// Number of notices that are kept for a slow receiver.
const BUFFER: usize = 4096;

/// Payload that announces that a run may be available.
const QUEUED: &str = "queued";

/// Encodes a notice as the payload of a notification.
pub(super) fn to_payload(notice: &Notice) -> String {
    match notice {
        Notice::Started { thread, run } => format!("started {thread} {run}"),
        Notice::Events(run) => format!("events {run}"),
        Notice::Cancelled => "cancelled".to_owned(),
        Notice::StateEdited(thread) => format!("edited {thread}"),
        Notice::Deleted(thread) => format!("deleted {thread}"),
        Notice::Timer => "timer".to_owned(),
        Notice::Lost => "lost".to_owned(),
    }
}

fn parse(payload: &str) -> Option<Notice> {
    let mut words = payload.split(' ');
    let kind = words.next()?;
    let mut id = || words.next().and_then(|it| Uuid::try_parse(it).ok());
    match kind {
        "started" => Some(Notice::Started { thread: id()?, run: id()? }),
        "events" => Some(Notice::Events(id()?)),
        "cancelled" => Some(Notice::Cancelled),
        "edited" => Some(Notice::StateEdited(id()?)),
        "deleted" => Some(Notice::Deleted(id()?)),
        "timer" => Some(Notice::Timer),
        "lost" => Some(Notice::Lost),
        _ => None,
    }
}

/// A connection that receives notices. Dropping it closes the connection.
pub(super) struct Notices {
    sender: broadcast::Sender<Notice>,
    task: JoinHandle<()>,
}

impl Notices {
    pub(super) fn listen(config: Config, queue_changed: Arc<Notify>) -> Self {
        let (sender, _) = broadcast::channel(BUFFER);
        let forward = sender.clone();
        let task = tokio::spawn(async move {
            loop {
                if let Err(error) = receive(&config, &forward, &queue_changed).await {
                    tracing::warn!(%error, "lost the connection for notices; reconnecting");
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

/// Forwards notices until the connection ends.
async fn receive(
    config: &Config,
    sender: &broadcast::Sender<Notice>,
    queue_changed: &Notify,
) -> Result<(), Error> {
    let (client, mut connection) = config.connect(NoTls).await?;
    let listen = async {
        client.batch_execute("LISTEN graph_server").await?;
        // Earlier notices were not received.
        let _ = sender.send(Notice::Lost);
        queue_changed.notify_one();
        std::future::pending().await
    };
    let forward = async {
        while let Some(message) = poll_fn(|cx| connection.poll_message(cx)).await {
            let AsyncMessage::Notification(notification) = message? else { continue };
            if notification.payload() == QUEUED {
                queue_changed.notify_one();
            }
            if let Some(notice) = parse(notification.payload()) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_are_parsed() {
        let (thread, run) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let notices = [
            Notice::Started { thread, run },
            Notice::Events(run),
            Notice::Cancelled,
            Notice::StateEdited(thread),
            Notice::Deleted(thread),
            Notice::Timer,
            Notice::Lost,
        ];
        for notice in notices {
            assert_eq!(parse(&to_payload(&notice)), Some(notice));
        }
        assert_eq!(parse(QUEUED), None);
    }
}
