//! The gate of one workspace: its folders, its lock, and what it does before anything else.

use std::{path::Path, sync::Arc};

use serde_json::Value;

use crate::{
    audit::{LOG, Log, NewRecord, Record, Verified, record_fields},
    checks::ProjectChecks,
    confine::{Folder, Keep, Lock},
    contract::Contract,
    error::Error,
    hook::Hook,
    path::plain_name,
    registry::Shelf,
    worker::Worker,
};

/// The folder that the gate lives in, in the workspace.
pub(crate) const HANDOFF: &str = "_handoff";

/// The only folder whose files are written for workers.
pub(crate) const DRAFTS: &str = "_handoff/drafts";

/// The gate of a workspace.
///
/// Several processes may have it open: each operation holds the workspace's lock, and the first one after a crash
/// completes or takes back what was under way.
///
/// ```
/// use draft_gate::{Decision, Gate, Request, Submission};
/// # let folder = tempfile::tempdir()?;
/// # let workspace = folder.path();
/// std::fs::write(workspace.join("hello.py"), "print('hello')\n")?;
/// let gate = Gate::open(workspace)?;
/// let worker = gate.worker("implementer")?;
/// let draft = worker.request(&Request::edit("hello.py", "greeting"))?;
/// worker.write(&draft.draft_path, "print('hello')\nprint('world')\n")?;
/// let submitted = worker.submit(&Submission::of(&draft, "greets everybody"))?;
/// let judgement = gate.judge(&submitted.set)?;
/// assert_eq!(judgement.decision, Decision::Accept);
/// assert_eq!(std::fs::read_to_string(workspace.join("hello.py"))?, "print('hello')\nprint('world')\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Gate {
    pub(crate) root: Folder,
    pub(crate) handoff: Folder,
    /// What is the gate's own.
    pub(crate) state: Folder,
    pub(crate) blobs: Folder,
    /// Drafts that workers have.
    pub(crate) issued: Shelf,
    /// Change sets that wait.
    pub(crate) sets: Shelf,
    /// What a crash may have left half done.
    pub(crate) journal: Shelf,
    /// Change sets that were decided: what `undo` needs, and whoever asks again.
    pub(crate) decided: Shelf,
    /// Where content of rejected drafts is, for a worker that asks for it again.
    pub(crate) rejected: Shelf,
    pub(crate) inboxes: Folder,
    pub(crate) checks: Option<Arc<dyn ProjectChecks>>,
}

impl Gate {
    /// Opens the gate of a workspace, and makes its folders where they are missing. What it keeps is for the user who
    /// runs it alone, as the files may be that drafts are copies of.
    pub fn open(workspace: impl AsRef<Path>) -> Result<Self, Error> {
        let gate = Self::open_with(workspace.as_ref(), Hook::default())?;
        gate.enter()?;
        Ok(gate)
    }

