//! Project checks of a change set that waits for a person: kept with it, and run anew where anything that they saw has
//! changed since.

use crate::{
    confine::Keep,
    contract::Contract,
    error::Error,
    finding::{Finding, Weight},
    gate::{Gate, Held},
    judge::ATTEMPTS,
    propose::Proposal,
};

impl Gate {
    /// A proposal for a person to look at. Checks that have not run on it as it is now, after an amendment or
    /// a merge, run first; the lock is not held meanwhile.
    pub(crate) fn checked(&self, set: &str) -> Result<Proposal, Error> {
        for _ in 0..ATTEMPTS {
            let contract = self.contract()?;
            let proposal = self.enter()?.proposal(set, &contract)?;
            if !proposal.lacks_checks {
                return Ok(proposal);
            }
            let found = self.run_checks(&proposal, &contract);
            let held = self.enter()?;
            let mut again = held.propose(held.set(set)?, &contract)?;
            if self.about(&again, &contract) == found.about {
                again.keep(found);
                self.sets.put(&again.set.id, &again.set, Keep::ThroughPowerCut)?;
            }
        }
        self.enter()?.proposal(set, &self.contract()?)
    }
}

impl Held<'_> {
    /// A change set as it stands against the files as they are now, with what its checks said.
    pub(crate) fn proposal(&self, set: &str, contract: &Contract) -> Result<Proposal, Error> {
        let mut proposal = self.propose(self.set(set)?, contract)?;
        let about = self.gate.about(&proposal, contract);
        let found = proposal.set.found.as_ref().filter(|it| it.about == about);
        if let Some(found) = found {
            proposal.findings.extend(found.findings.iter().cloned());
        } else if !contract.draft_gate.checks.is_empty() && proposal.is_complete() {
            let text = "the contract's checks have not run on the project as it is now";
            proposal.findings.push(Finding::new("checks", Weight::Escalate, text));
            proposal.lacks_checks = true;
        }
        proposal.findings.sort_by_key(|it| std::cmp::Reverse(it.weight));
        Ok(proposal)
    }
}
