//! A handle to one sandbox.

mod expiry;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    fmt,
    path::PathBuf,
    sync::{Arc, Mutex, OnceLock, Weak},
    time::Duration,
};

use serde::de::DeserializeOwned;
use tokio::sync::{OwnedRwLockReadGuard, RwLock};

use self::expiry::ExpiryTimer;
use crate::{
    Error,
    backend::{self, Guest, Handle, Snapshot},
    error::TerminationReason,
    limits::{ExceededLimit, Usage},
    protocol::message::{GuestCommand, ReseedResult},
    report::IsolationLevel,
    sandbox_dir::SandboxDir,
    session::{CloseReason, REPLY_TIMEOUT, RequestError, Session},
    spec::Spec,
    sync::lock,
};

/// Time limit for killing a guest. Anything that remains afterwards is removed by the next process that cleans up
/// orphans.
const KILL_TIMEOUT: Duration = Duration::from_secs(60);

/// A handle to one sandbox and its guest. Cheap to clone. The sandbox lives until it is deleted, it expires, or its
/// last handle is dropped. Dropping [`Sandboxes`](crate::Sandboxes) does not end a sandbox that still has a handle.
///
/// ```
/// use sandbox_vm::{Isolation, Program, Sandboxes, Spec, backend::InProcess, guest::Agent};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// // Not isolated, so that the example runs everywhere. For untrusted programs, use `Jail` or a stronger back end.
/// let sandboxes = Sandboxes::builder()
///     .backend(InProcess::new(Agent::new))
///     .isolation(Isolation::Off)
/// #   .state_dir(dir.path())
///     .open()
///     .await?;
/// let sandbox = sandboxes.create_if_not_exists(Spec::new("notes")).await?;
/// sandbox.fs().write("note.txt", "Buy tea.").await?;
/// let output = sandbox.exec(Program::new("cat").arg("note.txt")).await?;
/// assert!(output.success());
/// assert_eq!(output.stdout, b"Buy tea.");
/// sandbox.delete().await;
/// assert!(sandboxes.get("notes").is_none());
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Sandbox {
    inner: Arc<Inner>,
}

struct Inner {
    spec: Spec,
    backend: &'static str,
    level: IsolationLevel,
    graphs: Vec<String>,
    session: Session,
    handle: Arc<dyn Handle>,
    // These are std mutexes because they are held only briefly and never across an await.
    sandbox_dir: Mutex<Option<SandboxDir>>,
    expiry: Mutex<ExpiryTimer>,
    /// Every operation takes a read lock; taking a snapshot takes the write lock.
    activity: Arc<RwLock<()>>,
    termination: OnceLock<TerminationReason>,
    /// Locked while the guest is being terminated, so that concurrent callers wait until that is done.
    terminating: tokio::sync::Mutex<()>,
}

