//! Handle to a VM, which is QEMU in a jail.

use std::{io, path::PathBuf, sync::Arc};

use async_trait::async_trait;
use rustix::process::Signal;
use tokio::sync::Mutex;

use super::{
    qmp::QmpClient,
    snapshot::{self, MachineIdentity},
};
use crate::{
    Error,
    backend::{
        interface::{Handle, Snapshot},
        jail::handle::JailHandle,
        names::MICRO_VM as NAME,
    },
    limits::{ExceededLimit, Usage},
};

/// Part of the panic message of a Linux kernel that has run out of memory.
const DEADLOCKED_ON_MEMORY: &str = "System is deadlocked on memory";

#[derive(Debug)]
pub(super) struct VmHandle {
    /// Handle to the jail in which QEMU is process 1.
    pub(super) jail: JailHandle,
    pub(super) monitor: Arc<Mutex<QmpClient>>,
    /// Identity of the machine. A snapshot can be restored only in a machine with the same identity.
    pub(super) identity: MachineIdentity,
}

#[async_trait]
impl Handle for VmHandle {
    fn backend(&self) -> &'static str {
        NAME
    }

    async fn kill(&self) {
        self.jail.kill().await;
    }

    async fn pause(&self) -> Result<(), Error> {
        let error = Error::Unsupported { backend: NAME, operation: "pause a guest that has ended" };
        self.jail.signal(Signal::STOP).map_err(|_| error)
    }

    async fn resume(&self) -> Result<(), Error> {
        let error =
            Error::Unsupported { backend: NAME, operation: "resume a guest that has ended" };
        self.jail.signal(Signal::CONT).map_err(|_| error)
    }

    async fn usage(&self) -> Option<Usage> {
        self.jail.usage().await
    }

    async fn termination_limit(&self, output: &str) -> Option<ExceededLimit> {
        // The guest's kernel does not kill its first process, which is the agent. If memory runs out and there is no
        // other process to kill, the kernel ends the machine. The host's kernel sees only the memory use of QEMU.
        if output.contains(DEADLOCKED_ON_MEMORY) {
            return Some(ExceededLimit::Memory);
        }
        self.jail.exceeded_limit().await
    }

    async fn diagnostic_output(&self) -> String {
        self.jail.diagnostic_output().await
    }

    async fn snapshot(&self, dir: PathBuf) -> Result<Snapshot, Error> {
        let (monitor, identity, at) = (self.monitor.clone(), self.identity.clone(), dir.clone());
        // Use a separate task, because the machine has to resume even if the caller stops waiting for the snapshot.
        let work = tokio::spawn(async move {
            let mut monitor = monitor.lock().await;
            snapshot::save(&mut monitor, &identity, &at).await
        });
        work.await
            .map_err(|error| Error::io("cannot create a snapshot")(io::Error::other(error)))
            .flatten()?;
        Ok(Snapshot { backend: NAME, dir })
    }
}
