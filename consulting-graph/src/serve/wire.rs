//! Request and response bodies of the HTTP API, and the JSON stored in the registry.

use std::collections::BTreeMap;

use chrono::{DateTime, SecondsFormat, Utc};
use graph_server::{RunInfo, Status};
use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::{Map, Number, Value};
use utoipa::{IntoParams, ToSchema};

use crate::{
    config::{Config, Group, Persona, ResolvedModel},
    models::Limit,
    spending::Spending,
};

/// Minimum budget, in dollars.
const MIN_DOLLARS: f64 = 0.000_001;

/// Largest integer that a request may contain, which is the maximum of `int64`.
const MAX_INTEGER: u64 = i64::MAX.unsigned_abs();

/// Deserializes an integer as JSON Schema defines it, so that 3.0 is an integer too.
fn whole<'de, D: Deserializer<'de>, N: TryFrom<u64>>(from: D) -> Result<Option<N>, D::Error> {
    let Some(number) = Option::<Number>::deserialize(from)? else { return Ok(None) };
    let is_whole = |it: &f64| it.fract() == 0.0 && (0.0..MAX_INTEGER as f64).contains(it);
    let read = number.as_u64().or_else(|| number.as_f64().filter(is_whole).map(|it| it as u64));
    let fits = read.filter(|it| *it <= MAX_INTEGER).and_then(|it| N::try_from(it).ok());
    let invalid =
        || de::Error::custom(format!("{number} is too large or not a non-negative integer"));
    fits.map(Some).ok_or_else(invalid)
}

/// A run to start.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AnalyzeRequest {
    /// Ticker of the company, such as NVDA or BRK.B.
    #[schema(
        min_length = 1,
        max_length = 12,
        pattern = "^\\^?[A-Za-z0-9]+([.=-][A-Za-z0-9]+)*$",
        example = "NVDA"
    )]
    pub(super) ticker: String,
    /// Rounds per debate.
    #[serde(default, deserialize_with = "whole")]
    #[schema(minimum = 1, maximum = 50)]
    pub(super) rounds: Option<u32>,
    /// Seed of the scripted model.
    #[serde(default, deserialize_with = "whole")]
    pub(super) seed: Option<u64>,
    /// Maximum number of concurrent debates.
    #[serde(default, deserialize_with = "whole")]
    #[schema(minimum = 1, maximum = 15)]
    pub(super) concurrency: Option<usize>,
    /// Whether to also score the moves before the debates.
    #[serde(default)]
    pub(super) baseline: bool,
    /// Whether to pause before the debates so that a person can review the moves.
    #[serde(default)]
    pub(super) review: bool,
    /// Token limit of the whole run, input and output together.
    #[serde(default, deserialize_with = "whole")]
    #[schema(minimum = 1)]
    pub(super) max_tokens: Option<u64>,
    /// Cost limit of the whole run, in dollars.
    #[schema(minimum = 0.000001)]
    pub(super) max_dollars: Option<f64>,
}

/// Spending limit of a whole run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub(super) struct Budget {
    /// Maximum number of tokens, input and output together.
    #[schema(minimum = 1)]
    pub(super) max_tokens: Option<u64>,
    /// Maximum cost in dollars.
    #[schema(minimum = 0.000001)]
    pub(super) max_dollars: Option<f64>,
}

/// A run that was started or resumed.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(super) struct RunStarted {
    /// Id of the run.
    pub(super) analysis_id: String,
    /// Ticker of the company.
    pub(super) ticker: String,
    /// Status of the run.
    pub(super) status: Status,
    /// URL of the event stream.
    pub(super) sse_url: String,
}

/// Summary of a run.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(super) struct RunSummary {
    /// Id of the run.
    pub(super) id: String,
    /// Ticker of the company.
    pub(super) ticker: String,
    /// Status of the run.
    pub(super) status: Status,
    /// Error message, if the run failed.
    pub(super) error: Option<String>,
    /// Time of creation.
    #[schema(format = DateTime)]
    pub(super) created_at: String,
    /// Time of the last status change.
    #[schema(format = DateTime)]
    pub(super) updated_at: String,
    /// Time at which the run became inactive.
    #[schema(format = DateTime)]
    pub(super) ended_at: Option<String>,
    /// Recommended moves of a complete run, best first.
    pub(super) recommended: Vec<RecommendedMove>,
    /// Input and output tokens of a complete run. A fork does not count the calls that it inherited.
    pub(super) tokens: Option<u64>,
    /// Cost of a complete run in dollars. Null if a price is unknown.
    pub(super) dollars: Option<f64>,
    /// Id of the run that was forked, if this is a fork.
    pub(super) from: Option<String>,
}