    /// Opens a gate that calls `hook` before every write and every sync, with what happens and to which path.
    #[cfg(feature = "testkit")]
    pub fn open_watched(
        workspace: impl AsRef<Path>,
        hook: impl Fn(&'static str, &str) + Send + Sync + 'static,
    ) -> Result<Self, Error> {
        let gate = Self::open_with(workspace.as_ref(), Hook::new(hook))?;
        gate.enter()?;
        Ok(gate)
    }

    fn open_with(workspace: &Path, hook: Hook) -> Result<Self, Error> {
        let refused = |source| Error::Workspace { path: workspace.to_owned(), source };
        let root = Folder::root(workspace, hook).map_err(refused)?;
        let handoff = root.make_folder(HANDOFF)?;
        handoff.private_folder("drafts")?;
        handoff.close_file_to_others(LOG)?;
        if !handoff.has(".gitignore") {
            handoff.replace(".gitignore", b"drafts/\ngate/\n".to_vec(), Keep::ThroughPowerCut)?;
        }
        let state = handoff.private_folder("gate")?;
        Self::of_folders(root, handoff, state)
    }

    fn of_folders(root: Folder, handoff: Folder, state: Folder) -> Result<Self, Error> {
        let shelf = |name: &str| state.private_folder(name).map(|folder| Shelf { folder });
        let gate = Self {
            blobs: state.private_folder("blobs")?,
            issued: shelf("issued")?,
            sets: shelf("sets")?,
            journal: shelf("journal")?,
            decided: shelf("decided")?,
            rejected: shelf("rejected")?,
            inboxes: state.private_folder("inbox")?,
            checks: None,
            root,
            handoff,
            state,
        };
        Ok(gate)
    }

    /// Opens a gate for who only looks: nothing that a crash left is completed, and a log that was changed is no
    /// hindrance. A folder that has no gate is an error, and gets none.
    pub fn open_to_look(workspace: impl AsRef<Path>) -> Result<Self, Error> {
        let workspace = workspace.as_ref();
        let refused = |source| Error::Workspace { path: workspace.to_owned(), source };
        let root = Folder::root(workspace, Hook::default()).map_err(refused)?;
        let open = || -> Result<_, Error> {
            let handoff = root.folder(HANDOFF)?;
            let state = handoff.folder("gate")?;
            Ok((handoff, state))
        };
        let (handoff, state) = open().map_err(|error| match error {
            Error::Missing { .. } => Error::NoGate { path: workspace.to_owned() },
            other => other,
        })?;
        Self::of_folders(root, handoff, state)
    }

    /// Runs the contract's checks with this. Without it a contract that asks for checks escalates everything.
    #[must_use]
    pub fn with_checks(mut self, checks: impl ProjectChecks + 'static) -> Self {
        self.checks = Some(Arc::new(checks));
        self
    }

    /// The gate's side of one worker.
    pub fn worker<'a>(&'a self, name: &'a str) -> Result<Worker<'a>, Error> {
        Ok(Worker { gate: self, name: plain_name(name, "worker's name")? })
    }

    /// The contract as it is now.
    pub fn contract(&self) -> Result<Contract, Error> {
        Contract::load(&self.handoff)
    }

    /// Reads the whole log, and fails at the first line that is not what the gate wrote.
    pub fn verify(&self) -> Result<Verified, Error> {
        let _lock = self.state.lock("lock")?;
        self.log().verify()
    }

    /// Whether the log has a line of this digest: one that was noted elsewhere when it was the last.
    pub fn has_line(&self, hash: &str) -> Result<bool, Error> {
        let _lock = self.state.lock("lock")?;
        self.log().has_line(hash)
    }

    /// All that the log tells, in order.
    pub fn records(&self) -> Result<Vec<Record>, Error> {
        let _lock = self.state.lock("lock")?;
        self.log().records()
    }

    /// Goes on after the log's end was lost, which stays in the log as a line of its own.
    pub fn acknowledge_loss(&self, agent: &str) -> Result<(), Error> {
        let _lock = self.state.lock("lock")?;
        self.log().acknowledge_loss(agent)
    }

    /// Waits for the lock, and first completes or takes back what a crash left.
    pub(crate) fn enter(&self) -> Result<Held<'_>, Error> {
        let held = Held { gate: self, _lock: self.state.lock("lock")? };
        held.recover()?;
        Ok(held)
    }

    fn log(&self) -> Log<'_> {
        Log { handoff: &self.handoff, gate: &self.state }
    }
}

/// The gate while its lock is held.
#[derive(Debug)]
pub(crate) struct Held<'a> {
    pub(crate) gate: &'a Gate,
    _lock: Lock,
}

impl Held<'_> {
    /// Workers' folder, opened anew each time: whoever can write in it may have tried to exchange it.
    /// Where it was moved away there is a new one: that must stop nobody.
    pub(crate) fn drafts(&self) -> Result<Folder, Error> {
        match self.gate.root.folder(DRAFTS) {
            Err(Error::Missing { .. }) => self.gate.root.folder(HANDOFF)?.private_folder("drafts"),
            other => other,
        }
    }

    pub(crate) fn log(&self) -> Log<'_> {
        self.gate.log()
    }

    /// Adds a line to the log.
    pub(crate) fn note<const N: usize>(
        &self,
        agent: &str,
        event: &str,
        task: &str,
        fields: [(&str, Value); N],
    ) -> Result<(), Error> {
        self.log().append(NewRecord { agent, event, task, more: record_fields(fields) })
    }
}
