//! The stored body of a checkpoint: its header and frontier.

use graph_core::checkpoint::{
    CheckpointError, CheckpointId, CheckpointKey, FrontierRecord, Header,
};
use serde::{Deserialize, Serialize};

use crate::codec::{Codec, CodecError};

/// A checkpoint body that is about to be written; borrows its parts.
#[derive(Serialize)]
struct BodyRef<'a> {
    id: CheckpointId,
    header: &'a Header,
    #[serde(rename = "cursor")]
    frontier: &'a FrontierRecord,
}

/// A checkpoint body that was read from the database.
#[derive(Deserialize)]
pub(crate) struct Body {
    /// The same id as in the row's key. `decode` compares the two, so that a bit flip in the key cannot turn the row
    /// into a different checkpoint.
    id: CheckpointId,
    pub(crate) header: Header,
    #[serde(rename = "cursor")]
    pub(crate) frontier: FrontierRecord,
}

impl Body {
    pub(crate) fn encode(
        codec: &Codec,
        id: CheckpointId,
        header: &Header,
        frontier: &FrontierRecord,
    ) -> Result<Vec<u8>, CodecError> {
        codec.encode(|| format!("the header of checkpoint {id}"), &BodyRef { id, header, frontier })
    }

    /// Decodes the body stored at `key` and verifies its id.
    pub(crate) fn decode(
        codec: &Codec,
        key: &CheckpointKey,
        bytes: &[u8],
    ) -> Result<Self, CheckpointError> {
        let body: Self =
            codec.decode(|| "its header".to_owned(), bytes).map_err(|it| damaged(key, &it))?;
        if body.id != key.id {
            let problem = format!("its row contains another checkpoint, {}", body.id);
            let (thread, id) = (key.thread.clone(), key.id);
            return Err(CheckpointError::Corrupt { thread, id, problem });
        }
        Ok(body)
    }
}

/// Returns the error for a checkpoint of which some part cannot be decoded.
pub(crate) fn damaged(key: &CheckpointKey, error: &CodecError) -> CheckpointError {
    CheckpointError::Corrupt { thread: key.thread.clone(), id: key.id, problem: error.to_string() }
}
