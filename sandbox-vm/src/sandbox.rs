//! A sandbox: the handle to one guest.

mod clock;
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

use self::clock::Clock;
use crate::{
    Error,
    backend::{self, Guest, Handle, Snapshot},
    berth::Berth,
    error::Gone,
    files::Files,
    limits::{Cause, Usage},
    protocol::message::{Order, Reseeded},
    session::{AskError, Closed, Session},
    spec::Spec,
};

/// How long a guest has for what takes no time.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// How long a guest has to end. What is left of it then is left to whoever cleans up after a crash.
const ENDING: Duration = Duration::from_secs(60);

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
    berth: Mutex<Option<Berth>>,
    clock: Mutex<Clock>,
    /// Held by all that is under way, and alone by whoever takes a snapshot.
    quiet: Arc<RwLock<()>>,
    gone: OnceLock<Gone>,
    /// Held while the guest is taken down, so that whoever else wants that waits for it.
    ending: tokio::sync::Mutex<()>,
}

impl Sandbox {
    /// Greets a guest that was started.
    pub(crate) async fn greet(
        spec: Spec,
        (by, isolated): (&'static str, bool),
        berth: Berth,
        guest: Guest,
        patience: Duration,
    ) -> Result<Self, Error> {
        let Guest { channel, handle } = guest;
        let (session, hello) = match Session::open(channel, patience).await {
            Ok(opened) => opened,
            Err(error) => {
                let refused = backend::refused(&*handle, error);
                let problem = match tokio::time::timeout(ENDING, refused).await {
                    Ok(problem) => problem,
                    Err(_) => format!("it did not greet, and has not ended within {ENDING:?}"),
                };
                return Err(Error::Start { backend: by, problem });
            }
        };
        let inner = Inner {
            spec,
            backend: by,
            isolated,
            graphs: hello.graphs,
            session,
            handle,
            berth: Mutex::new(Some(berth)),
            clock: Mutex::new(Clock::start()),
            quiet: Arc::default(),
            gone: OnceLock::new(),
            ending: tokio::sync::Mutex::default(),
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
        self.order(&Order::Ping, PATIENCE).await
    }

    /// Stops it until [`resume`](Self::resume), where the back end can; its time goes on. Nothing can be asked of it
    /// meanwhile.
    pub async fn pause(&self) -> Result<(), Error> {
        self.check()?;
        self.inner.handle.pause().await?;
        self.inner.session.set_paused(true);
        Ok(())
    }

    /// Lets it go on.
    pub async fn resume(&self) -> Result<(), Error> {
        self.check()?;
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
    pub async fn snapshot(&self, folder: impl Into<PathBuf>) -> Result<Snapshot, Error> {
        self.check_running()?;
        let Ok(_alone) = self.inner.quiet.try_write() else {
            return Err(Error::Busy { name: self.name().to_owned() });
        };
        // Once this is answered nothing is on its way in either direction: a copy of the guest starts with a greeting,
        // and not in the middle of a message.
        if let Err(error) = self.inner.session.ask::<()>(&Order::Ping, PATIENCE).await {
            return Err(self.failed(error).await);
        }
        self.inner.handle.snapshot(folder.into()).await
    }

    /// Gives it fresh randomness and the time, as after a snapshot was restored.
    pub(crate) async fn reseed(&self, seed: Vec<u8>) -> Result<Reseeded, Error> {
        let time = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        self.order(&Order::Reseed { seed, time: time.unwrap_or_default() }, PATIENCE).await
    }

    /// Ends it and removes all that belongs to it. Deleting it again does nothing.
    pub async fn delete(&self) {
        self.end(Gone::Deleted).await;
    }

    /// Why it is no more, if it is not.
    pub fn gone(&self) -> Option<&Gone> {
        self.inner.gone.get()
    }

    pub(crate) fn session(&self) -> &Session {
        &self.inner.session
    }

    /// Asks the guest something and waits for its answer.
    pub(crate) async fn order<T: DeserializeOwned>(
        &self,
        order: &Order,
        patience: Duration,
    ) -> Result<T, Error> {
        self.check_running()?;
        let _busy = self.busy().await;
        match self.inner.session.ask(order, patience).await {
            Ok(answer) => Ok(answer),
            Err(error) => Err(self.failed(error).await),
        }
    }

    /// What a failed question means. A guest that died, lied or fell silent is taken down.
    pub(crate) async fn failed(&self, error: AskError) -> Error {
        let name = self.name().to_owned();
        match error {
            AskError::Fault(fault) => Error::Guest { name, fault },
            AskError::NoAnswer(after) => {
                self.end(Gone::Limit(Cause::Wall)).await;
                Error::NoAnswer { name, after }
            }
            AskError::Closed(closed) => Error::Gone { name, why: self.closed(closed).await },
        }
    }

    /// Takes down a guest whose channel is closed, and says why it is gone.
    pub(crate) async fn closed(&self, closed: Closed) -> Gone {
        let why = match closed {
            Closed::Protocol(error) => Gone::Protocol(error),
            Closed::Ended => match self.inner.handle.cause().await {
                Some(cause) => Gone::Limit(cause),
                // Before it is ended: what it says last may still be on its way.
                None => Gone::Ended(self.inner.handle.last_words().await),
            },
        };
        self.end(why).await
    }

    /// Ends it for this reason, unless it has ended for another; returns the one that counts.
    pub(crate) async fn end(&self, why: Gone) -> Gone {
        let why = self.inner.gone.get_or_init(|| why).clone();
        let inner = self.inner.clone();
        // A task of its own, which goes on though whoever waits for it is dropped: from here on nobody looks after it.
        let ending = tokio::spawn(async move {
            let _ending = inner.ending.lock().await;
            kill(&*inner.handle, &inner.spec.name).await;
            drop(lock(&inner.berth).take());
        });
        if let Err(error) = ending.await {
            tracing::warn!(sandbox = self.name(), %error, "a guest may not have ended");
        }
        why
    }

    /// An error if it is no more.
    pub(crate) fn check(&self) -> Result<(), Error> {
        match self.inner.gone.get() {
            Some(why) => Err(Error::Gone { name: self.name().to_owned(), why: why.clone() }),
            None => Ok(()),
        }
    }

    /// An error if nothing can be asked of it: it is no more, or paused.
    pub(crate) fn check_running(&self) -> Result<(), Error> {
        self.check()?;
        match self.inner.session.is_paused() {
            true => Err(Error::Paused { name: self.name().to_owned() }),
            false => Ok(()),
        }
    }

    /// The limit that its guest ran into since this was last asked, as far as the back end knows.
    pub(crate) async fn cause(&self) -> Option<Cause> {
        self.inner.handle.cause().await
    }

    /// Marks it as busy until the guard is dropped: it does not expire for idleness meanwhile.
    pub(crate) async fn busy(&self) -> Busy {
        let quiet = self.inner.quiet.clone().read_owned().await;
        lock(&self.inner.clock).begin();
        Busy { inner: self.inner.clone(), _not_quiet: quiet }
    }

    /// Counts its idle time from now, and says whether it still lives.
    pub(crate) fn touch(&self) -> bool {
        let mut clock = lock(&self.inner.clock);
        clock.touch();
        // Looked at under the lock, as it is judged under the lock.
        self.gone().is_none()
    }

    /// Stops its clock: until somebody takes it over, it does not expire.
    pub(crate) fn wait_for_owner(&self) {
        lock(&self.inner.clock).stop();
    }

    /// Counts its time from now, for its new owner.
    pub(crate) fn take_over(&self) {
        lock(&self.inner.clock).start_again();
    }

    /// A way to it that does not keep it.
    pub(crate) fn downgrade(&self) -> WeakSandbox {
        WeakSandbox(Arc::downgrade(&self.inner))
    }

    /// Ends it if it has passed a limit of time; or says why it ended by itself.
    pub(crate) async fn end_if_overdue(&self) -> Option<Gone> {
        let why = self.overdue().await?;
        tracing::info!(sandbox = self.name(), %why, "removing a sandbox");
        Some(self.end(why).await)
    }

    async fn overdue(&self) -> Option<Gone> {
        let inner = &self.inner;
        if let Some(closed) = inner.session.closed() {
            return Some(self.closed(closed).await);
        }
        if let Some(cause) = self.expire() {
            return Some(Gone::Limit(cause));
        }
        let limit = inner.spec.limits.cpu_time?;
        let is_over = inner.handle.usage().await.is_some_and(|it| it.cpu >= limit);
        is_over.then_some(Gone::Limit(Cause::CpuTime))
    }

    /// Marks it as gone if its time is over.
    fn expire(&self) -> Option<Cause> {
        let clock = lock(&self.inner.clock);
        let cause = clock.passed(&self.inner.spec)?;
        // Under the lock: nobody is given it after it was judged.
        let _ = self.inner.gone.set(Gone::Limit(cause));
        Some(cause)
    }
}

/// Ends a guest, and waits for that as long as it is sensible.
async fn kill(handle: &dyn Handle, name: &str) {
    if tokio::time::timeout(ENDING, handle.kill()).await.is_err() {
        tracing::warn!(sandbox = name, "a guest has not ended within {ENDING:?}");
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
            .field("gone", &self.inner.gone.get())
            .finish_non_exhaustive()
    }
}

/// Something is under way in a sandbox.
pub(crate) struct Busy {
    inner: Arc<Inner>,
    _not_quiet: OwnedRwLockReadGuard<()>,
}

impl fmt::Debug for Busy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Busy")
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        lock(&self.inner.clock).finish();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
