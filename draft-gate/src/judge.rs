//! The gate's judgement: what a change set would do, and what speaks against it.

use serde::{Deserialize, Serialize};

use crate::{
    apply::{Journal, Step, Verdict},
    blob,
    contract::{Contract, OnConflict},
    diff::{FileDiff, merge},
    digest::Digest,
    error::Error,
    finding::{Finding, Weight, rules_of},
    gate::{Gate, Held},
    inbox::{Message, MessageKind, message_id},
    recheck::about,
    registry::{Change, ChangeSet, Found, Operation, SetState},
    weigh::{decision, of_a_file, of_the_set},
};

/// What the gate says to a change set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Decision {
    /// It is applied.
    Accept,
    /// It is not.
    Reject,
    /// A person decides.
    Escalate,
}

/// A decision and its reasons.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Judgement {
    /// The change set.
    pub set: String,
    /// The decision.
    pub decision: Decision,
    /// What was found, the gravest first.
    pub findings: Vec<Finding>,
    /// Stands for exactly this change of exactly these files: a verdict on it names it.
    pub sight: Digest,
    /// The change, as `diff -u` shows it.
    pub diff: String,
}

/// A change set, and what it would do to the files as they are now.
#[derive(Debug)]
pub(crate) struct Proposal {
    pub(crate) set: ChangeSet,
    pub(crate) files: Vec<ProposedFile>,
    pub(crate) findings: Vec<Finding>,
    pub(crate) sight: Digest,
}

/// One file of a proposal.
#[derive(Debug)]
pub(crate) struct ProposedFile {
    pub(crate) change: Change,
    pub(crate) current: Option<Digest>,
    /// What is to be applied: the draft, or its merge with what somebody else wrote.
    pub(crate) new: Option<Digest>,
    pub(crate) new_text: String,
    pub(crate) mode: u32,
    pub(crate) diff: FileDiff,
}

/// The gate's own name in the log.
pub(crate) const GATE: &str = "draft-gate";

impl Gate {
    /// Judges a complete change set, and carries the decision out.
    ///
    /// What is judged is what was frozen when it was submitted, and what is applied is what was judged. Of a set that
    /// was decided already the answer is how.
    pub fn judge(&self, set: &str) -> Result<Judgement, Error> {
        let contract = self.contract()?;
        if let Some(judgement) = self.enter()?.decided(set)? {
            return Ok(judgement);
        }
        if contract.draft_gate.checks.is_empty() {
            let held = self.enter()?;
            let proposal = held.propose_by_id(set, &contract)?;
            return held.decide(proposal, &contract);
        }
        self.judge_with_checks(set, &contract)
    }

    /// Judges all change sets that are complete and were not judged, as those that a crash left.
    ///
    /// One that cannot be judged has its error beside its name, and keeps nobody from the others.
    pub fn judge_all(&self) -> Result<Vec<(String, Result<Judgement, Error>)>, Error> {
        let mut judged = vec![];
        for name in self.sets.names()? {
            match self.sets.get::<ChangeSet>(&name) {
                Ok(Some(set)) if set.state == SetState::Ready => {
                    judged.push((name, self.judge(&set.id)));
                }
                Ok(_) => {}
                Err(error) => judged.push((name, Err(error))),
            }
        }
        Ok(judged)
    }

    /// Checks take their time, so the lock is not held meanwhile; they count for exactly what they saw.
    fn judge_with_checks(&self, set: &str, contract: &Contract) -> Result<Judgement, Error> {
        loop {
            let proposal = self.enter()?.propose_by_id(set, contract)?;
            let findings = match decision(&proposal.findings, contract) {
                Decision::Reject => vec![],
                Decision::Accept | Decision::Escalate => self.run_checks(&proposal, contract),
            };
            let held = self.enter()?;
            let mut again = held.propose_by_id(set, contract)?;
            if again.sight == proposal.sight {
                again.keep(findings, contract);
                return held.decide(again, contract);
            }
        }
    }
}

