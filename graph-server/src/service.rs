//! The service: runs that are started, watched, stopped and gone on with. It knows nothing of HTTP.
//!
//! A run is *live* while it waits for its turn or somebody works on it. All live runs are in one map; whoever wants to
//! know how another one stands asks the registry. A run enters the map before the registry calls it live, and leaves it
//! after the registry calls it something else, so that nobody finds it in neither.

mod feed;
mod reader;
mod work;

use std::{
    collections::{HashMap, hash_map::Entry},
    fmt, io,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use serde_json::Value;
use tokio::{
    sync::{Semaphore, watch},
    time,
};

pub(crate) use feed::Feed;
pub use reader::{Read, Reader};

use crate::{
    registry::{Registry, RegistryError},
    run::{NewRun, RunEvent, RunInfo, Status, is_id},
    runner::Runner,
};

/// Runs that are put aside get so long to let go.
const ASIDE: Duration = Duration::from_secs(10);

/// Runs that are started, watched, stopped and gone on with. Clones are the same service.
#[derive(Debug, Clone)]
pub struct Service {
    inner: Arc<Inner>,
}

/// How much a service takes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity {
    /// So many runs are worked on at once.
    pub at_once: usize,
    /// So many more may wait for their turn.
    pub queued: usize,
}

impl Default for Capacity {
    fn default() -> Self {
        Self { at_once: 8, queued: 1000 }
    }
}

/// Why a service cannot do what it is asked for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServiceError {
    /// There is no such run.
    #[error("there is no run `{0}`")]
    Unknown(String),
    /// A run's id cannot be one, or is taken.
    #[error("`{0}` cannot be a new run's id")]
    Id(String),
    /// The run is live.
    #[error("the run `{0}` goes on already")]
    Live(String),
    /// The run is complete.
    #[error("the run `{0}` is complete; there is nothing to go on with")]
    Over(String),
    /// The run rests.
    #[error("the run `{id}` is {}; there is nothing to stop", status.name())]
    NotLive {
        /// The run.
        id: String,
        /// Where it stands.
        status: Status,
    },
    /// Too many runs wait.
    #[error("{0} runs wait for their turn already; try again later")]
    Full(usize),
    /// The server ends.
    #[error("the server is shutting down; try again when it is back")]
    Closing,
    /// The list of runs cannot be read or written.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// A run's events cannot be read.
    #[error("the events of `{id}`: {source}")]
    Events {
        /// The run.
        id: String,
        /// Why not.
        source: io::Error,
    },
    /// A thread that reads or writes files panicked.
    #[error("an internal thread failed: {0}")]
    Thread(#[from] tokio::task::JoinError),
}

/// What all clones share.
pub(crate) struct Inner {
    registry: Registry,
    runner: Arc<dyn Runner>,
    capacity: Capacity,
    turns: Arc<Semaphore>,
    live: Mutex<HashMap<String, Arc<Live>>>,
    closing: watch::Sender<bool>,
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inner").field("capacity", &self.capacity).finish_non_exhaustive()
    }
}

/// A run that is live.
struct Live {
    feed: Arc<Feed>,
    stop: watch::Sender<Option<Stop>>,
}

impl Live {
    /// Tells it to stop, unless it was told before.
    fn stop(&self, why: Stop) {
        self.stop.send_if_modified(|it| {
            let is_first = it.is_none();
            it.get_or_insert(why);
            is_first
        });
    }
}

/// Why a live run is to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    /// Somebody wants it to.
    Cancelled,
    /// The server ends. It goes on when the server is back.
    PutAside,
}

impl Service {
    /// Opens a service, and goes on with every run that a server before it did not finish.
    pub async fn open(
        registry: Registry,
        runner: Arc<dyn Runner>,
        capacity: Capacity,
    ) -> Result<Self, ServiceError> {
        let inner = Arc::new(Inner {
            registry,
            runner,
            capacity,
            turns: Arc::new(Semaphore::new(capacity.at_once.max(1))),
            live: Mutex::default(),
            closing: watch::Sender::new(false),
        });
        for run in inner.blocking(|it| it.unfinished()).await? {
            tracing::info!(run = run.id, "goes on after a restart");
            let live = Inner::enter(&mut inner.map(), &run.id)?;
            inner.work(run, live);
        }
        Ok(Self { inner })
    }

