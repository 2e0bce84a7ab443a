//! The account of a budget: the amounts spent and reserved.

use crate::Money;

/// An amount of tokens and money.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spending {
    /// Number of tokens in requests and responses.
    pub tokens: u64,
    /// Total cost of the calls whose price is known.
    pub money: Money,
}

impl Spending {
    fn plus(self, other: Self) -> Self {
        let tokens = self.tokens.saturating_add(other.tokens);
        Self { tokens, money: self.money + other.money }
    }

    fn minus(self, other: Self) -> Self {
        let tokens = self.tokens.saturating_sub(other.tokens);
        Self { tokens, money: self.money.saturating_sub(other.money) }
    }
}

#[derive(Debug)]
pub(super) struct Account {
    tokens: Option<u64>,
    money: Option<Money>,
    spent: Spending,
    /// Total reservations of calls in flight.
    reserved: Spending,
}

/// Result of trying to reserve an amount.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ReserveOutcome {
    /// The amount is reserved.
    Reserved,
    /// The amount may fit once calls in flight release their reservations.
    Wait,
    /// The budget does not cover the amount on top of the amount already spent. Contains the error message.
    Rejected(String),
}

impl Account {
    pub(super) fn new(tokens: Option<u64>, money: Option<Money>) -> Self {
        Self { tokens, money, spent: Spending::default(), reserved: Spending::default() }
    }

    pub(super) fn limits_money(&self) -> bool {
        self.money.is_some()
    }

    pub(super) fn spent(&self) -> Spending {
        self.spent
    }

    /// Reserves an amount if the budget covers it on top of the amounts already spent and reserved.
    pub(super) fn reserve(&mut self, amount: Spending) -> ReserveOutcome {
        if let Some(problem) = self.over_limit(self.spent.plus(amount), amount) {
            return ReserveOutcome::Rejected(problem);
        }
        let reserved = self.reserved.plus(amount);
        if self.over_limit(self.spent.plus(reserved), amount).is_some() {
            return ReserveOutcome::Wait;
        }
        self.reserved = reserved;
        ReserveOutcome::Reserved
    }

    /// Releases a reservation and charges `used` instead.
    pub(super) fn settle(&mut self, reserved: Spending, used: Spending) {
        self.reserved = self.reserved.minus(reserved);
        self.spent = self.spent.plus(used);
    }

    /// Returns an error message if the total exceeds a limit.
    fn over_limit(&self, total: Spending, amount: Spending) -> Option<String> {
        let Spending { tokens, money } = self.spent;
        let (needs, spent, limit) = match (self.tokens, self.money) {
            (Some(limit), _) if total.tokens > limit => (
                format!("{} tokens", amount.tokens),
                format!("{tokens}"),
                format!("{limit} tokens"),
            ),
            (_, Some(limit)) if total.money > limit => {
                (amount.money.to_string(), money.to_string(), limit.to_string())
            }
            _ => return None,
        };
        Some(format!(
            "the call can cost up to {needs}, and {spent} of {limit} are already spent; \
             raise the budget or lower `max_tokens`"
        ))
    }
}
