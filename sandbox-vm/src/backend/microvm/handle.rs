//! A VM as a whole: QEMU in its walls.

use std::{io, path::PathBuf, sync::Arc};

use async_trait::async_trait;
use rustix::process::Signal;
use tokio::sync::Mutex;

use super::{
    NAME,
    monitor::Monitor,
    snapshot::{self, Made},
};
use crate::{
    Error,
    backend::{Handle, Snapshot, jail::handle::JailHandle},
    limits::{Cause, Usage},
};

#[derive(Debug)]
pub(super) struct VmHandle {
    /// QEMU is process 1 of a jail.
    pub(super) jail: JailHandle,
    pub(super) monitor: Arc<Mutex<Monitor>>,
    /// What a snapshot of the machine is bound to.
    pub(super) made: Made,
}

#[async_trait]
impl Handle for VmHandle {
    async fn kill(&self) {
        self.jail.kill().await;
    }

    async fn pause(&self) -> Result<(), Error> {
        let unable = Error::Unsupported { backend: NAME, what: "pause a guest that has ended" };
        self.jail.signal(Signal::STOP).map_err(|_| unable)
    }

    async fn resume(&self) -> Result<(), Error> {
        let unable = Error::Unsupported { backend: NAME, what: "let a guest go on that has ended" };
        self.jail.signal(Signal::CONT).map_err(|_| unable)
    }

    async fn usage(&self) -> Option<Usage> {
        self.jail.usage().await
    }

    async fn cause(&self) -> Option<Cause> {
        // The guest's kernel says so on its console, when nothing but the agent is left to end. The host's knows of
        // QEMU.
        let said = self.jail.words().is_some_and(|it| it.news().contains("Out of memory"));
        let cause = self.jail.cause().await;
        if said { Some(Cause::Memory) } else { cause }
    }

    async fn last_words(&self) -> String {
        self.jail.last_words().await
    }

    async fn snapshot(&self, folder: PathBuf) -> Result<Snapshot, Error> {
        let (monitor, made, at) = (self.monitor.clone(), self.made.clone(), folder.clone());
        // A task of its own: though nobody wait for the snapshot any more, the machine has to go on.
        let work = tokio::spawn(async move {
            let mut monitor = monitor.lock().await;
            snapshot::keep(&mut monitor, &made, &at).await
        });
        work.await.map_err(|error| Error::io("a snapshot")(io::Error::other(error))).flatten()?;
        Ok(Snapshot { backend: NAME, folder })
    }
}