impl Held<'_> {
    pub(crate) fn set(&self, id: &str) -> Result<ChangeSet, Error> {
        let no_such_set = || Error::NoSuchSet { id: crate::error::shown(id) };
        let set: Option<ChangeSet> = self.gate.sets.get(id)?;
        set.filter(|it| it.state != SetState::Held).ok_or_else(no_such_set)
    }

    fn propose_by_id(&self, id: &str, contract: &Contract) -> Result<Proposal, Error> {
        self.propose(self.set(id)?, contract)
    }

    /// Looks at what a change set would do to the files as they are now.
    pub(crate) fn propose(&self, set: ChangeSet, contract: &Contract) -> Result<Proposal, Error> {
        let mut findings = vec![];
        let mut files = vec![];
        for change in &set.changes {
            match self.propose_file(change, contract, &mut findings) {
                Ok(file) => files.push(file),
                // The set cannot be applied: that is for its judgement to say, and must not stop other sets.
                Err(error) => findings.push(refusal(&error).in_file(&change.path)),
            }
        }
        findings.extend(of_the_set(&files, contract));
        findings.sort_by_key(|it| std::cmp::Reverse(it.weight));
        let sight = sight(&set, &files);
        Ok(Proposal { set, files, findings, sight })
    }

    fn propose_file(
        &self,
        change: &Change,
        contract: &Contract,
        findings: &mut Vec<Finding>,
    ) -> Result<ProposedFile, Error> {
        let path = change.path.clone().unprotected()?;
        contract.allow(change.operation, &path)?;
        let current = self.gate.root.read(path.as_str(), blob::MOST)?;
        let mode = current.as_ref().map_or(0o644, |it| it.mode);
        let current = current.map(|it| it.bytes);
        let digest = current.as_deref().map(Digest::of);
        let is_foreign = digest != change.base;
        if is_foreign && current.as_ref().is_some_and(|it| str::from_utf8(it).is_err()) {
            // Neither a difference nor a merge would leave somebody's bytes as they are.
            return Err(Error::NotText { path: path.to_string() });
        }
        let old = text(current.clone());
        let draft = change.content.map(|it| blob::get(&self.gate.blobs, it)).transpose()?;
        let mut new = (change.content, text(draft));
        if is_foreign {
            // To take the set back is to bring these bytes back.
            if let Some(current) = &current {
                blob::put(&self.gate.blobs, current)?;
            }
            new = self.reconcile(change, &old, new, contract, findings)?;
        }
        let diff = FileDiff::new(&old, &new.1);
        let file = ProposedFile {
            change: change.clone(),
            current: digest,
            new: new.0,
            new_text: new.1,
            mode,
            diff,
        };
        findings.extend(of_a_file(&file, &old).into_iter().map(|it| it.in_file(&path)));
        Ok(file)
    }

    /// Somebody else changed the original since the draft was requested.
    fn reconcile(
        &self,
        change: &Change,
        old: &str,
        new: (Option<Digest>, String),
        contract: &Contract,
        findings: &mut Vec<Finding>,
    ) -> Result<(Option<Digest>, String), Error> {
        let on_conflict = contract.draft_gate.on_conflict;
        let base = change.base.map(|it| blob::get(&self.gate.blobs, it)).transpose()?;
        let is_edit = change.operation == Operation::Edit;
        let merged = is_edit.then(|| merge(&text(base), old, &new.1)).flatten();
        let mut find = |weight, text: &str| {
            findings.push(Finding::new("conflict", weight, text).in_file(&change.path));
        };
        match (on_conflict, merged) {
            (OnConflict::Reject, _) => {
                find(Weight::Reject, "the file was changed since the draft was requested")
            }
            (on_conflict, Some(merged)) => {
                let weight =
                    if on_conflict == OnConflict::Merge { Weight::Note } else { Weight::Escalate };
                find(
                    weight,
                    "the file was changed since the draft was requested; both changes are merged",
                );
                let digest = blob::put(&self.gate.blobs, merged.as_bytes())?;
                return Ok((Some(digest), merged));
            }
            (_, None) => find(
                Weight::Escalate,
                "the file was changed since the draft was requested, and the changes touch each other; \
                 to accept is to lose what the file says now",
            ),
        }
        Ok(new)
    }

    /// Carries out what the findings come to.
    fn decide(&self, mut proposal: Proposal, contract: &Contract) -> Result<Judgement, Error> {
        proposal.findings.sort_by_key(|it| std::cmp::Reverse(it.weight));
        let decision = decision(&proposal.findings, contract);
        let judgement = proposal.judgement(decision);
        match decision {
            Decision::Accept => {
                let journal =
                    proposal.journal(GATE, Verdict::Accepted, "nothing speaks against it");
                match self.carry_out(journal) {
                    // Somebody was faster; what there is now is looked at anew.
                    Err(Error::Conflict { .. }) => {
                        let again = self.propose(proposal.set, contract)?;
                        return self.decide(again, contract);
                    }
                    // Nothing of it is applied: a person hears why, and other sets are not kept waiting.
                    Err(error) if self.is_taken_back(&proposal)? => {
                        let finding = Finding::new("apply", Weight::Escalate, error.to_string());
                        proposal.keep(vec![finding], contract);
                        return self.decide(proposal, contract);
                    }
                    other => other?,
                }
            }
            Decision::Reject => {
                let reason = proposal.findings.first().map(ToString::to_string).unwrap_or_default();
                self.carry_out(proposal.journal(GATE, Verdict::Rejected, &reason))?;
            }
            Decision::Escalate => self.escalate(&proposal)?,
        }
        Ok(judgement)
    }

    fn is_taken_back(&self, proposal: &Proposal) -> Result<bool, Error> {
        Ok(self.gate.journal.get::<Journal>(&proposal.set.id)?.is_none())
    }

    fn escalate(&self, proposal: &Proposal) -> Result<(), Error> {
        let mut set = proposal.set.clone();
        set.state = SetState::Escalated;
        self.gate.sets.put(&set.id, &set)?;
        let reason = proposal.findings.first().map(ToString::to_string).unwrap_or_default();
        let rules = rules_of(&proposal.findings);
        let fields = [
            ("set", set.id.as_str().into()),
            ("worker", set.worker.as_str().into()),
            ("reason", reason.as_str().into()),
            ("rules", rules.into()),
            ("sight", proposal.sight.to_string().into()),
        ];
        self.note(GATE, "escalated", &set.task, fields)?;
        let message = Message {
            message_id: message_id(
                MessageKind::DraftEscalated,
                &set.id,
                &proposal.sight.to_string(),
            ),
            kind: MessageKind::DraftEscalated,
            task_id: set.task.clone(),
            set: set.id.clone(),
            paths: set.changes.iter().map(|it| it.path.to_string()).collect(),
            reason,
            findings: proposal.findings.clone(),
        };
        self.send(&set.worker, &message)
    }
}

