//! Failures of operations, shared by both databases.

use std::sync::Arc;

use graph_core::{checkpoint::CheckpointError, store::StoreError};

use crate::codec::CodecError;

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

impl<D> From<StoreError> for Failure<D, StoreError> {
    fn from(error: StoreError) -> Self {
        Self::Rejected(error)
    }
}
