//! Ids: checkpoints by time, tasks by content.

use std::{
    fmt,
    hash::{BuildHasher, RandomState},
    str::FromStr,
    sync::{Mutex, PoisonError},
    time::{SystemTime, UNIX_EPOCH},
};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{Error, Visitor},
};
use xxhash_rust::xxh3::xxh3_128;

/// The id of a checkpoint: a later one is greater.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CheckpointId(u128);

impl CheckpointId {
    /// A new id, greater than all that this process has made.
    pub fn next() -> Self {
        // A std mutex: it is held for a few instructions and never over an await.
        static LAST: Mutex<u128> = Mutex::new(0);
        let millis = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.as_millis());
        let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
        // Milliseconds, then room for a counter, then random bits against other processes.
        *last = with_random_end(millis << 80).max(following(*last));
        Self(*last)
    }

    /// A new id that is greater than another, though another process with a faster clock may have made that one.
    pub fn after(other: Option<Self>) -> Self {
        let next = Self::next();
        other.map_or(next, |it| Self(next.0.max(following(it.0))))
    }

    /// The id's bytes; their order is the order of the ids.
    pub fn to_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }

    /// The id with these bytes.
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(u128::from_be_bytes(bytes))
    }
}

/// An id right after another. Its end is random too: two processes that follow the same head must not meet.
fn following(id: u128) -> u128 {
    with_random_end((id >> 32).saturating_add(1) << 32)
}

fn with_random_end(id: u128) -> u128 {
    id | (u128::from(RandomState::new().hash_one(id)) & 0xffff_ffff)
}

/// The id of a task: the same for the same work, whatever process runs it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(u128);

impl TaskId {
    /// Stands for a command given as input, which is no task.
    pub const COMMAND: Self = Self(0);

    /// The id made from these parts.
    pub fn of(parts: &[&[u8]]) -> Self {
        let mut bytes = Vec::with_capacity(parts.iter().map(|it| it.len() + 8).sum());
        for part in parts {
            // The length keeps ("ab", "c") apart from ("a", "bc").
            bytes.extend_from_slice(&(part.len() as u64).to_le_bytes());
            bytes.extend_from_slice(part);
        }
        Self(xxh3_128(&bytes))
    }

    /// The id's bytes.
    pub fn to_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }
}

macro_rules! hex {
    ($($type:ident)*) => {$(
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:032x}", self.0)
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({self})", stringify!($type))
            }
        }

        impl FromStr for $type {
            type Err = ParseIdError;
            fn from_str(text: &str) -> Result<Self, ParseIdError> {
                let digits = text.len() == 32 && text.bytes().all(|it| it.is_ascii_hexdigit());
                let id = digits.then(|| u128::from_str_radix(text, 16).ok()).flatten();
                id.map(Self).ok_or_else(|| ParseIdError(text.chars().take(40).collect()))
            }
        }

        impl Serialize for $type {
            /// Digits in text, and 16 bytes in binary formats.
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match serializer.is_human_readable() {
                    true => serializer.collect_str(self),
                    false => serializer.serialize_bytes(&self.to_bytes()),
                }
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                match deserializer.is_human_readable() {
                    true => String::deserialize(deserializer)?.parse().map_err(D::Error::custom),
                    false => deserializer.deserialize_bytes(Bytes).map(|it| Self(u128::from_be_bytes(it))),
                }
            }
        }
    )*};
}

hex!(CheckpointId TaskId);

/// Reads the 16 bytes of an id.
struct Bytes;

impl Visitor<'_> for Bytes {
    type Value = [u8; 16];

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an id of 16 bytes")
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<[u8; 16], E> {
        bytes.try_into().map_err(|_| E::invalid_length(bytes.len(), &self))
    }
}

/// A text that is no id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an id; an id has 32 hexadecimal digits")]
pub struct ParseIdError(String);

#[cfg(test)]
mod tests {
    use super::{CheckpointId, TaskId};

    #[test]
    fn checkpoint_ids_grow_and_survive_as_text() {
        let ids: Vec<_> = (0..1000).map(|_| CheckpointId::next()).collect();
        assert!(ids.is_sorted_by(|a, b| a < b));
        assert_eq!(ids[7].to_string().parse(), Ok(ids[7]));
        assert!("7".parse::<CheckpointId>().is_err());
    }

    #[test]
    fn two_who_follow_a_head_ahead_of_their_clocks_do_not_meet() {
        let ahead = CheckpointId(CheckpointId::next().0 + (60_000 << 80));
        let ids = [(); 100].map(|()| CheckpointId::after(Some(ahead)));
        assert!(ids.iter().all(|it| *it > ahead));
        assert_eq!(std::collections::BTreeSet::from(ids).len(), 100);
    }

    #[test]
    fn task_ids_depend_on_how_the_parts_are_cut() {
        assert_eq!(TaskId::of(&[b"ab", b"c"]), TaskId::of(&[b"ab", b"c"]));
        assert_ne!(TaskId::of(&[b"ab", b"c"]), TaskId::of(&[b"a", b"bc"]));
    }
}
