//! The sessions of an agent's conversations.

use std::{
    collections::HashMap,
    mem,
    sync::{Arc, Mutex},
    time::Duration,
};

use graph_core::{Context, checkpoint::CheckpointId};
use tokio::time::Instant;

use super::executor::CommandSession;
use crate::lock::lock;

/// Time for which an unused session is kept. Its run has failed, was cancelled, or waits for a person.
const MAX_IDLE: Duration = Duration::from_secs(3600);

/// A session. It is locked while a command runs, so that parallel calls run one after the other.
pub(super) type SharedSession = Arc<tokio::sync::Mutex<Session>>;

/// The session of a conversation.
#[derive(Debug)]
pub(super) enum Session {
    /// The next command starts the session.
    Fresh,
    /// Commands run in this session.
    Open(Box<dyn CommandSession>),
    /// An earlier session may have ended without a report to the model. The next command starts a new one.
    Lost,
}

impl Session {
    /// Takes the open session, if there is one.
    pub(super) fn take(&mut self) -> Option<Box<dyn CommandSession>> {
        match mem::replace(self, Self::Lost) {
            Self::Open(open) => Some(open),
            other => {
                *self = other;
                None
            }
        }
    }

    /// Executes these commands in the open session and closes it. The next command starts a new session.
    pub(super) async fn close(&mut self, commands: &[String]) {
        if let Some(mut open) = self.take() {
            for command in commands {
                // The run has ended, so failures are ignored.
                let _ = open.execute(command).await;
            }
            open.close().await;
        }
        *self = Self::Fresh;
    }
}

/// The conversation that makes a call, and its branch.
#[derive(Debug)]
pub(super) struct Caller {
    /// The thread, or the run if it has no thread, and the namespace of the agent.
    conversation: (String, String),
    /// The checkpoint at which the branch starts. A resumed run stays on its branch; an edit of the state and time
    /// travel start another branch.
    origin: CheckpointId,
}

impl Caller {
    pub(super) fn of(context: &Context) -> Self {
        let thread = match context.thread() {
            Some(thread) => format!("thread {thread}"),
            None => format!("run {}", context.run_id()),
        };
        let conversation = (thread, context.namespace().to_owned());
        Self { conversation, origin: context.origin() }
    }
}

/// The newest session of each conversation. The lease of a thread prevents concurrent runs, so one session per
/// conversation is enough.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    slots: Mutex<HashMap<(String, String), Slot>>,
}

#[derive(Debug)]
struct Slot {
    session: SharedSession,
    origin: CheckpointId,
    used_at: Instant,
}

impl Slot {
    fn new(origin: CheckpointId, session: Session) -> Self {
        let session = Arc::new(tokio::sync::Mutex::new(session));
        Self { session, origin, used_at: Instant::now() }
    }

    fn is_unused(&self) -> bool {
        Arc::strong_count(&self.session) == 1 && self.used_at.elapsed() >= MAX_IDLE
    }
}

impl Sessions {
    /// Prepares the session of a new run, and drops all unused sessions. Returns the session of an earlier run of the
    /// conversation that did not finish, if any.
    pub(super) fn begin(&self, caller: Caller) -> Option<SharedSession> {
        let mut slots = lock(&self.slots);
        let left = slots.insert(caller.conversation, Slot::new(caller.origin, Session::Fresh));
        let unused: Vec<_> = slots.extract_if(|_, it| it.is_unused()).collect();
        // Unlock the map first, because dropping a session can take a while.
        drop(slots);
        drop(unused);
        left.map(|it| it.session)
    }

    /// Returns the session for a call. A session of another branch is dropped.
    pub(super) fn get(&self, caller: Caller) -> SharedSession {
        let new = || Slot::new(caller.origin, Session::Lost);
        let mut slots = lock(&self.slots);
        let slot = slots.entry(caller.conversation).or_insert_with(new);
        let replaced = (slot.origin != caller.origin).then(|| mem::replace(slot, new()));
        slot.used_at = Instant::now();
        let session = slot.session.clone();
        drop(slots);
        drop(replaced);
        session
    }

    /// Removes the session of a run that ends.
    pub(super) fn remove(&self, caller: &Caller) -> Option<SharedSession> {
        lock(&self.slots).remove(&caller.conversation).map(|it| it.session)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn start_of_a_run_drops_unused_sessions() {
        let sessions = Sessions::default();
        let origin = CheckpointId::next();
        let caller =
            |thread: &str| Caller { conversation: (thread.to_owned(), String::new()), origin };
        let in_use = sessions.get(caller("in use"));
        let unused = Arc::downgrade(&sessions.get(caller("unused")));
        tokio::time::advance(MAX_IDLE / 2).await;
        assert!(sessions.begin(caller("first")).is_none());
        assert!(unused.upgrade().is_some());
        tokio::time::advance(MAX_IDLE / 2).await;
        assert!(sessions.begin(caller("second")).is_none());
        assert!(unused.upgrade().is_none());
        assert!(Arc::ptr_eq(&in_use, &sessions.get(caller("in use"))));
    }
}
