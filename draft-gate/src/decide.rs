//! A person's decisions: listing, accepting, rejecting, amending and undoing change sets.

use crate::{
    blob,
    comparison::Comparisons,
    confine::Durability,
    digest::Digest,
    error::Error,
    escape::escape_for_message,
    gate::{Gate, LockedGate},
    journal::{Journal, Step, Verdict},
    judgement::{Decision, Judgement},
    path::WorkspacePath,
    propose::Proposal,
    records::{ChangeSet, SetState},
};

/// A change set that is waiting for a decision or for more drafts.
#[derive(Clone, Debug, PartialEq)]
pub struct PendingSet {
    /// Id of the set. Commands also accept a unique prefix.
    pub set: String,
    pub worker: String,
    pub task: String,
    pub paths: Vec<WorkspacePath>,
    pub summary: String,
    /// Time of submission in milliseconds since the Unix epoch.
    pub submitted_at: i64,
}

impl PendingSet {
    pub(crate) fn of(set: ChangeSet) -> Self {
        let summaries: Vec<&str> = set.changes.iter().map(|it| it.summary.as_str()).collect();
        Self {
            paths: set.changes.iter().map(|it| it.path.clone()).collect(),
            summary: summaries.join("; "),
            set: set.id,
            worker: set.worker,
            task: set.task,
            submitted_at: set.submitted_at,
        }
    }
}

impl Gate {
    /// Returns the change sets that are waiting for a person's decision, oldest first.
    pub fn pending(&self) -> Result<Vec<PendingSet>, Error> {
        Ok(self.sets_in_state(SetState::Escalated)?.into_iter().map(PendingSet::of).collect())
    }

    /// Returns the findings about a pending change set and its diff against the current files. For a decided set,
    /// returns the decision.
    pub fn inspect(&self, set: &str) -> Result<Judgement, Error> {
        if let Some(judgement) = self.lock()?.decided(set)? {
            return Ok(judgement);
        }
        Ok(self.proposal_with_checks(set)?.judgement(Decision::Escalate))
    }

    /// Returns the proposed text of one file in a pending change set, as a starting point for an amendment.
    pub fn proposed_text(&self, set: &str, path: &str) -> Result<String, Error> {
        let (contract, comparisons) = (self.contract()?, Comparisons::default());
        self.compare_in_advance(set, &comparisons);
        let proposal = self.lock()?.proposal(set, &contract, &comparisons)?;
        let file = proposal.files.into_iter().find(|it| it.change.path.as_str() == path);
        file.map(|it| it.new_text).ok_or_else(|| not_in_set(set, path))
    }

    /// Returns the full id of the pending set whose id starts with this prefix. If the prefix is empty, returns the id
    /// of the only pending set.
    pub fn find_pending(&self, start: &str) -> Result<String, Error> {
        let mut ids =
            self.pending()?.into_iter().map(|it| it.set).filter(|it| it.starts_with(start));
        match (ids.next(), ids.next()) {
            (Some(id), None) => Ok(id),
            (Some(_), Some(_)) => Err(Error::AmbiguousSet { id: escape_for_message(start) }),
            (None, _) if start.is_empty() => Err(Error::NoPendingSets),
            (None, _) => Err(Error::UnknownSet { id: escape_for_message(start) }),
        }
    }

    /// Applies a pending change set if it is still in the reviewed state. Applies the whole set or, if that fails, none
    /// of it and returns an error.
    pub fn accept(&self, set: &str, fingerprint: Digest, agent: &str) -> Result<(), Error> {
        let (locked, proposal) = self.lock_reviewed(set, fingerprint)?;
        proposal.require_complete()?;
        if proposal.lacks_checks {
            let reason =
                "the contract's checks have not run on the current change; review it again";
            return Err(Error::NotAllowed { reason: reason.to_owned() });
        }
        locked.execute(proposal.journal(agent, Verdict::Accepted, "accepted by a person"))
    }

    pub fn reject(
        &self,
        set: &str,
        fingerprint: Digest,
        reason: &str,
        agent: &str,
    ) -> Result<(), Error> {
        let (locked, proposal) = self.lock_reviewed(set, fingerprint)?;
        locked.execute(proposal.journal(agent, Verdict::Rejected, &escape_for_message(reason)))
    }

