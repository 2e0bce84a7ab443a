//! What comes from a guest: the one place where its bytes become values.
//!
//! Nothing here panics, and nothing is made whose size was not looked at before: frames and messages are bounded by
//! [`frame`](super::frame), parts and depth of a payload by [`shape`](super::shape).

use super::{
    Frame, Kind, ProtocolError, decode,
    message::{Ask, Fault, GraphEvent, GuestHello},
};

/// A message of a guest.
#[derive(Debug)]
#[non_exhaustive]
pub enum FromGuest {
    /// Its first one.
    Hello(GuestHello),
    /// The answer to a question; its value is read by [`reply`], where the question is known.
    Reply(u64, Vec<u8>),
    /// The refusal of a question.
    Failure(u64, Fault),
    /// An event of a running graph.
    Event(u64, Box<GraphEvent>),
    /// What a program wrote.
    Output(u64, Stream, Vec<u8>),
    /// A question to the host.
    Ask(u64, Box<Ask>),
}

/// Where a program wrote to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Its standard output.
    Stdout,
    /// Its standard error.
    Stderr,
}

/// Reads a whole message of a guest.
pub fn parse(message: Frame) -> Result<FromGuest, ProtocolError> {
    let Frame { kind, id, payload, .. } = message;
    Ok(match kind {
        Kind::Hello => FromGuest::Hello(decode("greeting", &payload)?),
        Kind::Reply => FromGuest::Reply(id, payload),
        Kind::Failure => FromGuest::Failure(id, decode("failure", &payload)?),
        Kind::Event => FromGuest::Event(id, decode("event", &payload)?),
        Kind::Stdout => FromGuest::Output(id, Stream::Stdout, payload),
        Kind::Stderr => FromGuest::Output(id, Stream::Stderr, payload),
        Kind::Request => FromGuest::Ask(id, decode("request", &payload)?),
        Kind::Cancel | Kind::Credit => return Err(ProtocolError::UnknownKind(kind as u8)),
    })
}

/// The question of the host's that a message belongs to, without making anything of the rest of it.
pub fn question(message: &Frame) -> Result<u64, ProtocolError> {
    /// An [`Ask`], of which only this is read.
    #[derive(serde::Deserialize)]
    struct Head {
        run: u64,
    }
    match message.kind {
        Kind::Hello => Err(ProtocolError::OutOfTurn("a second greeting")),
        Kind::Cancel | Kind::Credit => Err(ProtocolError::UnknownKind(message.kind as u8)),
        Kind::Request => Ok(decode::<Head>("request", &message.payload)?.run),
        _ => Ok(message.id),
    }
}

/// Reads the answer to a question.
pub fn reply<T: serde::de::DeserializeOwned>(payload: &[u8]) -> Result<T, ProtocolError> {
    decode("reply", payload)
}
