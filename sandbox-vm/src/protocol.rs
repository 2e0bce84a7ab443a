//! What host and guest say to each other.
//!
//! Both sides write frames to one byte stream: `u32 length | u8 kind | u64 id | payload`, numbers little-endian. A
//! message longer than a frame goes in several, all but the last marked as having more. Whoever asks chooses the id, and
//! all that belongs to the question carries it, so many can be under way at once.
//!
//! The host believes nothing it reads. [`from_guest`] is the only place where bytes of a guest become values: it bounds
//! every size before it makes anything, and has no way to panic.

pub mod frame;
pub mod from_guest;
pub mod message;
mod sanitize;
pub mod shape;

use serde::{Serialize, de::DeserializeOwned};

pub use frame::{Assembler, Frame, Kind, MAX_FRAME};
pub(crate) use sanitize::{escape_controls, sanitize};

/// The version of the protocol; both sides must speak the same.
pub const VERSION: u32 = 2;

/// How long a whole message may be.
pub const MAX_MESSAGE: usize = 64 << 20;

/// How many events a graph may send before the host has read any; the host counts along.
pub(crate) const EVENT_WINDOW: usize = 16;

/// How much memory an event may take.
pub const MAX_EVENT_MEMORY: u64 = 16 << 20;

/// How much memory the questions of a graph may take that have no answer yet.
pub const MAX_PENDING_CALL_MEMORY: u64 = 128 << 20;

/// Why what was read is not the protocol.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProtocolError {
    /// A frame longer than [`MAX_FRAME`].
    #[error("a frame of {length} bytes; at most {MAX_FRAME} are allowed")]
    FrameTooLong {
        /// What its header says.
        length: u64,
    },
    /// A message longer than [`MAX_MESSAGE`], or more of them half sent than may be.
    #[error("more than {MAX_MESSAGE} bytes of unfinished messages")]
    MessageTooLong,
    /// A kind of frame that does not exist, or that the other side may not send.
    #[error("a frame of kind {0}, which may not be sent here")]
    UnknownKind(u8),
    /// A payload that is not what its kind promises.
    #[error("a malformed {what}: {problem}")]
    Malformed {
        /// What it should have been.
        what: &'static str,
        /// What is wrong.
        problem: String,
    },
    /// Something that belongs to no question, or more of it than was asked for.
    #[error("{0}")]
    UnexpectedMessage(&'static str),
    /// Another version of the protocol, or not the guest that was started.
    #[error(
        "the guest does not greet as it should: {0}; build it from the same version as the host"
    )]
    HandshakeFailed(String),
    /// The stream ended in the middle of a frame.
    #[error("the stream ended in the middle of a frame")]
    Truncated,
}

/// A value as the payload of a frame, if it is one that the other side takes.
pub(crate) fn encode(value: &impl Serialize) -> Result<Vec<u8>, ProtocolError> {
    let refused = |problem| ProtocolError::Malformed { what: "message to send", problem };
    let payload = rmp_serde::to_vec_named(value).map_err(|error| refused(error.to_string()))?;
    if payload.len() > MAX_MESSAGE {
        let length = payload.len();
        return Err(refused(format!("it has {length} bytes; at most {MAX_MESSAGE} go through")));
    }
    shape::check(&payload).map_err(|problem| refused(problem.to_owned()))?;
    Ok(payload)
}

/// The value of a payload, after its shape has been looked at.
pub(crate) fn decode<T: DeserializeOwned>(
    what: &'static str,
    payload: &[u8],
) -> Result<T, ProtocolError> {
    shape::check(payload)
        .map_err(|problem| ProtocolError::Malformed { what, problem: problem.to_owned() })?;
    rmp_serde::from_slice(payload)
        .map_err(|error| ProtocolError::Malformed { what, problem: sanitize(&error.to_string()) })
}

#[cfg(test)]
mod tests {
    use super::{MAX_MESSAGE, encode, shape::MAX_VALUES};

    #[test]
    fn what_the_other_side_would_not_take_is_not_sent() {
        let long = encode(&"x".repeat(MAX_MESSAGE)).unwrap_err().to_string();
        assert!(long.contains("at most 67108864 go through"), "{long}");
        let many = encode(&vec![0; MAX_VALUES]).unwrap_err().to_string();
        assert!(many.contains("too many parts"), "{many}");
        assert!(encode(&vec![0; MAX_VALUES - 1]).is_ok());
    }
}