/// Summary of a recommended move.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(super) struct RecommendedMove {
    /// Id of the move, such as `m4`.
    pub(super) move_id: String,
    /// Title of the move.
    pub(super) title: String,
    /// Total score.
    pub(super) score: u32,
}

/// A page of runs.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(super) struct RunPage {
    /// The runs, newest first.
    pub(super) runs: Vec<RunSummary>,
    /// Value of `before` that requests the next page. Null on the last page.
    pub(super) next: Option<String>,
}

/// Query parameters that select runs.
#[derive(Debug, Clone, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct RunsQuery {
    /// Maximum number of runs.
    #[param(minimum = 1, maximum = 200, default = 50)]
    pub(super) limit: Option<usize>,
    /// Only list runs created before the run with this id.
    pub(super) before: Option<String>,
}

/// Details of a run.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(super) struct RunDetail {
    #[serde(flatten)]
    pub(super) summary: RunSummary,
    /// Spending so far. A fork does not count the calls that it inherited.
    pub(super) usage: Usage,
    /// Expected number of calls of the whole run, without retries. A fork makes fewer.
    pub(super) planned_calls: u64,
    /// Settings of the run.
    pub(super) settings: Settings,
    /// Agents and metrics.
    pub(super) config: Participants,
    /// Titles of the moves proposed so far, by move id.
    pub(super) titles: BTreeMap<String, String>,
    /// Origin of the run, if it is a fork.
    pub(super) branch: Option<ForkInfo>,
}

/// Spending of a run.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
pub(super) struct Usage {
    /// Number of answered calls.
    pub(super) calls: u64,
    /// Input tokens, including cached ones.
    pub(super) input_tokens: u64,
    /// Input tokens read from a provider's cache.
    pub(super) cached_tokens: u64,
    /// Output tokens.
    pub(super) output_tokens: u64,
    /// Cost in dollars. Null if the price of a call is unknown.
    pub(super) dollars: Option<f64>,
}

/// Settings of a run.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(super) struct Settings {
    /// Rounds per debate.
    pub(super) rounds: u32,
    /// Maximum number of concurrent debates.
    pub(super) concurrency: usize,
    /// Whether the moves are also scored before the debates.
    pub(super) baseline: bool,
    /// Whether the run pauses for a review of the moves.
    pub(super) review: bool,
    /// Seed of the scripted model.
    pub(super) seed: u64,
    /// Provider of the models.
    pub(super) provider: String,
    /// Model that replaces the configured ones.
    pub(super) model: Option<String>,
    #[serde(flatten)]
    pub(super) limit: Budget,
}

/// Origin of a fork.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(super) struct ForkInfo {
    /// Id of the run that was forked.
    pub(super) from: String,
    /// Fork point.
    pub(super) at: String,
    /// Whether only the debate at the fork point was repeated.
    pub(super) only: bool,
    /// Changed settings, each as `path=value`.
    pub(super) set: Vec<String>,
}

/// Agents of a run, and the metrics on which moves are scored.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(super) struct Participants {
    pub(super) synthesizers: Vec<Participant>,
    pub(super) inferences: Vec<Participant>,
    pub(super) analysts: Vec<Participant>,
    pub(super) critic: Participant,
    pub(super) decision_makers: Vec<Participant>,
    pub(super) metrics: Vec<MetricInfo>,
    pub(super) rounds: u32,
    pub(super) top_k: usize,
}

/// An agent.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(super) struct Participant {
    /// Id of the agent in events.
    pub(super) id: String,
    /// Display name.
    pub(super) name: String,
    /// Instructions of the agent to its model.
    pub(super) system_prompt: String,
    /// Configured model. A run can replace it; see `settings`.
    pub(super) model: String,
    /// Configured temperature.
    pub(super) temperature: f64,
    /// Ids of the moves that the agent proposes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub(super) moves: Vec<String>,
}

/// A metric.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(super) struct MetricInfo {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) question: String,
}

/// Settings for new runs. If a required API key is missing, only `needs_key` and `version` are present.
#[derive(Debug, Clone, Default, Serialize, ToSchema)]
pub(super) struct Setup {
    /// Whether requests need an API key.
    pub(super) needs_key: bool,
    /// Version of the program.
    pub(super) version: String,
    /// Provider of the models.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) provider: Option<String>,
    /// Model that replaces the configured ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) model: Option<String>,
    /// Source of company data: `included`, `synthetic`, `edgar` or `dir`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) data: Option<String>,
    /// Companies whose filed figures are included in the program. With `included`, other companies are synthetic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) included_tickers: Option<Vec<String>>,
    /// Default number of concurrent debates per run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) concurrency: Option<usize>,
    /// Agents and metrics.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) config: Option<Participants>,
}

