//! What the sandboxes of a pool start from.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{Error, Sandbox, Sandboxes, backend::Snapshot, sandbox_dir::SandboxDir};

/// A snapshot of a sandbox that nobody has used, and the folder that it lies in.
#[derive(Debug)]
pub(super) struct Template {
    snapshot: Snapshot,
    #[expect(dead_code, reason = "held for its Drop, which removes the folder")]
    sandbox_dir: SandboxDir,
    /// A snapshot holds a sandbox's memory, and takes a place like one.
    #[expect(dead_code, reason = "held for its Drop, which gives the place back")]
    capacity: OwnedSemaphorePermit,
}

impl Template {
    pub(super) fn snapshot(&self) -> Snapshot {
        self.snapshot.clone()
    }

    async fn create(
        sandboxes: &Sandboxes,
        sandbox: &Sandbox,
        capacity: OwnedSemaphorePermit,
    ) -> Option<Self> {
        let create = async || {
            let sandbox_dir = sandboxes.sandbox_dir()?;
            let snapshot = sandbox.snapshot(sandbox_dir.path().join("template")).await?;
            Ok::<_, Error>((snapshot, sandbox_dir))
        };
        let created = create().await;
        let created =
            created.inspect_err(|error| tracing::warn!(%error, "the pool has no snapshot"));
        created.ok().map(|(snapshot, sandbox_dir)| Self { snapshot, sandbox_dir, capacity })
    }
}

/// The one template of a pool, if it has one.
#[derive(Debug, Default)]
pub(super) struct Templates {
    // A std mutex: held for a moment, never over an await.
    state: Mutex<State>,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Empty,
    /// Somebody takes a snapshot.
    Creating,
    Ready(Arc<Template>),
    /// No snapshot could be taken, or none could be started from it: it is not tried again.
    Disabled,
}

impl Templates {
    pub(super) fn get(&self) -> Option<Arc<Template>> {
        match &*self.state() {
            State::Ready(template) => Some(template.clone()),
            _ => None,
        }
    }

    /// Makes the template from a sandbox that nobody has used, unless there is one, or no capacity for it.
    pub(super) async fn create_if_absent(
        &self,
        sandboxes: &Sandboxes,
        sandbox: &Sandbox,
        capacity: &Arc<Semaphore>,
    ) {
        let Some((guard, capacity)) = self.start_creating(capacity) else { return };
        let template = Template::create(sandboxes, sandbox, capacity).await;
        let state = template.map_or(State::Disabled, |it| State::Ready(Arc::new(it)));
        *self.state() = state;
        drop(guard);
    }

    fn start_creating(
        &self,
        capacity: &Arc<Semaphore>,
    ) -> Option<(CreatingGuard<'_>, OwnedSemaphorePermit)> {
        let mut state = self.state();
        let State::Empty = *state else { return None };
        let capacity = capacity.clone().try_acquire_owned().ok()?;
        *state = State::Creating;
        drop(state);
        Some((CreatingGuard(self), capacity))
    }

    /// The one there is turned out to be of no use.
    pub(super) fn disable(&self) {
        *self.state() = State::Disabled;
    }

    /// Keeps none until the next sandbox is made.
    pub(super) fn clear(&self) {
        let mut state = self.state();
        if let State::Ready(_) = *state {
            *state = State::Empty;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A snapshot is being taken. Whoever is dropped in the middle of it leaves that to the next.
struct CreatingGuard<'a>(&'a Templates);

impl Drop for CreatingGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        if let State::Creating = *state {
            *state = State::Empty;
        }
    }
}
