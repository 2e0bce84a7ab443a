//! Responses: what a model answered, the same for every provider.

use std::{
    fmt,
    iter::Sum,
    ops::{Add, AddAssign},
    time::Duration,
};

use serde::{Deserialize, Serialize};

use crate::{Message, ModelId, Part, Role, ToolCall, message};

/// What a model answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Response {
    /// The answer's parts in their order: words, reasoning, calls of tools.
    pub content: Vec<Part>,
    /// The provider, and the model as it calls itself.
    pub model: ModelId,
    /// Why the answer ends where it ends.
    pub finish: Finish,
    /// What was read and written; `None` where the provider does not say.
    pub usage: Option<Usage>,
    /// How long it took, from the request to the last byte.
    pub latency: Duration,
    /// What it cost, where that is known.
    pub cost: Option<Money>,
}

impl Response {
    /// The answer's words, without reasoning and tools.
    pub fn text(&self) -> String {
        message::text(&self.content)
    }

    /// The tools that the model wants called.
    pub fn tool_calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.content.iter().filter_map(|part| match part {
            Part::ToolCall(call) => Some(call),
            Part::Text { .. } | Part::Reasoning { .. } | Part::ToolResult { .. } => None,
        })
    }

    /// The answer as a message, for the conversation to go on.
    pub fn into_message(self) -> Message {
        Message::new(Role::Assistant, self.content)
    }
}

/// Why an answer ends where it ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// The model was done, or came to one of the words to stop at.
    Stop,
    /// It was as long as it may be: the answer is cut.
    Length,
    /// It wants tools called.
    ToolCalls,
    /// For a reason that only this provider knows.
    Other(String),
}

/// What a call read and wrote, in tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens of the request, cached ones included.
    pub input: u64,
    /// Tokens of the answer, reasoning included.
    pub output: u64,
    /// Of the request's tokens those that came from a prompt cache.
    pub cached: u64,
    /// Of the request's tokens those that were written to a prompt cache.
    pub cache_written: u64,
    /// Of the answer's tokens those that were reasoning.
    pub reasoning: u64,
}

impl Add for Usage {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            input: self.input.saturating_add(other.input),
            output: self.output.saturating_add(other.output),
            cached: self.cached.saturating_add(other.cached),
            cache_written: self.cache_written.saturating_add(other.cache_written),
            reasoning: self.reasoning.saturating_add(other.reasoning),
        }
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sum for Usage {
    fn sum<I: Iterator<Item = Self>>(usages: I) -> Self {
        usages.fold(Self::default(), Add::add)
    }
}

/// An amount of money, exact: billionths of a US dollar.
///
/// A price of one cent for a million tokens is ten of them a token, so sums over calls never drift.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Money {
    nanos: u64,
}

impl Money {
    /// Nothing.
    pub const ZERO: Self = Self { nanos: 0 };

    /// So many billionths of a dollar.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self { nanos }
    }

    /// So many dollars, to the nearest billionth; what is negative or no number is nothing.
    pub fn from_dollars(dollars: f64) -> Self {
        // The cast saturates, and makes zero of what is no number.
        Self { nanos: (dollars * 1e9).round() as u64 }
    }

    /// In billionths of a dollar.
    pub const fn nanos(self) -> u64 {
        self.nanos
    }

    /// In dollars, for people to read.
    pub fn dollars(self) -> f64 {
        self.nanos as f64 / 1e9
    }

    /// The difference, or nothing where it would be negative.
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self { nanos: self.nanos.saturating_sub(other.nanos) }
    }
}

impl Add for Money {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { nanos: self.nanos.saturating_add(other.nanos) }
    }
}

impl AddAssign for Money {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sum for Money {
    fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
        amounts.fold(Self::ZERO, Add::add)
    }
}

impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "${:.6}", self.dollars())
    }
}
