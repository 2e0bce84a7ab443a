//! A sandbox: the handle to one guest.

mod expiry;
#[cfg(test)]
#[cfg(feature = "testkit")]
mod tests;

use std::{
    collections::BTreeMap,
    fmt,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak},
    time::Duration,
};

use serde::de::DeserializeOwned;
use tokio::sync::{OwnedRwLockReadGuard, RwLock};

use self::expiry::ExpiryTimer;
use crate::{
    Error,
    backend::{self, Guest, Handle, Snapshot},
    error::TerminationReason,
    files::Files,
    limits::{ExceededLimit, Usage},
    protocol::message::{GuestCommand, ReseedResult},
    sandbox_dir::SandboxDir,
    session::{CloseReason, RequestError, Session},
    spec::Spec,
};

/// How long a guest has for what takes no time.
pub(crate) const REPLY_TIMEOUT: Duration = Duration::from_secs(60);

/// How long a guest has to end. What is left of it then is left to whoever cleans up after a crash.
const KILL_TIMEOUT: Duration = Duration::from_secs(60);

/// One guest and what can be done with it. Cheap to clone; it lives until it is deleted or expires, though its
/// [`Sandboxes`](crate::Sandboxes) be dropped before, or until nobody holds it.
#[derive(Clone)]
pub struct Sandbox {
    inner: Arc<Inner>,
}

struct Inner {
    spec: Spec,
    backend: &'static str,
    isolated: bool,
    graphs: Vec<String>,
    session: Session,
    handle: Arc<dyn Handle>,
    // Std mutexes: held for a moment, never over an await.
    sandbox_dir: Mutex<Option<SandboxDir>>,
    expiry: Mutex<ExpiryTimer>,
    /// Held by all that is under way, and alone by whoever takes a snapshot.
    activity: Arc<RwLock<()>>,
    termination: OnceLock<TerminationReason>,
    /// Held while the guest is taken down, so that whoever else wants that waits for it.
    terminating: tokio::sync::Mutex<()>,
}

impl Sandbox {
    /// Greets a guest that was started.
    pub(crate) async fn connect(
        spec: Spec,
        (backend_name, isolated): (&'static str, bool),
        sandbox_dir: SandboxDir,
        guest: Guest,
        timeout: Duration,
    ) -> Result<Self, Error> {
        let Guest { channel, handle } = guest;
        let (session, hello) = match Session::open(channel, timeout).await {
            Ok(opened) => opened,
            Err(error) => {
                let refused = backend::reject(&*handle, error);
                let problem = match tokio::time::timeout(KILL_TIMEOUT, refused).await {
                    Ok(problem) => problem,
                    Err(_) => {
                        format!("it did not greet, and has not ended within {KILL_TIMEOUT:?}")
                    }
                };
                return Err(Error::Start { backend: backend_name, problem });
            }
        };
        let inner = Inner {
            spec,
            backend: backend_name,
            isolated,
            graphs: hello.graphs,
            session,
            handle,
            sandbox_dir: Mutex::new(Some(sandbox_dir)),
            expiry: Mutex::new(ExpiryTimer::start()),
            activity: Arc::default(),
            termination: OnceLock::new(),
            terminating: tokio::sync::Mutex::default(),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.inner.spec.name
    }

    /// What it was made from.
    pub fn spec(&self) -> &Spec {
        &self.inner.spec
    }

    /// What it is found by.
    pub fn labels(&self) -> &BTreeMap<String, String> {
        &self.inner.spec.labels
    }

    /// The back end it runs on.
    pub fn backend(&self) -> &'static str {
        self.inner.backend
    }

    /// Whether it is isolated from the host; a run that is not has to say so wherever its result goes.
    pub fn isolated(&self) -> bool {
        self.inner.isolated
    }

    /// The graphs that its guest can run.
    pub fn graphs(&self) -> &[String] {
        &self.inner.graphs
    }

    /// The files of its workspace.
    pub fn fs(&self) -> Files<'_> {
        Files::new(self)
    }

    /// What it has used so far, as the host sees it; `None` where the back end cannot see it.
    pub async fn usage(&self) -> Option<Usage> {
        self.inner.handle.usage().await
    }

    /// Waits for a sign of life.
    pub async fn ping(&self) -> Result<(), Error> {
        self.command(&GuestCommand::Ping, REPLY_TIMEOUT).await
    }

    /// Stops it until [`resume`](Self::resume), where the back end can; its time goes on. Nothing can be asked of it
    /// meanwhile.
    pub async fn pause(&self) -> Result<(), Error> {
        self.ensure_alive()?;
        self.inner.handle.pause().await?;
        self.inner.session.set_paused(true);
        Ok(())
    }

