//! Notices between replicas.
//!
//! A notice is only a hint to read the tables again, because it may be lost with its connection. When the connection
//! has been opened again, all receivers get `Notice::Lost` and read the tables again.

use std::sync::Arc;

use graph_store::postgres::connections::{Connections, Listener, Notification};
use tokio::sync::{Notify, broadcast};
use uuid::Uuid;

use crate::langgraph::storage::Notice;

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
    _listener: Listener,
}

impl Notices {
    pub(super) fn listen(connections: &Connections, queue_changed: Arc<Notify>) -> Self {
        let (sender, _) = broadcast::channel(BUFFER);
        let forward = sender.clone();
        let listener = connections.listen("graph_server", move |notification| {
            if matches!(notification, Notification::Payload(QUEUED) | Notification::Connected) {
                queue_changed.notify_one();
            }
            let notice = match notification {
                Notification::Payload(payload) => parse(payload),
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
