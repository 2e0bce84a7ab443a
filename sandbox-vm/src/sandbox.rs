//! The handle to one sandbox.

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

/// Time limit for commands that should complete immediately.
pub(crate) const REPLY_TIMEOUT: Duration = Duration::from_secs(60);

/// Time limit for killing a guest. What remains after that is removed by the next process that cleans up orphans.
const KILL_TIMEOUT: Duration = Duration::from_secs(60);

/// A handle to one guest. Cheap to clone. The sandbox lives until it is deleted, expires, or its last handle is
/// dropped; dropping its [`Sandboxes`](crate::Sandboxes) does not end it while another handle exists.
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
    // Std mutexes: held briefly, never across an await.
    sandbox_dir: Mutex<Option<SandboxDir>>,
    expiry: Mutex<ExpiryTimer>,
    /// Locked shared by every operation, and exclusively while a snapshot is taken.
    activity: Arc<RwLock<()>>,
    termination: OnceLock<TerminationReason>,
    /// Held while the guest is being terminated, so that concurrent callers wait for it.
    terminating: tokio::sync::Mutex<()>,
}

impl Sandbox {
    /// Performs the handshake with a guest that was just started.
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
                        format!(
                            "the handshake failed, and the guest has not ended within {KILL_TIMEOUT:?}"
                        )
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

    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.inner.spec.name
    }

    /// Returns the spec it was created from.
    pub fn spec(&self) -> &Spec {
        &self.inner.spec
    }

    /// Returns its labels.
    pub fn labels(&self) -> &BTreeMap<String, String> {
        &self.inner.spec.labels
    }

    /// Returns the name of its back end.
    pub fn backend(&self) -> &'static str {
        self.inner.backend
    }

    /// Returns whether it is isolated from the host. Results of a sandbox that is not isolated must say so.
    pub fn isolated(&self) -> bool {
        self.inner.isolated
    }

    /// Returns the names of the graphs that its guest can run.
    pub fn graphs(&self) -> &[String] {
        &self.inner.graphs
    }

    /// Returns access to the files of its workspace.
    pub fn fs(&self) -> Files<'_> {
        Files::new(self)
    }

    /// Returns the resources it has used so far, as measured by the host; `None` if the back end cannot measure them.
    pub async fn usage(&self) -> Option<Usage> {
        self.inner.handle.usage().await
    }

    /// Checks that the guest replies.
    pub async fn ping(&self) -> Result<(), Error> {
        self.command(&GuestCommand::Ping, REPLY_TIMEOUT).await
    }

    /// Pauses the guest until [`resume`](Self::resume), if the back end supports it. While it is paused, commands are
    /// refused; its lifetime and idle time continue to count.
    pub async fn pause(&self) -> Result<(), Error> {
        self.ensure_alive()?;
        self.inner.handle.pause().await?;
        self.inner.session.set_paused(true);
        Ok(())
    }

    /// Resumes a paused guest.
    pub async fn resume(&self) -> Result<(), Error> {
        self.ensure_alive()?;
        self.touch();
        self.inner.handle.resume().await?;
        self.inner.session.set_paused(false);
        Ok(())
    }

    /// Writes the guest's whole state to a directory owned by the caller, if the back end supports it. The sandbox
    /// continues to run.
    ///
    /// The directory contains the guest's memory, including any secrets in it, and is accessible only to this user; the
    /// caller must delete it. No operation may be in progress; operations that start meanwhile wait.
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
        // After this reply nothing is in transit in either direction, so that a copy of the guest starts with a
        // handshake and not in the middle of a message.
        if let Err(error) =
            self.inner.session.request::<()>(&GuestCommand::Ping, REPLY_TIMEOUT).await
        {
            return Err(self.handle_failure(error).await);
        }
        self.inner.handle.snapshot(dir.into()).await
    }

    /// Gives the guest new random state and the current time, as needed after a snapshot was restored.
    pub(crate) async fn reseed(&self, seed: Vec<u8>) -> Result<ReseedResult, Error> {
        let time = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        self.command(&GuestCommand::Reseed { seed, time: time.unwrap_or_default() }, REPLY_TIMEOUT)
            .await
    }

    /// Terminates the guest and removes everything that belongs to the sandbox. Deleting it again has no effect.
    pub async fn delete(&self) {
        self.terminate(TerminationReason::Deleted).await;
    }

    /// Returns why the sandbox terminated, if it has.
    pub fn termination_reason(&self) -> Option<&TerminationReason> {
        self.inner.termination.get()
    }

    pub(crate) fn session(&self) -> &Session {
        &self.inner.session
    }

    /// Sends a command to the guest and waits for its reply.
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

    /// Converts a failed request to an error. Terminates a guest that has exited, violated the protocol or timed out.
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

    /// Terminates a guest whose channel is closed, and returns the reason.
    pub(crate) async fn handle_close(&self, close: CloseReason) -> TerminationReason {
        let reason = match close {
            CloseReason::Protocol(error) => TerminationReason::ProtocolViolation(error),
            CloseReason::ChannelClosed => match self.inner.handle.exceeded_limit().await {
                Some(cause) => TerminationReason::Limit(cause),
                // Read before the guest is killed: its diagnostic output may still be arriving.
                None => TerminationReason::Exited(self.inner.handle.diagnostic_output().await),
            },
        };
        self.terminate(reason).await
    }

    /// Terminates the guest for this reason, unless it already has another one. Returns the effective reason.
    pub(crate) async fn terminate(&self, reason: TerminationReason) -> TerminationReason {
        let reason = self.inner.termination.get_or_init(|| reason).clone();
        let inner = self.inner.clone();
        // In a separate task, which completes even if the caller is dropped: from here on nothing else would retry it.
        let task = tokio::spawn(async move {
            let _terminating = inner.terminating.lock().await;
            kill_guest(&*inner.handle, &inner.spec.name).await;
            drop(lock(&inner.sandbox_dir).take());
        });
        if let Err(error) = task.await {
            tracing::warn!(sandbox = self.name(), %error, "terminating a guest failed; it may still be running");
        }
        reason
    }

    /// Returns an error if the sandbox has terminated.
    pub(crate) fn ensure_alive(&self) -> Result<(), Error> {
        match self.inner.termination.get() {
            Some(reason) => {
                Err(Error::Terminated { name: self.name().to_owned(), reason: reason.clone() })
            }
            None => Ok(()),
        }
    }

    /// Returns an error if the sandbox cannot take commands, because it has terminated or is paused.
    pub(crate) fn ensure_running(&self) -> Result<(), Error> {
        self.ensure_alive()?;
        match self.inner.session.is_paused() {
            true => Err(Error::Paused { name: self.name().to_owned() }),
            false => Ok(()),
        }
    }

    /// Returns the limit that the guest has exceeded since the last call, as far as the back end knows.
    pub(crate) async fn take_exceeded_limit(&self) -> Option<ExceededLimit> {
        self.inner.handle.exceeded_limit().await
    }

    /// Marks the sandbox as busy until the guard is dropped; its idle time does not count meanwhile.
    pub(crate) async fn mark_busy(&self) -> BusyGuard {
        let activity = self.inner.activity.clone().read_owned().await;
        lock(&self.inner.expiry).begin();
        BusyGuard { inner: self.inner.clone(), _activity: activity }
    }

    /// Restarts its idle time, and returns whether it is still alive.
    pub(crate) fn touch(&self) -> bool {
        let mut timer = lock(&self.inner.expiry);
        timer.touch();
        // Checked under the lock under which `mark_expired` decides.
        self.termination_reason().is_none()
    }

    /// Stops its lifetime and idle time until [`restart_expiry`](Self::restart_expiry).
    pub(crate) fn stop_expiry(&self) {
        lock(&self.inner.expiry).stop();
    }

    /// Starts its lifetime and idle time from now, for its new owner.
    pub(crate) fn restart_expiry(&self) {
        lock(&self.inner.expiry).restart();
    }

    /// Returns a weak reference.
    pub(crate) fn downgrade(&self) -> WeakSandbox {
        WeakSandbox(Arc::downgrade(&self.inner))
    }

    /// Terminates the sandbox if it has exceeded a time limit or its guest has ended, and returns the reason.
    pub(crate) async fn terminate_if_overdue(&self) -> Option<TerminationReason> {
        let reason = self.overdue_reason().await?;
        tracing::info!(sandbox = self.name(), %reason, "removing sandbox");
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

    /// Marks the sandbox as terminated if its lifetime or idle time is over.
    fn mark_expired(&self) -> Option<ExceededLimit> {
        let timer = lock(&self.inner.expiry);
        let cause = timer.expired_limit(&self.inner.spec)?;
        // Under the lock, so that `touch` cannot return an expired sandbox as alive.
        let _ = self.inner.termination.set(TerminationReason::Limit(cause));
        Some(cause)
    }
}

/// Kills a guest, and waits for it for a limited time.
async fn kill_guest(handle: &dyn Handle, name: &str) {
    if tokio::time::timeout(KILL_TIMEOUT, handle.kill()).await.is_err() {
        tracing::warn!(sandbox = name, "a guest has not ended within {KILL_TIMEOUT:?}");
    }
}

/// A weak reference to a sandbox.
pub(crate) struct WeakSandbox(Weak<Inner>);

impl WeakSandbox {
    /// Returns the sandbox, if it still has a handle.
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

/// Guard of an operation in progress.
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
