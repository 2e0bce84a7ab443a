//! What is stored of a checkpoint besides its fields.

use graph_core::checkpoint::{CheckpointError, CheckpointId, Cursor, Header, Place};
use serde::{Deserialize, Serialize};

use crate::codec::{Codec, CodecError};

/// A checkpoint's header and cursor, to be written.
#[derive(Serialize)]
struct BodyRef<'a> {
    header: &'a Header,
    cursor: &'a Cursor,
}

/// A checkpoint's header and cursor, as read.
#[derive(Deserialize)]
pub(crate) struct Body {
    pub(crate) header: Header,
    pub(crate) cursor: Cursor,
}

impl Body {
    pub(crate) fn encode(
        codec: &Codec,
        id: CheckpointId,
        header: &Header,
        cursor: &Cursor,
    ) -> Result<Vec<u8>, CodecError> {
        codec.encode(|| format!("the head of checkpoint {id}"), &BodyRef { header, cursor })
    }

    pub(crate) fn decode(codec: &Codec, bytes: &[u8]) -> Result<Self, CodecError> {
        codec.decode(|| "its head".to_owned(), bytes)
    }
}

/// A part of a checkpoint that cannot be read.
pub(crate) fn damaged(place: &Place, error: &CodecError) -> CheckpointError {
    CheckpointError::Damaged {
        thread: place.thread.clone(),
        id: place.id,
        problem: error.to_string(),
    }
}