impl Sandbox {
    /// Performs the handshake with a guest that was just started, and returns the sandbox.
    pub(crate) async fn connect(
        spec: Spec,
        (backend_name, level): (&'static str, IsolationLevel),
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
            level,
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

    /// Returns the sandbox's name.
    pub fn name(&self) -> &str {
        &self.inner.spec.name
    }

    /// Returns the spec from which the sandbox was created.
    pub fn spec(&self) -> &Spec {
        &self.inner.spec
    }

    /// Returns the sandbox's labels.
    pub fn labels(&self) -> &BTreeMap<String, String> {
        &self.inner.spec.labels
    }

    /// Returns the name of the back end that runs the sandbox.
    pub fn backend(&self) -> &'static str {
        self.inner.backend
    }

    /// Returns whether the sandbox is isolated from the host. If it is not, callers must mark its results as not
    /// isolated.
    pub fn isolated(&self) -> bool {
        self.level() > IsolationLevel::Off
    }

    /// Returns how strongly the sandbox is isolated from the host.
    pub fn level(&self) -> IsolationLevel {
        self.inner.level
    }

    /// Returns the names of the graphs that the guest can run.
    pub fn graphs(&self) -> &[String] {
        &self.inner.graphs
    }

    /// Returns the resources that the sandbox has used so far, as measured by the host, or `None` if the back end
    /// cannot measure them.
    pub async fn usage(&self) -> Option<Usage> {
        self.inner.handle.usage().await
    }

    /// Checks that the guest responds.
    pub async fn ping(&self) -> Result<(), Error> {
        self.command(&GuestCommand::Ping, REPLY_TIMEOUT).await
    }

    /// Pauses the guest until [`resume`](Self::resume) is called, if the back end supports it. While the guest is
    /// paused, commands are refused, but the sandbox's lifetime and idle time continue to count.
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

    pub(crate) fn is_paused(&self) -> bool {
        self.inner.session.is_paused()
    }

    /// Writes the guest's whole state to a directory, if the back end supports it. The sandbox continues to run.
    ///
    /// The directory contains the guest's memory, including any secrets in it, and is accessible only to this user. The
    /// caller owns the directory and must delete it. This function fails if another operation is in progress.
    /// Operations that start while the snapshot is being taken wait until it is complete.
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
    /// # Ok(()) }
    /// ```
    pub async fn snapshot(&self, dir: impl Into<PathBuf>) -> Result<Snapshot, Error> {
        self.ensure_running()?;
        let Ok(_exclusive) = self.inner.activity.try_write() else {
            return Err(Error::Busy { name: self.name().to_owned() });
        };
        // After this reply, no message is in transit in either direction. A copy of the guest therefore starts with a
        // handshake and not in the middle of a message.
        if let Err(error) =
            self.inner.session.request::<()>(&GuestCommand::Ping, REPLY_TIMEOUT).await
        {
            return Err(self.handle_failure(error).await);
        }
        self.inner.handle.snapshot(dir.into()).await
    }

    /// Refreshes the guest's random state and clock, which is necessary after a snapshot is restored.
    pub(crate) async fn reseed(&self, seed: Vec<u8>) -> Result<ReseedResult, Error> {
        let time = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        self.command(&GuestCommand::Reseed { seed, time: time.unwrap_or_default() }, REPLY_TIMEOUT)
            .await
    }

    /// Terminates the guest and removes everything that belongs to the sandbox. Does nothing if the sandbox is already
    /// deleted.
    pub async fn delete(&self) {
        self.terminate(TerminationReason::Deleted).await;
    }

    /// Returns the reason why the sandbox terminated, or `None` if it is still alive.
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

    /// Converts a failed request to an error. Terminates the sandbox if its guest has exited, violated the protocol or
    /// timed out.
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

    /// Terminates a guest whose channel is closed, and returns the reason for the termination.
    pub(crate) async fn handle_close(&self, close: CloseReason) -> TerminationReason {
        let reason = match close {
            CloseReason::Protocol(error) => TerminationReason::ProtocolViolation(error),
            CloseReason::ChannelClosed => {
                // Read the output before the guest is killed, because some of it may still be arriving.
                let output = self.inner.handle.diagnostic_output().await;
                match self.inner.handle.termination_limit(&output).await {
                    Some(cause) => TerminationReason::Limit(cause),
                    None => TerminationReason::Exited(output),
                }
            }
        };
        self.terminate(reason).await
    }

    /// Terminates the guest for this reason. If a reason was set earlier, that reason stays. Returns the effective
    /// reason.
    pub(crate) async fn terminate(&self, reason: TerminationReason) -> TerminationReason {
        let reason = self.inner.termination.get_or_init(|| reason).clone();
        let inner = self.inner.clone();
        // Use a separate tokio task, which completes even if the caller is dropped, because nothing would retry the
        // termination.
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

    /// Returns an error if the sandbox has terminated or is paused, and so cannot accept commands.
    pub(crate) fn ensure_running(&self) -> Result<(), Error> {
        self.ensure_alive()?;
        match self.is_paused() {
            true => Err(Error::Paused { name: self.name().to_owned() }),
            false => Ok(()),
        }
    }

    /// Returns the limit that programs have exceeded since the last call, if the back end has detected one.
    pub(crate) async fn take_exceeded_limit(&self) -> Option<ExceededLimit> {
        self.inner.handle.exceeded_limit().await
    }

    /// Marks the sandbox as busy until the returned guard is dropped. Its idle time does not count while it is busy.
    pub(crate) async fn mark_busy(&self) -> BusyGuard {
        let activity = self.inner.activity.clone().read_owned().await;
        lock(&self.inner.expiry).begin();
        BusyGuard { inner: self.inner.clone(), _activity: activity }
    }

    /// Restarts the sandbox's idle time, and returns whether the sandbox is still alive.
    pub(crate) fn touch(&self) -> bool {
        let mut timer = lock(&self.inner.expiry);
        timer.touch();
        // Check this under the lock, because `mark_expired` sets the reason under the same lock.
        self.termination_reason().is_none()
    }

    /// Stops counting the sandbox's lifetime and idle time until [`restart_expiry`](Self::restart_expiry) is called.
    pub(crate) fn stop_expiry(&self) {
        lock(&self.inner.expiry).stop();
    }

    /// Starts counting the lifetime and idle time from now, because the sandbox has a new owner.
    pub(crate) fn restart_expiry(&self) {
        lock(&self.inner.expiry).restart();
    }

    pub(crate) fn downgrade(&self) -> WeakSandbox {
        WeakSandbox(Arc::downgrade(&self.inner))
    }

    /// Terminates the sandbox if it has exceeded a time limit or its guest has exited. Returns the reason if it did so.
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

    /// Marks the sandbox as terminated if its lifetime or idle time is over. Returns the exceeded limit, if any.
    fn mark_expired(&self) -> Option<ExceededLimit> {
        let timer = lock(&self.inner.expiry);
        let cause = timer.expired_limit(&self.inner.spec)?;
        // Set the reason under the lock, so that `touch` cannot report an expired sandbox as alive.
        let _ = self.inner.termination.set(TerminationReason::Limit(cause));
        Some(cause)
    }
}

/// Kills a guest and waits at most [`KILL_TIMEOUT`] for it to end.
async fn kill_guest(handle: &dyn Handle, name: &str) {
    if tokio::time::timeout(KILL_TIMEOUT, handle.kill()).await.is_err() {
        tracing::warn!(sandbox = name, "a guest has not ended within {KILL_TIMEOUT:?}");
    }
}

pub(crate) struct WeakSandbox(Weak<Inner>);

impl WeakSandbox {
    /// Returns a handle to the sandbox, if another handle still exists.
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

/// Marks an operation as in progress until this value is dropped.
pub(crate) struct BusyGuard {
    inner: Arc<Inner>,
    _activity: OwnedRwLockReadGuard<()>,
}

impl BusyGuard {
    /// Returns whether this is the only operation in progress.
    pub(crate) fn is_only_operation(&self) -> bool {
        lock(&self.inner.expiry).has_single_operation()
    }
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
