//! What a user can change: who takes part, what is measured, how long is debated, and which models speak.
//!
//! Everything is data in one TOML file; the one that is part of the program is [`DEFAULT`].

mod check;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use check::Problem;

/// The configuration that is part of the program, to be copied and changed.
pub const DEFAULT: &str = include_str!("../config/consulting.toml");

/// The whole configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Rounds of each debate.
    pub rounds: u32,
    /// Moves each analyst proposes.
    pub moves_per_analyst: u16,
    /// Moves that are recommended in the end.
    pub top_k: usize,
    /// Who writes the two documents.
    pub synthesizers: Synthesizers,
    /// Who draws conclusions from them.
    pub inferences: Inferences,
    /// Who proposes moves.
    pub analysts: Vec<Persona>,
    /// Who attacks them.
    pub critic: Persona,
    /// Who defends and scores them; the first keeps the log `i1`, the second `i2`, and so on.
    pub decision_makers: Vec<Persona>,
    /// What is scored.
    pub metrics: Vec<Metric>,
    /// Which model speaks for whom.
    pub models: BTreeMap<String, ModelSetting>,
}

/// Who writes the two documents.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Synthesizers {
    /// The financial document.
    pub financial: Persona,
    /// The news document.
    pub news: Persona,
}

/// Who draws conclusions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Inferences {
    /// From the financial document.
    #[serde(rename = "F1")]
    pub f1: Persona,
    /// From the news document.
    #[serde(rename = "F2")]
    pub f2: Persona,
}

/// Someone who takes part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Persona {
    /// What events and logs call it.
    pub id: String,
    /// What people call it.
    pub name: String,
    /// What it is told about itself.
    pub system_prompt: String,
}

/// Something that is scored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Metric {
    /// The field in the answer.
    pub id: String,
    /// What people call it.
    pub name: String,
    /// What the score answers.
    pub question: String,
}

/// What is set about a model; what is not set comes from the more general setting.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelSetting {
    /// The model, as its provider calls it.
    pub model: Option<String>,
    /// How freely it speaks.
    pub temperature: Option<f64>,
    /// How long its answer may be.
    pub max_tokens: Option<u32>,
}

/// The model for a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Model {
    /// The model, as its provider calls it.
    pub model: String,
    /// How freely it speaks.
    pub temperature: f64,
    /// How long its answer may be.
    pub max_tokens: u32,
}

/// The groups for which models can be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// Who writes the two documents.
    Synthesizers,
    /// Who draws conclusions.
    Inferences,
    /// Who proposes moves.
    Analysts,
    /// Who attacks them.
    Critic,
    /// Who defends them.
    DecisionMakers,
    /// The decision makers when they score.
    Scoring,
}

/// Why a configuration cannot be used.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// It is not TOML, or not of this shape.
    #[error("line {line}, column {column}: {message}")]
    Toml {
        /// The line, from 1.
        line: usize,
        /// The column, from 1.
        column: usize,
        /// What is wrong.
        message: String,
    },
    /// It says something that cannot be.
    #[error("{}", .0.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n"))]
    Problems(Vec<Problem>),
}

impl Config {
    /// Reads and checks a configuration.
    ///
    /// ```
    /// use consulting_graph::config::{Config, DEFAULT};
    ///
    /// let config = Config::parse(DEFAULT)?;
    /// assert_eq!(config.calls_per_move(), 61);
    ///
    /// let error = Config::parse(&DEFAULT.replace("rounds = 10", "rounds = 0")).unwrap_err();
    /// assert_eq!(error.to_string(), "rounds: is 0; give 1 to 50");
    /// # Ok::<(), consulting_graph::config::ConfigError>(())
    /// ```
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let config: Self = toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |it| it.start).min(text.len());
            let before = text.get(..at).unwrap_or_default();
            let line = before.matches('\n').count() + 1;
            let column = before.rsplit('\n').next().map_or(0, |it| it.chars().count()) + 1;
            ConfigError::Toml { line, column, message: error.message().to_owned() }
        })?;
        let problems = check::problems(&config);
        if problems.is_empty() { Ok(config) } else { Err(ConfigError::Problems(problems)) }
    }

    /// The model for someone in a group: what is set for the id, else for the group, else for everybody.
    pub fn model(&self, group: Group, id: &str) -> Model {
        let settings = [id, group.name(), "default"].map(|it| self.models.get(it));
        let settings = || settings.iter().copied().flatten();
        Model {
            model: settings().find_map(|it| it.model.clone()).unwrap_or_default(),
            temperature: settings().find_map(|it| it.temperature).unwrap_or_default(),
            max_tokens: settings().find_map(|it| it.max_tokens).unwrap_or_default(),
        }
    }

    /// The ids of the metrics, in order.
    pub fn metric_ids(&self) -> Vec<&str> {
        self.metrics.iter().map(|it| it.id.as_str()).collect()
    }

    /// The best total a move can have.
    pub fn best_score(&self) -> usize {
        self.decision_makers.len() * self.metrics.len() * usize::from(*crate::score::RANGE.end())
    }

    /// Model calls for the debate and the scoring of one move: one opening, then for each decision maker an answer a
    /// round, a reply of the critic's in all rounds but the first, and a scoring.
    pub fn calls_per_move(&self) -> u64 {
        let (makers, rounds) = (self.decision_makers.len() as u64, u64::from(self.rounds));
        1 + makers * rounds + makers * rounds.saturating_sub(1) + makers
    }

    /// Model calls of a whole run in which nothing has to be asked twice.
    pub fn calls(&self) -> u64 {
        let analysts = self.analysts.len() as u64;
        2 + 2 + analysts + analysts * u64::from(self.moves_per_analyst) * self.calls_per_move()
    }

    /// Supersteps of one debate: critic and decision makers take turns, then comes the scoring.
    pub fn steps_per_debate(&self) -> u64 {
        2 * u64::from(self.rounds) + 1
    }
}

impl Group {
    /// All groups.
    pub const ALL: [Self; 6] = [
        Self::Synthesizers,
        Self::Inferences,
        Self::Analysts,
        Self::Critic,
        Self::DecisionMakers,
        Self::Scoring,
    ];

    /// The name of the group in the file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Synthesizers => "synthesizers",
            Self::Inferences => "inferences",
            Self::Analysts => "analysts",
            Self::Critic => "critic",
            Self::DecisionMakers => "decision_makers",
            Self::Scoring => "scoring",
        }
    }
}

impl Persona {
    /// How others speak of it: `D1 (Growth Strategist)`.
    pub fn label(&self) -> String {
        format!("{} ({})", self.id, self.name)
    }
}
