//! Snapshots of new guests, from which the suite starts further guests.

use std::path::PathBuf;

use sandbox_vm::{Error, Sandbox, Sandboxes, Spec, backend::Snapshot};
use tokio::sync::Mutex;

/// How the suite starts guests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuestStart {
    /// Boots every guest.
    Boot,
    /// Boots the first guest with given limits, and restores all others from its snapshot. Requires a back end that
    /// supports snapshots. If the back end emulates a machine, restoring a guest takes much less time than booting it.
    Snapshot,
}

/// Snapshots of new guests, one for each combination of an image and limits.
#[derive(Debug)]
pub(crate) struct Templates {
    /// Directory that holds the snapshots.
    dir: PathBuf,
    taken: Mutex<Vec<(Spec, Snapshot)>>,
}

impl Templates {
    pub(crate) fn new(dir: PathBuf) -> Self {
        Self { dir, taken: Mutex::default() }
    }

    /// Returns the live sandbox named in the spec, restores it from a snapshot, or boots it and takes a snapshot.
    pub(crate) async fn sandbox(
        &self,
        sandboxes: &Sandboxes,
        spec: Spec,
    ) -> Result<Sandbox, Error> {
        // The lock is held until the guest has started, so that only one guest is booted for each snapshot.
        let mut taken = self.taken.lock().await;
        // A guest with a limit on its total CPU time may exceed the limit while its snapshot is taken.
        if spec.limits.cpu_time.is_some() || sandboxes.get(&spec.name).is_some() {
            return sandboxes.create_if_not_exists(spec).await;
        }
        let is_alike = |it: &Spec| it.image == spec.image && it.limits == spec.limits;
        if let Some((_, snapshot)) = taken.iter().find(|it| is_alike(&it.0)) {
            return sandboxes.restore(spec, snapshot.clone()).await;
        }
        let sandbox = sandboxes.create_if_not_exists(spec.clone()).await?;
        let snapshot = sandbox.snapshot(self.dir.join(taken.len().to_string())).await?;
        taken.push((spec, snapshot));
        Ok(sandbox)
    }
}
