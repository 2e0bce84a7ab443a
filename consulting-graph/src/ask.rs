//! One call to a model, as it goes from a graph to whoever holds the keys, and what comes back.
//!
//! The same words serve in the process and between a guest and its host: a graph never holds a model.

use llm::{Money, Request, overflow::Window};
use serde::{Deserialize, Serialize};

use crate::config::Group;

/// The name under which calls are journaled and let out of a guest.
pub const LLM: &str = "llm";

/// A call to make.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ask {
    /// Who speaks, by id.
    pub who: String,
    /// As what.
    pub group: Group,
    /// The move it is about, in a debate.
    pub move_id: Option<String>,
    /// The round it belongs to; zero outside of debates.
    pub round: u32,
    /// What is asked.
    pub request: Request,
}

/// What came of a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Heard {
    /// An answer.
    Said(Said),
    /// None, and why.
    Silent(Silence),
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Said {
    /// The words.
    pub text: String,
    /// What they cost.
    pub paid: Paid,
}

/// Why nobody answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Silence {
    /// Which kind of reason it is.
    pub kind: Why,
    /// In words.
    pub why: String,
}

impl Why {
    /// Whether nothing more can come of the run for now, whoever else answers.
    pub(crate) fn ends_run(self) -> bool {
        matches!(self, Self::NotRecorded | Self::NotKept)
    }
}

/// Which kind of reason a silence has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// There is nothing left to spend.
    Spent,
    /// All answers come from a recording, and it has none to this.
    NotRecorded,
    /// The answer could not be written down, so it would be paid for again.
    NotKept,
    /// The model failed, for good or too often, or what is asked does not fit it.
    Failed,
}

/// What one call cost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Paid {
    /// Who spoke.
    pub who: String,
    /// As what.
    pub group: Group,
    /// The model.
    pub model: String,
    /// The move, in a debate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub move_id: Option<String>,
    /// The round.
    pub round: u32,
    /// Tokens that went in.
    pub input: u64,
    /// Of these, tokens that the provider had kept.
    pub cached: u64,
    /// Tokens that came out.
    pub output: u64,
    /// The price, where it is known.
    pub cost: Option<Money>,
}

/// How someone's calls are made: what of a model's settings a prompt has to know.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Voice {
    /// How freely it speaks.
    pub temperature: f64,
    /// How long an answer may be.
    pub max_tokens: u32,
    /// What the model can read, where that is known.
    pub window: Option<Window>,
}

impl Voice {
    /// The request with these settings.
    pub fn set(&self, request: Request) -> Request {
        request.temperature(self.temperature).max_tokens(self.max_tokens)
    }
}
