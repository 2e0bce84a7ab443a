//! Decisions of a person: what waits, accept, reject, amend, undo.

use crate::{
    blob,
    confine::Durability,
    digest::Digest,
    error::{Error, escape_for_message},
    gate::{Gate, LockedGate},
    journal::{Journal, Step, Verdict},
    judge::{Decision, Judgement},
    path::WorkspacePath,
    propose::Proposal,
    records::{ChangeSet, SetState},
};

/// A change set that waits for a person.
#[derive(Clone, Debug, PartialEq)]
pub struct PendingSet {
    /// Its id; a beginning that no other has is enough.
    pub set: String,
    /// Whose it is.
    pub worker: String,
    /// For which task.
    pub task: String,
    /// Its files.
    pub paths: Vec<WorkspacePath>,
    /// What the worker says about it.
    pub summary: String,
    /// When it was submitted, in milliseconds since 1970.
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
    /// What waits for a person, the oldest first.
    pub fn pending(&self) -> Result<Vec<PendingSet>, Error> {
        Ok(self.sets_in_state(SetState::Escalated)?.into_iter().map(PendingSet::of).collect())
    }

    /// Shows a change set that waits, as it stands against the files as they are now; of one that was decided, how.
    pub fn inspect(&self, set: &str) -> Result<Judgement, Error> {
        if let Some(judgement) = self.lock()?.decided(set)? {
            return Ok(judgement);
        }
        Ok(self.proposal_with_checks(set)?.judgement(Decision::Escalate))
    }

    /// The new text of one file of a change set that waits, for who wants to amend it.
    pub fn proposed_text(&self, set: &str, path: &str) -> Result<String, Error> {
        let contract = self.contract()?;
        let proposal = self.lock()?.proposal(set, &contract)?;
        let file = proposal.files.into_iter().find(|it| it.change.path.as_str() == path);
        file.map(|it| it.new_text).ok_or_else(|| not_in_set(set, path))
    }

    /// The whole id of the set that waits and starts with this; with nothing given, of the only one.
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

    /// Applies a change set that waits, if it still is what the person saw: all of it, or nothing and an error.
    pub fn accept(&self, set: &str, fingerprint: Digest, agent: &str) -> Result<(), Error> {
        let locked = self.lock()?;
        let proposal = locked.reviewed_proposal(set, fingerprint)?;
        proposal.require_complete()?;
        if proposal.lacks_checks {
            let reason =
                "the contract's checks have not run on the change as it is now; look at it again";
            return Err(Error::NotAllowed { reason: reason.to_owned() });
        }
        locked.execute(proposal.journal(agent, Verdict::Accepted, "accepted by a person"))
    }

    /// Rejects a change set that waits, if it still is what the person saw.
    pub fn reject(
        &self,
        set: &str,
        fingerprint: Digest,
        reason: &str,
        agent: &str,
    ) -> Result<(), Error> {
        let locked = self.lock()?;
        let proposal = locked.reviewed_proposal(set, fingerprint)?;
        locked.execute(proposal.journal(agent, Verdict::Rejected, &escape_for_message(reason)))
    }

    /// Puts a person's text in place of a draft's. What comes of it is looked at, and accepted, as any other.
    pub fn amend(
        &self,
        set: &str,
        path: &str,
        content: &str,
        fingerprint: Digest,
        agent: &str,
    ) -> Result<Judgement, Error> {
        let locked = self.lock()?;
        let mut proposal = locked.reviewed_proposal(set, fingerprint)?;
        proposal.require_complete()?;
        let change = proposal
            .set
            .changes
            .iter_mut()
            .find(|it| it.path.as_str() == path && it.content.is_some());
        let change = change.ok_or_else(|| not_in_set(set, path))?;
        // The person has seen the file as it is now.
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

    /// Takes an accepted change set back, by its id or a beginning of it, if its files are still as it left them.
    pub fn undo(&self, start: &str, agent: &str) -> Result<Vec<WorkspacePath>, Error> {
        let locked = self.lock()?;
        let no_undo =
            |why: &str| Error::CannotUndo { id: escape_for_message(start), why: why.to_owned() };
        let mut sets = self.decided.names()?;
        sets.retain(|it| !start.is_empty() && it.starts_with(start));
        let decided: Option<Journal> = match sets.as_slice() {
            [set] => self.decided.get(set)?,
            [] => None,
            _ => return Err(no_undo("several start so; `draft-gate log` has the whole id")),
        };
        let mut journal = decided.ok_or_else(|| {
            no_undo("it was not decided, or was pruned; `draft-gate log` lists those that were")
        })?;
        match journal.verdict {
            Verdict::Accepted => {}
            Verdict::Rejected => return Err(no_undo("it was rejected")),
            Verdict::Undone => return Err(no_undo("it is undone already")),
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
            Error::Conflict { path } => no_undo(&format!("`{path}` was changed since")),
            other => other,
        })?;
        Ok(paths)
    }
}

impl LockedGate<'_> {
    /// What was decided on a set, without its difference.
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

    /// A proposal that is what the person saw, byte by byte.
    fn reviewed_proposal(&self, set: &str, fingerprint: Digest) -> Result<Proposal, Error> {
        let proposal = self.proposal(set, &self.gate.contract()?)?;
        if proposal.fingerprint != fingerprint {
            let (seen, now) = (fingerprint.short(), proposal.fingerprint.short());
            return Err(Error::StaleReview { set: escape_for_message(set), seen, now });
        }
        Ok(proposal)
    }
}

fn not_in_set(set: &str, path: &str) -> Error {
    Error::NotInSet { set: escape_for_message(set), path: escape_for_message(path) }
}
