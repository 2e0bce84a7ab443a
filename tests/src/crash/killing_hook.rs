//! A write hook that kills its own process before or after a given write.

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
use checkpoint_testkit::{HookedSaver, WriteHook};
use graph_core::checkpoint::{CheckpointError, CheckpointWrite, Checkpointer, Lease};
use rustix::process::{Signal, getpid, kill_process};

use super::logs::{self, Ack};

/// Determines when the process is killed. Write points are numbered from 1 over the lifetime of the process. Each
/// checkpoint, each batch of records, and each acquisition and release of a lease is a write point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CrashPlan {
    #[default]
    NoCrash,
    /// The process is killed before this write.
    Before(usize),
    /// The process is killed after this write has been acknowledged and before the engine sees the acknowledgement.
    After(usize),
    /// From this write on, writes are acknowledged but not stored. A few writes later, the process is killed. This
    /// plan verifies that the checks detect lost writes.
    DropFrom(usize),
}

impl fmt::Display for CrashPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCrash => f.write_str("live"),
            Self::Before(nth) => write!(f, "before:{nth}"),
            Self::After(nth) => write!(f, "after:{nth}"),
            Self::DropFrom(nth) => write!(f, "drop:{nth}"),
        }
    }
}

/// The error returned when a text is not a valid plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid plan `{0}`; expected `live`, `before:N`, `after:N` or `drop:N`")]
pub struct PlanError(String);

impl FromStr for CrashPlan {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<Self, PlanError> {
        let invalid = || PlanError(text.to_owned());
        if text == "live" {
            return Ok(Self::NoCrash);
        }
        let (when, nth) = text.split_once(':').ok_or_else(invalid)?;
        let nth = nth.parse().map_err(|_| invalid())?;
        match when {
            "before" => Ok(Self::Before(nth)),
            "after" => Ok(Self::After(nth)),
            "drop" => Ok(Self::DropFrom(nth)),
            _ => Err(invalid()),
        }
    }
}

/// Number of writes that are acknowledged but not stored before the process is killed.
const DROPPED_WRITES: usize = 4;

/// A hook that kills the process according to a plan. Acknowledged writes are appended to a file, so that they can
/// later be compared with the store.
#[derive(Clone, Debug)]
pub struct KillingHook(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    plan: CrashPlan,
    n_writes: AtomicUsize,
    acks: PathBuf,
}

impl KillingHook {
    /// Wraps a saver with a hook. Acknowledged writes are appended to the file `acks`.
    pub fn before(
        inner: Arc<dyn Checkpointer>,
        plan: CrashPlan,
        acks: impl Into<PathBuf>,
    ) -> HookedSaver<Self> {
        let shared = Shared { plan, n_writes: AtomicUsize::new(0), acks: acks.into() };
        HookedSaver::new(inner, Self(Arc::new(shared)))
    }

    /// Returns the number of write points that the process has passed.
    pub fn n_writes(&self) -> usize {
        self.0.n_writes.load(Ordering::SeqCst)
    }
}

impl Shared {
    /// Adds `n_points` to the number of write points, and returns the number of the first new write point.
    fn count_points(&self, n_points: usize) -> usize {
        self.n_writes.fetch_add(n_points, Ordering::SeqCst) + 1
    }

    fn kill_at(&self, point: CrashPlan) {
        if self.plan == point {
            kill_self();
        }
    }

    /// Returns whether writes should be acknowledged without being stored. Kills the process once enough writes
    /// have been dropped.
    fn drops_writes(&self, first: usize, n_writes: usize) -> bool {
        let CrashPlan::DropFrom(from) = self.plan else { return false };
        if first > from + DROPPED_WRITES {
            kill_self();
        }
        first + n_writes > from
    }

    fn append_acks(&self, acks: &[Ack]) -> Result<(), CheckpointError> {
        logs::append_acks(&self.acks, acks).map_err(|it| CheckpointError::Storage(Arc::new(it)))
    }

    /// Returns how many of these writes are made before the process is killed. Returns `None` if the process is not
    /// killed at one of them.
    fn writes_before_kill(&self, first: usize, n_writes: usize) -> Option<usize> {
        let (nth, included) = match self.plan {
            CrashPlan::Before(nth) => (nth, 0),
            CrashPlan::After(nth) => (nth, 1),
            CrashPlan::NoCrash | CrashPlan::DropFrom(_) => return None,
        };
        let index = nth.checked_sub(first).filter(|it| *it < n_writes)?;
        Some(index + included)
    }
}

/// Kills the process without running destructors or flushing buffers.
fn kill_self() -> ! {
    let _ = kill_process(getpid(), Signal::KILL);
    // A signal that a process sends to itself is delivered before the call returns.
    unreachable!("the process survived SIGKILL")
}

/// A lease whose release also counts as a write point.
struct LeaseRelease {
    lease: Option<Lease>,
    shared: Arc<Shared>,
}

impl Drop for LeaseRelease {
    fn drop(&mut self) {
        let nth = self.shared.count_points(1);
        self.shared.kill_at(CrashPlan::Before(nth));
        drop(self.lease.take());
        self.shared.kill_at(CrashPlan::After(nth));
    }
}

#[async_trait]
impl WriteHook for KillingHook {
    /// Each write is a separate write point, because a saver may store any prefix of the writes.
    async fn write(
        &self,
        to: &dyn Checkpointer,
        mut writes: Vec<CheckpointWrite>,
    ) -> Result<(), CheckpointError> {
        let first = self.0.count_points(writes.len());
        if let Some(cut) = self.0.writes_before_kill(first, writes.len()) {
            writes.truncate(cut);
            if !writes.is_empty() {
                let acks = logs::acks_of(&writes);
                to.write(writes).await?;
                self.0.append_acks(&acks)?;
            }
            kill_self();
        }
        let (acks, n_writes) = (logs::acks_of(&writes), writes.len());
        if !self.0.drops_writes(first, n_writes) {
            to.write(writes).await?;
        }
        self.0.append_acks(&acks)
    }

    async fn lease(&self, from: &dyn Checkpointer, thread: &str) -> Result<Lease, CheckpointError> {
        let nth = self.0.count_points(1);
        self.0.kill_at(CrashPlan::Before(nth));
        let lease = from.lease(thread).await?;
        self.0.kill_at(CrashPlan::After(nth));
        Ok(Lease::new(LeaseRelease { lease: Some(lease), shared: self.0.clone() }))
    }
}
