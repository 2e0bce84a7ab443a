//! What is stored of a checkpoint besides its fields.

use graph_core::checkpoint::{CheckpointError, CheckpointId, Cursor, Header, Place};
use serde::{Deserialize, Serialize};

use crate::codec::{Codec, CodecError};

/// A checkpoint's header and cursor, to be written.
#[derive(Serialize)]
struct BodyRef<'a> {
    id: CheckpointId,
    header: &'a Header,
    cursor: &'a Cursor,
}

/// A checkpoint's header and cursor, as read.
#[derive(Deserialize)]
pub(crate) struct Body {
    /// Once more, beside the row's key: a flipped bit in the key would otherwise make another checkpoint of it.
    id: CheckpointId,
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
        codec.encode(|| format!("the head of checkpoint {id}"), &BodyRef { id, header, cursor })
    }

    /// Reads what is stored at a place.
    pub(crate) fn decode(
        codec: &Codec,
        place: &Place,
        bytes: &[u8],
    ) -> Result<Self, CheckpointError> {
        let body: Self =
            codec.decode(|| "its head".to_owned(), bytes).map_err(|it| damaged(place, &it))?;
        if body.id != place.id {
            let problem = format!("it was stored as checkpoint {}", body.id);
            let (thread, id) = (place.thread.clone(), place.id);
            return Err(CheckpointError::Damaged { thread, id, problem });
        }
        Ok(body)
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
