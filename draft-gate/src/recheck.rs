//! Project checks of a change set that waits for a person: kept with it, and run anew where it has changed since.

use crate::{
    contract::Contract,
    digest::Digest,
    error::Error,
    finding::{Finding, Weight},
    gate::{Gate, Held},
    judge::Proposal,
};

/// How often checks are run anew for files that change while they run.
const ATTEMPTS: usize = 3;

impl Gate {
    /// A proposal for a person to look at. Checks that have not run on it as it is now, after an amendment or
    /// a merge, run first; the lock is not held meanwhile.
    pub(crate) fn checked(&self, set: &str) -> Result<Proposal, Error> {
        let contract = self.contract()?;
        for _ in 0..ATTEMPTS {
            let proposal = self.enter()?.proposal(set, &contract)?;
            if !proposal.lacks_checks(&contract) {
                return Ok(proposal);
            }
            let findings = self.run_checks(&proposal, &contract);
            let held = self.enter()?;
            let mut again = held.propose(held.set(set)?, &contract)?;
            if again.sight == proposal.sight {
                again.keep(findings, &contract);
                self.sets.put(&again.set.id, &again.set)?;
            }
        }
        self.enter()?.proposal(set, &contract)
    }
}

impl Held<'_> {
    /// A change set as it stands against the files as they are now, with what its checks said.
    pub(crate) fn proposal(&self, set: &str, contract: &Contract) -> Result<Proposal, Error> {
        let mut proposal = self.propose(self.set(set)?, contract)?;
        let about = about(proposal.sight, contract);
        if let Some(found) = proposal.set.found.as_ref().filter(|it| it.about == about) {
            proposal.findings.extend(found.findings.iter().cloned());
        } else if proposal.lacks_checks(contract) {
            let text = "the contract's checks have not run on the change as it is now";
            proposal.findings.push(Finding::new("checks", Weight::Escalate, text));
        }
        proposal.findings.sort_by_key(|it| std::cmp::Reverse(it.weight));
        Ok(proposal)
    }
}

impl Proposal {
    /// Whether the contract asks for checks, and they have not run on exactly this.
    pub(crate) fn lacks_checks(&self, contract: &Contract) -> bool {
        let about = about(self.sight, contract);
        let is_kept = self.set.found.as_ref().is_some_and(|it| it.about == about);
        !contract.draft_gate.checks.is_empty() && self.is_complete() && !is_kept
    }
}

/// Stands for a change and the checks that the contract asks for.
pub(crate) fn about(sight: Digest, contract: &Contract) -> Digest {
    let checks = serde_json::to_string(&contract.draft_gate.checks).expect("checks are plain data");
    Digest::of(format!("{sight}\n{checks}").as_bytes())
}
