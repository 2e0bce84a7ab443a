//! Leases: one run at a time works on a thread, also among machines.
//!
//! Who holds a thread holds a lock of a session with the server, one session for all threads of an open database.
//! The server gives the locks free when the session ends, however it ends. The token that stands in the table
//! `lease` is checked by every write under it: a holder whose session was lost, and whose thread somebody else
//! took since, cannot write any more.

use std::{
    collections::HashMap,
    fmt,
    hash::{BuildHasher, RandomState},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use deadpool_postgres::{ClientWrapper, Object, PoolError};
use graph_core::checkpoint::CheckpointError;
use tokio::{runtime::Handle, sync::watch};

use super::{
    database::{Again, Postgres},
    failure::Failure,
};

/// What a session that holds locks is set to: a lost machine is noticed within half a minute, and nobody ends the
/// session for being idle.
const SETTINGS: &str = "
    SELECT set_config(s.name, v.value, false) FROM pg_settings s JOIN (VALUES
        ('tcp_keepalives_idle', '10'),
        ('tcp_keepalives_interval', '5'),
        ('tcp_keepalives_count', '3'),
        ('tcp_user_timeout', '25000'),
        ('idle_session_timeout', '0'),
        ('application_name', 'graph-store leases')
    ) AS v (name, value) ON v.name = s.name";

/// How long to wait before locks are asked for again that a lost session still has.
const RETAKE: Duration = Duration::from_secs(1);

/// The threads that are held here.
pub(super) struct Leases {
    // Tokio's mutex: one connects anew, and the others wait for it.
    session: tokio::sync::Mutex<Option<Session>>,
    // A std mutex: it is held for a moment only.
    holds: Mutex<HashMap<String, Hold>>,
    /// Where the database was opened.
    runtime: Handle,
}

/// The session that holds the locks.
struct Session {
    client: Arc<ClientWrapper>,
    /// Threads that are held here, but whose locks it has not got yet: the server has not noticed that the session
    /// before is lost, and keeps them for it.
    missing: Vec<(String, i64)>,
    asked_at: Option<Instant>,
}

impl Session {
    fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Whether it is time to ask for the missing locks.
    fn should_ask(&self) -> bool {
        !self.missing.is_empty() && self.asked_at.is_none_or(|it| it.elapsed() >= RETAKE)
    }
}

enum Hold {
    Taking,
    Held(i64),
    /// It is being given back; the channel closes when that is done.
    Leaving(watch::Receiver<()>),
}

impl Leases {
    /// Must be called inside a runtime.
    pub(super) fn new() -> Self {
        Self {
            session: tokio::sync::Mutex::default(),
            holds: Mutex::default(),
            runtime: Handle::current(),
        }
    }

    /// The token of a thread that is held here.
    fn token(&self, thread: &str) -> Option<i64> {
        match self.lock().get(thread)? {
            Hold::Held(token) => Some(*token),
            Hold::Taking | Hold::Leaving(_) => None,
        }
    }

    /// Claims a thread among those who use this open database, once whoever leaves it has left.
    async fn claim(&self, thread: &str) -> Result<(), CheckpointError> {
        loop {
            let mut leaving = {
                let mut holds = self.lock();
                match holds.get(thread) {
                    Some(Hold::Taking | Hold::Held(_)) => {
                        return Err(CheckpointError::Busy { thread: thread.to_owned() });
                    }
                    Some(Hold::Leaving(leaving)) => leaving.clone(),
                    None => {
                        holds.insert(thread.to_owned(), Hold::Taking);
                        return Ok(());
                    }
                }
            };
            // It ends in an error, which is what is waited for: the sender is dropped.
            let _ = leaving.changed().await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Hold>> {
        self.holds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Leases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leases").field("held", &self.lock().len()).finish_non_exhaustive()
    }
}

impl Postgres {
    /// Takes a thread, unless somebody who lives has it.
    pub(super) async fn take(&self, thread: &str) -> Result<Held, Failure<CheckpointError>> {
        self.leases().claim(thread).await?;
        // From here on it is given back whatever happens, also if nobody waits for the answer any more.
        let (database, thread) = (self.clone(), thread.to_owned());
        let mut held = Held { database, thread, token: random(), ours: true };
        // A session that has just ended counts as open for a moment.
        let mut again = Again::default();
        let taken = loop {
            match self.try_take(&held).await {
                Err(error) if again.pause(&error).await => {}
                answer => break answer,
            }
        };
        match taken {
            Ok(true) => {
                self.leases().lock().insert(held.thread.clone(), Hold::Held(held.token));
                Ok(held)
            }
            Ok(false) => {
                held.ours = false;
                Err(CheckpointError::Busy { thread: held.thread.clone() }.into())
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn try_take(&self, held: &Held) -> Result<bool, PoolError> {
        let session = self.session().await?;
        let take = session.prepare_cached(&self.sql("SELECT @.take($1, $2)")).await?;
        let row = session.query_one(&take, &[&held.thread.as_bytes(), &held.token]).await?;
        Ok(row.try_get(0)?)
    }

    /// The token to write to a thread with, if it is held here.
    pub(super) fn token(&self, thread: &str) -> Option<i64> {
        let token = self.leases().token(thread)?;
        // Who writes finds out early that the session is lost; its threads are taken again aside, as often as it takes.
        if let Ok(session) = self.leases().session.try_lock()
            && session.as_ref().is_none_or(|it| it.is_closed() || it.should_ask())
        {
            let database = self.clone();
            drop(self.runtime().spawn(async move { database.session().await.map(drop) }));
        }
        Some(token)
    }

    /// Where work goes on that nobody waits for: where the database was opened, since its connections live there.
    pub(super) fn runtime(&self) -> Handle {
        self.leases().runtime.clone()
    }

    /// The session that holds the locks. A new one takes the threads again that are held here.
    async fn session(&self) -> Result<Arc<ClientWrapper>, PoolError> {
        let mut session = self.leases().session.lock().await;
        let open = match &mut *session {
            Some(open) if !open.is_closed() => open,
            closed => closed.insert(self.new_session().await?),
        };
        if open.should_ask() {
            open.missing = self.take_again(open).await?;
            open.asked_at = Some(Instant::now());
        }
        Ok(open.client.clone())
    }

    async fn new_session(&self) -> Result<Session, PoolError> {
        let client = Arc::new(Object::take(self.connection().await?));
        client.simple_query(SETTINGS).await?;
        let holds = self.leases().lock();
        let missing = holds.iter().filter_map(|(thread, hold)| match hold {
            Hold::Held(token) => Some((thread.clone(), *token)),
            Hold::Taking | Hold::Leaving(_) => None,
        });
        Ok(Session { client, missing: missing.collect(), asked_at: None })
    }

    /// Asks for the locks that a session lacks, and gives those that somebody else still has.
    async fn take_again(&self, session: &Session) -> Result<Vec<(String, i64)>, PoolError> {
        let again = self.sql("SELECT @.take_again($1, $2)");
        let again = session.client.prepare_cached(&again).await?;
        let mut missing = Vec::new();
        for (thread, token) in &session.missing {
            if self.leases().token(thread) != Some(*token) {
                continue;
            }
            // Whoever took it meanwhile keeps it: the token tells the holder at its next write.
            let row = session.client.query_one(&again, &[&thread.as_bytes(), token]).await?;
            if !row.try_get::<_, bool>(0)? {
                missing.push((thread.clone(), *token));
            }
        }
        Ok(missing)
    }

    async fn give_back(&self, thread: &str, token: i64) {
        let session = self.leases().session.lock().await;
        let Some(open) = session.as_ref().map(|it| it.client.clone()) else { return };
        drop(session);
        let given_back = async {
            let give = open.prepare_cached(&self.sql("SELECT @.give_back($1, $2)")).await?;
            open.query(&give, &[&thread.as_bytes(), &token]).await
        };
        if given_back.await.is_err() {
            // The server gives everything free with the session; what is still held is taken again by the next.
            let mut session = self.leases().session.lock().await;
            if session.as_ref().is_some_and(|it| Arc::ptr_eq(&it.client, &open)) {
                *session = None;
            }
        }
    }
}

/// A thread that is held; gives it free when it is dropped.
pub(super) struct Held {
    database: Postgres,
    thread: String,
    token: i64,
    /// Not if it turned out to be somebody else's: then there is nothing to give back.
    ours: bool,
}

impl Drop for Held {
    fn drop(&mut self) {
        let leases = self.database.leases();
        if !self.ours {
            leases.lock().remove(&self.thread);
            return;
        }
        let (leaving, left) = watch::channel(());
        leases.lock().insert(self.thread.clone(), Hold::Leaving(left));
        let leaving = Leaving {
            database: self.database.clone(),
            thread: std::mem::take(&mut self.thread),
            _done: leaving,
        };
        let token = self.token;
        // Not waited for: whoever takes the thread next here waits for it.
        drop(
            self.database
                .runtime()
                .spawn(async move { leaving.database.give_back(&leaving.thread, token).await }),
        );
    }
}

/// A thread on its way to be free; it counts as free once this is dropped, done or not.
struct Leaving {
    database: Postgres,
    thread: String,
    _done: watch::Sender<()>,
}

impl Drop for Leaving {
    fn drop(&mut self) {
        self.database.leases().lock().remove(&self.thread);
    }
}

/// Random, and not counted: a row may go and come again, and its token must be another one.
fn random() -> i64 {
    (RandomState::new().hash_one(std::process::id()) >> 1) as i64
}
