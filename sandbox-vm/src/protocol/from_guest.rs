//! Parses messages from a guest. This is the only place where a guest's bytes become values.
//!
//! Nothing here panics, and every size is checked before memory is allocated: [`frame`](super::frame) bounds the length
//! of frames and messages, and [`shape`](super::shape) bounds the number and nesting of a payload's values.

use super::{
    Frame, Kind, ProtocolError, decode,
    message::{Fault, GraphEvent, GuestHello, HostCallRequest},
};

/// A message from a guest.
#[derive(Debug)]
#[non_exhaustive]
pub enum GuestMessage {
    /// The guest's first message.
    Hello(GuestHello),
    /// The reply to a request. It is decoded with [`reply`] where its type is known.
    Reply(u64, Vec<u8>),
    /// The report that a request was refused or failed.
    Failure(u64, Fault),
    /// An event from a running graph.
    Event(u64, Box<GraphEvent>),
    /// Output that a program wrote.
    Output(u64, OutputStream, Vec<u8>),
    /// A host call.
    HostCall(u64, Box<HostCallRequest>),
}

/// Output stream of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Parses a complete message from a guest.
pub fn parse(message: Frame) -> Result<GuestMessage, ProtocolError> {
    let Frame { kind, id, payload, .. } = message;
    Ok(match kind {
        Kind::Hello => GuestMessage::Hello(decode("hello message", &payload)?),
        Kind::Reply => GuestMessage::Reply(id, payload),
        Kind::Failure => GuestMessage::Failure(id, decode("failure", &payload)?),
        Kind::Event => GuestMessage::Event(id, decode("event", &payload)?),
        Kind::Stdout => GuestMessage::Output(id, OutputStream::Stdout, payload),
        Kind::Stderr => GuestMessage::Output(id, OutputStream::Stderr, payload),
        Kind::Request => GuestMessage::HostCall(id, decode("host call", &payload)?),
        Kind::Cancel | Kind::Credit => return Err(ProtocolError::UnknownKind(kind as u8)),
    })
}

/// Returns the id of the host's request that a message belongs to, without decoding the rest of the message.
pub fn request_id(message: &Frame) -> Result<u64, ProtocolError> {
    /// The only field of [`HostCallRequest`] that is decoded here.
    #[derive(serde::Deserialize)]
    struct CallHeader {
        run: u64,
    }
    match message.kind {
        Kind::Hello => Err(ProtocolError::UnexpectedMessage("a second hello message")),
        Kind::Cancel | Kind::Credit => Err(ProtocolError::UnknownKind(message.kind as u8)),
        Kind::Request => Ok(decode::<CallHeader>("host call", &message.payload)?.run),
        _ => Ok(message.id),
    }
}

/// Decodes the reply to a request.
pub fn reply<T: serde::de::DeserializeOwned>(payload: &[u8]) -> Result<T, ProtocolError> {
    decode("reply", payload)
}
