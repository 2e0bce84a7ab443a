//! What the sandboxes of a pool start from.

use crate::{Error, Sandbox, Sandboxes, backend::Snapshot, berth::Berth};

/// A snapshot of a sandbox that nobody has used, and the folder that it lies in.
pub(super) struct Template {
    snapshot: Snapshot,
    #[expect(dead_code, reason = "held for its Drop, which removes the folder")]
    berth: Berth,
}

impl Template {
    pub(super) fn snapshot(&self) -> Snapshot {
        self.snapshot.clone()
    }

    pub(super) async fn of(sandboxes: &Sandboxes, sandbox: &Sandbox) -> Option<Self> {
        let take = async || {
            let berth = sandboxes.berth()?;
            let snapshot = sandbox.snapshot(berth.folder().join("template")).await?;
            Ok::<_, Error>(Self { snapshot, berth })
        };
        take().await.inspect_err(|error| tracing::warn!(%error, "the pool has no snapshot")).ok()
    }
}
