//! The error of a process that fails to become a guest.

/// Prefix of every line in which a stage reports why it failed.
pub(super) const ERROR_PREFIX: &str = "the sandbox cannot";

/// The error returned when a stage of a guest fails.
#[derive(Debug, thiserror::Error)]
#[error("{} {what}: {source}", ERROR_PREFIX)]
pub(crate) struct StageError {
    what: String,
    source: Box<dyn std::error::Error + Send + Sync>,
}

impl StageError {
    pub(crate) fn new<E: Into<Box<dyn std::error::Error + Send + Sync>>>(
        what: impl Into<String>,
    ) -> impl FnOnce(E) -> Self {
        let what = what.into();
        |source| Self { what, source: source.into() }
    }
}