/// Result of a run.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(super) struct Results {
    /// Id of the run.
    pub(super) analysis_id: String,
    /// Ticker of the company.
    pub(super) ticker: String,
    /// Status of the run.
    pub(super) status: Status,
    /// Error message, if the run failed.
    pub(super) error: Option<String>,
    /// The report with moves, findings and debates; null until the run is complete.
    pub(super) result: Option<Map<String, Value>>,
}

/// Options for resuming a run.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ResumeRequest {
    /// The moves to debate, if the run is waiting for a review. These are the moves to review, possibly edited, without
    /// the dropped ones.
    pub(super) moves: Option<Vec<Map<String, Value>>>,
    /// Token limit of the whole run, input and output together.
    #[serde(default, deserialize_with = "whole")]
    #[schema(minimum = 1)]
    pub(super) max_tokens: Option<u64>,
    /// Cost limit of the whole run, in dollars.
    #[schema(minimum = 0.000001)]
    pub(super) max_dollars: Option<f64>,
}

/// Options for forking a run.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ForkRequest {
    /// Fork point: `layer_0`, `layer_1`, `layer_2`, `m4` or `m4:r5`.
    #[schema(
        max_length = 20,
        pattern = "^(layer_[0-2]|m[1-9][0-9]{0,2}(:r[1-9][0-9]?)?)$",
        example = "m4:r5"
    )]
    pub(super) at: String,
    /// Settings to change, each as `path=value`.
    #[serde(default)]
    #[schema(max_items = 100)]
    pub(super) set: Vec<String>,
    /// Whether to repeat only the debate at the fork point.
    #[serde(default)]
    pub(super) only: bool,
    /// Maximum number of concurrent debates.
    #[serde(default, deserialize_with = "whole")]
    #[schema(minimum = 1, maximum = 15)]
    pub(super) concurrency: Option<usize>,
    /// Token limit of the whole run, input and output together.
    #[serde(default, deserialize_with = "whole")]
    #[schema(minimum = 1)]
    pub(super) max_tokens: Option<u64>,
    /// Cost limit of the whole run, in dollars.
    #[schema(minimum = 0.000001)]
    pub(super) max_dollars: Option<f64>,
}

/// Settings of the run to estimate.
#[derive(Debug, Clone, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct PlanQuery {
    /// Rounds per debate.
    #[param(minimum = 1, maximum = 50)]
    pub(super) rounds: Option<u32>,
    /// Whether to also score the moves before the debates.
    pub(super) baseline: Option<bool>,
    /// Maximum number of concurrent debates.
    #[param(minimum = 1, maximum = 15)]
    pub(super) concurrency: Option<usize>,
}

/// Two runs to compare.
#[derive(Debug, Clone, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Pair {
    /// Id of the first run.
    pub(super) a: String,
    /// Id of the second run.
    pub(super) b: String,
}

/// Query parameters that select model calls.
#[derive(Debug, Clone, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct CallsQuery {
    /// Id of the agent that made the calls.
    pub(super) agent: String,
    /// Id of the move under debate. Required for the critic and the decision makers.
    #[serde(rename = "move")]
    #[param(rename = "move")]
    pub(super) move_id: Option<String>,
}

/// Answered calls of one agent.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(super) struct CallList {
    /// The calls, in order of completion.
    pub(super) calls: Vec<CallInfo>,
}

/// An answered model call.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub(super) struct CallInfo {
    /// Model that answered, as `provider/model`.
    pub(super) model: String,
    pub(super) temperature: Option<f64>,
    pub(super) system_prompt: String,
    /// Messages of the prompt, in order.
    pub(super) prompt: Vec<PromptMessage>,
    pub(super) answer: String,
    /// Input tokens, including cached ones.
    pub(super) input_tokens: u64,
    pub(super) output_tokens: u64,
    /// Cost in dollars. Null if the price is unknown.
    pub(super) dollars: Option<f64>,
    /// Time until the complete answer was received, in milliseconds.
    pub(super) latency_ms: u64,
}

/// A message of a prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(super) struct PromptMessage {
    /// `user` or `assistant`.
    pub(super) role: String,
    pub(super) text: String,
}

/// Files of a run.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(super) struct FileList {
    pub(super) files: Vec<FileInfo>,
}

/// A file of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(super) struct FileInfo {
    /// Name of the file.
    pub(super) name: String,
    /// Size in bytes.
    pub(super) bytes: u64,
}

/// Input of a run, as stored in the registry.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct StoredInput {
    pub(super) concurrency: usize,
    #[serde(default)]
    pub(super) limit: Budget,
    pub(super) from: Option<String>,
}

/// Last resume request of a run, as stored in the registry.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct ResumeOrder {
    pub(super) moves: Option<Vec<Map<String, Value>>>,
    #[serde(default)]
    pub(super) limit: Budget,
}

