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
    /// The step at which the run started.
    first_step: i64,
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
            first_step: context.first_step(),
        }
    }
}

/// The sessions of the runs of an agent. A run that is resumed has another id, but continues the conversation. Clones
/// share the sessions.
#[derive(Clone, Debug, Default)]
pub(super) struct Sessions {
    registry: Arc<Mutex<Registry>>,
}

#[derive(Debug, Default)]
struct Registry {
    /// The sessions of each conversation.
    slots: HashMap<(String, String), Vec<Slot>>,
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
    fn new(place: &Place, follows_another: bool) -> Self {
        let session = Session { open: None, follows_another };
        Self {
            session: Arc::new(tokio::sync::Mutex::new(session)),
            used_at: Instant::now(),
            run: place.run.clone(),
            step: place.step,
        }
    }

    /// Returns whether a command is running.
    fn is_running(&self) -> bool {
        self.session.try_lock().is_err()
    }

    /// Returns whether another run can continue the calls of this session. A run that starts from an earlier checkpoint
    /// cannot, and there is nothing to continue if the session was lost.
    fn continues_at(&self, place: &Place) -> bool {
        let is_later = self.step <= place.first_step && self.step < place.step;
        let is_kept = |it: &Session| it.open.is_some() || !it.follows_another;
        is_later && self.session.try_lock().is_ok_and(|it| is_kept(&it))
    }
}

/// Returns the index of the session of a run: its own, or the only one that it can continue. If there are several, it
/// is unknown which one belongs to the same branch.
fn find(slots: &[Slot], place: &Place) -> Option<usize> {
    let own = slots.iter().position(|it| it.run == place.run);
    own.or_else(|| {
        let mut left = (0..slots.len()).filter(|it| slots[*it].continues_at(place));
        left.next().filter(|_| left.next().is_none())
    })
}

impl Sessions {
    /// Prepares the session of a run that starts. Returns the sessions that unfinished runs have left behind.
    pub(super) fn begin(&self, place: &Place) -> Vec<SharedSession> {
        let mut registry = lock(&self.registry);
        self.start_sweeper(&mut registry);
        let slots = registry.slots.entry(place.conversation.clone()).or_default();
        let (mut kept, left): (Vec<_>, Vec<_>) =
            std::mem::take(slots).into_iter().partition(Slot::is_running);
        kept.push(Slot::new(place, false));
        *slots = kept;
        left.into_iter().map(|it| it.session).collect()
    }

    /// Returns the session for a call.
    pub(super) fn get(&self, place: &Place) -> SharedSession {
        let mut registry = lock(&self.registry);
        self.start_sweeper(&mut registry);
        let slots = registry.slots.entry(place.conversation.clone()).or_default();
        match find(slots, place) {
            Some(index) => {
                let slot = &mut slots[index];
                slot.used_at = Instant::now();
                (slot.run, slot.step) = (place.run.clone(), place.step);
                slot.session.clone()
            }
            None => {
                let slot = Slot::new(place, true);
                let session = slot.session.clone();
                slots.push(slot);
                session
            }
        }
    }

    /// Removes the session of a run that ends.
    pub(super) fn remove(&self, place: &Place) -> Option<SharedSession> {
        let mut registry = lock(&self.registry);
        let slots = registry.slots.get_mut(&place.conversation)?;
        let index = find(slots, place)?;
        let removed = slots.swap_remove(index);
        if slots.is_empty() {
            registry.slots.remove(&place.conversation);
        }
        Some(removed.session)
    }

    /// Starts the task that drops unused sessions, unless it is already running. The runtime of an earlier task may
    /// have shut down.
    fn start_sweeper(&self, registry: &mut Registry) {
        if registry.sweeper.as_ref().is_none_or(JoinHandle::is_finished) {
            registry.sweeper = Some(tokio::spawn(sweep(Arc::downgrade(&self.registry))));
        }
    }
}

fn lock(registry: &Mutex<Registry>) -> MutexGuard<'_, Registry> {
    registry.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Drops unused sessions until none are left.
