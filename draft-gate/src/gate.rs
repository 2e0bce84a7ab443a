//! The gate of a workspace: its directories, its lock, and recovery after a crash.

use std::{path::Path, sync::Arc};

use serde_json::Value;

use crate::{
    audit::{LOG, Log, LogVerification, NewRecord, Record, record_fields},
    checks::ProjectChecks,
    confine::{Dir, Durability, Lock},
    contract::Contract,
    error::Error,
    hook::Hook,
    records::RecordDir,
};

pub(crate) const HANDOFF: &str = "_handoff";

/// The only directory in which workers may write files.
pub(crate) const DRAFTS: &str = "_handoff/drafts";

/// The review gate of a workspace.
///
/// Several processes may open the same gate. Each operation holds the workspace's lock. The first operation after a
/// crash completes or rolls back the operation that was interrupted.
///
/// ```
/// use draft_gate::{Decision, DraftRequest, Gate, Submission};
/// # let dir = tempfile::tempdir()?;
/// # let workspace = dir.path();
/// std::fs::write(workspace.join("hello.py"), "print('hello')\n")?;
/// let gate = Gate::open(workspace)?;
/// let worker = gate.worker("implementer")?;
/// let draft = worker.request(&DraftRequest::edit("hello.py", "greeting"))?;
/// worker.write(&draft.draft_path, "print('hello')\nprint('world')\n")?;
/// let submitted = worker.submit(&Submission::of(&draft, "greets everybody"))?;
/// let judgement = gate.judge(&submitted.set)?;
/// assert_eq!(judgement.decision, Decision::Accept);
/// assert_eq!(std::fs::read_to_string(workspace.join("hello.py"))?, "print('hello')\nprint('world')\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Gate {
    pub(crate) root: Dir,
    pub(crate) handoff: Dir,
    /// Directory of the gate's internal state.
    pub(crate) state: Dir,
    pub(crate) blobs: Dir,
    /// Records of drafts that were issued to workers.
    pub(crate) issued: RecordDir,
    /// Change sets that are not decided yet.
    pub(crate) sets: RecordDir,
    /// Decisions that are being executed.
    pub(crate) journal: RecordDir,
    /// Decided change sets, kept so that they can be undone and repeated queries can be answered.
    pub(crate) decided: RecordDir,
    /// Digests of rejected drafts, kept so that a worker can restore a draft.
    pub(crate) rejected: RecordDir,
    pub(crate) inboxes: Dir,
    pub(crate) checks: Option<Arc<dyn ProjectChecks>>,
}

impl Gate {
    /// Opens the gate of a workspace and creates its directories if they are missing. Only the current user can access
    /// these directories, because drafts are copies of files that may be private.
    pub fn open(workspace: impl AsRef<Path>) -> Result<Self, Error> {
        Self::open_with(workspace.as_ref(), Hook::default())
    }

