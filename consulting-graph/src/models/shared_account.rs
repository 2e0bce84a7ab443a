//! The account of a run whose workers share a budget: the limit, the cost of past calls, and the maximum cost of the
//! calls in flight.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    budget::{Limit, PlannedTurn},
    shares::{Shares, Spent},
};
use crate::moves::MoveId;

/// Maximum duration of a call in seconds. If a call is in flight for longer, its worker has died.
const MAX_CALL_SECONDS: u64 = 900;

/// The account of a run. All updates are idempotent.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct SharedAccount {
    pub(super) limit: Limit,
    /// Cost of the calls that have ended.
    spent: Spent,
    /// Calls in flight by id. The calls of a dead worker stay in the map, and their maximum cost counts as spent.
    in_flight: BTreeMap<String, CallInFlight>,
    shares: Shares,
}

#[derive(Debug, Serialize, Deserialize)]
struct CallInFlight {
    max_cost: Spent,
    move_id: Option<MoveId>,
    /// Time at which the call started, in seconds since the Unix epoch.
    started_at: u64,
}

/// A call that a worker wants to make.
#[derive(Debug, Clone, Copy)]
pub(super) struct PlannedCall {
    pub(super) max_cost: Spent,
    pub(super) move_id: Option<MoveId>,
    /// Number of decision makers, if the call is a turn of a debate.
    pub(super) makers_of_turn: Option<u64>,
    /// Current time, in seconds since the Unix epoch.
    pub(super) now: u64,
}

/// Whether a call may be made.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Admission {
    Admitted,
    /// The call may be admitted once calls in flight have ended.
    Wait,
    Refused(&'static str),
}

impl SharedAccount {
    /// Reserves the maximum cost of a call, if the limit covers it on top of all other calls.
    pub(super) fn admit(&mut self, id: &str, call: PlannedCall) -> Admission {
        if self.in_flight.contains_key(id) {
            return Admission::Admitted;
        }
        if let Some(reason) = call.makers_of_turn.and_then(|makers| self.turn_refusal(call, makers))
        {
            return Admission::Refused(reason);
        }
        let is_lost = |it: &&CallInFlight| it.started_at + MAX_CALL_SECONDS < call.now;
        let lost = self.in_flight.values().filter(is_lost).map(|it| it.max_cost);
        let spent = lost.fold(self.spent, plus);
        if self.limit.is_exceeded_by(plus(spent, call.max_cost)) {
            return Admission::Refused("the budget does not cover the maximum cost of the call");
        }
        if self.limit.is_exceeded_by(plus(self.spent_or_reserved(), call.max_cost)) {
            return Admission::Wait;
        }
        let PlannedCall { max_cost, move_id, now, .. } = call;
        let call = CallInFlight { max_cost, move_id, started_at: now };
        self.in_flight.insert(id.to_owned(), call);
        Admission::Admitted
    }

    /// Returns the cost of past calls and the maximum cost of the calls in flight.
    fn spent_or_reserved(&self) -> Spent {
        self.in_flight.values().map(|it| it.max_cost).fold(self.spent, plus)
    }

    /// Returns why a turn of a debate has to be refused.
    fn turn_refusal(&self, call: PlannedCall, makers: u64) -> Option<&'static str> {
        let PlannedCall { max_cost, move_id, .. } = call;
        let debates = self.shares.n_running(move_id);
        let turn = PlannedTurn { max_cost, move_id, makers, debates };
        self.limit.turn_refusal(self.spent, &self.shares, turn)
    }

    /// Replaces the reservation of a call with its actual cost.
    pub(super) fn settle(&mut self, id: &str, cost: Spent) {
        let Some(call) = self.in_flight.remove(id) else { return };
        self.spent = plus(self.spent, cost);
        if let Some(move_id) = call.move_id {
            self.shares.charge(move_id, cost);
        }
    }

    /// Divides the remaining budget among the debates about these moves.
    pub(super) fn share(&mut self, moves: &[MoveId]) {
        let remaining = self.limit.remaining(self.spent_or_reserved());
        self.shares = Shares::new(remaining, moves.iter().copied());
    }

    /// Returns the unspent share of a debate to the other debates.
    pub(super) fn end_debate(&mut self, move_id: MoveId) {
        self.shares.finish(move_id);
    }

    /// Returns how much of the limit is used, in percent.
    pub(super) fn used_percent(&self) -> Option<u64> {
        self.limit.used_percent(self.spent)
    }
}

fn plus(a: Spent, b: Spent) -> Spent {
    [a[0].saturating_add(b[0]), a[1].saturating_add(b[1])]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(tokens: u64) -> SharedAccount {
        SharedAccount {
            limit: Limit { tokens: Some(tokens), money: None },
            ..SharedAccount::default()
        }
    }

    fn call(tokens: u64) -> PlannedCall {
        PlannedCall { max_cost: [tokens, 7], move_id: None, makers_of_turn: None, now: 1000 }
    }

    #[test]
    fn calls_of_all_workers_together_stay_within_the_limit() {
        let mut account = account(100);
        assert_eq!(account.admit("a", call(60)), Admission::Admitted);
        // Retrying a reservation after a lost connection reserves nothing more.
        assert_eq!(account.admit("a", call(60)), Admission::Admitted);
        assert_eq!(account.admit("b", call(60)), Admission::Wait);
        account.settle("a", [30, 7]);
        account.settle("a", [30, 7]);
        assert_eq!(account.admit("b", call(60)), Admission::Admitted);
        account.settle("b", [60, 7]);
        assert_eq!(account.used_percent(), Some(90));
        assert!(matches!(account.admit("c", call(11)), Admission::Refused(_)));
        assert_eq!(account.admit("c", call(10)), Admission::Admitted);
    }

    #[test]
    fn calls_of_a_dead_worker_cost_their_maximum() {
        let mut account = account(100);
        assert_eq!(account.admit("dead", call(60)), Admission::Admitted);
        assert_eq!(account.admit("b", call(60)), Admission::Wait);
        let later = PlannedCall { now: 1001 + MAX_CALL_SECONDS, ..call(60) };
        assert!(matches!(account.admit("b", later), Admission::Refused(_)));
    }

    #[test]
    fn turns_leave_enough_for_scoring() {
        let mut account = account(100);
        account.share(&[MoveId(1), MoveId(2)]);
        let turn = |tokens, number| PlannedCall {
            move_id: Some(MoveId(number)),
            makers_of_turn: Some(2),
            ..call(tokens)
        };
        // A debate needs five such calls, and has a share of 50.
        assert_eq!(account.admit("a", turn(10, 1)), Admission::Admitted);
        assert!(matches!(account.admit("b", turn(12, 2)), Admission::Refused(_)));
        account.settle("a", [10, 7]);
        account.end_debate(MoveId(1));
        // The other debate inherits what the first one did not use.
        assert_eq!(account.admit("c", turn(17, 2)), Admission::Admitted);
        // Other calls may use the rest.
        assert_eq!(account.admit("d", call(70)), Admission::Admitted);
    }
}
