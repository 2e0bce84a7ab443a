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
pub mod shape;

use serde::{Serialize, de::DeserializeOwned};

pub use frame::{Assembler, Frame, Kind, MAX_FRAME};

/// The version of the protocol; both sides must speak the same.
pub const VERSION: u32 = 1;

/// How long a whole message may be.
pub const MAX_MESSAGE: usize = 64 << 20;

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
    OutOfTurn(&'static str),
    /// Another version of the protocol, or not the guest that was started.
    #[error(
        "the guest does not greet as it should: {0}; build it from the same version as the host"
    )]
    BadHello(String),
    /// The stream ended in the middle of a frame.
    #[error("the stream ended in the middle of a frame")]
    Truncated,
}

/// A value as the payload of a frame.
pub(crate) fn encode(value: &impl Serialize) -> Result<Vec<u8>, ProtocolError> {
    rmp_serde::to_vec_named(value).map_err(|error| ProtocolError::Malformed {
        what: "message to send",
        problem: error.to_string(),
    })
}

/// The value of a payload, after its shape has been looked at.
pub(crate) fn decode<T: DeserializeOwned>(
    what: &'static str,
    payload: &[u8],
) -> Result<T, ProtocolError> {
    shape::check(payload)
        .map_err(|problem| ProtocolError::Malformed { what, problem: problem.to_owned() })?;
    rmp_serde::from_slice(payload)
        .map_err(|error| ProtocolError::Malformed { what, problem: error.to_string() })
}