impl Proposal {
    /// Adds findings that another look would not bring, and keeps them with the set.
    pub(crate) fn keep(&mut self, findings: Vec<Finding>, contract: &Contract) {
        self.findings.extend(findings.iter().cloned());
        let about = about(self.sight, contract);
        match &mut self.set.found {
            Some(found) if found.about == about => {
                let is_new = |it: &Finding| !found.findings.contains(it);
                let new: Vec<Finding> = findings.into_iter().filter(is_new).collect();
                found.findings.extend(new);
            }
            found => *found = Some(Found { about, findings }),
        }
    }

    /// Fails where a file of the set cannot be looked at: the others are not applied without it.
    pub(crate) fn complete(&self) -> Result<(), Error> {
        if self.is_complete() {
            return Ok(());
        }
        let why = self.findings.iter().find(|it| it.rule == "original");
        let why = why.map(ToString::to_string).unwrap_or_default();
        let reason =
            format!("a set is applied whole, and a file of it cannot be: {why}; reject the set");
        Err(Error::NotAllowed { reason })
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.files.len() == self.set.changes.len()
    }

    pub(crate) fn judgement(&self, decision: Decision) -> Judgement {
        Judgement {
            set: self.set.id.clone(),
            decision,
            findings: self.findings.clone(),
            sight: self.sight,
            diff: self.files.iter().map(ProposedFile::unified).collect(),
        }
    }

    /// What has to be done for a verdict.
    pub(crate) fn journal(&self, agent: &str, verdict: Verdict, reason: &str) -> Journal {
        let steps = self.files.iter().filter(|it| it.current != it.new);
        let steps = steps.map(|it| Step::new(it.change.path.clone(), it.current, it.new, it.mode));
        Journal {
            set: self.set.id.clone(),
            worker: self.set.worker.clone(),
            task: self.set.task.clone(),
            agent: agent.to_owned(),
            verdict,
            reason: reason.chars().take(500).collect(),
            findings: self.findings.clone(),
            sight: self.sight,
            changes: self.set.changes.clone(),
            steps: if verdict == Verdict::Rejected { vec![] } else { steps.collect() },
            is_applied: false,
            decided_at: chrono::Utc::now().timestamp(),
        }
    }
}

impl ProposedFile {
    fn unified(&self) -> String {
        let path = &self.change.path;
        let name = |prefix: &str, is_there: bool| {
            if is_there { format!("{prefix}/{path}") } else { "/dev/null".to_owned() }
        };
        let (old, new) = (name("a", self.current.is_some()), name("b", self.new.is_some()));
        format!("--- {old}\n+++ {new}\n{}", self.diff.unified)
    }
}

/// What is said of a file that cannot be looked at: what is forbidden is rejected, what failed is for a person.
fn refusal(error: &Error) -> Finding {
    let is_forbidden =
        error.is_violation() || matches!(error, Error::NotAllowed { .. } | Error::TooLarge { .. });
    let weight = if is_forbidden { Weight::Reject } else { Weight::Escalate };
    Finding::new("original", weight, error.to_string())
}

/// Binds a verdict to what was looked at: each file as it is and as it would be, or that it could not be looked at.
fn sight(set: &ChangeSet, files: &[ProposedFile]) -> Digest {
    let line = |change: &Change| match files.iter().find(|it| it.change == *change) {
        Some(file) => format!("{} {:?} {:?}\n", change.path, file.current, file.new),
        None => format!("{} refused {:?}\n", change.path, change.content),
    };
    Digest::of(set.changes.iter().map(line).collect::<String>().as_bytes())
}

fn text(bytes: Option<Vec<u8>>) -> String {
    bytes.map(|it| String::from_utf8_lossy(&it).into_owned()).unwrap_or_default()
}
