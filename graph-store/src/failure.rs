//! Failures of operations, shared by both databases.

use std::sync::Arc;

use graph_core::{
    checkpoint::{CheckpointError, CheckpointKey},
    store::StoreError,
};

use crate::{body::damaged, codec::CodecError};

/// The reason why an operation failed: either the database failed with an error of type `D`, or the operation was
/// rejected with an error of type `R`.
#[derive(Debug)]
pub(crate) enum Failure<D, R> {
    Database(D),
    Rejected(R),
}

impl<D> From<CheckpointError> for Failure<D, CheckpointError> {
    fn from(error: CheckpointError) -> Self {
        Self::Rejected(error)
    }
}

impl<D> From<CodecError> for Failure<D, CheckpointError> {
    fn from(error: CodecError) -> Self {
        Self::Rejected(CheckpointError::Storage(Arc::new(error)))
    }
}

impl<D> From<CodecError> for Failure<D, CodecError> {
    fn from(error: CodecError) -> Self {
        Self::Rejected(error)
    }
}

impl<D> Failure<D, CodecError> {
    /// Converts the failure to read or write a link to the failure of an operation on the checkpoint `key`.
    pub(crate) fn of_checkpoint(self, key: &CheckpointKey) -> Failure<D, CheckpointError> {
        match self {
            Self::Database(error) => Failure::Database(error),
            Self::Rejected(error @ (CodecError::TooLarge { .. } | CodecError::Encode { .. })) => {
                error.into()
            }
            Self::Rejected(error) => Failure::Rejected(damaged(key, &error)),
        }
    }
}

impl<D> From<StoreError> for Failure<D, StoreError> {
    fn from(error: StoreError) -> Self {
        Self::Rejected(error)
    }
}
