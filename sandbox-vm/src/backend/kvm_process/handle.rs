//! A guest and its monitor, as a whole.

use std::{path::PathBuf, sync::Arc};

use async_trait::async_trait;

use super::{MARK, NAME, OUT_OF_MEMORY};
use crate::{
    Error,
    backend::{Handle, Snapshot, jail::CANNOT},
    limits::{Cause, Usage},
};

/// The monitor is a guest of the jail; what it knows more than the jail is why its own guest ended.
#[derive(Debug)]
pub(super) struct MonitorHandle {
    jail: Arc<dyn Handle>,
}

impl MonitorHandle {
    pub(super) fn new(jail: Arc<dyn Handle>) -> Self {
        Self { jail }
    }

    /// What the monitor said of its guest's end.
    async fn verdict(&self) -> Option<String> {
        let words = self.jail.last_words().await;
        // A line of the guest's own has another start.
        let is_verdict = |it: &&str| it.starts_with(CANNOT) && it.contains(MARK);
        words.lines().rfind(is_verdict).map(str::to_owned)
    }
}

#[async_trait]
impl Handle for MonitorHandle {
    async fn kill(&self) {
        self.jail.kill().await;
    }

    async fn pause(&self) -> Result<(), Error> {
        self.jail.pause().await
    }

    async fn resume(&self) -> Result<(), Error> {
        self.jail.resume().await
    }

    async fn usage(&self) -> Option<Usage> {
        self.jail.usage().await
    }

    async fn cause(&self) -> Option<Cause> {
        match self.jail.cause().await {
            Some(cause) => Some(cause),
            None => {
                self.verdict().await.filter(|it| it.contains(OUT_OF_MEMORY)).map(|_| Cause::Memory)
            }
        }
    }

    async fn last_words(&self) -> String {
        self.jail.last_words().await
    }

    async fn snapshot(&self, _: PathBuf) -> Result<Snapshot, Error> {
        Err(Error::Unsupported { backend: NAME, what: "keep a snapshot" })
    }
}
