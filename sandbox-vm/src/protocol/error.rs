//! Violations of the protocol, and the length limits that they report.

/// Maximum length of a frame's payload in bytes.
pub const MAX_FRAME: usize = 8 << 20;

/// Maximum length of a message in bytes.
pub(crate) const MAX_MESSAGE: usize = 64 << 20;

/// A violation of the protocol.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProtocolError {
    /// A frame is longer than [`MAX_FRAME`].
    #[error("a frame has {length} bytes; at most {MAX_FRAME} are allowed")]
    FrameTooLong {
        /// Payload length stated in the frame's header.
        length: u64,
    },
    /// A message is too long, there are too many incomplete messages, or they are too long in total.
    #[error("too many incomplete messages, or more than {MAX_MESSAGE} bytes of them")]
    MessageTooLong,
    /// The kind of a frame is unknown, or this side may not send frames of that kind.
    #[error("frames of kind {0} are unknown or not allowed here")]
    UnknownKind(u8),
    /// A payload is malformed for its kind of message.
    #[error("malformed {what}: {problem}")]
    Malformed {
        /// The kind of message that was expected.
        what: &'static str,
        /// Description of the problem.
        problem: String,
    },
    /// A message belongs to no request, or exceeds what its request allows.
    #[error("{0}")]
    UnexpectedMessage(&'static str),
    /// The guest uses another version of the protocol, or it is not the guest that this host started.
    #[error(
        "the handshake with the guest failed: {0}; build the guest from the same version as the host"
    )]
    HandshakeFailed(String),
    /// The stream ended in the middle of a frame.
    #[error("the stream ended within a frame")]
    Truncated,
}

graph_core::readable_debug!(ProtocolError);
