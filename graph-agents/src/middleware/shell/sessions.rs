//! The sessions of running agents.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use super::executor::CommandSession;

/// Time after which an unused session is dropped. Its run has failed, was cancelled, or waits for a person.
const MAX_IDLE: Duration = Duration::from_secs(3600);

/// A session, or `None` before it is started. It is locked while a command runs, so that parallel calls run one after
/// the other.
pub(super) type SharedSession = Arc<tokio::sync::Mutex<Option<Box<dyn CommandSession>>>>;

/// Sessions by id. Clones share the sessions.
#[derive(Clone, Debug, Default)]
pub(super) struct Sessions {
    slots: Arc<Mutex<HashMap<String, Slot>>>,
}

#[derive(Debug)]
struct Slot {
    session: SharedSession,
    used_at: Instant,
}

impl Sessions {
    /// Returns the session with this id.
    pub(super) fn get(&self, id: &str) -> SharedSession {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        slots.retain(|_, it| {
            let is_in_use = Arc::strong_count(&it.session) > 1;
            is_in_use || it.used_at.elapsed() < MAX_IDLE
        });
        let used_at = Instant::now();
        let slot = slots.entry(id.to_owned());
        let slot = slot.or_insert_with(|| Slot { session: SharedSession::default(), used_at });
        slot.used_at = used_at;
        slot.session.clone()
    }

    /// Removes the session with this id.
    pub(super) fn remove(&self, id: &str) -> Option<SharedSession> {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        slots.remove(id).map(|it| it.session)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn unused_sessions_are_dropped() {
        let sessions = Sessions::default();
        let in_use = sessions.get("in use");
        let unused = Arc::downgrade(&sessions.get("unused"));
        tokio::time::advance(MAX_IDLE).await;
        sessions.get("other");
        assert!(unused.upgrade().is_none());
        assert!(Arc::ptr_eq(&in_use, &sessions.get("in use")));
    }
}
