//! Runs project checks for pending change sets. The results are stored with the set, and the checks run again if
//! anything that they saw has changed.

use crate::{
    comparison::Comparisons,
    confine::Durability,
    contract::Contract,
    error::Error,
    finding::{Finding, Severity},
    gate::{Gate, LockedGate},
    judge::MAX_ATTEMPTS,
    propose::Proposal,
};

impl Gate {
    /// Returns a proposal for review. If the checks have not run on its current state, for example after an amendment
    /// or a merge, runs them first, without holding the lock.
    pub(crate) fn proposal_with_checks(&self, set: &str) -> Result<Proposal, Error> {
        let comparisons = Comparisons::default();
        for _ in 0..MAX_ATTEMPTS {
            self.compare_in_advance(set, &comparisons);
            let contract = self.contract()?;
            let proposal = self.lock()?.proposal(set, &contract, &comparisons)?;
            if !proposal.lacks_checks {
                return Ok(proposal);
            }
            let recorded = self.run_checks(&proposal, &contract);
            let locked = self.lock()?;
            let mut again = locked.propose(set, &contract, &comparisons)?;
            if self.judged_state(&again, &contract) == recorded.applies_to {
                again.record(recorded);
                self.sets.put(&again.set.id, &again.set, Durability::PowerLoss)?;
            }
        }
        self.lock()?.proposal(set, &self.contract()?, &comparisons)
    }
}

impl LockedGate<'_> {
    /// Returns the effect of a change set on the current files, together with the stored results of its checks.
    pub(crate) fn proposal(
        &self,
        set: &str,
        contract: &Contract,
        comparisons: &Comparisons,
    ) -> Result<Proposal, Error> {
        let mut proposal = self.propose(set, contract, comparisons)?;
        let state = self.gate.judged_state(&proposal, contract);
        let recorded = proposal.set.recorded.as_ref().filter(|it| it.applies_to == state);
        if let Some(recorded) = recorded {
            proposal.findings.extend(recorded.findings.iter().cloned());
        } else if !contract.draft_gate.checks.is_empty() && proposal.is_complete() {
            let text = "the contract's checks have not run on the current project";
            proposal.findings.push(Finding::new("checks", Severity::Escalate, text));
            proposal.lacks_checks = true;
        }
        proposal.findings.sort_by_key(|it| std::cmp::Reverse(it.severity));
        Ok(proposal)
    }
}
