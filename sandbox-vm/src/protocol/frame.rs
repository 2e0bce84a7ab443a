//! Splits messages into frames for the stream, and reassembles them.

use std::collections::BTreeMap;

use tokio::io::{AsyncRead, AsyncReadExt};

use super::error::{MAX_FRAME, MAX_MESSAGE, ProtocolError};

/// Maximum payload length, in bytes, of the frames that this side writes. It is short, so that a long message does not
/// delay other messages.
const CHUNK: usize = 256 << 10;

/// Maximum number of messages that may be incomplete at the same time.
const MAX_PARTIAL: usize = 64;

/// Length, in bytes, of the header that precedes a payload.
const HEADER_LEN: usize = 13;

/// Flag in the kind byte which indicates that the message continues in another frame.
const MORE: u8 = 0x80;

/// Kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
#[non_exhaustive]
pub enum Kind {
    /// The first message that each side sends.
    Hello = 1,
    /// A request to the other side.
    Request = 2,
    /// The reply to a request.
    Reply = 3,
    /// The report that a request was refused or failed.
    Failure = 4,
    /// An event from a running graph.
    Event = 5,
    /// Bytes that a program wrote to its standard output.
    Stdout = 6,
    /// Bytes that a program wrote to its standard error.
    Stderr = 7,
    /// The notice that the sender of a request no longer wants the reply.
    Cancel = 8,
    /// The permission to send more events.
    Credit = 9,
}

impl Kind {
    fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            1 => Self::Hello,
            2 => Self::Request,
            3 => Self::Reply,
            4 => Self::Failure,
            5 => Self::Event,
            6 => Self::Stdout,
            7 => Self::Stderr,
            8 => Self::Cancel,
            9 => Self::Credit,
            _ => return None,
        })
    }
}

/// A message, or a part of a message, with its header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Kind of the message.
    pub kind: Kind,
    /// Whether the message continues in another frame.
    pub more: bool,
    /// Id of the request that the message belongs to.
    pub id: u64,
    /// The whole message, or a part of it.
    pub payload: Vec<u8>,
}

impl Frame {
    /// Reads the next frame. Returns `None` at the end of the stream.
    pub async fn read(stream: &mut (impl AsyncRead + Unpin)) -> Result<Option<Self>, ReadError> {
        let mut header = [0; HEADER_LEN];
        let mut filled = 0;
        while filled < HEADER_LEN {
            match stream.read(&mut header[filled..]).await? {
                0 if filled == 0 => return Ok(None),
                0 => return Err(ProtocolError::Truncated.into()),
                count => filled += count,
            }
        }
        let (mut frame, length) = Self::parse_header(header)?;
        // The buffer grows as bytes arrive, so that a header alone cannot cause a large allocation.
        let got = stream.take(length as u64).read_to_end(&mut frame.payload).await?;
        if got < length {
            return Err(ProtocolError::Truncated.into());
        }
        Ok(Some(frame))
    }

    /// Removes the first frame from `bytes`. Returns `None` if that frame is incomplete.
    pub fn take(bytes: &mut &[u8]) -> Result<Option<Self>, ProtocolError> {
        let Some((header, rest)) = bytes.split_first_chunk::<HEADER_LEN>() else { return Ok(None) };
        let (frame, length) = Self::parse_header(*header)?;
        let Some((payload, rest)) = rest.split_at_checked(length) else { return Ok(None) };
        *bytes = rest;
        Ok(Some(Self { payload: payload.to_vec(), ..frame }))
    }

    /// Returns the frame without its payload, and the length of the payload.
    fn parse_header(header: [u8; HEADER_LEN]) -> Result<(Self, usize), ProtocolError> {
        let [l0, l1, l2, l3, kind, id @ ..] = header;
        let length = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
        if length > MAX_FRAME {
            return Err(ProtocolError::FrameTooLong { length: length as u64 });
        }
        let more = kind & MORE != 0;
        let kind = Kind::from_byte(kind & !MORE).ok_or(ProtocolError::UnknownKind(kind))?;
        Ok((Self { kind, more, id: u64::from_le_bytes(id), payload: Vec::new() }, length))
    }
}

