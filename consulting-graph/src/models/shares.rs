//! Shares of the budget. A budget that does not cover all debates is divided among them. All moves are then debated for
//! fewer rounds, instead of only the first moves being debated for all rounds.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::moves::MoveId;

/// Tokens and money, in that order. Money is in billionths of a dollar. `None` if the budget does not limit it.
pub(super) type Amounts = [Option<u64>; 2];
/// Spent tokens and money, in the order and units of [`Amounts`].
pub(super) type Spent = [u64; 2];

/// Shares of the debates of a run in its remaining budget.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Shares {
    /// Budget that remained when the debates started.
    remaining: Amounts,
    /// Debates that have not ended.
    unfinished: BTreeSet<MoveId>,
    /// Amounts spent on each debate.
    spent: BTreeMap<MoveId, Spent>,
}

impl Shares {
    pub(super) fn new(remaining: Amounts, moves: impl IntoIterator<Item = MoveId>) -> Self {
        Self { remaining, unfinished: moves.into_iter().collect(), spent: BTreeMap::new() }
    }

    /// Adds the amounts of an answered call to the spending of a debate.
    pub(super) fn charge(&mut self, move_id: MoveId, amounts: Spent) {
        let spent = self.spent.entry(move_id).or_default();
        for (sum, amount) in spent.iter_mut().zip(amounts) {
            *sum = sum.saturating_add(amount);
        }
    }

    /// Returns the unspent share of a debate to the other debates.
    pub(super) fn finish(&mut self, move_id: MoveId) {
        self.unfinished.remove(&move_id);
    }

    /// Returns the number of debates that have started and not ended, including this one.
    #[cfg(feature = "cluster")]
    pub(super) fn n_running(&self, move_id: Option<MoveId>) -> u64 {
        let is_running = |it: &&MoveId| self.spent.contains_key(*it) || Some(**it) == move_id;
        self.unfinished.iter().filter(is_running).count() as u64
    }

    /// Returns why a debate may not take another turn, if its share does not cover `needed`, the maximum amounts of the
    /// turn and of the calls that have to follow it.
    pub(super) fn refusal(&self, move_id: MoveId, needed: Spent) -> Option<&'static str> {
        let position = self.unfinished.iter().position(|it| *it == move_id)?;
        let spent = self.spent.get(&move_id).copied().unwrap_or_default();
        for ((remaining, needed), kind) in self.remaining.into_iter().zip(needed).zip(0..) {
            let Some(remaining) = remaining else { continue };
            let finished = self.spent.iter().filter(|(it, _)| !self.unfinished.contains(it));
            let used: u64 = finished.map(|(_, it)| it[kind]).sum();
            let left = remaining.saturating_sub(used);
            // If the remaining budget does not cover a minimal debate of each move, the moves with the lowest numbers
            // are debated.
            let covered = (left / needed.max(1)).clamp(1, self.unfinished.len() as u64);
            if position as u64 >= covered {
                return Some("the budget does not cover a debate of every move");
            }
            if spent[kind].saturating_add(needed) > left / covered {
                return Some("the share of this debate in the budget is used up");
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::Shares;
    use crate::moves::MoveId;

    #[test]
    fn debates_share_the_budget_equally() {
        let [a, b] = [MoveId(1), MoveId(2)];
        let mut shares = Shares::new([Some(100), None], [a, b]);
        assert_eq!(shares.refusal(a, [50, 9000]), None);
        assert!(shares.refusal(b, [51, 0]).is_some());
        shares.charge(a, [30, 7]);
        assert!(shares.refusal(a, [21, 0]).is_some_and(|it| it.contains("share")));
        // The second debate inherits what the first one did not use.
        shares.finish(a);
        assert_eq!(shares.refusal(b, [70, 0]), None);
        assert!(shares.refusal(b, [71, 0]).is_some());
    }

    #[test]
    fn a_budget_for_few_debates_is_spent_on_the_first_moves() {
        let ids = [1, 2, 3, 4].map(MoveId);
        let shares = Shares::new([Some(100), None], ids);
        let refused = ids.map(|it| shares.refusal(it, [45, 0]).is_some());
        assert_eq!(refused, [false, false, true, true]);
    }
}
