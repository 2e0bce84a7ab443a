//! The files that a worker writes. They contain the executed side effects and the acknowledged writes.

use std::{collections::BTreeMap, fs, io, path::Path};

use graph_core::checkpoint::{CheckpointId, CheckpointWrite, TaskId};
use serde::{Deserialize, Serialize};

use super::job;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ack {
    Put {
        namespace: String,
        id: CheckpointId,
    },
    Record {
        /// Namespace of the checkpoint to which the record belongs.
        namespace: String,
        id: CheckpointId,
        task: TaskId,
        /// Kind of the record within the task.
        slot: String,
    },
}

/// Returns the acknowledgements that are logged once these writes have succeeded.
pub(super) fn acks_of(writes: &[CheckpointWrite]) -> Vec<Ack> {
    let mut acks = Vec::new();
    for write in writes {
        match write {
            CheckpointWrite::Put(checkpoint) => {
                let (namespace, id) = (checkpoint.key.namespace.clone(), checkpoint.key.id);
                acks.push(Ack::Put { namespace, id });
            }
            CheckpointWrite::Record(at, records) => {
                acks.extend(records.iter().map(|it| Ack::Record {
                    namespace: at.namespace.clone(),
                    id: at.id,
                    task: it.task,
                    slot: it.event.slot(),
                }))
            }
        }
    }
    acks
}

/// Appends acknowledgements to the file with a single write. Each acknowledgement is one line.
pub(super) fn append_acks(path: &Path, acks: &[Ack]) -> io::Result<()> {
    if acks.is_empty() {
        return Ok(());
    }
    let lines: Vec<String> = acks.iter().map(serde_json::to_string).collect::<Result<_, _>>()?;
    job::append_line(path, &lines.join("\n"))
}

/// Reads the acknowledgements from the file.
pub fn acks(path: &Path) -> io::Result<Vec<Ack>> {
    lines(path)?.iter().map(|it| Ok(serde_json::from_str(it)?)).collect()
}

/// Reads from the file how often each effect was executed.
pub fn effects(path: &Path) -> io::Result<BTreeMap<String, usize>> {
    let mut counts = BTreeMap::new();
    for key in lines(path)? {
        *counts.entry(key).or_default() += 1;
    }
    Ok(counts)
}

/// Reads the lines of a file. A missing file counts as empty.
fn lines(path: &Path) -> io::Result<Vec<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(text.lines().map(str::to_owned).collect()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}