/// Encodes a message for the stream, split into frames.
pub fn encode(kind: Kind, id: u64, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(payload.len() + HEADER_LEN * (payload.len() / CHUNK + 1));
    let mut rest = payload;
    loop {
        let (part, after) = rest.split_at(rest.len().min(CHUNK));
        let more = if after.is_empty() { 0 } else { MORE };
        bytes.extend_from_slice(&(part.len() as u32).to_le_bytes());
        bytes.push(kind as u8 | more);
        bytes.extend_from_slice(&id.to_le_bytes());
        bytes.extend_from_slice(part);
        if after.is_empty() {
            return bytes;
        }
        rest = after;
    }
}

/// Reassembles messages from frames.
#[derive(Debug, Default)]
pub struct Assembler {
    partial: BTreeMap<(Kind, u64), Vec<u8>>,
    buffered: usize,
}

impl Assembler {
    /// Adds a frame. If the frame completes a message, returns that message as one frame.
    pub fn push(&mut self, frame: Frame) -> Result<Option<Frame>, ProtocolError> {
        let key = (frame.kind, frame.id);
        if !frame.more && !self.partial.contains_key(&key) {
            return Ok(Some(frame));
        }
        self.buffered = self.buffered.saturating_add(frame.payload.len());
        if self.buffered > MAX_MESSAGE
            || (self.partial.len() >= MAX_PARTIAL && !self.partial.contains_key(&key))
        {
            return Err(ProtocolError::MessageTooLong);
        }
        let parts = self.partial.entry(key).or_default();
        parts.extend_from_slice(&frame.payload);
        if frame.more {
            return Ok(None);
        }
        let payload = self.partial.remove(&key).unwrap_or_default();
        self.buffered = self.buffered.saturating_sub(payload.len());
        Ok(Some(Frame { payload, ..frame }))
    }
}

/// The error returned when a frame cannot be read.
#[derive(thiserror::Error)]
pub enum ReadError {
    /// The other side violated the protocol.
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
    /// The channel failed.
    #[error("the channel between host and guest failed: {0}")]
    Io(#[from] std::io::Error),
}

graph_core::readable_debug!(ReadError);

#[cfg(test)]
mod tests {
    use super::{Assembler, CHUNK, Frame, Kind, MAX_FRAME, encode};
    use crate::protocol::ProtocolError;

    #[test]
    fn long_message_is_reassembled() {
        let payload: Vec<u8> = (0..3 * CHUNK + 5).map(|it| it as u8).collect();
        let bytes = encode(Kind::Reply, 7, &payload);
        let mut rest = &bytes[..];
        let mut assembler = Assembler::default();
        let mut messages = Vec::new();
        while let Some(frame) = Frame::take(&mut rest).unwrap() {
            messages.extend(assembler.push(frame).unwrap());
        }
        assert_eq!(messages, [Frame { kind: Kind::Reply, more: false, id: 7, payload }]);
        assert_eq!(assembler.buffered, 0);
    }

    #[test]
    fn oversized_frame_is_refused_from_its_header() {
        let mut bytes = encode(Kind::Reply, 1, b"x");
        bytes[..4].copy_from_slice(&(MAX_FRAME as u32 + 1).to_le_bytes());
        let error = Frame::take(&mut &bytes[..]).unwrap_err();
        assert_eq!(error, ProtocolError::FrameTooLong { length: MAX_FRAME as u64 + 1 });
    }

    #[test]
    fn incomplete_messages_are_bounded_together() {
        let part = |id| Frame { kind: Kind::Reply, more: true, id, payload: vec![0; MAX_FRAME] };
        let mut assembler = Assembler::default();
        let refused = (0..20).find_map(|id| assembler.push(part(id)).err());
        assert_eq!(refused, Some(ProtocolError::MessageTooLong));
        let empty = |id| Frame { kind: Kind::Reply, more: true, id, payload: Vec::new() };
        let mut assembler = Assembler::default();
        let refused = (0..100).find_map(|id| assembler.push(empty(id)).err());
        assert_eq!(refused, Some(ProtocolError::MessageTooLong));
    }
}
