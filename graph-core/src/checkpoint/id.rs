//! Checkpoint ids, which are ordered by time, and task ids, which are hashes.

use std::{
    fmt,
    hash::{BuildHasher, RandomState},
    str::FromStr,
    sync::Mutex,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{Error, Visitor},
};
use xxhash_rust::xxh3::xxh3_128;

use crate::sync::lock;

/// The id of a checkpoint. Later checkpoints have greater ids.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CheckpointId(u128);

impl CheckpointId {
    /// Creates an id greater than all ids that this process has created so far.
    pub fn next() -> Self {
        let mut last = lock(&LAST);
        // An id consists of a time in milliseconds, counter bits and random bits. The random bits avoid collisions with
        // ids from other processes.
        *last = with_random_low_bits(now_millis() << 80).max(following(*last));
        Self(*last)
    }

    /// Creates an id greater than `other`, even if `other` was created by a process whose clock is ahead.
    pub fn after(other: Option<Self>) -> Self {
        let next = Self::next();
        other.map_or(next, |it| Self(next.0.max(following(it.0))))
    }

    /// Makes all ids that this process creates from now on greater than `id`, which another process created.
    pub(crate) fn advance_past(id: Self) {
        let mut last = lock(&LAST);
        *last = id.0.max(*last);
    }

    /// Returns the time by which the clock of the process that created the id is ahead of the clock of this process.
    pub(crate) fn time_ahead(self) -> Duration {
        let ahead = (self.0 >> 80).saturating_sub(now_millis());
        Duration::from_millis(u64::try_from(ahead).unwrap_or(u64::MAX))
    }

    /// Returns the id as bytes, which sort in the same order as the ids.
    pub fn to_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }

    /// Restores an id from its bytes.
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(u128::from_be_bytes(bytes))
    }
}

/// The greatest id that this process has created.
// This is a std mutex, because it is held for a few instructions and never across an await.
static LAST: Mutex<u128> = Mutex::new(0);

/// Returns the time since the Unix epoch, in milliseconds.
fn now_millis() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.as_millis())
}

/// Returns an id that follows `id`. Its low bits are random, so that two processes that extend the same head do not
/// collide.
fn following(id: u128) -> u128 {
    with_random_low_bits((id >> 32).saturating_add(1) << 32)
}

fn with_random_low_bits(id: u128) -> u128 {
    id | (u128::from(RandomState::new().hash_one(id)) & 0xffff_ffff)
}

/// The id of a task. The same task has the same id in every process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(u128);

impl TaskId {
    /// The id under which input commands are recorded.
    pub const COMMAND: Self = Self(0);

    /// Hashes the parts into an id.
    pub fn from_parts(parts: &[&[u8]]) -> Self {
        let mut bytes = Vec::with_capacity(parts.iter().map(|it| it.len() + 8).sum());
        for part in parts {
            // The length distinguishes ("ab", "c") from ("a", "bc").
            bytes.extend_from_slice(&(part.len() as u64).to_le_bytes());
            bytes.extend_from_slice(part);
        }
        Self(xxh3_128(&bytes))
    }

    /// Returns the id as bytes.
    pub fn to_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }
}

macro_rules! impl_hex_id {
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
            /// Serialises the id as hexadecimal digits in text formats and as 16 bytes in binary formats.
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
                    false => deserializer.deserialize_bytes(IdBytesVisitor).map(|it| Self(u128::from_be_bytes(it))),
                }
            }
        }
    )*};
}

impl_hex_id!(CheckpointId TaskId);

/// Deserialises the 16 bytes of an id.
struct IdBytesVisitor;

impl Visitor<'_> for IdBytesVisitor {
    type Value = [u8; 16];

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an id of 16 bytes")
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<[u8; 16], E> {
        bytes.try_into().map_err(|_| E::invalid_length(bytes.len(), &self))
    }
}

/// The error returned when a string is not a valid id.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a valid id; an id has 32 hexadecimal digits")]
pub struct ParseIdError(String);

crate::readable_debug!(ParseIdError);

#[cfg(test)]
mod tests {
    use super::{CheckpointId, TaskId};

    #[test]
    fn checkpoint_ids_increase_and_round_trip_as_text() {
        let ids: Vec<_> = (0..1000).map(|_| CheckpointId::next()).collect();
        assert!(ids.is_sorted_by(|a, b| a < b));
        assert_eq!(ids[7].to_string().parse(), Ok(ids[7]));
        assert!("7".parse::<CheckpointId>().is_err());
    }

    #[test]
    fn ids_follow_the_id_of_a_process_whose_clock_is_ahead() {
        let minute = 60_000_u128 << 80;
        let other = CheckpointId(CheckpointId::next().0 + minute);
        assert!(other.time_ahead().as_secs() > 30, "{:?}", other.time_ahead());
        CheckpointId::advance_past(other);
        assert!(CheckpointId::next() > other);
        assert_eq!(CheckpointId(0).time_ahead().as_secs(), 0);
    }

    #[test]
    fn ids_after_a_head_from_a_fast_clock_do_not_collide() {
        let ahead = CheckpointId(CheckpointId::next().0 + (60_000 << 80));
        let ids = [(); 100].map(|()| CheckpointId::after(Some(ahead)));
        assert!(ids.iter().all(|it| *it > ahead));
        assert_eq!(std::collections::BTreeSet::from(ids).len(), 100);
    }

    #[test]
    fn task_ids_depend_on_part_boundaries() {
        assert_eq!(TaskId::from_parts(&[b"ab", b"c"]), TaskId::from_parts(&[b"ab", b"c"]));
        assert_ne!(TaskId::from_parts(&[b"ab", b"c"]), TaskId::from_parts(&[b"a", b"bc"]));
    }
}
