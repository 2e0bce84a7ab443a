//! The stored end of the log, `head.json`.
//!
//! The file is written twice per log line, so it is overwritten in place. It has two slots, which are written
//! alternately, and each slot has its own checksum. A write that a crash or power failure interrupts corrupts only one
//! slot, and the other slot still holds the previous state.

use serde::{Deserialize, Serialize};

use crate::{
    confine::{Dir, Durability},
    digest::Digest,
    error::Error,
};

const FILE: &str = "head.json";

/// Advice in the error message if the end of the log differs from the end that is stored in `head.json`.
const ACKNOWLEDGE_ADVICE: &str = "inspect it, then run `draft-gate verify --acknowledge-loss`";

/// Size of a slot in bytes, which is the size of a disk sector.
const SLOT_BYTES: usize = 512;

/// The end of the log, as stored by the gate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct LogHead {
    /// Number of the last line.
    pub(crate) seq: u64,
    /// Hash of the last line.
    pub(crate) hash: Option<Digest>,
    /// Hash of the line that is being written.
    pub(crate) next: Option<Digest>,
    /// Length of the log in bytes. `None` if an earlier version of the gate wrote this head.
    pub(crate) bytes: Option<u64>,
    /// Hash of the line before the last one.
    pub(crate) previous: Option<Digest>,
    /// Length of the log in bytes with the line that is being written.
    pub(crate) next_bytes: Option<u64>,
    /// Write counter. The slot with the larger value is the current one.
    #[serde(default)]
    turn: u64,
}

impl LogHead {
    /// Returns the head to store after the line at this end has been written completely.
    pub(crate) fn advanced_to(&self, end: &LogEnd) -> Self {
        Self {
            seq: end.seq,
            hash: end.hash,
            bytes: Some(end.bytes),
            previous: end.previous,
            next: None,
            next_bytes: None,
            turn: self.turn,
        }
    }

    /// Returns the head to store before the line at this end is written.
    pub(crate) fn with_next(&self, next: &LogEnd) -> Self {
        Self { next: next.hash, next_bytes: Some(next.bytes), ..self.clone() }
    }

    /// Fails unless the log ends with the last line that the gate wrote, or with the line that it was about to write.
    pub(crate) fn check(&self, end: &LogEnd) -> Result<(), Error> {
        let has_length = |bytes: Option<u64>| bytes.is_none_or(|it| it == end.bytes);
        let is_last = end.seq == self.seq && end.hash == self.hash;
        let is_next = self.next.is_some() && end.hash == self.next && end.seq == self.seq + 1;
        let length = if is_next { self.next_bytes } else { self.bytes };
        if (is_last || is_next) && has_length(length) {
            return Ok(());
        }
        let fault = match length {
            Some(bytes) if is_last || is_next => {
                format!("it has {} bytes, but the gate wrote {bytes}", end.bytes)
            }
            _ if end.seq < self.seq => {
                format!("it ends at line {}, but the gate wrote {} lines", end.seq, self.seq)
            }
            _ if end.seq > self.seq => {
                format!("it has {} lines, but the gate wrote {}", end.seq, self.seq)
            }
            _ => format!("line {} differs from the one that the gate wrote", end.seq),
        };
        Err(corrupt_log(fault))
    }

    /// Loads the stored head. Returns the head of an empty log if the file is missing, and an error if it has no valid
    /// slot.
    pub(crate) fn load(dir: &Dir) -> Result<Self, Error> {
        let Some(content) = dir.read(FILE, 4096)? else { return Ok(Self::default()) };
        let slots = content.bytes.chunks(SLOT_BYTES).filter_map(read_slot);
        slots.max_by_key(|it| it.turn).ok_or_else(|| {
            corrupt_log(format!("the stored end of the log, _handoff/gate/{FILE}, is corrupt"))
        })
    }

