//! Shortens findings for models with a small context window.

use std::cmp::Reverse;

use super::numbered::{Finding, Findings};

/// Numbers of findings per set that the shortest versions contain.
const KEPT: [usize; 3] = [8, 5, 3];

/// Returns versions of the findings, from the longest to the shortest: all findings unchanged, all findings without
/// quotations, and only the strongest findings without quotations. Findings keep their ids. There is at least one
/// version, and no two are equal.
pub(crate) fn shorter_versions(findings: &[Findings]) -> Vec<Vec<Findings>> {
    let without_quotations: Vec<Findings> =
        findings.iter().cloned().map(Findings::without_evidence).collect();
    let strongest = |n| -> Vec<Findings> {
        without_quotations.iter().map(|it: &Findings| it.strongest(n)).collect()
    };
    let shortest = KEPT.map(strongest);
    let mut versions = vec![findings.to_vec(), without_quotations];
    versions.extend(shortest);
    versions.dedup();
    versions
}

impl Findings {
    fn without_evidence(mut self) -> Self {
        for it in &mut self.findings {
            it.draft.evidence.clear();
        }
        self
    }

    /// Returns the `n` strongest findings, and the tensions between them.
    fn strongest(&self, n: usize) -> Self {
        let mut kept: Vec<&Finding> = self.findings.iter().collect();
        kept.sort_by_key(|it| Reverse(it.draft.strength));
        kept.truncate(n);
        kept.sort_by_key(|it| it.id);
        let findings: Vec<Finding> = kept.into_iter().cloned().collect();
        let mut tensions = self.tensions.clone();
        tensions.retain(|it| it.between.iter().all(|id| findings.iter().any(|it| it.id == *id)));
        Self { inference: self.inference, ticker: self.ticker.clone(), findings, tensions }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        data::Ticker,
        finding::{Evidence, FindingDraft, FindingsDraft, Inference, SingleFinding, TensionDraft},
    };

    /// Returns `n` findings with quotations, the last of which is the strongest, and a tension between the first and
    /// the last one.
    fn findings(n: u8) -> Findings {
        let finding = |number: u8| {
            let claim = format!("Claim {number}.");
            let evidence = Evidence { section: "Sales".to_owned(), quote: "7.9%".to_owned() };
            FindingDraft {
                evidence: vec![evidence],
                strength: if number == n { 3 } else { 2 },
                ..FindingDraft::from(SingleFinding { claim, ..SingleFinding::default() })
            }
        };
        let tension = TensionDraft { between: vec![1, n], text: "Both.".to_owned() };
        let draft =
            FindingsDraft { findings: (1..=n).map(finding).collect(), tensions: vec![tension] };
        Findings::from_draft(Inference::F1, Ticker::parse("NVDA").unwrap(), draft)
    }

    #[test]
    fn shorter_versions_keep_the_strongest_findings_with_their_ids() {
        let versions = shorter_versions(&[findings(12)]);
        let ids = |it: &Vec<Findings>| -> Vec<u8> {
            it[0].findings.iter().map(|it| it.id.number).collect()
        };
        assert_eq!(versions.iter().map(|it| ids(it).len()).collect::<Vec<_>>(), [12, 12, 8, 5, 3]);
        assert_eq!(ids(&versions[4]), [1, 2, 12]);
        assert_eq!(versions[4][0].tensions.len(), 1);
        let quotations = |it: &Vec<Findings>| {
            it[0].findings.iter().map(|it| it.draft.evidence.len()).sum::<usize>()
        };
        let quotations: Vec<usize> = versions.iter().map(quotations).collect();
        assert_eq!(quotations, [12, 0, 0, 0, 0]);
    }

    #[test]
    fn identical_shorter_versions_are_returned_once() {
        assert_eq!(shorter_versions(&[findings(3)]).len(), 2);
        assert_eq!(shorter_versions(&[]).len(), 1);
    }
}
