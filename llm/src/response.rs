//! Responses, in a form that is independent of the provider.

use std::{
    fmt,
    iter::Sum,
    ops::{Add, AddAssign},
    time::Duration,
};

use serde::{Deserialize, Serialize};

use crate::{InvalidToolCall, Message, ModelId, Part, Role, ToolCall, message};

/// A model's response.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Response {
    /// Parts of the response, in order: text, reasoning, tool calls.
    pub content: Vec<Part>,
    /// The provider and the model. The name of the model is the one that the provider states in the response.
    pub model: ModelId,
    /// Why the response ended.
    pub finish: Finish,
    /// Token counts; `None` if the provider does not report them.
    pub usage: Option<Usage>,
    /// Time from sending the request to the last byte of the response.
    pub latency: Duration,
    /// Cost of the call, if known.
    pub cost: Option<Money>,
    /// Log probabilities of the tokens, if the request asks for them and the provider reports them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub logprobs: Vec<TokenLogprob>,
}

/// Log probability of a token of the response.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TokenLogprob {
    /// The token.
    pub token: String,
    /// Natural logarithm of the token's probability.
    pub logprob: f64,
    /// Likely tokens at this position and their log probabilities. May include the token itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alternatives: Vec<(String, f64)>,
}

impl Response {
    /// Returns the text, without reasoning and tool calls.
    pub fn text(&self) -> String {
        message::text(&self.content)
    }

    /// Returns the tool calls that the model requests, without [invalid ones](Self::invalid_tool_calls).
    pub fn tool_calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.content.iter().filter_map(|part| match part {
            Part::ToolCall(call) => Some(call),
            _ => None,
        })
    }

    /// Returns the tool calls whose arguments cannot be parsed.
    pub fn invalid_tool_calls(&self) -> impl Iterator<Item = &InvalidToolCall> {
        self.content.iter().filter_map(|part| match part {
            Part::InvalidToolCall(call) => Some(call),
            _ => None,
        })
    }

    /// Converts the response to a message, to continue the conversation.
    pub fn into_message(self) -> Message {
        Message::new(Role::Assistant, self.content)
    }
}

/// Why a response ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// The model finished, or produced a stop sequence.
    Stop,
    /// The token limit was reached; the response is incomplete.
    Length,
    /// The model requests tool calls.
    ToolCalls,
    /// Another reason, as stated by the provider.
    Other(String),
}

/// Token counts of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Number of tokens in the request, including cached ones.
    pub input: u64,
    /// Number of tokens in the response, including reasoning.
    pub output: u64,
    /// Number of request tokens that were read from a prompt cache.
    pub cached: u64,
    /// Number of request tokens that were written to a prompt cache.
    pub cache_written: u64,
    /// Number of response tokens that were reasoning.
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

/// An amount of money in billionths of a US dollar.
///
/// Amounts are integers, so sums are exact. For example, one cent per million tokens is ten billionths of a dollar per
/// token.
///
/// ```
/// use llm::Money;
///
/// let budget = Money::from_dollars(2.5);
/// let spent: Money = [Money::from_dollars(0.1), Money::from_dollars(0.2)].into_iter().sum();
/// assert_eq!(spent.nanos(), 300_000_000);
/// assert_eq!(budget.saturating_sub(spent).to_string(), "$2.200000");
/// ```
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Money {
    nanos: u64,
}

impl Money {
    /// Zero dollars.
    pub const ZERO: Self = Self { nanos: 0 };

    /// Creates an amount from billionths of a dollar.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self { nanos }
    }

    /// Creates an amount from dollars, rounded to the nearest billionth. Negative amounts and NaN become zero.
    pub fn from_dollars(dollars: f64) -> Self {
        // The cast saturates and maps NaN to zero.
        Self { nanos: (dollars * 1e9).round() as u64 }
    }

    /// Returns the amount in billionths of a dollar.
    pub const fn nanos(self) -> u64 {
        self.nanos
    }

    /// Returns the amount in dollars, for display.
    pub fn dollars(self) -> f64 {
        self.nanos as f64 / 1e9
    }

    /// Returns the difference, or zero if it would be negative.
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
