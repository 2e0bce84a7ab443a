//! The stored body of a checkpoint: its header and cursor.

use graph_core::checkpoint::{CheckpointError, CheckpointId, Cursor, Header, Place};
use serde::{Deserialize, Serialize};

use crate::codec::{Codec, CodecError};

/// A checkpoint body to be written.
#[derive(Serialize)]
struct BodyRef<'a> {
    id: CheckpointId,
    header: &'a Header,
    cursor: &'a Cursor,
}

/// A checkpoint body as read.
#[derive(Deserialize)]
pub(crate) struct Body {
    /// Repeats the id in the row's key, so that a bit flip in the key cannot turn the row into a different
    /// checkpoint.
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
        codec.encode(|| format!("the header of checkpoint {id}"), &BodyRef { id, header, cursor })
    }

    /// Decodes the body stored at `place` and verifies its id.
    pub(crate) fn decode(
        codec: &Codec,
        place: &Place,
        bytes: &[u8],
    ) -> Result<Self, CheckpointError> {
        let body: Self =
            codec.decode(|| "its header".to_owned(), bytes).map_err(|it| damaged(place, &it))?;
        if body.id != place.id {
            let problem = format!("the row contains checkpoint {}", body.id);
            let (thread, id) = (place.thread.clone(), place.id);
            return Err(CheckpointError::Damaged { thread, id, problem });
        }
        Ok(body)
    }
}

/// Returns the error for an unreadable part of a checkpoint.
pub(crate) fn damaged(place: &Place, error: &CodecError) -> CheckpointError {
    CheckpointError::Damaged {
        thread: place.thread.clone(),
        id: place.id,
        problem: error.to_string(),
    }
}
