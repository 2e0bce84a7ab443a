//! Leases ensure that at most one run at a time works on a thread, across all machines.
//!
//! A lease is an advisory lock that is held by a session on the server. One session holds the locks of all threads that
//! a database handle and its clones have leased. The server releases the locks when the session ends, for whatever
//! reason. Every write under a lease also checks the lease's token in the table `lease`. A holder that lost its
//! session, and whose thread has since been leased by another holder, can therefore no longer write.

use std::{
    hash::{BuildHasher, RandomState},
    sync::Arc,
    time::{Duration, Instant},
};

use deadpool_postgres::{ClientWrapper, Object, PoolError};
use graph_core::checkpoint::CheckpointError;
use tokio::{runtime::Handle, sync::watch, time::timeout};

use super::{
    connections::Connections,
    database::{Postgres, RetryBackoff},
    failure::Failure,
    leases::{LeaseState, Session, add_releasing, releasing},
};

/// Settings of the session that holds the locks. With them, the server detects a lost machine within half a minute and
/// does not close an idle session.
const SETTINGS: &str = "
    SELECT set_config(s.name, v.value, false) FROM pg_settings s JOIN (VALUES
        ('tcp_keepalives_idle', '10'),
        ('tcp_keepalives_interval', '5'),
        ('tcp_keepalives_count', '3'),
        ('tcp_user_timeout', '25000'),
        ('idle_session_timeout', '0'),
        ('application_name', 'graph-store leases')
    ) AS v (name, value) ON v.name = s.name";

/// Maximum time that acquiring a lease waits for other database handles of this process to release the thread. Usually
/// the release takes one round trip, but it takes longer if the runtime of such a handle is not running.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(30);

/// Ends the session that holds the lock of a thread.
const EVICT: &str = "
    SELECT pg_terminate_backend(l.pid) FROM pg_locks l JOIN pg_database d ON d.oid = l.database
    WHERE d.datname = current_database() AND l.locktype = 'advisory' AND l.objsubid = 1 AND l.granted
        AND (l.classid::bigint << 32 | l.objid::bigint) = @.lock_of('lease', $1)";

impl Connections {
    /// Ends the session in which another process has leased a thread of the saver in `schema`, like
    /// [`Checkpointer::evict_lease_holder`](graph_core::checkpoint::Checkpointer::evict_lease_holder). Returns whether
    /// a session was ended.
    pub async fn evict_lease_holder(&self, schema: &str, thread: &str) -> Result<bool, PoolError> {
        let evict = EVICT.replace('@', &quoted(schema));
        Ok(!self.query(&evict, &[&thread.as_bytes()]).await?.is_empty())
    }

    /// Returns whether the database contains the tables of a saver in `schema`.
    pub async fn has_saver(&self, schema: &str) -> Result<bool, PoolError> {
        let function = format!("{}.lock_of(text,bytea)", quoted(schema));
        let select = "SELECT FROM pg_proc WHERE oid = to_regprocedure($1)";
        Ok(!self.query(select, &[&function]).await?.is_empty())
    }
}

/// Returns the name of a schema as it appears in statements.
fn quoted(schema: &str) -> String {
    format!("\"{}\"", schema.replace('"', "\"\""))
}

impl Postgres {
    /// Ends the session in which another database handle has leased a thread. Returns whether there was one.
    pub(super) async fn evict(&self, thread: &str) -> Result<bool, PoolError> {
        // A lease of this handle is in use, or is being released.
        if self.leases().lock().contains_key(thread) {
            return Ok(false);
        }
        Ok(!self.query(EVICT, &[&thread.as_bytes()]).await?.is_empty())
    }

