//! The pool's template: a snapshot from which the pool's sandboxes start.

use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{Error, Sandbox, Sandboxes, backend::Snapshot, sandbox_dir::SandboxDir, sync::lock};

/// A snapshot of an unused sandbox, together with the directory that holds the snapshot.
#[derive(Debug)]
pub(super) struct Template {
    snapshot: Snapshot,
    #[expect(dead_code, reason = "held for its Drop, which removes the directory")]
    sandbox_dir: SandboxDir,
    /// Permit for one unit of the pool's capacity, which is needed because a snapshot holds a sandbox's memory.
    #[expect(dead_code, reason = "held for its Drop, which releases the capacity")]
    permit: OwnedSemaphorePermit,
}

impl Template {
    pub(super) fn snapshot(&self) -> Snapshot {
        self.snapshot.clone()
    }

    async fn create(
        sandboxes: &Sandboxes,
        sandbox: &Sandbox,
        permit: OwnedSemaphorePermit,
    ) -> Option<Self> {
        let create = async || {
            let sandbox_dir = sandboxes.create_dir()?;
            let snapshot = sandbox.snapshot(sandbox_dir.path().join("template")).await?;
            Ok::<_, Error>((snapshot, sandbox_dir))
        };
        let created = create().await;
        let created = created
            .inspect_err(|error| tracing::warn!(%error, "cannot take a snapshot for the pool"));
        created.ok().map(|(snapshot, sandbox_dir)| Self { snapshot, sandbox_dir, permit })
    }
}

/// Holds the template of a pool, if there is one.
#[derive(Debug, Default)]
pub(super) struct Templates {
    // This is a std mutex because it is held only briefly and never across an await.
    state: Mutex<State>,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Empty,
    /// A snapshot is being taken.
    Creating,
    Ready(Arc<Template>),
    /// Taking or restoring a snapshot failed, so the pool does not try again.
    Disabled,
}

impl Templates {
    pub(super) fn get(&self) -> Option<Arc<Template>> {
        match &*self.state() {
            State::Ready(template) => Some(template.clone()),
            _ => None,
        }
    }

    /// Creates the template from an unused sandbox, unless a template already exists or no capacity is left.
    pub(super) async fn create_if_absent(
        &self,
        sandboxes: &Sandboxes,
        sandbox: &Sandbox,
        capacity: &Arc<Semaphore>,
    ) {
        let Some((guard, permit)) = self.start_creating(capacity) else { return };
        let template = Template::create(sandboxes, sandbox, permit).await;
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
        let permit = capacity.clone().try_acquire_owned().ok()?;
        *state = State::Creating;
        drop(state);
        Some((CreatingGuard(self), permit))
    }

    /// Stops using templates, because the current one cannot be restored.
    pub(super) fn disable(&self) {
        *self.state() = State::Disabled;
    }

    /// Drops the template. The next sandbox that is created becomes the source of a new template.
    pub(super) fn clear(&self) {
        let mut state = self.state();
        if let State::Ready(_) = *state {
            *state = State::Empty;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

/// Marks that a snapshot is being taken. If this value is dropped before the snapshot is complete, the next sandbox
/// takes the snapshot instead.
struct CreatingGuard<'a>(&'a Templates);

impl Drop for CreatingGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        if let State::Creating = *state {
            *state = State::Empty;
        }
    }
}
