//! Messages: what happened to a draft, for the worker and for the floor manager.

use serde::{Deserialize, Serialize};

use crate::{
    confine::Keep,
    digest::Digest,
    error::Error,
    finding::Finding,
    gate::{Gate, Held},
};

/// A message about a change set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// The message's own name; the same message has the same one.
    pub message_id: String,
    /// What happened.
    #[serde(rename = "type")]
    pub kind: MessageKind,
    /// The task.
    pub task_id: String,
    /// The change set.
    pub set: String,
    /// Which files it is about.
    pub paths: Vec<String>,
    /// Why, in a sentence.
    pub reason: String,
    /// What the gate found.
    pub findings: Vec<Finding>,
}

/// What a message tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum MessageKind {
    /// A change set is complete.
    DraftReady,
    /// It was applied.
    DraftAccepted,
    /// It was not; its content is kept for a while.
    DraftRejected,
    /// A person decides.
    DraftEscalated,
}

/// Messages of an inbox come at most so many at a time, the newest.
const MOST_BYTES: u64 = 1 << 20;

/// A message names so many findings, the gravest; `draft-gate show` has them all.
const MOST_FINDINGS: usize = 50;

/// The inbox of the floor manager. No task can have this name: it holds a space.
const MANAGER: &str = "floor manager";

impl Gate {
    /// What the gate told a worker about a task, oldest first; after the message `after`, if that is still there.
    pub fn inbox(
        &self,
        worker: &str,
        task: &str,
        after: Option<&str>,
    ) -> Result<Vec<Message>, Error> {
        self.worker(worker)?.inbox(task, after)
    }

    /// What waits for the floor manager: submissions and escalations, oldest first.
    pub fn manager_inbox(&self) -> Result<Vec<Message>, Error> {
        self.messages(MANAGER)
    }

    pub(crate) fn messages(&self, inbox: &str) -> Result<Vec<Message>, Error> {
        let file = format!("{inbox}.ndjson");
        let Some((bytes, length)) = self.inboxes.tail(&file, MOST_BYTES)? else {
            return Ok(vec![]);
        };
        // Where the beginning is left out the first line is half a line.
        let skipped = usize::from(length > bytes.len() as u64);
        let lines = bytes.split(|byte| *byte == b'\n').skip(skipped);
        let mut messages: Vec<Message> = vec![];
        for message in lines.filter_map(|it| serde_json::from_slice::<Message>(it).ok()) {
            // What a crash interrupted is told again.
            if messages.iter().rev().take(100).all(|it| it.message_id != message.message_id) {
                messages.push(message);
            }
        }
        Ok(messages)
    }
}

impl Held<'_> {
    /// Tells the worker, and the floor manager where it is his to act.
    pub(crate) fn send(&self, worker: &str, message: &Message) -> Result<(), Error> {
        let mut message = message.clone();
        message.findings.truncate(MOST_FINDINGS);
        let mut line = serde_json::to_vec(&message).expect("plain data");
        line.push(b'\n');
        // A half line that a crash left must not swallow this one.
        line.insert(0, b'\n');
        let append = |inbox: &str| {
            self.gate.inboxes.append(&format!("{inbox}.ndjson"), &line, Keep::ThroughCrash)
        };
        append(&format!("{worker}.{}", message.task_id))?;
        if matches!(message.kind, MessageKind::DraftReady | MessageKind::DraftEscalated) {
            append(MANAGER)?;
        }
        Ok(())
    }

    /// Removes inboxes to which nothing came since a time, in seconds since 1970, and the beginnings of long ones that
    /// nobody is shown any more; counts what it touched.
    pub(crate) fn prune_inboxes(&self, time: i64) -> Result<usize, Error> {
        let inboxes = &self.gate.inboxes;
        let mut n_pruned = 0;
        for name in inboxes.names()?.into_iter().filter(|it| it.ends_with(".ndjson")) {
            if inboxes.written_at(&name).is_none_or(|it| it < time) {
                inboxes.remove(&name)?;
                n_pruned += 1;
                continue;
            }
            let Some((mut bytes, length)) = inboxes.tail(&name, MOST_BYTES)? else { continue };
            if length > 2 * MOST_BYTES {
                let start = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(0);
                inboxes.replace(&name, bytes.split_off(start), Keep::ThroughCrash)?;
                n_pruned += 1;
            }
        }
        Ok(n_pruned)
    }
}

/// The name of a message: of what happened to which set, and when it looked how.
pub(crate) fn message_id(kind: MessageKind, set: &str, sight: &str) -> String {
    format!("msg_{}", &Digest::of(format!("{kind:?} {set} {sight}").as_bytes()).short())
}
