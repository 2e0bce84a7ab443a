//! The memory of the log's end, in `head.json`.
//!
//! It is written twice for every line of the log, so it is written in place and not as a new file: two slots take
//! turns, and each carries a sum over itself. A write that a crash or a power cut tears spoils one slot; the other
//! one holds what was remembered before.

use serde::{Deserialize, Serialize};

use crate::{
    audit::GO_ON,
    confine::{Folder, Keep},
    digest::Digest,
    error::Error,
};

const FILE: &str = "head.json";

/// The length of a slot: a disk writes so much as a whole.
const SLOT: usize = 512;

/// The end of the log as the gate remembers it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Head {
    /// The number of the last line.
    pub(crate) seq: u64,
    /// Its digest.
    pub(crate) hash: Option<Digest>,
    /// The digest of a line that is being written.
    pub(crate) next: Option<Digest>,
    /// How often this was written: the slot with the greater number counts.
    #[serde(default)]
    turn: u64,
}

impl Head {
    /// The end that a line which is now whole leaves; written after `self`.
    pub(crate) fn followed_by(&self, seq: u64, hash: Option<Digest>) -> Self {
        Self { seq, hash, next: None, turn: self.turn }
    }

    /// The same end, while another line is being written behind it.
    pub(crate) fn expecting(&self, next: Digest) -> Self {
        Self { next: Some(next), ..self.clone() }
    }

    /// What is remembered. An empty memory is that of an empty log; one that cannot be read is an error.
    pub(crate) fn load(folder: &Folder) -> Result<Self, Error> {
        let Some(content) = folder.read(FILE, 4096)? else { return Ok(Self::default()) };
        let slots = content.bytes.chunks(SLOT).filter_map(read_slot);
        slots.max_by_key(|it| it.turn).ok_or_else(|| Error::Log {
            fault: format!("the memory of its end, _handoff/gate/{FILE}, is damaged"),
            advice: GO_ON,
        })
    }

    /// Remembers this, in the slot that does not hold what was remembered last.
    pub(crate) fn store(mut self, folder: &Folder, keep: Keep) -> Result<Self, Error> {
        self.turn += 1;
        if !folder.has(FILE) {
            // A first slot that is torn would have no other one beside it.
            self.start_over(folder)?;
            return Ok(self);
        }
        let place = if self.turn.is_multiple_of(2) { 0 } else { SLOT as u64 };
        folder.overwrite(FILE, place, &slot_of(&self), keep)?;
        Ok(self)
    }

    /// Writes the memory anew, whatever it was.
    pub(crate) fn start_over(&self, folder: &Folder) -> Result<(), Error> {
        let both = slot_of(self).repeat(2);
        folder.replace(FILE, both, Keep::ThroughPowerCut)
    }
}

/// The memory as JSON and its sum, filled up to the slot's length.
fn slot_of(head: &Head) -> Vec<u8> {
    let json = serde_json::to_string(head).expect("a head is plain data");
    let sum = Digest::of(json.as_bytes());
    format!("{:<width$}\n", format!("{json} {sum}"), width = SLOT - 1).into_bytes()
}

fn read_slot(slot: &[u8]) -> Option<Head> {
    let (json, sum) = str::from_utf8(slot).ok()?.trim_end().rsplit_once(' ')?;
    let is_whole = sum.parse() == Ok(Digest::of(json.as_bytes()));
    if is_whole { serde_json::from_str(json).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hook::Hook;

    /// Whatever of a write reaches the disk, what is remembered is the new end or the one before.
    #[test]
    fn a_torn_write_leaves_the_memory_before_it() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join(FILE);
        let folder = Folder::root(place.path(), Hook::default()).unwrap();
        let mut head = Head::default();
        for seq in 1..20 {
            let before = std::fs::read(&file).unwrap_or_default();
            let old = head.clone();
            let hash = Digest::of(&seq.to_string().into_bytes());
            head = head.followed_by(seq, Some(hash)).store(&folder, Keep::ThroughCrash).unwrap();
            assert_eq!(Head::load(&folder).unwrap(), head);
            let after = std::fs::read(&file).unwrap();
            for at in (0..before.len()).step_by(37) {
                std::fs::write(&file, [&after[..at], &before[at..]].concat()).unwrap();
                let torn = Head::load(&folder).unwrap();
                assert!(torn == old || torn == head, "{seq} {at}: {torn:?}");
            }
            std::fs::write(&file, after).unwrap();
        }
    }

    #[test]
    fn a_memory_of_which_nothing_is_whole_is_an_error() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::root(place.path(), Hook::default()).unwrap();
        assert_eq!(Head::load(&folder).unwrap(), Head::default());
        for bytes in ["", "{}", "{\"seq\":1,\"hash\":null,\"next\":null}"] {
            std::fs::write(place.path().join(FILE), bytes).unwrap();
            assert!(matches!(Head::load(&folder), Err(Error::Log { .. })), "{bytes}");
        }
    }
}
