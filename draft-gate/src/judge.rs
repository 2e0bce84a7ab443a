//! The gate's judgement: what follows from what speaks against a change set.

use serde::{Deserialize, Serialize};

use crate::{
    blob,
    confine::Keep,
    contract::Contract,
    digest::Digest,
    error::Error,
    finding::{Finding, Weight, rules_of},
    gate::{Gate, Held},
    inbox::{Message, MessageKind, message_id},
    journal::Verdict,
    propose::Proposal,
    registry::{ChangeSet, Found, SetState},
    weigh::decision,
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

/// Change sets by their names, and what each came to.
type Judged = Vec<(String, Result<Judgement, Error>)>;

/// The gate's own name in the log.
pub(crate) const GATE: &str = "draft-gate";

/// How often a set is looked at anew for files that change meanwhile; then a person is asked.
pub(crate) const ATTEMPTS: usize = 3;

impl Gate {
    /// Judges a complete change set, and carries the decision out.
    ///
    /// What is judged is what was frozen when it was submitted, and what is applied is what was judged. Of a set that
    /// was decided already the answer is how.
    pub fn judge(&self, set: &str) -> Result<Judgement, Error> {
        for _ in 0..ATTEMPTS {
            if let Some(judgement) = self.try_judge(set)? {
                return Ok(judgement);
            }
        }
        let (held, contract) = (self.enter()?, self.contract()?);
        if let Some(judgement) = held.decided(set)? {
            return Ok(judgement);
        }
        let mut proposal = held.propose_by_id(set, &contract)?;
        let text = "files kept changing while the set was judged";
        proposal.findings.push(Finding::new("unsettled", Weight::Escalate, text));
        let judgement = held.decide(proposal, &contract)?;
        Ok(judgement.expect("what is not applied cannot meet anybody"))
    }

    /// Judges all change sets that are complete and were not judged, as those that a crash left.
    ///
    /// One that cannot be judged has its error beside its name, and keeps nobody from the others.
    pub fn judge_all(&self) -> Result<Judged, Error> {
        self.judge_where(|_| true)
    }

    /// As [`judge_all`](Self::judge_all), but only what this worker has submitted.
    pub fn judge_all_of(&self, worker: &str) -> Result<Judged, Error> {
        self.judge_where(|set| set.worker == worker)
    }

    fn judge_where(&self, is_wanted: impl Fn(&ChangeSet) -> bool) -> Result<Judged, Error> {
        let is_waiting = |it: &ChangeSet| it.state == SetState::Ready && !self.decided.has(&it.id);
        let mut judged = vec![];
        for name in self.sets.names()? {
            match self.sets.get::<ChangeSet>(&name) {
                Ok(Some(set)) if is_waiting(&set) && is_wanted(&set) => {
                    judged.push((name, self.judge(&set.id)))
                }
                Ok(_) => {}
                Err(error) => judged.push((name, Err(error))),
            }
        }
        Ok(judged)
    }

    /// Judges a set, or nothing where somebody changed what was looked at.
    ///
    /// Checks take their time, so the lock is not held meanwhile; they count for exactly the project that they saw, and
    /// under the contract as it is afterwards.
    fn try_judge(&self, set: &str) -> Result<Option<Judgement>, Error> {
        let (held, contract) = (self.enter()?, self.contract()?);
        if let Some(judgement) = held.decided(set)? {
            return Ok(Some(judgement));
        }
        let proposal = held.propose_by_id(set, &contract)?;
        let is_rejected = decision(&proposal.findings, &contract) == Decision::Reject;
        if contract.draft_gate.checks.is_empty() || is_rejected {
            return held.decide(proposal, &contract);
        }
        drop(held);
        let found = self.run_checks(&proposal, &contract);
        let (held, contract) = (self.enter()?, self.contract()?);
        if let Some(judgement) = held.decided(set)? {
            return Ok(Some(judgement));
        }
        let mut again = held.propose_by_id(set, &contract)?;
        if self.about(&again, &contract) != found.about {
            return Ok(None);
        }
        again.keep(found);
        held.decide(again, &contract)
    }
}

impl Held<'_> {
    /// Carries out what the findings come to; nothing where somebody was faster, and there is something else to look at.
    fn decide(
        &self,
        mut proposal: Proposal,
        contract: &Contract,
    ) -> Result<Option<Judgement>, Error> {
        proposal.findings.sort_by_key(|it| std::cmp::Reverse(it.weight));
        let decision = decision(&proposal.findings, contract);
        let judgement = proposal.judgement(decision);
        match decision {
            Decision::Accept => {
                let journal =
                    proposal.journal(GATE, Verdict::Accepted, "nothing speaks against it");
                match self.carry_out(journal) {
                    Err(Error::Conflict { .. }) => return Ok(None),
                    // Nothing of it is applied: a person hears why, and other sets are not kept waiting.
                    Err(error) if self.is_taken_back(&proposal)? => {
                        let finding = Finding::new("apply", Weight::Escalate, error.to_string());
                        let about = self.gate.about(&proposal, contract);
                        proposal.keep(Found { about, findings: vec![finding] });
                        return self.decide(proposal, contract);
                    }
                    other => other?,
                }
            }
            Decision::Reject => {
                self.note_violations(&proposal)?;
                let reason = proposal.findings.first().map(ToString::to_string).unwrap_or_default();
                self.carry_out(proposal.journal(GATE, Verdict::Rejected, &reason))?;
            }
            Decision::Escalate => self.escalate(&proposal)?,
        }
        Ok(Some(judgement))
    }

    /// A file that has become a way out since it was requested is counted as one that was asked for.
    fn note_violations(&self, proposal: &Proposal) -> Result<(), Error> {
        let set = &proposal.set;
        for finding in proposal.findings.iter().filter(|it| it.text.starts_with("SECURITY:")) {
            let fields =
                [("reason", finding.text.as_str().into()), ("in_set", set.id.as_str().into())];
            self.note(&set.worker, "violation", &set.task, fields)?;
        }
        Ok(())
    }

    fn is_taken_back(&self, proposal: &Proposal) -> Result<bool, Error> {
        Ok(!self.gate.journal.has(&proposal.set.id))
    }

    fn escalate(&self, proposal: &Proposal) -> Result<(), Error> {
        let mut set = proposal.set.clone();
        set.state = SetState::Escalated;
        // It may wait for long, so it outlives a power cut from here on.
        let contents = set.changes.iter().flat_map(|it| [it.base, it.content]).flatten();
        blob::secure(&self.gate.blobs, contents)?;
        self.gate.sets.put(&set.id, &set, Keep::ThroughPowerCut)?;
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