    /// Opens a gate that calls `hook` with the operation and the path before every write and sync. Used by tests that
    /// kill the process or simulate a power failure at that point.
    #[doc(hidden)]
    pub fn open_with_hook(
        workspace: impl AsRef<Path>,
        hook: impl Fn(&'static str, &str) + Send + Sync + 'static,
    ) -> Result<Self, Error> {
        Self::open_with(workspace.as_ref(), Hook::new(hook))
    }

    fn open_with(workspace: &Path, hook: Hook) -> Result<Self, Error> {
        let refused = |source| Error::Workspace { path: workspace.to_owned(), source };
        let root = Dir::open_root(workspace, hook).map_err(refused)?;
        let handoff = root.create_dir(HANDOFF)?;
        handoff.private_dir("drafts")?;
        handoff.restrict_file_to_owner(LOG)?;
        let state = handoff.private_dir("gate")?;
        let gate = Self::from_dirs(root, handoff, state)?;
        let locked = gate.lock()?;
        if !gate.handoff.has(".gitignore") {
            let ignored = b"drafts/\ngate/\n".to_vec();
            gate.handoff.replace(".gitignore", ignored, Durability::PowerLoss)?;
        }
        drop(locked);
        Ok(gate)
    }

    fn from_dirs(root: Dir, handoff: Dir, state: Dir) -> Result<Self, Error> {
        let record_dir = |name: &str| state.private_dir(name).map(|dir| RecordDir { dir });
        Ok(Self {
            blobs: state.private_dir("blobs")?,
            issued: record_dir("issued")?,
            sets: record_dir("sets")?,
            journal: record_dir("journal")?,
            decided: record_dir("decided")?,
            rejected: record_dir("rejected")?,
            inboxes: state.private_dir("inbox")?,
            checks: None,
            root,
            handoff,
            state,
        })
    }

    /// Opens an existing gate, but does not recover from a crash and does not verify the log. Fails if the directory
    /// has no gate.
    pub fn open_unchecked(workspace: impl AsRef<Path>) -> Result<Self, Error> {
        let workspace = workspace.as_ref();
        let refused = |source| Error::Workspace { path: workspace.to_owned(), source };
        let root = Dir::open_root(workspace, Hook::default()).map_err(refused)?;
        let open = || -> Result<_, Error> {
            let handoff = root.subdir(HANDOFF)?;
            let state = handoff.subdir("gate")?;
            Ok((handoff, state))
        };
        let (handoff, state) = open().map_err(|error| match error {
            Error::Missing { .. } => Error::NoGate { path: workspace.to_owned() },
            other => other,
        })?;
        Self::from_dirs(root, handoff, state)
    }

    /// Sets the runner for project checks. If no runner is set and the contract has checks, every change set is
    /// escalated.
    pub fn with_checks(mut self, checks: impl ProjectChecks + 'static) -> Self {
        self.checks = Some(Arc::new(checks));
        self
    }

    pub(crate) fn contract(&self) -> Result<Contract, Error> {
        Contract::load(&self.handoff)
    }

    /// Verifies the whole log. Fails at the first line that the gate did not write.
    pub fn verify(&self) -> Result<LogVerification, Error> {
        let _lock = self.state.lock("lock")?;
        self.log().verify()
    }

    /// Returns whether any line in the log has this hash, for example a hash that [`verify`](Self::verify) returned
    /// earlier.
    pub fn has_line(&self, hash: &str) -> Result<bool, Error> {
        let _lock = self.state.lock("lock")?;
        self.log().has_line(hash)
    }

    pub fn records(&self) -> Result<Vec<Record>, Error> {
        let _lock = self.state.lock("lock")?;
        self.log().records()
    }

    /// Accepts the current end of the log after a loss, and records the loss in the log.
    pub fn acknowledge_loss(&self, agent: &str) -> Result<(), Error> {
        let _lock = self.state.lock("lock")?;
        self.log().acknowledge_loss(agent)
    }

    /// Waits for the lock, then completes or rolls back the operation that a crash interrupted, if any, and removes its
    /// temporary files.
    pub(crate) fn lock(&self) -> Result<LockedGate<'_>, Error> {
        let locked = LockedGate { gate: self, lock: self.state.lock("lock")? };
        locked.recover()?;
        if locked.lock.is_abandoned() {
            locked.remove_temp_files()?;
            locked.lock.mark_cleaned();
        }
        Ok(locked)
    }

    fn log(&self) -> Log<'_> {
        Log { handoff: &self.handoff, gate: &self.state }
    }
}

#[derive(Debug)]
pub(crate) struct LockedGate<'a> {
    pub(crate) gate: &'a Gate,
    lock: Lock,
}

impl LockedGate<'_> {
    /// Opens the drafts directory. It is opened again for each use, because workers may have replaced it. If it was
    /// moved away, a new one is created.
    pub(crate) fn drafts(&self) -> Result<Dir, Error> {
        match self.gate.root.subdir(DRAFTS) {
            Err(Error::Missing { .. }) => self.gate.root.subdir(HANDOFF)?.private_dir("drafts"),
            other => other,
        }
    }

    pub(crate) fn log(&self) -> Log<'_> {
        self.gate.log()
    }

    pub(crate) fn log_event<const N: usize>(
        &self,
        agent: &str,
        event: &str,
        task: &str,
        fields: [(&str, Value); N],
    ) -> Result<(), Error> {
        self.log().append(NewRecord { agent, event, task, more: record_fields(fields) })
    }
}
