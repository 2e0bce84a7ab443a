//! Messages about change sets, addressed to workers and to the floor manager.

use serde::{Deserialize, Serialize};

use crate::{
    confine::Durability,
    digest::Digest,
    error::Error,
    finding::Finding,
    gate::{Gate, LockedGate},
};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Id of the message. If a message is sent again, it keeps its id.
    pub message_id: String,
    #[serde(rename = "type")]
    pub kind: MessageKind,
    pub task_id: String,
    pub set: String,
    pub paths: Vec<String>,
    /// Reason for the decision, in one sentence.
    pub reason: String,
    pub findings: Vec<Finding>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum MessageKind {
    /// The change set is complete and waits to be judged.
    DraftReady,
    DraftAccepted,
    /// The change set was rejected. Its content is kept for the retention period.
    DraftRejected,
    DraftEscalated,
}

/// Maximum total size, in bytes, of the messages that are returned at once. The oldest messages are omitted.
const MAX_BYTES: u64 = 1 << 20;

/// Maximum number of findings in a message. The most severe ones are included; `draft-gate show` prints all of them.
const MAX_FINDINGS: usize = 50;

/// Name of the floor manager's inbox. It contains a space, so it cannot collide with a worker's inbox.
const MANAGER_INBOX: &str = "floor manager";

impl Gate {
    /// Returns the floor manager's messages, which are about submissions and escalations, oldest first.
    pub fn manager_inbox(&self) -> Result<Vec<Message>, Error> {
        self.messages(MANAGER_INBOX)
    }

    pub(crate) fn messages(&self, inbox: &str) -> Result<Vec<Message>, Error> {
        let file = format!("{inbox}.ndjson");
        let Some((bytes, length)) = self.inboxes.tail(&file, MAX_BYTES)? else {
            return Ok(vec![]);
        };
        // If the file was not read from its start, the first line is incomplete and must be skipped.
        let skipped = usize::from(length > bytes.len() as u64);
        let lines = bytes.split(|byte| *byte == b'\n').skip(skipped);
        let mut messages: Vec<Message> = vec![];
        for message in lines.filter_map(|it| serde_json::from_slice::<Message>(it).ok()) {
            // Skip duplicates, because messages may be sent again after a crash.
            if messages.iter().rev().take(100).all(|it| it.message_id != message.message_id) {
                messages.push(message);
            }
        }
        Ok(messages)
    }
}

impl LockedGate<'_> {
    /// Sends a message to the worker, and also to the floor manager if the message requires action.
    pub(crate) fn send(&self, worker: &str, message: &Message) -> Result<(), Error> {
        let mut message = message.clone();
        message.findings.truncate(MAX_FINDINGS);
        let mut line = serde_json::to_vec(&message).expect("plain data");
        line.push(b'\n');
        // A leading newline separates the message from an incomplete line that a crash may have left.
        line.insert(0, b'\n');
        let append = |inbox: &str| {
            self.gate.inboxes.append(&format!("{inbox}.ndjson"), &line, Durability::ProcessCrash)
        };
        append(&format!("{worker}.{}", message.task_id))?;
        if matches!(message.kind, MessageKind::DraftReady | MessageKind::DraftEscalated) {
            append(MANAGER_INBOX)?;
        }
        Ok(())
    }

    /// Removes inboxes that have received no message since `time` (in seconds since the Unix epoch). Truncates long
    /// inboxes to their newest messages, because older ones are never returned. Returns the number of removed and
    /// truncated inboxes.
    pub(crate) fn prune_inboxes(&self, time: i64) -> Result<usize, Error> {
        let inboxes = &self.gate.inboxes;
        let mut n_pruned = 0;
        for name in inboxes.names()?.into_iter().filter(|it| it.ends_with(".ndjson")) {
            if inboxes.written_at(&name).is_none_or(|it| it < time) {
                inboxes.remove(&name)?;
                n_pruned += 1;
                continue;
            }
            let Some((mut bytes, length)) = inboxes.tail(&name, MAX_BYTES)? else { continue };
            if length > 2 * MAX_BYTES {
                let start = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(0);
                inboxes.replace(&name, bytes.split_off(start), Durability::ProcessCrash)?;
                n_pruned += 1;
            }
        }
        Ok(n_pruned)
    }
}

/// Returns the id of a message, which is a hash of its kind, set and fingerprint.
pub(crate) fn message_id(kind: MessageKind, set: &str, fingerprint: &str) -> String {
    format!("msg_{}", &Digest::of(format!("{kind:?} {set} {fingerprint}").as_bytes()).short())
}
