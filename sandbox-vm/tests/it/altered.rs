//! Guests that do one thing in another way than their back end would have it.

use std::{fmt::Debug, path::PathBuf, sync::Arc};

use async_trait::async_trait;
use sandbox_vm::{
    Cause, Error, Usage,
    backend::{Guest, Handle, Snapshot},
};

/// What a guest does in its own way.
#[async_trait]
pub(crate) trait Habit: Debug + Send + Sync + 'static {
    async fn kill(&self, guest: &dyn Handle) {
        guest.kill().await;
    }

    async fn snapshot(&self, guest: &dyn Handle, folder: PathBuf) -> Result<Snapshot, Error> {
        guest.snapshot(folder).await
    }
}

/// A guest with a habit.
pub(crate) fn with(habit: impl Habit, guest: Guest) -> Guest {
    let Guest { channel, handle } = guest;
    Guest { channel, handle: Arc::new(Altered { habit, handle }) }
}

#[derive(Debug)]
struct Altered<H> {
    habit: H,
    handle: Arc<dyn Handle>,
}

#[async_trait]
impl<H: Habit> Handle for Altered<H> {
    async fn kill(&self) {
        self.habit.kill(&*self.handle).await;
    }

    async fn pause(&self) -> Result<(), Error> {
        self.handle.pause().await
    }

    async fn resume(&self) -> Result<(), Error> {
        self.handle.resume().await
    }

    async fn usage(&self) -> Option<Usage> {
        self.handle.usage().await
    }

    async fn cause(&self) -> Option<Cause> {
        self.handle.cause().await
    }

    async fn last_words(&self) -> String {
        self.handle.last_words().await
    }

    async fn snapshot(&self, folder: PathBuf) -> Result<Snapshot, Error> {
        self.habit.snapshot(&*self.handle, folder).await
    }
}