    /// Starts a run. Whoever stops waiting for it has started it all the same.
    pub async fn start(&self, new: NewRun) -> Result<RunInfo, ServiceError> {
        let service = self.clone();
        tokio::spawn(async move { service.start_now(new).await }).await?
    }

    async fn start_now(&self, new: NewRun) -> Result<RunInfo, ServiceError> {
        if !is_id(&new.id) {
            return Err(ServiceError::Id(new.id));
        }
        let id = new.id.clone();
        let live = self.inner.admit(&id)?;
        let added = self.inner.blocking(move |it| it.add(&new)).await;
        match added {
            Ok(Some(run)) => {
                self.inner.work(run.clone(), live);
                Ok(run)
            }
            other => {
                self.inner.leave(&id);
                other.and(Err(ServiceError::Id(id)))
            }
        }
    }

    /// Goes on with a run that rests, with an order that its runner understands; with a complete one only where its
    /// runner says that something is left. Whoever stops waiting for it has asked for it all the same.
    pub async fn resume(&self, id: &str, order: Value) -> Result<RunInfo, ServiceError> {
        let (service, id) = (self.clone(), id.to_owned());
        tokio::spawn(async move { service.resume_now(&id, order).await }).await?
    }

    async fn resume_now(&self, id: &str, order: Value) -> Result<RunInfo, ServiceError> {
        self.inner.get(id).await?;
        let live = self.inner.admit(id)?;
        match self.inner.requeue(id, order).await {
            Ok(run) => {
                self.inner.work(run.clone(), live);
                Ok(run)
            }
            Err(error) => {
                self.inner.leave(id);
                Err(error)
            }
        }
    }

    /// Stops a live run, and waits until nobody works on it any more. One that waits for an answer is given up. Either
    /// can still be gone on with.
    pub async fn cancel(&self, id: &str) -> Result<RunInfo, ServiceError> {
        let run = self.inner.get(id).await?;
        if let Some(live) = self.inner.live(id) {
            live.stop(Stop::Cancelled);
            let mut head = live.feed.watch();
            let _ = head.wait_for(|it| it.is_done).await;
            return self.inner.get(id).await;
        }
        if run.status != Status::Waiting {
            return Err(ServiceError::NotLive { id: run.id, status: run.status });
        }
        let inner = self.inner.clone();
        tokio::spawn(async move { inner.give_up(&run.id).await }).await?
    }

    /// A run.
    pub async fn get(&self, id: &str) -> Result<RunInfo, ServiceError> {
        self.inner.get(id).await
    }

    /// Runs, the newest first, at most so many; with `before`, those that were made before that one.
    pub async fn list(
        &self,
        before: Option<String>,
        most: usize,
    ) -> Result<Vec<RunInfo>, ServiceError> {
        self.inner.blocking(move |it| it.list(before.as_deref(), most)).await
    }

    /// How many runs have each status.
    pub async fn count(&self) -> Result<Vec<(Status, u64)>, ServiceError> {
        self.inner.blocking(|it| it.count()).await
    }

    /// Says whether new runs are taken, and the list of runs can be read.
    pub async fn ready(&self) -> Result<(), ServiceError> {
        self.inner.room(self.inner.map().len())?;
        self.count().await.map(drop)
    }

    /// Reads a run's events, those after this number.
    pub async fn read(&self, id: &str, after: u64) -> Result<Reader, ServiceError> {
        self.inner.get(id).await?;
        Ok(Reader { inner: self.inner.clone(), id: id.to_owned(), after })
    }

    /// The stored events of a run after a number, at most so many.
    pub async fn stored(
        &self,
        id: &str,
        after: u64,
        most: usize,
    ) -> Result<Vec<RunEvent>, ServiceError> {
        self.inner.get(id).await?;
        self.inner.stored(id, after, most).await
    }

    /// Takes no more runs, gives the live ones so much time to come to their end, and puts the others aside: they go on
    /// when the service is opened again. Readers are sent away at once.
    pub async fn shut_down(&self, grace: Duration) {
        self.inner.closing.send_replace(true);
        let all_done = async {
            for live in self.inner.all_live() {
                let _ = live.feed.watch().wait_for(|it| it.is_done).await;
            }
        };
        if time::timeout(grace, all_done).await.is_ok() {
            return;
        }
        let left = self.inner.all_live();
        tracing::info!(runs = left.len(), "puts runs aside");
        for live in &left {
            live.stop(Stop::PutAside);
        }
        let all_aside = async {
            for live in left {
                let _ = live.feed.watch().wait_for(|it| it.is_done).await;
            }
        };
        if time::timeout(ASIDE, all_aside).await.is_err() {
            tracing::warn!("runs do not let go; they go on at the next start all the same");
        }
    }
}

