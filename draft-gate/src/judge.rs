//! Judges change sets.

use crate::{
    audit::GATE_AGENT,
    blob,
    comparison::Comparisons,
    confine::Durability,
    contract::Contract,
    error::Error,
    evaluate::decision,
    finding::{Finding, Severity, rules_of},
    gate::{Gate, LockedGate},
    inbox::{Message, MessageKind, message_id},
    journal::Verdict,
    judgement::{Decision, Judgement},
    propose::Proposal,
    records::{ChangeSet, RecordedFindings, SetState},
};

/// Ids of change sets, each with its judgement or the error that prevented it.
type JudgeResults = Vec<(String, Result<Judgement, Error>)>;

/// Maximum number of attempts to judge a set whose files keep changing. After that, the set is escalated.
pub(crate) const MAX_ATTEMPTS: usize = 3;

impl Gate {
    /// Judges a complete change set and executes the decision.
    ///
    /// Judges the content that was frozen at submission, and applies exactly what was judged. If the set is already
    /// decided, returns the earlier decision.
    pub fn judge(&self, set: &str) -> Result<Judgement, Error> {
        let comparisons = Comparisons::default();
        for _ in 0..MAX_ATTEMPTS {
            if let Some(judgement) = self.try_judge(set, &comparisons)? {
                return Ok(judgement);
            }
        }
        let (locked, contract) = (self.lock()?, self.contract()?);
        if let Some(judgement) = locked.decided(set)? {
            return Ok(judgement);
        }
        let mut proposal = locked.propose(set, &contract, &comparisons)?;
        let text = "the files kept changing while the set was judged";
        proposal.findings.push(Finding::new("unsettled", Severity::Escalate, text));
        let judgement = locked.decide(proposal, &contract)?;
        Ok(judgement.expect("an escalation cannot conflict"))
    }

    /// Judges all complete change sets that are not judged yet, for example because of a crash.
    ///
    /// If a set cannot be judged, its entry is an error, and the other sets are not affected.
    pub fn judge_all(&self) -> Result<JudgeResults, Error> {
        self.judge_where(|_| true)
    }

    /// Does the same as [`judge_all`](Self::judge_all), but only for this worker's sets.
    pub fn judge_all_of(&self, worker: &str) -> Result<JudgeResults, Error> {
        self.judge_where(|set| set.worker == worker)
    }

    fn judge_where(&self, is_wanted: impl Fn(&ChangeSet) -> bool) -> Result<JudgeResults, Error> {
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

    /// Judges a set. Returns `None` if its files were changed while it was being judged.
    ///
    /// Texts are compared before the lock is taken, and the lock is released while checks run. Their results apply only
    /// to the project state on which they ran. The decision follows the contract as it is after the checks.
    fn try_judge(&self, set: &str, comparisons: &Comparisons) -> Result<Option<Judgement>, Error> {
        self.compare_in_advance(set, comparisons);
        let (locked, contract) = (self.lock()?, self.contract()?);
        if let Some(judgement) = locked.decided(set)? {
            return Ok(Some(judgement));
        }
        let proposal = locked.propose(set, &contract, comparisons)?;
        let is_rejected = decision(&proposal.findings, &contract) == Decision::Reject;
        if contract.draft_gate.checks.is_empty() || is_rejected {
            return locked.decide(proposal, &contract);
        }
        drop(locked);
        let found = self.run_checks(&proposal, &contract);
        let (locked, contract) = (self.lock()?, self.contract()?);
        if let Some(judgement) = locked.decided(set)? {
            return Ok(Some(judgement));
        }
        let mut again = locked.propose(set, &contract, comparisons)?;
        if self.judged_state(&again, &contract) != found.applies_to {
            return Ok(None);
        }
        again.record(found);
        locked.decide(again, &contract)
    }
}

impl LockedGate<'_> {
    /// Makes the decision that the findings require, and executes it. Returns `None` if a file was changed
    /// concurrently, in which case the set must be judged again.
    fn decide(
        &self,
        mut proposal: Proposal,
        contract: &Contract,
    ) -> Result<Option<Judgement>, Error> {
        proposal.findings.sort_by_key(|it| std::cmp::Reverse(it.severity));
        let decision = decision(&proposal.findings, contract);
        let judgement = proposal.judgement(decision);
        match decision {
            Decision::Accept => {
                let journal = proposal.journal(GATE_AGENT, Verdict::Accepted, "no objections");
                match self.execute(journal) {
                    Err(Error::Conflict { .. }) => return Ok(None),
                    // The set was rolled back. Escalate it with the cause instead of failing, so that it does not block
                    // other sets.
                    Err(error) if self.is_rolled_back(&proposal)? => {
                        let finding = Finding::new("apply", Severity::Escalate, error.to_string());
                        let applies_to = self.gate.judged_state(&proposal, contract);
                        proposal.record(RecordedFindings { applies_to, findings: vec![finding] });
                        return self.decide(proposal, contract);
                    }
                    other => other?,
                }
            }
            Decision::Reject => {
                self.log_violations(&proposal)?;
                let reason = proposal.findings.first().map(ToString::to_string).unwrap_or_default();
                self.execute(proposal.journal(GATE_AGENT, Verdict::Rejected, &reason))?;
            }
            Decision::Escalate => self.escalate(&proposal)?,
        }
        Ok(Some(judgement))
    }

    /// Logs violations that were detected only when the set was judged, such as files that became links after the
    /// request.
    fn log_violations(&self, proposal: &Proposal) -> Result<(), Error> {
        let set = &proposal.set;
        for finding in proposal.findings.iter().filter(|it| it.text.starts_with("SECURITY:")) {
            let fields =
                [("reason", finding.text.as_str().into()), ("in_set", set.id.as_str().into())];
            self.log_event(&set.worker, "violation", &set.task, fields)?;
        }
        Ok(())
    }

    fn is_rolled_back(&self, proposal: &Proposal) -> Result<bool, Error> {
        Ok(!self.gate.journal.has(&proposal.set.id))
    }

    fn escalate(&self, proposal: &Proposal) -> Result<(), Error> {
        let mut set = proposal.set.clone();
        set.state = SetState::Escalated;
        // Sync the set and its contents, because an escalated set may wait for a long time and must survive a power
        // failure.
        let contents = set.changes.iter().flat_map(|it| [it.base, it.content]).flatten();
        blob::sync_all(&self.gate.blobs, contents)?;
        self.gate.sets.put(&set.id, &set, Durability::PowerLoss)?;
        let reason = proposal.findings.first().map(ToString::to_string).unwrap_or_default();
        let rules = rules_of(&proposal.findings);
        let fields = [
            ("set", set.id.as_str().into()),
            ("worker", set.worker.as_str().into()),
            ("reason", reason.as_str().into()),
            ("rules", rules.into()),
            ("fingerprint", proposal.fingerprint.to_string().into()),
        ];
        self.log_event(GATE_AGENT, "escalated", &set.task, fields)?;
        let message = Message {
            message_id: message_id(
                MessageKind::DraftEscalated,
                &set.id,
                &proposal.fingerprint.to_string(),
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