    /// Replaces the text of a draft with the reviewer's text. The amended change set has to be reviewed and accepted
    /// like any other set.
    pub fn amend(
        &self,
        set: &str,
        path: &str,
        content: &str,
        fingerprint: Digest,
        agent: &str,
    ) -> Result<Judgement, Error> {
        let (locked, mut proposal) = self.lock_reviewed(set, fingerprint)?;
        proposal.require_complete()?;
        let change = proposal
            .set
            .changes
            .iter_mut()
            .find(|it| it.path.as_str() == path && it.content.is_some());
        let change = change.ok_or_else(|| not_in_set(set, path))?;
        // The amended draft is based on the current file, because that is what the reviewer has seen.
        let current = proposal
            .files
            .iter()
            .find(|it| it.change.path.as_str() == path)
            .and_then(|it| it.current);
        let digest = blob::put(&self.blobs, content.as_bytes())?;
        change.content = Some(digest);
        change.bytes = content.len() as u64;
        change.base = current;
        let task = proposal.set.task.clone();
        let id = proposal.set.id.clone();
        blob::sync_all(&self.blobs, [Some(digest), current].into_iter().flatten())?;
        self.sets.put(&id, &proposal.set, Durability::PowerLoss)?;
        let fields = [
            ("set", id.as_str().into()),
            ("path", path.into()),
            ("content", digest.to_string().into()),
        ];
        locked.log_event(agent, "amended", &task, fields)?;
        drop(locked);
        self.inspect(&id)
    }

    /// Undoes an accepted change set if its files have not been changed since. `start` is the set's id or a unique
    /// prefix.
    pub fn undo(&self, start: &str, agent: &str) -> Result<Vec<WorkspacePath>, Error> {
        let locked = self.lock()?;
        let no_undo =
            |why: &str| Error::CannotUndo { id: escape_for_message(start), why: why.to_owned() };
        let mut sets = self.decided.names()?;
        sets.retain(|it| !start.is_empty() && it.starts_with(start));
        let decided: Option<Journal> = match sets.as_slice() {
            [set] => self.decided.get(set)?,
            [] => None,
            _ => {
                return Err(no_undo(
                    "several ids start with this; `draft-gate log` lists full ids",
                ));
            }
        };
        let mut journal = decided.ok_or_else(|| {
            no_undo("it is not decided or was pruned; `draft-gate log` lists decided sets")
        })?;
        match journal.verdict {
            Verdict::Accepted => {}
            Verdict::Rejected => return Err(no_undo("it was rejected")),
            Verdict::Undone => return Err(no_undo("it is already undone")),
        }
        journal.steps = journal
            .steps
            .iter()
            .map(|it| Step::new(it.path.clone(), it.new, it.old, it.mode, it.new_folders))
            .collect();
        journal.verdict = Verdict::Undone;
        journal.agent = agent.to_owned();
        journal.reason = "undone by a person".to_owned();
        let paths = journal.steps.iter().map(|it| it.path.clone()).collect();
        locked.execute(journal).map_err(|error| match error {
            Error::Conflict { path } => no_undo(&format!("`{path}` was changed afterwards")),
            other => other,
        })?;
        Ok(paths)
    }

    /// Takes the lock and returns the proposal of a pending set. Fails if its fingerprint differs from the one that the
    /// person reviewed.
    fn lock_reviewed(
        &self,
        set: &str,
        fingerprint: Digest,
    ) -> Result<(LockedGate<'_>, Proposal), Error> {
        let comparisons = Comparisons::default();
        self.compare_in_advance(set, &comparisons);
        let locked = self.lock()?;
        let proposal = locked.proposal(set, &self.contract()?, &comparisons)?;
        if proposal.fingerprint != fingerprint {
            let (seen, now) = (fingerprint.short(), proposal.fingerprint.short());
            return Err(Error::StaleReview { set: escape_for_message(set), seen, now });
        }
        Ok((locked, proposal))
    }
}

impl LockedGate<'_> {
    /// Returns the judgement of a decided set, without a diff, or `None` if the set is not decided yet.
    pub(crate) fn decided(&self, set: &str) -> Result<Option<Judgement>, Error> {
        let journal: Option<Journal> = self.gate.decided.get(set)?;
        Ok(journal.map(|it| Judgement {
            set: it.set,
            decision: match it.verdict {
                Verdict::Accepted => Decision::Accept,
                Verdict::Rejected | Verdict::Undone => Decision::Reject,
            },
            findings: it.findings,
            fingerprint: it.fingerprint,
            diff: String::new(),
        }))
    }
}

fn not_in_set(set: &str, path: &str) -> Error {
    Error::NotInSet { set: escape_for_message(set), path: escape_for_message(path) }
}