async fn sweep(registry: Weak<Mutex<Registry>>) {
    loop {
        tokio::time::sleep(SWEEP_INTERVAL).await;
        let Some(registry) = registry.upgrade() else { return };
        let mut unused = Vec::new();
        let mut guard = lock(&registry);
        guard.slots.retain(|_, slots| {
            slots.retain(|it| {
                let is_in_use = Arc::strong_count(&it.session) > 1;
                let is_kept = is_in_use || it.used_at.elapsed() < MAX_IDLE;
                if !is_kept {
                    unused.push(it.session.clone());
                }
                is_kept
            });
            !slots.is_empty()
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

    /// Returns the place of a call in a run that started at `first_step`.
    fn place(run: &str, first_step: i64, step: i64) -> Place {
        let conversation = ("thread t".to_owned(), String::new());
        Place { conversation, run: run.to_owned(), step, first_step }
    }

    fn other(thread: &str) -> Place {
        Place { conversation: (thread.to_owned(), String::new()), ..place("r", 0, 1) }
    }

    #[tokio::test(start_paused = true)]
    async fn unused_sessions_are_dropped() {
        let sessions = Sessions::default();
        let in_use = sessions.get(&other("in use"));
        let unused = Arc::downgrade(&sessions.get(&other("unused")));
        tokio::time::sleep(MAX_IDLE / 2).await;
        assert!(unused.upgrade().is_some());
        tokio::time::sleep(MAX_IDLE).await;
        assert!(unused.upgrade().is_none());
        assert!(Arc::ptr_eq(&in_use, &sessions.get(&other("in use"))));
    }

    #[tokio::test]
    async fn resumed_run_continues_the_session_and_another_branch_does_not() {
        let sessions = Sessions::default();
        assert!(sessions.begin(&place("first", -1, 0)).is_empty());
        let first = sessions.get(&place("first", -1, 2));
        assert!(Arc::ptr_eq(&first, &sessions.get(&place("first", -1, 2))));
        assert!(Arc::ptr_eq(&first, &sessions.get(&place("resumed", 2, 4))));
        // The first call of a branch can be in any later step.
        for (run, first_step, step) in [("same step", 4, 4), ("branch", 3, 4), ("late", 3, 9)] {
            let branch = sessions.get(&place(run, first_step, step));
            assert!(!Arc::ptr_eq(&first, &branch), "{run}");
            assert!(branch.lock().await.follows_another, "{run}");
        }
        assert!(!first.lock().await.follows_another);
        assert!(Arc::ptr_eq(&first, &sessions.get(&place("again", 6, 8))));
    }

    #[tokio::test]
    async fn new_run_does_not_continue_the_session_of_a_failed_one() {
        let sessions = Sessions::default();
        let failed = sessions.get(&place("failed", -1, 2));
        let left = sessions.begin(&place("new", 3, 4));
        assert!(left.len() == 1 && Arc::ptr_eq(&failed, &left[0]));
        let new = sessions.get(&place("new", 3, 5));
        assert!(!Arc::ptr_eq(&failed, &new));
        assert!(Arc::ptr_eq(&new, &sessions.remove(&place("new", 3, 6)).unwrap()));
    }

    #[tokio::test]
    async fn runs_of_a_thread_keep_their_sessions() {
        let sessions = Sessions::default();
        sessions.begin(&place("one", -1, 0));
        let one = sessions.get(&place("one", -1, 2));
        let command = one.lock().await;
        assert!(sessions.begin(&place("two", -1, 0)).is_empty());
        let two = sessions.get(&place("two", -1, 2));
        assert!(!Arc::ptr_eq(&one, &two));
        assert!(Arc::ptr_eq(&one, &sessions.get(&place("one", -1, 4))));
        drop(command);
        assert!(Arc::ptr_eq(&two, &sessions.remove(&place("two", -1, 4)).unwrap()));
        assert!(Arc::ptr_eq(&one, &sessions.remove(&place("one", -1, 6)).unwrap()));
    }
}
