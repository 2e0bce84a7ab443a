//! A saver that kills its own process before or after a given write.

use std::{
    fmt,
    path::PathBuf,
    str::FromStr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use async_trait::async_trait;
use graph_core::checkpoint::{
    CheckpointError, Checkpointer, Lease, Write,
    testkit::{Around, Way},
};
use rustix::process::{Signal, getpid, kill_process};

use super::trail::{self, Ack};

/// What is to go wrong. Write points are counted from 1, over the life of the process: each checkpoint, each
/// batch of records, and the taking and the giving back of a lease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Plan {
    /// Nothing.
    #[default]
    Live,
    /// The process dies before a write.
    Before(usize),
    /// The process dies once a write is answered, and before anybody hears of it.
    After(usize),
    /// From this write on nothing is stored, and all is answered as if it were; a few writes later the process dies.
    /// It shows that the checks can fail.
    Lie(usize),
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Live => f.write_str("live"),
            Self::Before(nth) => write!(f, "before:{nth}"),
            Self::After(nth) => write!(f, "after:{nth}"),
            Self::Lie(nth) => write!(f, "lie:{nth}"),
        }
    }
}

/// A text that is no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is none of `live`, `before:N`, `after:N`, `lie:N`")]
pub struct BadPlan(String);

impl FromStr for Plan {
    type Err = BadPlan;

    fn from_str(text: &str) -> Result<Self, BadPlan> {
        let bad = || BadPlan(text.to_owned());
        if text == "live" {
            return Ok(Self::Live);
        }
        let (when, nth) = text.split_once(':').ok_or_else(bad)?;
        let nth = nth.parse().map_err(|_| bad())?;
        match when {
            "before" => Ok(Self::Before(nth)),
            "after" => Ok(Self::After(nth)),
            "lie" => Ok(Self::Lie(nth)),
            _ => Err(bad()),
        }
    }
}

/// How many writes a liar gets to tell of before the process dies.
const LIES: usize = 4;

/// A way that ends with the process. What was answered is noted in a file, for who looks at the store later.
#[derive(Clone, Debug)]
pub struct Dying(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    plan: Plan,
    n_writes: AtomicUsize,
    acks: PathBuf,
}

impl Dying {
    /// Acts by the plan before a saver, and notes in the file what was stored.
    pub fn before(
        inner: Arc<dyn Checkpointer>,
        plan: Plan,
        acks: impl Into<PathBuf>,
    ) -> Around<Self> {
        let shared = Shared { plan, n_writes: AtomicUsize::new(0), acks: acks.into() };
        Around::new(inner, Self(Arc::new(shared)))
    }

    /// How many write points were passed.
    #[must_use]
    pub fn n_writes(&self) -> usize {
        self.0.n_writes.load(Ordering::SeqCst)
    }
}

impl Shared {
    /// Counts write points and gives the number of the first.
    fn pass(&self, n_points: usize) -> usize {
        self.n_writes.fetch_add(n_points, Ordering::SeqCst) + 1
    }

    fn die_before(&self, nth: usize) {
        if self.plan == Plan::Before(nth) {
            die();
        }
    }

    fn die_after(&self, nth: usize) {
        if self.plan == Plan::After(nth) {
            die();
        }
    }

    /// Whether writes are only said to be stored. A liar that has said enough dies.
    fn lies(&self, first: usize, n_writes: usize) -> bool {
        let Plan::Lie(from) = self.plan else { return false };
        if first > from + LIES {
            die();
        }
        first + n_writes > from
    }

    fn note(&self, acks: &[Ack]) -> Result<(), CheckpointError> {
        trail::note(&self.acks, acks).map_err(|it| CheckpointError::Storage(Arc::new(it)))
    }

    /// If the process dies in the middle of these writes: how many of them are made before.
    fn last_breath(&self, first: usize, n_writes: usize) -> Option<usize> {
        let (nth, itself) = match self.plan {
            Plan::Before(nth) => (nth, 0),
            Plan::After(nth) => (nth, 1),
            Plan::Live | Plan::Lie(_) => return None,
        };
        let index = nth.checked_sub(first).filter(|it| *it < n_writes)?;
        Some(index + itself)
    }
}

/// Ends the process as the system would: no destructor runs, nothing is flushed.
fn die() -> ! {
    let _ = kill_process(getpid(), Signal::KILL);
    // Signals to oneself are delivered before the call returns.
    unreachable!("a process outlived SIGKILL")
}

/// A lease whose end is a write point too.
struct Release {
    lease: Option<Lease>,
    shared: Arc<Shared>,
}

impl Drop for Release {
    fn drop(&mut self) {
        let nth = self.shared.pass(1);
        self.shared.die_before(nth);
        drop(self.lease.take());
        self.shared.die_after(nth);
    }
}

#[async_trait]
impl Way for Dying {
    /// Each of the writes is a point of its own: a saver may store any first part of them.
    async fn write(
        &self,
        to: &dyn Checkpointer,
        mut writes: Vec<Write>,
    ) -> Result<(), CheckpointError> {
        let first = self.0.pass(writes.len());
        if let Some(cut) = self.0.last_breath(first, writes.len()) {
            writes.truncate(cut);
            if !writes.is_empty() {
                let acks = trail::acks_of(&writes);
                to.write(writes).await?;
                self.0.note(&acks)?;
            }
            die();
        }
        let (acks, n_writes) = (trail::acks_of(&writes), writes.len());
        if !self.0.lies(first, n_writes) {
            to.write(writes).await?;
        }
        self.0.note(&acks)
    }

    async fn lease(&self, from: &dyn Checkpointer, thread: &str) -> Result<Lease, CheckpointError> {
        let nth = self.0.pass(1);
        self.0.die_before(nth);
        let lease = from.lease(thread).await?;
        self.0.die_after(nth);
        Ok(Lease::new(Release { lease: Some(lease), shared: self.0.clone() }))
    }
}