    /// Stores the head in the slot that does not hold the current state.
    pub(crate) fn store(mut self, dir: &Dir, keep: Durability) -> Result<Self, Error> {
        self.turn += 1;
        if !dir.has(FILE) {
            // Write the whole file atomically the first time, because there is no other slot yet that would survive an
            // interrupted write.
            self.reset(dir)?;
            return Ok(self);
        }
        let offset = if self.turn.is_multiple_of(2) { 0 } else { SLOT_BYTES as u64 };
        dir.overwrite(FILE, offset, &slot_of(&self), keep)?;
        Ok(self)
    }

    /// Replaces the file, regardless of its content.
    pub(crate) fn reset(&self, dir: &Dir) -> Result<(), Error> {
        let both = slot_of(self).repeat(2);
        dir.replace(FILE, both, Durability::PowerLoss)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct LogEnd {
    /// Number of the last line.
    pub(crate) seq: u64,
    /// Hash of the last line.
    pub(crate) hash: Option<Digest>,
    /// Hash of the line before the last one.
    pub(crate) previous: Option<Digest>,
    /// Length of the log in bytes.
    pub(crate) bytes: u64,
}

/// Encodes the head as JSON with a checksum, padded to the size of a slot.
fn slot_of(head: &LogHead) -> Vec<u8> {
    let json = serde_json::to_string(head).expect("a log head can be serialised to JSON");
    let sum = Digest::of(json.as_bytes());
    format!("{:<width$}\n", format!("{json} {sum}"), width = SLOT_BYTES - 1).into_bytes()
}

fn read_slot(slot: &[u8]) -> Option<LogHead> {
    let (json, sum) = str::from_utf8(slot).ok()?.trim_end().rsplit_once(' ')?;
    let is_whole = sum.parse() == Ok(Digest::of(json.as_bytes()));
    if is_whole { serde_json::from_str(json).ok() } else { None }
}

/// Returns the error for a log that differs from what the gate wrote.
pub(crate) fn corrupt_log(fault: String) -> Error {
    Error::CorruptLog { fault, advice: ACKNOWLEDGE_ADVICE }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hook::Hook;

    /// However much of a write reaches the disk, the loaded head must be the new or the previous one.
    #[test]
    fn torn_writes_leave_the_previous_head() {
        let offset = tempfile::tempdir().unwrap();
        let file = offset.path().join(FILE);
        let dir = Dir::open_root(offset.path(), Hook::default()).unwrap();
        let mut head = LogHead::default();
        for seq in 1..20 {
            let before = std::fs::read(&file).unwrap_or_default();
            let old = head.clone();
            let hash = Digest::of(&seq.to_string().into_bytes());
            let end = LogEnd { seq, hash: Some(hash), previous: head.hash, bytes: 300 * seq };
            head = head.advanced_to(&end).store(&dir, Durability::ProcessCrash).unwrap();
            assert_eq!(LogHead::load(&dir).unwrap(), head);
            let after = std::fs::read(&file).unwrap();
            for at in (0..before.len()).step_by(37) {
                std::fs::write(&file, [&after[..at], &before[at..]].concat()).unwrap();
                let torn = LogHead::load(&dir).unwrap();
                assert!(torn == old || torn == head, "{seq} {at}: {torn:?}");
            }
            std::fs::write(&file, after).unwrap();
        }
    }

    #[test]
    fn files_without_a_valid_slot_are_rejected() {
        let offset = tempfile::tempdir().unwrap();
        let dir = Dir::open_root(offset.path(), Hook::default()).unwrap();
        assert_eq!(LogHead::load(&dir).unwrap(), LogHead::default());
        for bytes in ["", "{}", "{\"seq\":1,\"hash\":null,\"next\":null}"] {
            std::fs::write(offset.path().join(FILE), bytes).unwrap();
            assert!(matches!(LogHead::load(&dir), Err(Error::CorruptLog { .. })), "{bytes}");
        }
    }
}