impl Inner {
    fn map(&self) -> std::sync::MutexGuard<'_, HashMap<String, Arc<Live>>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn live(&self, id: &str) -> Option<Arc<Live>> {
        self.map().get(id).cloned()
    }

    fn all_live(&self) -> Vec<Arc<Live>> {
        self.map().values().cloned().collect()
    }

    /// Refuses one more run, besides so many that are live, where there is no room for it.
    fn room(&self, live: usize) -> Result<(), ServiceError> {
        if *self.closing.borrow() {
            return Err(ServiceError::Closing);
        }
        let Capacity { at_once, queued } = self.capacity;
        let is_full = live >= at_once.saturating_add(queued);
        if is_full { Err(ServiceError::Full(live.saturating_sub(at_once))) } else { Ok(()) }
    }

    /// Puts a run into the map, unless it is there or there is no room.
    fn admit(&self, id: &str) -> Result<Arc<Live>, ServiceError> {
        let mut map = self.map();
        self.room(map.len())?;
        Self::enter(&mut map, id)
    }

    fn enter(map: &mut HashMap<String, Arc<Live>>, id: &str) -> Result<Arc<Live>, ServiceError> {
        match map.entry(id.to_owned()) {
            Entry::Occupied(_) => Err(ServiceError::Live(id.to_owned())),
            Entry::Vacant(place) => {
                let live = Live { feed: Arc::new(Feed::new()), stop: watch::Sender::new(None) };
                Ok(place.insert(Arc::new(live)).clone())
            }
        }
    }

    fn leave(&self, id: &str) {
        if let Some(live) = self.map().remove(id) {
            live.feed.close();
        }
    }

    /// Notes that nobody waits for a run's answer any more.
    async fn give_up(&self, id: &str) -> Result<RunInfo, ServiceError> {
        // In the map, so that nobody goes on with it meanwhile.
        Self::enter(&mut self.map(), id)?;
        let name = id.to_owned();
        let given_up = self.blocking(move |it| {
            if it.get(&name)?.is_some_and(|run| run.status == Status::Waiting) {
                it.set(&name, Status::Cancelled, None, &Value::Null)?;
            }
            it.get(&name)
        });
        let run = given_up.await;
        self.leave(id);
        run?.ok_or_else(|| ServiceError::Unknown(id.to_owned()))
    }

    /// Puts a run that was admitted back into the queue, unless nothing of it is left to do.
    async fn requeue(&self, id: &str, order: Value) -> Result<RunInfo, ServiceError> {
        let (runner, name) = (self.runner.clone(), id.to_owned());
        let queued = self.blocking(move |it| {
            let over = |it: &RunInfo| it.status == Status::Complete && !runner.is_open(it);
            if it.get(&name)?.as_ref().is_none_or(over) {
                return Ok(None);
            }
            it.requeue(&name, &order)?;
            it.get(&name)
        });
        queued.await?.ok_or_else(|| ServiceError::Over(id.to_owned()))
    }

    async fn get(&self, id: &str) -> Result<RunInfo, ServiceError> {
        let name = id.to_owned();
        let found = self.blocking(move |it| it.get(&name)).await?;
        found.ok_or_else(|| ServiceError::Unknown(id.to_owned()))
    }

    async fn stored(
        &self,
        id: &str,
        after: u64,
        most: usize,
    ) -> Result<Vec<RunEvent>, ServiceError> {
        let (runner, name) = (self.runner.clone(), id.to_owned());
        let read = tokio::task::spawn_blocking(move || runner.events(&name, after, most)).await?;
        read.map_err(|source| ServiceError::Events { id: id.to_owned(), source })
    }

    /// Asks the registry, which may have to wait for the disk.
    async fn blocking<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&Registry) -> Result<T, RegistryError> + Send + 'static,
    ) -> Result<T, ServiceError> {
        let registry = self.registry.clone();
        Ok(tokio::task::spawn_blocking(move || ask(&registry)).await??)
    }
}
