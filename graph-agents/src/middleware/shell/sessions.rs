//! The sessions of running agents.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use graph_core::Context;
use tokio::{task::JoinHandle, time::Instant};

use super::executor::CommandSession;

/// Time after which an unused session is dropped. Its run has failed, was cancelled, or waits for a person.
const MAX_IDLE: Duration = Duration::from_secs(3600);

/// Time between two searches for unused sessions.
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);

/// A session. It is locked while a command runs, so that parallel calls run one after the other.
pub(super) type SharedSession = Arc<tokio::sync::Mutex<Session>>;

/// The session of a run.
#[derive(Debug)]
pub(super) struct Session {
    /// `None` before the first command.
    pub(super) open: Option<Box<dyn CommandSession>>,
    /// Whether an earlier session of the run may be lost.
    pub(super) follows_another: bool,
}

/// The place of a call: the run and the step that make it.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// The thread, or the run if it has no thread, and the namespace of the agent.
    conversation: (String, String),
    run: String,
    step: i64,
}

impl Place {
    pub(super) fn of(context: &Context) -> Self {
        let thread = match context.thread() {
            Some(thread) => format!("thread {thread}"),
            None => format!("run {}", context.run_id()),
        };
        Self {
            conversation: (thread, context.namespace().to_owned()),
            run: context.run_id().to_owned(),
            step: context.step(),
        }
    }
}

/// Sessions by conversation. A run that is resumed has another id, but continues the conversation. Clones share the
/// sessions.
#[derive(Clone, Debug, Default)]
pub(super) struct Sessions {
    registry: Arc<Mutex<Registry>>,
}

#[derive(Debug, Default)]
struct Registry {
    slots: HashMap<(String, String), Slot>,
    /// Drops unused sessions.
    sweeper: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Slot {
    session: SharedSession,
    used_at: Instant,
    /// The run and the step of the last call.
    run: String,
    step: i64,
}

impl Slot {
    fn new(place: Place, follows_another: bool) -> Self {
        let session = Session { open: None, follows_another };
        Self {
            session: Arc::new(tokio::sync::Mutex::new(session)),
            used_at: Instant::now(),
            run: place.run,
            step: place.step,
        }
    }

    /// Returns whether a call continues the calls of this session. A run that starts from an earlier checkpoint does not.
    fn continues_at(&self, place: &Place) -> bool {
        self.run == place.run || self.step < place.step
    }
}

impl Sessions {
    /// Prepares the session of a run that starts. Returns the session that an unfinished run has left.
    pub(super) fn begin(&self, place: Place) -> Option<SharedSession> {
        let mut registry = lock(&self.registry);
        self.start_sweeper(&mut registry);
        let left = registry.slots.insert(place.conversation.clone(), Slot::new(place, false));
        left.map(|it| it.session)
    }

    /// Returns the session for a call.
    pub(super) fn get(&self, place: Place) -> SharedSession {
        let mut registry = lock(&self.registry);
        self.start_sweeper(&mut registry);
        match registry.slots.get_mut(&place.conversation) {
            Some(slot) if slot.continues_at(&place) => {
                slot.used_at = Instant::now();
                (slot.run, slot.step) = (place.run, place.step);
                slot.session.clone()
            }
            _ => {
                let conversation = place.conversation.clone();
                let slot = Slot::new(place, true);
                let session = slot.session.clone();
                registry.slots.insert(conversation, slot);
                session
            }
        }
    }

    /// Removes the session of a run that ends.
    pub(super) fn remove(&self, place: &Place) -> Option<SharedSession> {
        let removed = lock(&self.registry).slots.remove(&place.conversation);
        removed.map(|it| it.session)
    }

    /// Starts the task that drops unused sessions, unless it runs. The runtime of an earlier task may have shut down.
    fn start_sweeper(&self, registry: &mut Registry) {
        if registry.sweeper.as_ref().is_none_or(JoinHandle::is_finished) {
            registry.sweeper = Some(tokio::spawn(sweep(Arc::downgrade(&self.registry))));
        }
    }
}

fn lock(registry: &Mutex<Registry>) -> MutexGuard<'_, Registry> {
    registry.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Drops unused sessions until there are no sessions.
async fn sweep(registry: Weak<Mutex<Registry>>) {
    loop {
        tokio::time::sleep(SWEEP_INTERVAL).await;
        let Some(registry) = registry.upgrade() else { return };
        let mut unused = Vec::new();
        let mut guard = lock(&registry);
        guard.slots.retain(|_, it| {
            let is_in_use = Arc::strong_count(&it.session) > 1;
            let is_kept = is_in_use || it.used_at.elapsed() < MAX_IDLE;
            if !is_kept {
                unused.push(it.session.clone());
            }
            is_kept
        });
        if guard.slots.is_empty() {
            guard.sweeper = None;
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(run: &str, step: i64) -> Place {
        let conversation = ("thread t".to_owned(), String::new());
        Place { conversation, run: run.to_owned(), step }
    }

    fn other(thread: &str) -> Place {
        Place { conversation: (thread.to_owned(), String::new()), ..place("r", 1) }
    }

    #[tokio::test(start_paused = true)]
    async fn unused_sessions_are_dropped() {
        let sessions = Sessions::default();
        let in_use = sessions.get(other("in use"));
        let unused = Arc::downgrade(&sessions.get(other("unused")));
        tokio::time::sleep(MAX_IDLE / 2).await;
        assert!(unused.upgrade().is_some());
        tokio::time::sleep(MAX_IDLE).await;
        assert!(unused.upgrade().is_none());
        assert!(Arc::ptr_eq(&in_use, &sessions.get(other("in use"))));
    }

    #[tokio::test]
    async fn resumed_run_continues_the_session_and_another_branch_does_not() {
        let sessions = Sessions::default();
        assert!(sessions.begin(place("first", 0)).is_none());
        let first = sessions.get(place("first", 2));
        assert!(Arc::ptr_eq(&first, &sessions.get(place("first", 2))));
        assert!(Arc::ptr_eq(&first, &sessions.get(place("resumed", 4))));
        let branch = sessions.get(place("branch", 4));
        assert!(!Arc::ptr_eq(&first, &branch));
        assert!(!first.lock().await.follows_another);
        assert!(branch.lock().await.follows_another);
    }

    #[tokio::test]
    async fn new_run_does_not_continue_the_session_of_a_failed_one() {
        let sessions = Sessions::default();
        let failed = sessions.get(place("failed", 2));
        assert!(Arc::ptr_eq(&failed, &sessions.begin(place("new", 4)).unwrap()));
        let new = sessions.get(place("new", 5));
        assert!(!Arc::ptr_eq(&failed, &new));
        assert!(Arc::ptr_eq(&new, &sessions.remove(&place("new", 6)).unwrap()));
    }
}
