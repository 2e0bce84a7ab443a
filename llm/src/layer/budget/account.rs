//! The account of a budget: what is spent, what is reserved, and whether more fits.

use crate::Money;

/// An amount of tokens and money.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// Tokens of requests and answers.
    pub tokens: u64,
    /// What they cost, as far as that is known.
    pub money: Money,
}

impl Spent {
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
    spent: Spent,
    /// By calls under way.
    reserved: Spent,
}

/// Whether an amount can be reserved.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reservable {
    /// It is.
    Now,
    /// Perhaps, once calls under way have settled.
    Later,
    /// Not beside what is spent: why.
    Never(String),
}

impl Account {
    pub(super) fn new(tokens: Option<u64>, money: Option<Money>) -> Self {
        Self { tokens, money, spent: Spent::default(), reserved: Spent::default() }
    }

    pub(super) fn is_in_money(&self) -> bool {
        self.money.is_some()
    }

    pub(super) fn spent(&self) -> Spent {
        self.spent
    }

    /// Reserves an amount, if it fits.
    pub(super) fn reserve(&mut self, amount: Spent) -> Reservable {
        if let Some(problem) = self.problem(self.spent.plus(amount), amount) {
            return Reservable::Never(problem);
        }
        let reserved = self.reserved.plus(amount);
        if self.problem(self.spent.plus(reserved), amount).is_some() {
            return Reservable::Later;
        }
        self.reserved = reserved;
        Reservable::Now
    }

    /// Spends `used` in place of what was reserved.
    pub(super) fn settle(&mut self, reserved: Spent, used: Spent) {
        self.reserved = self.reserved.minus(reserved);
        self.spent = self.spent.plus(used);
    }

    /// Why there cannot be so much in all.
    fn problem(&self, total: Spent, amount: Spent) -> Option<String> {
        let Spent { tokens, money } = self.spent;
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
            "the call can come to {needs}, and {spent} of {limit} are spent; \
             raise the budget, or ask for fewer tokens"
        ))
    }
}
