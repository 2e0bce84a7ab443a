//! What comes from a guest: the one place where its bytes become values.
//!
//! Nothing here panics, and nothing is made whose size was not looked at before: frames and messages are bounded by
//! [`frame`](super::frame), parts and depth of a payload by [`shape`](super::shape).

use super::{
    Frame, Kind, ProtocolError, decode,
    message::{Fault, GraphEvent, GuestHello, HostCallRequest},
};

/// A message of a guest.
#[derive(Debug)]
#[non_exhaustive]
pub enum GuestMessage {
    /// Its first one.
    Hello(GuestHello),
    /// The answer to a question; its value is read by [`reply`], where the question is known.
    Reply(u64, Vec<u8>),
    /// The refusal of a question.
    Failure(u64, Fault),
    /// An event of a running graph.
    Event(u64, Box<GraphEvent>),
    /// What a program wrote.
    Output(u64, OutputStream, Vec<u8>),
    /// A question to the host.
    HostCall(u64, Box<HostCallRequest>),
}

/// Where a program wrote to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputStream {
    /// Its standard output.
    Stdout,
    /// Its standard error.
    Stderr,
}

/// Reads a whole message of a guest.
pub fn parse(message: Frame) -> Result<GuestMessage, ProtocolError> {
    let Frame { kind, id, payload, .. } = message;
    Ok(match kind {
        Kind::Hello => GuestMessage::Hello(decode("greeting", &payload)?),
        Kind::Reply => GuestMessage::Reply(id, payload),
        Kind::Failure => GuestMessage::Failure(id, decode("failure", &payload)?),
        Kind::Event => GuestMessage::Event(id, decode("event", &payload)?),
        Kind::Stdout => GuestMessage::Output(id, OutputStream::Stdout, payload),
        Kind::Stderr => GuestMessage::Output(id, OutputStream::Stderr, payload),
        Kind::Request => GuestMessage::HostCall(id, decode("request", &payload)?),
        Kind::Cancel | Kind::Credit => return Err(ProtocolError::UnknownKind(kind as u8)),
    })
}

/// The question of the host's that a message belongs to, without making anything of the rest of it.
pub fn request_id(message: &Frame) -> Result<u64, ProtocolError> {
    /// An [`HostCallRequest`], of which only this is read.
    #[derive(serde::Deserialize)]
    struct CallHeader {
        run: u64,
    }
    match message.kind {
        Kind::Hello => Err(ProtocolError::UnexpectedMessage("a second greeting")),
        Kind::Cancel | Kind::Credit => Err(ProtocolError::UnknownKind(message.kind as u8)),
        Kind::Request => Ok(decode::<CallHeader>("request", &message.payload)?.run),
        _ => Ok(message.id),
    }
}

/// Reads the answer to a question.
pub fn reply<T: serde::de::DeserializeOwned>(payload: &[u8]) -> Result<T, ProtocolError> {
    decode("reply", payload)
}
