//! The gate's judgement: what a change set would do, and what speaks against it.

use serde::{Deserialize, Serialize};

use crate::{
    apply::{Journal, Step, Verdict},
    blob,
    confine::Keep,
    contract::{Contract, OnConflict},
    diff::{FileDiff, merge},
    digest::Digest,
    error::Error,
    finding::{Finding, Weight},
    gate::{Gate, Held},
    inbox::{Message, MessageKind, message_id},
    registry::{Change, ChangeSet, Operation, SetState},
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
    pub fn judge_all(&self) -> Result<Vec<Judgement>, Error> {
        let mut judgements = vec![];
        for name in self.sets.names()? {
            let set: Option<ChangeSet> = self.sets.get(&name)?;
            if let Some(set) = set.filter(|it| it.state == SetState::Ready) {
                judgements.push(self.judge(&set.id)?);
            }
        }
        Ok(judgements)
    }

    /// Checks take their time, so the lock is not held meanwhile; they count for exactly what they saw.
    fn judge_with_checks(&self, set: &str, contract: &Contract) -> Result<Judgement, Error> {
        loop {
            let proposal = self.enter()?.propose_by_id(set, contract)?;
            let findings = match decision(&proposal.findings, contract) {
                Decision::Reject => vec![],
                Decision::Accept | Decision::Escalate => self.run_checks(&proposal, contract)?,
            };
            let held = self.enter()?;
            let mut again = held.propose_by_id(set, contract)?;
            if again.sight == proposal.sight {
                again.findings.extend(findings);
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
                // The file itself has become unsafe, or is not allowed: that is a finding, and not our failure.
                Err(error)
                    if error.is_violation()
                        || matches!(error, Error::NotAllowed { .. } | Error::TooLarge { .. }) =>
                {
                    findings.push(
                        Finding::new("original", Weight::Reject, error.to_string())
                            .in_file(&change.path),
                    );
                }
                Err(error) => return Err(error),
            }
        }
        findings.extend(of_the_set(&files, contract));
        findings.sort_by_key(|it| std::cmp::Reverse(it.weight));
        let sight = sight(&files);
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
        let old = text(current.clone());
        let draft = change.content.map(|it| blob::get(&self.gate.blobs, it)).transpose()?;
        let mut new = (change.content, text(draft));
        if digest != change.base {
            // To take the set back is to bring these bytes back.
            if let Some(current) = &current {
                blob::put(&self.gate.blobs, current, Keep::ThroughPowerCut)?;
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
                let digest = blob::put(&self.gate.blobs, merged.as_bytes(), Keep::ThroughPowerCut)?;
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

    fn escalate(&self, proposal: &Proposal) -> Result<(), Error> {
        let mut set = proposal.set.clone();
        set.state = SetState::Escalated;
        self.gate.sets.put(&set.id, &set, Keep::ThroughCrash)?;
        let reason = proposal.findings.first().map(ToString::to_string).unwrap_or_default();
        let rules: Vec<&str> = proposal.findings.iter().map(|it| it.rule.as_str()).collect();
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

/// Binds a verdict to what was looked at: each file as it is, and as it would be.
fn sight(files: &[ProposedFile]) -> Digest {
    let line = |it: &ProposedFile| format!("{} {:?} {:?}\n", it.change.path, it.current, it.new);
    Digest::of(files.iter().map(line).collect::<String>().as_bytes())
}

fn text(bytes: Option<Vec<u8>>) -> String {
    bytes.map(|it| String::from_utf8_lossy(&it).into_owned()).unwrap_or_default()
}
