//! The protocol between host and guest.
//!
//! Both sides write frames to one byte stream. A frame is `u32 length | u8 kind | u64 id | payload`, with little-endian
//! numbers. A message that does not fit into one frame is split into several; all but the last are marked as continued.
//! The side that makes a request chooses the id. Every message that belongs to the request carries that id, so many
//! requests can be in flight at once.
//!
//! The host trusts nothing that it reads. [`from_guest`] is the only place where a guest's bytes become values: it
//! bounds every size before it allocates anything, and it cannot panic.

mod error;
pub mod frame;
pub mod from_guest;
pub mod message;
mod sanitize;
pub mod shape;

use serde::{Serialize, de::DeserializeOwned};

use self::message::{Fault, FaultCode};

pub(crate) use error::MAX_MESSAGE;
pub use error::{MAX_FRAME, ProtocolError};
pub use frame::{Assembler, Frame, Kind};
pub(crate) use sanitize::{escape_controls, sanitize};

/// Version of the protocol. The host and the guest must use the same version.
pub const VERSION: u32 = 4;

/// Number of events that a graph may send before the host has read any of them. The host enforces this limit.
pub(crate) const EVENT_WINDOW: usize = 16;

/// Maximum memory, in bytes, that an event may take on the host.
pub(crate) const MAX_EVENT_MEMORY: u64 = 16 << 20;

/// Maximum memory, in bytes, that the pending host calls of a graph may take together on the host.
pub(crate) const MAX_PENDING_CALL_MEMORY: u64 = 128 << 20;

/// Encodes a value as the payload of a message. Fails if the other side would refuse the payload.
pub(crate) fn encode(value: &impl Serialize) -> Result<Vec<u8>, ProtocolError> {
    let refused = |problem| ProtocolError::Malformed { what: "outgoing message", problem };
    let payload = rmp_serde::to_vec_named(value).map_err(|error| refused(error.to_string()))?;
    if payload.len() > MAX_MESSAGE {
        let length = payload.len();
        return Err(refused(format!("it has {length} bytes; at most {MAX_MESSAGE} are allowed")));
    }
    shape::check(&payload).map_err(|problem| refused(problem.to_owned()))?;
    Ok(payload)
}

/// Encodes a value as the reply to a request.
pub(crate) fn encode_reply(value: &impl Serialize) -> Result<Vec<u8>, Fault> {
    encode(value).map_err(|error| Fault::new(FaultCode::Terminal, error))
}

/// Checks a payload's number of values and nesting depth, then decodes it.
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
    fn messages_that_would_be_refused_are_not_encoded() {
        let long = encode(&"x".repeat(MAX_MESSAGE)).unwrap_err().to_string();
        assert!(long.contains("at most 67108864 are allowed"), "{long}");
        let many = encode(&vec![0; MAX_VALUES]).unwrap_err().to_string();
        assert!(many.contains("too many values"), "{many}");
        assert!(encode(&vec![0; MAX_VALUES - 1]).is_ok());
    }
}