    /// Lets it go on.
    pub async fn resume(&self) -> Result<(), Error> {
        self.ensure_alive()?;
        self.touch();
        self.inner.handle.resume().await?;
        self.inner.session.set_paused(false);
        Ok(())
    }

    /// Keeps its whole state, where the back end can, in a folder that belongs to the caller. The sandbox goes on.
    ///
    /// The folder holds the guest's memory, with all secrets that are in it, and is made for this user alone; to
    /// remove it is the caller's business. Nothing may be under way in the sandbox, and what is asked of it meanwhile
    /// waits.
    ///
    /// ```no_run
    /// # use sandbox_vm::{Error, Sandboxes, Spec};
    /// # async fn example(sandboxes: Sandboxes) -> Result<(), Error> {
    /// let spec = Spec::new("warm");
    /// let sandbox = sandboxes.create_if_not_exists(spec.clone()).await?;
    /// sandbox.fs().write("data.json", "[1, 2, 3]").await?;
    /// let snapshot = sandbox.snapshot("/var/tmp/warm").await?;
    /// let copy = sandboxes.restore(Spec { name: "copy".to_owned(), ..spec }, snapshot).await?;
    /// assert_eq!(copy.fs().read("data.json").await?, b"[1, 2, 3]");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn snapshot(&self, dir: impl Into<PathBuf>) -> Result<Snapshot, Error> {
        self.ensure_running()?;
        let Ok(_exclusive) = self.inner.activity.try_write() else {
            return Err(Error::Busy { name: self.name().to_owned() });
        };
        // Once this is answered nothing is on its way in either direction: a copy of the guest starts with a greeting,
        // and not in the middle of a message.
        if let Err(error) =
            self.inner.session.request::<()>(&GuestCommand::Ping, REPLY_TIMEOUT).await
        {
            return Err(self.handle_failure(error).await);
        }
        self.inner.handle.snapshot(dir.into()).await
    }

    /// Gives it fresh randomness and the time, as after a snapshot was restored.
    pub(crate) async fn reseed(&self, seed: Vec<u8>) -> Result<ReseedResult, Error> {
        let time = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        self.command(&GuestCommand::Reseed { seed, time: time.unwrap_or_default() }, REPLY_TIMEOUT)
            .await
    }

    /// Ends it and removes all that belongs to it. Deleting it again does nothing.
    pub async fn delete(&self) {
        self.terminate(TerminationReason::Deleted).await;
    }

    /// Why it is no more, if it is not.
    pub fn termination_reason(&self) -> Option<&TerminationReason> {
        self.inner.termination.get()
    }

    pub(crate) fn session(&self) -> &Session {
        &self.inner.session
    }

    /// Asks the guest something and waits for its answer.
    pub(crate) async fn command<T: DeserializeOwned>(
        &self,
        command: &GuestCommand,
        timeout: Duration,
    ) -> Result<T, Error> {
        self.ensure_running()?;
        let _busy = self.mark_busy().await;
        match self.inner.session.request(command, timeout).await {
            Ok(answer) => Ok(answer),
            Err(error) => Err(self.handle_failure(error).await),
        }
    }

    /// What a failed question means. A guest that died, lied or fell silent is taken down.
    pub(crate) async fn handle_failure(&self, error: RequestError) -> Error {
        let name = self.name().to_owned();
        match error {
            RequestError::Fault(fault) => Error::Guest { name, fault },
            RequestError::Timeout(after) => {
                self.terminate(TerminationReason::Limit(ExceededLimit::Wall)).await;
                Error::Timeout { name, after }
            }
            RequestError::Closed(closed) => {
                Error::Terminated { name, reason: self.handle_close(closed).await }
            }
        }
    }

    /// Takes down a guest whose channel is closed, and says reason it is gone.
    pub(crate) async fn handle_close(&self, close: CloseReason) -> TerminationReason {
        let reason = match close {
            CloseReason::Protocol(error) => TerminationReason::ProtocolViolation(error),
            CloseReason::ChannelClosed => match self.inner.handle.exceeded_limit().await {
                Some(cause) => TerminationReason::Limit(cause),
                // Before it is ended: what it says last may still be on its way.
                None => TerminationReason::Exited(self.inner.handle.diagnostic_output().await),
            },
        };
        self.terminate(reason).await
    }

    /// Ends it for this reason, unless it has ended for another; returns the one that counts.
    pub(crate) async fn terminate(&self, reason: TerminationReason) -> TerminationReason {
        let reason = self.inner.termination.get_or_init(|| reason).clone();
        let inner = self.inner.clone();
        // A task of its own, which goes on though whoever waits for it is dropped: from here on nobody looks after it.
        let task = tokio::spawn(async move {
            let _terminating = inner.terminating.lock().await;
            kill_guest(&*inner.handle, &inner.spec.name).await;
            drop(lock(&inner.sandbox_dir).take());
        });
        if let Err(error) = task.await {
            tracing::warn!(sandbox = self.name(), %error, "a guest may not have ended");
        }
        reason
    }

    /// An error if it is no more.
    pub(crate) fn ensure_alive(&self) -> Result<(), Error> {
        match self.inner.termination.get() {
            Some(reason) => {
                Err(Error::Terminated { name: self.name().to_owned(), reason: reason.clone() })
            }
            None => Ok(()),
        }
    }

    /// An error if nothing can be asked of it: it is no more, or paused.
    pub(crate) fn ensure_running(&self) -> Result<(), Error> {
        self.ensure_alive()?;
        match self.inner.session.is_paused() {
            true => Err(Error::Paused { name: self.name().to_owned() }),
            false => Ok(()),
        }
    }

    /// The limit that its guest ran into since this was last asked, as far as the back end knows.
    pub(crate) async fn take_exceeded_limit(&self) -> Option<ExceededLimit> {
        self.inner.handle.exceeded_limit().await
    }

    /// Marks it as busy until the guard is dropped: it does not expire for idleness meanwhile.
    pub(crate) async fn mark_busy(&self) -> BusyGuard {
        let activity = self.inner.activity.clone().read_owned().await;
        lock(&self.inner.expiry).begin();
        BusyGuard { inner: self.inner.clone(), _activity: activity }
    }

    /// Counts its idle time from now, and says whether it still lives.
    pub(crate) fn touch(&self) -> bool {
        let mut timer = lock(&self.inner.expiry);
        timer.touch();
        // Looked at under the lock, as it is judged under the lock.
        self.termination_reason().is_none()
    }

    /// Stops its clock: until somebody takes it over, it does not expire.
    pub(crate) fn stop_expiry(&self) {
        lock(&self.inner.expiry).stop();
    }

    /// Counts its time from now, for its new owner.
    pub(crate) fn restart_expiry(&self) {
        lock(&self.inner.expiry).restart();
    }

    /// A way to it that does not keep it.
    pub(crate) fn downgrade(&self) -> WeakSandbox {
        WeakSandbox(Arc::downgrade(&self.inner))
    }

    /// Ends it if it has passed a limit of time; or says reason it ended by itself.
    pub(crate) async fn terminate_if_overdue(&self) -> Option<TerminationReason> {
        let reason = self.overdue_reason().await?;
        tracing::info!(sandbox = self.name(), %reason, "removing a sandbox");
        Some(self.terminate(reason).await)
    }

    async fn overdue_reason(&self) -> Option<TerminationReason> {
        let inner = &self.inner;
        if let Some(closed) = inner.session.closed() {
            return Some(self.handle_close(closed).await);
        }
        if let Some(cause) = self.mark_expired() {
            return Some(TerminationReason::Limit(cause));
        }
        let limit = inner.spec.limits.cpu_time?;
        let is_over = inner.handle.usage().await.is_some_and(|it| it.cpu >= limit);
        is_over.then_some(TerminationReason::Limit(ExceededLimit::CpuTime))
    }

    /// Marks it as gone if its time is over.
    fn mark_expired(&self) -> Option<ExceededLimit> {
        let timer = lock(&self.inner.expiry);
        let cause = timer.expired_limit(&self.inner.spec)?;
        // Under the lock: nobody is given it after it was judged.
        let _ = self.inner.termination.set(TerminationReason::Limit(cause));
        Some(cause)
    }
}