    /// Leases a thread, unless another live session holds it.
    pub(super) async fn acquire(
        &self,
        thread: &str,
    ) -> Result<LeaseGuard, Failure<CheckpointError>> {
        self.leases().claim(thread).await?;
        // From here on, dropping `guard` releases the lease, even if the caller is cancelled.
        let (database, thread) = (self.clone(), thread.to_owned());
        let mut guard = LeaseGuard { database, thread, token: random(), must_release: true };
        // A session that has just ended may still appear open. The first attempt then fails, and a retry opens a new
        // session.
        let mut backoff = RetryBackoff::default();
        let acquired = loop {
            // Read before the attempt, because the release may finish right after the attempt.
            let releasing = releasing(&guard.thread);
            match self.try_acquire(&guard).await {
                Err(error) if backoff.wait_before_retry(&error).await => {}
                Ok(false) if !releasing.is_empty() => {
                    let released = async {
                        for mut released in releasing {
                            // Nothing is ever sent, so this returns an error once the sender is dropped.
                            let _ = released.changed().await;
                        }
                    };
                    if timeout(RELEASE_TIMEOUT, released).await.is_err() {
                        break Ok(false);
                    }
                }
                answer => break answer,
            }
        };
        match acquired {
            Ok(true) => {
                self.leases().lock().insert(guard.thread.clone(), LeaseState::Held(guard.token));
                Ok(guard)
            }
            Ok(false) => {
                guard.must_release = false;
                Err(CheckpointError::Busy { thread: guard.thread.clone() }.into())
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn try_acquire(&self, guard: &LeaseGuard) -> Result<bool, PoolError> {
        let session = self.session().await?;
        let take = session.prepare_cached(&self.sql("SELECT @.take($1, $2)")).await?;
        let row = session.query_one(&take, &[&guard.thread.as_bytes(), &guard.token]).await?;
        Ok(row.try_get(0)?)
    }

    /// Returns the token for writing to a thread, if this database handle or one of its clones has leased the thread.
    pub(super) fn token(&self, thread: &str) -> Option<i64> {
        let token = self.leases().token(thread)?;
        // Detects a lost session early and reacquires its locks in the background. Each write triggers this until
        // all locks have been reacquired.
        if let Ok(session) = self.leases().session.try_lock()
            && session.as_ref().is_none_or(|it| it.is_closed() || it.should_reacquire())
        {
            let database = self.clone();
            drop(self.runtime().spawn(async move { database.session().await.map(drop) }));
        }
        Some(token)
    }

    /// Returns the runtime for background work. It is the runtime on which the database was opened, because the
    /// connections belong to it.
    pub(super) fn runtime(&self) -> Handle {
        self.leases().runtime.clone()
    }

    /// Returns the session that holds the locks. A new session reacquires the locks of all threads that this database
    /// handle and its clones have leased.
    async fn session(&self) -> Result<Arc<ClientWrapper>, PoolError> {
        let mut session = self.leases().session.lock().await;
        let open = match &mut *session {
            Some(open) if !open.is_closed() => open,
            closed => closed.insert(self.new_session().await?),
        };
        if open.should_reacquire() {
            open.missing = self.reacquire_missing(open).await?;
            open.last_attempt = Some(Instant::now());
        }
        Ok(open.client.clone())
    }

    async fn new_session(&self) -> Result<Session, PoolError> {
        let client = Arc::new(Object::take(self.connection().await?));
        client.simple_query(SETTINGS).await?;
        let states = self.leases().lock();
        let missing = states.iter().filter_map(|(thread, state)| match state {
            LeaseState::Held(token) => Some((thread.clone(), *token)),
            LeaseState::Acquiring | LeaseState::Releasing(_) => None,
        });
        Ok(Session { client, missing: missing.collect(), last_attempt: None })
    }

    /// Tries to reacquire the locks that a session lacks. Returns the threads whose locks it still lacks, with their
    /// tokens.
    async fn reacquire_missing(&self, session: &Session) -> Result<Vec<(String, i64)>, PoolError> {
        let reacquire = self.sql("SELECT @.take_again($1, $2)");
        let reacquire = session.client.prepare_cached(&reacquire).await?;
        let mut missing = Vec::new();
        for (thread, token) in &session.missing {
            if self.leases().token(thread) != Some(*token) {
                continue;
            }
            // The statement returns false if another session holds the lock, or if another owner has leased the thread
            // in the meantime. In the second case, the token check rejects our next write.
            let row = session.client.query_one(&reacquire, &[&thread.as_bytes(), token]).await?;
            if !row.try_get::<_, bool>(0)? {
                missing.push((thread.clone(), *token));
            }
        }
        Ok(missing)
    }

    async fn release(&self, thread: &str, token: i64) {
        let session = self.leases().session.lock().await;
        let Some(open) = session.as_ref().map(|it| it.client.clone()) else { return };
        drop(session);
        let released = async {
            let release = open.prepare_cached(&self.sql("SELECT @.give_back($1, $2)")).await?;
            open.query(&release, &[&thread.as_bytes(), &token]).await
        };
        if released.await.is_err() {
            // Ending the session makes the server release all its locks. The next session reacquires the locks of
            // the threads that are still leased here.
            let mut session = self.leases().session.lock().await;
            if session.as_ref().is_some_and(|it| Arc::ptr_eq(&it.client, &open)) {
                *session = None;
            }
        }
    }
}

/// A leased thread. Dropping the guard releases the lease.
pub(super) struct LeaseGuard {
    database: Postgres,
    thread: String,
    token: i64,
    /// False if another session holds the lease, so that there is nothing to release.
    must_release: bool,
}

impl Drop for LeaseGuard {
    fn drop(&mut self) {
        let leases = self.database.leases();
        if !self.must_release {
            leases.lock().remove(&self.thread);
            return;
        }
        let (done, released) = watch::channel(());
        add_releasing(&self.thread, released.clone());
        leases.lock().insert(self.thread.clone(), LeaseState::Releasing(released));
        let guard = ReleaseGuard {
            database: self.database.clone(),
            thread: std::mem::take(&mut self.thread),
            _done: done,
        };
        let token = self.token;
        // The release is not awaited. If the thread is leased again by this process, the new lease waits for the
        // release.
        drop(
            self.database
                .runtime()
                .spawn(async move { guard.database.release(&guard.thread, token).await }),
        );
    }
}

/// A lease that is being released. The thread counts as free once this guard is dropped, whether or not the release
/// succeeded.
struct ReleaseGuard {
    database: Postgres,
    thread: String,
    _done: watch::Sender<()>,
}

impl Drop for ReleaseGuard {
    fn drop(&mut self) {
        self.database.leases().lock().remove(&self.thread);
    }
}

/// Returns a random token. Tokens are not sequential, because a lease row may be deleted and inserted again, and
/// must then have a different token.
fn random() -> i64 {
    (RandomState::new().hash_one(std::process::id()) >> 1) as i64
}
