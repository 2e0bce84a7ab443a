//! What a process leaves behind: which effects took place, and what the saver said was stored.

use std::{collections::BTreeMap, fs, io, path::Path};

use graph_core::checkpoint::{CheckpointId, TaskId, Write};
use serde::{Deserialize, Serialize};

use super::job;

/// A write that was answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ack {
    /// A checkpoint.
    Put {
        /// Its namespace.
        namespace: String,
        /// Its id.
        id: CheckpointId,
    },
    /// A task's record.
    Record {
        /// The namespace of the checkpoint that it belongs to.
        namespace: String,
        /// That checkpoint.
        id: CheckpointId,
        /// The task.
        task: TaskId,
        /// Which of the task's records it is.
        slot: String,
    },
}

/// What there will be to note once these writes are answered.
pub(super) fn acks_of(writes: &[Write]) -> Vec<Ack> {
    let mut acks = Vec::new();
    for write in writes {
        match write {
            Write::Put(checkpoint) => {
                let (namespace, id) = (checkpoint.place.namespace.clone(), checkpoint.place.id);
                acks.push(Ack::Put { namespace, id });
            }
            Write::Record(at, records) => acks.extend(records.iter().map(|it| Ack::Record {
                namespace: at.namespace.clone(),
                id: at.id,
                task: it.task,
                slot: it.event.slot(),
            })),
        }
    }
    acks
}

/// Notes what was answered, a line each, in one write.
pub(super) fn note(path: &Path, acks: &[Ack]) -> io::Result<()> {
    if acks.is_empty() {
        return Ok(());
    }
    let lines: Vec<String> = acks.iter().map(serde_json::to_string).collect::<Result<_, _>>()?;
    job::append(path, &lines.join("\n"))
}

/// Reads what was answered so far.
pub fn acks(path: &Path) -> io::Result<Vec<Ack>> {
    lines(path)?.iter().map(|it| Ok(serde_json::from_str(it)?)).collect()
}

/// Reads how often each effect took place.
pub fn effects(path: &Path) -> io::Result<BTreeMap<String, usize>> {
    let mut counts = BTreeMap::new();
    for key in lines(path)? {
        *counts.entry(key).or_default() += 1;
    }
    Ok(counts)
}

/// The lines of a file that need not be there.
fn lines(path: &Path) -> io::Result<Vec<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(text.lines().map(str::to_owned).collect()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}