/// Ends a guest, and waits for that as long as it is sensible.
async fn kill_guest(handle: &dyn Handle, name: &str) {
    if tokio::time::timeout(KILL_TIMEOUT, handle.kill()).await.is_err() {
        tracing::warn!(sandbox = name, "a guest has not ended within {KILL_TIMEOUT:?}");
    }
}

/// A way to a sandbox that does not keep it.
pub(crate) struct WeakSandbox(Weak<Inner>);

impl WeakSandbox {
    /// The sandbox, if anybody still holds it.
    pub(crate) fn upgrade(&self) -> Option<Sandbox> {
        Some(Sandbox { inner: self.0.upgrade()? })
    }
}

impl fmt::Debug for Sandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sandbox")
            .field("name", &self.name())
            .field("backend", &self.backend())
            .field("isolated", &self.isolated())
            .field("termination", &self.inner.termination.get())
            .finish_non_exhaustive()
    }
}

/// Something is under way in a sandbox.
pub(crate) struct BusyGuard {
    inner: Arc<Inner>,
    _activity: OwnedRwLockReadGuard<()>,
}

impl fmt::Debug for BusyGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BusyGuard")
    }
}

impl Drop for BusyGuard {
    fn drop(&mut self) {
        lock(&self.inner.expiry).finish();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
