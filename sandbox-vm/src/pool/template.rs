//! What the sandboxes of a pool start from.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{Error, Sandbox, Sandboxes, backend::Snapshot, berth::Berth};

/// A snapshot of a sandbox that nobody has used, and the folder that it lies in.
#[derive(Debug)]
pub(super) struct Template {
    snapshot: Snapshot,
    #[expect(dead_code, reason = "held for its Drop, which removes the folder")]
    berth: Berth,
    /// A snapshot holds a sandbox's memory, and takes a place like one.
    #[expect(dead_code, reason = "held for its Drop, which gives the place back")]
    room: OwnedSemaphorePermit,
}

impl Template {
    pub(super) fn snapshot(&self) -> Snapshot {
        self.snapshot.clone()
    }

    async fn of(
        sandboxes: &Sandboxes,
        sandbox: &Sandbox,
        room: OwnedSemaphorePermit,
    ) -> Option<Self> {
        let take = async || {
            let berth = sandboxes.berth()?;
            let snapshot = sandbox.snapshot(berth.folder().join("template")).await?;
            Ok::<_, Error>((snapshot, berth))
        };
        let taken = take().await;
        let taken = taken.inspect_err(|error| tracing::warn!(%error, "the pool has no snapshot"));
        taken.ok().map(|(snapshot, berth)| Self { snapshot, berth, room })
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
    None,
    /// Somebody takes a snapshot.
    Taking,
    Kept(Arc<Template>),
    /// No snapshot could be taken, or none could be started from it: it is not tried again.
    Useless,
}

impl Templates {
    pub(super) fn get(&self) -> Option<Arc<Template>> {
        match &*self.state() {
            State::Kept(template) => Some(template.clone()),
            _ => None,
        }
    }

    /// Makes the template from a sandbox that nobody has used, unless there is one, or no room for it.
    pub(super) async fn keep(
        &self,
        sandboxes: &Sandboxes,
        sandbox: &Sandbox,
        room: &Arc<Semaphore>,
    ) {
        let Some((taking, room)) = self.begin(room) else { return };
        let template = Template::of(sandboxes, sandbox, room).await;
        let kept = template.map_or(State::Useless, |it| State::Kept(Arc::new(it)));
        *self.state() = kept;
        drop(taking);
    }

    fn begin(&self, room: &Arc<Semaphore>) -> Option<(Taking<'_>, OwnedSemaphorePermit)> {
        let mut state = self.state();
        let State::None = *state else { return None };
        let room = room.clone().try_acquire_owned().ok()?;
        *state = State::Taking;
        drop(state);
        Some((Taking(self), room))
    }

    /// The one there is turned out to be of no use.
    pub(super) fn give_up(&self) {
        *self.state() = State::Useless;
    }

    /// Keeps none until the next sandbox is made.
    pub(super) fn clear(&self) {
        let mut state = self.state();
        if let State::Kept(_) = *state {
            *state = State::None;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A snapshot is being taken. Whoever is dropped in the middle of it leaves that to the next.
struct Taking<'a>(&'a Templates);

impl Drop for Taking<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        if let State::Taking = *state {
            *state = State::None;
        }
    }
}