/// Result of a complete run, as stored in the registry.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct StoredOutcome {
    #[serde(default)]
    pub(super) recommended: Vec<RecommendedMove>,
    pub(super) tokens: Option<u64>,
    pub(super) dollars: Option<f64>,
}

impl Budget {
    pub(super) fn limit(self) -> Limit {
        Limit { tokens: self.max_tokens, money: self.max_dollars.map(llm::Money::from_dollars) }
    }

    /// Returns the budget, with unset fields taken from the server's limit. Fails if the budget exceeds that limit.
    pub(super) fn bounded_by(self, max: Limit) -> Result<Self, String> {
        let (tokens, dollars) = (max.tokens, max.money.map(llm::Money::dollars));
        if let (Some(requested), Some(max)) = (self.max_tokens, tokens)
            && requested > max
        {
            return Err(format!(
                "`max_tokens` is {requested}, but a run on this server may use at most {max} tokens"
            ));
        }
        if let (Some(requested), Some(max)) = (self.max_dollars, dollars)
            && requested > max
        {
            return Err(format!(
                "`max_dollars` is {requested}, but a run on this server may cost at most ${max:.2}"
            ));
        }
        Ok(Self {
            max_tokens: self.max_tokens.or(tokens),
            max_dollars: self.max_dollars.or(dollars),
        })
    }

    /// Returns why the budget is invalid, or `None` if it is valid.
    pub(super) fn problem(self) -> Option<&'static str> {
        if self.max_dollars.is_some_and(|it| !(it.is_finite() && it >= MIN_DOLLARS)) {
            return Some("`max_dollars` must be at least 0.000001");
        }
        if self.max_tokens == Some(0) { Some("`max_tokens` must be at least 1") } else { None }
    }
}

impl RunStarted {
    pub(super) fn of(run: &RunInfo) -> Self {
        Self {
            analysis_id: run.id.clone(),
            ticker: run.subject.clone(),
            status: run.status,
            sse_url: format!("/api/stream/{}", run.id),
        }
    }
}

impl RunSummary {
    pub(super) fn of(run: &RunInfo) -> Self {
        let time = |it: std::time::SystemTime| {
            DateTime::<Utc>::from(it).to_rfc3339_opts(SecondsFormat::Millis, true)
        };
        let outcome: StoredOutcome =
            serde_json::from_value(run.outcome.clone()).unwrap_or_default();
        let input: StoredInput = serde_json::from_value(run.input.clone()).unwrap_or_default();
        Self {
            id: run.id.clone(),
            ticker: run.subject.clone(),
            status: run.status,
            error: run.error.clone(),
            created_at: time(run.created_at),
            updated_at: time(run.updated_at),
            ended_at: run.ended_at.map(time),
            recommended: outcome.recommended,
            tokens: outcome.tokens,
            dollars: outcome.dollars,
            from: input.from,
        }
    }
}

impl From<Spending> for Usage {
    fn from(spending: Spending) -> Self {
        Self {
            calls: spending.calls,
            input_tokens: spending.input,
            cached_tokens: spending.cached,
            output_tokens: spending.output,
            dollars: (spending.unpriced_calls == 0).then(|| spending.money.dollars()),
        }
    }
}

impl From<&Config> for Participants {
    fn from(config: &Config) -> Self {
        let person = |group: Group, it: &Persona| {
            let ResolvedModel { model, temperature, .. } = config.model(group, &it.id);
            Participant {
                id: it.id.clone(),
                name: it.name.clone(),
                system_prompt: it.system_prompt.clone(),
                model,
                temperature,
                moves: Vec::new(),
            }
        };
        let each = config.moves_per_analyst;
        let analyst = |(idx, it): (u16, &Persona)| Participant {
            moves: (1..=each).map(|nth| format!("m{}", idx * each + nth)).collect(),
            ..person(Group::Analysts, it)
        };
        Self {
            synthesizers: [&config.synthesizers.financial, &config.synthesizers.news]
                .map(|it| person(Group::Synthesizers, it))
                .into(),
            inferences: [&config.inferences.f1, &config.inferences.f2]
                .map(|it| person(Group::Inferences, it))
                .into(),
            analysts: (0..).zip(&config.analysts).map(analyst).collect(),
            critic: person(Group::Critic, &config.critic),
            decision_makers: config
                .decision_makers
                .iter()
                .map(|it| person(Group::DecisionMakers, it))
                .collect(),
            metrics: config
                .metrics
                .iter()
                .map(|it| MetricInfo {
                    id: it.id.clone(),
                    name: it.name.clone(),
                    question: it.question.clone(),
                })
                .collect(),
            rounds: config.rounds,
            top_k: config.top_k,
        }
    }
}
