//! What goes over the wire, all in one place.

use chrono::{DateTime, SecondsFormat, Utc};
use graph_server::{RunInfo, Status};
use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::{Map, Number, Value};
use utoipa::{IntoParams, ToSchema};

use crate::{
    config::{Config, Persona},
    models::Limit,
    spent::Spent,
};

/// Dollars that a budget has at least.
const LEAST: f64 = 0.000_001;

/// The largest whole number that a request may hold: what is beyond it is no `int64`.
pub(super) const LARGEST: u64 = i64::MAX.unsigned_abs();

/// Reads a whole number as JSON Schema knows it, to which 3.0 is as whole as 3.
fn whole<'de, D: Deserializer<'de>, N: TryFrom<u64>>(from: D) -> Result<Option<N>, D::Error> {
    let Some(number) = Option::<Number>::deserialize(from)? else { return Ok(None) };
    let is_whole = |it: &f64| it.fract() == 0.0 && (0.0..LARGEST as f64).contains(it);
    let read = number.as_u64().or_else(|| number.as_f64().filter(is_whole).map(|it| it as u64));
    let fits = read.filter(|it| *it <= LARGEST).and_then(|it| N::try_from(it).ok());
    let wrong = || de::Error::custom(format!("{number} is no whole number, or too large a one"));
    fits.map(Some).ok_or_else(wrong)
}

/// A run that is asked for.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Analyze {
    /// The company, like NVDA or BRK.B.
    #[schema(
        min_length = 1,
        max_length = 12,
        pattern = "^\\^?[A-Za-z0-9]+([.=-][A-Za-z0-9]+)*$",
        example = "NVDA"
    )]
    pub(super) ticker: String,
    /// Rounds of each debate.
    #[serde(default, deserialize_with = "whole")]
    #[schema(minimum = 1, maximum = 50)]
    pub(super) rounds: Option<u32>,
    /// What a scripted model's answers follow from.
    #[serde(default, deserialize_with = "whole")]
    pub(super) seed: Option<u64>,
    /// Debates at once.
    #[serde(default, deserialize_with = "whole")]
    #[schema(minimum = 1, maximum = 15)]
    pub(super) concurrency: Option<usize>,
    /// Whether the moves are scored before the debates too.
    #[serde(default)]
    pub(super) baseline: bool,
    /// Whether the run waits before the debates, for a person to look at the moves.
    #[serde(default)]
    pub(super) review: bool,
    /// Tokens the whole run may use, in and out together.
    #[serde(default, deserialize_with = "whole")]
    #[schema(minimum = 1)]
    pub(super) max_tokens: Option<u64>,
    /// Dollars the whole run may cost.
    #[schema(minimum = 0.000001)]
    pub(super) max_dollars: Option<f64>,
}

/// What a run may spend in all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub(super) struct Budget {
    /// Tokens, in and out together.
    #[schema(minimum = 1)]
    pub(super) max_tokens: Option<u64>,
    /// Dollars.
    #[schema(minimum = 0.000001)]
    pub(super) max_dollars: Option<f64>,
}

/// A run that was started or goes on.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(super) struct Started {
    /// The run's id.
    pub(super) analysis_id: String,
    /// The company.
    pub(super) ticker: String,
    /// Where the run stands.
    pub(super) status: Status,
    /// Where its events are streamed.
    pub(super) sse_url: String,
}

/// A run in short.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(super) struct RunSummary {
    /// Its id.
    pub(super) id: String,
    /// The company.
    pub(super) ticker: String,
    /// Where it stands.
    pub(super) status: Status,
    /// Why it failed.
    pub(super) error: Option<String>,
    /// When it was made.
    #[schema(format = DateTime)]
    pub(super) created_at: String,
    /// When its status changed last.
    #[schema(format = DateTime)]
    pub(super) updated_at: String,
    /// Since when it rests.
    #[schema(format = DateTime)]
    pub(super) ended_at: Option<String>,
    /// The best moves, best first, of a run that is complete.
    pub(super) recommended: Vec<Best>,
    /// The run it branched off from.
    pub(super) from: Option<String>,
}

/// A recommended move in short.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(super) struct Best {
    /// The move.
    pub(super) move_id: String,
    /// What it is called.
    pub(super) title: String,
    /// Its score.
    pub(super) score: u32,
}

/// A page of runs.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(super) struct Runs {
    /// The runs, newest first.
    pub(super) runs: Vec<RunSummary>,
    /// What to give as `before` for those that follow; null if none do.
    pub(super) next: Option<String>,
}

/// Which runs are wanted.
#[derive(Debug, Clone, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct RunsWanted {
    /// At most so many.
    #[param(minimum = 1, maximum = 200, default = 50)]
    pub(super) limit: Option<usize>,
    /// Only runs that were made before this one.
    pub(super) before: Option<String>,
}

/// A run with all that is known of it while it runs.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(super) struct RunDetail {
    #[serde(flatten)]
    pub(super) summary: RunSummary,
    /// What it has spent so far.
    pub(super) usage: Usage,
    /// So many calls are made if nothing goes wrong.
    pub(super) planned_calls: u64,
    /// What it was given.
    pub(super) settings: Settings,
    /// Who takes part.
    pub(super) config: Cast,
    /// Where it branched off from another run.
    pub(super) branch: Option<BranchedOff>,
}

/// What a run has spent.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
pub(super) struct Usage {
    /// Calls that were answered.
    pub(super) calls: u64,
    /// Tokens that went in.
    pub(super) input_tokens: u64,
    /// Of these, tokens from a provider's cache.
    pub(super) cached_tokens: u64,
    /// Tokens that came out.
    pub(super) output_tokens: u64,
    /// Dollars, as far as prices are known.
    pub(super) dollars: f64,
}

/// What a run was given.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(super) struct Settings {
    /// Rounds of each debate.
    pub(super) rounds: u32,
    /// Debates at once.
    pub(super) concurrency: usize,
    /// Whether the moves are scored before the debates too.
    pub(super) baseline: bool,
    /// Whether a person looks at the moves.
    pub(super) review: bool,
    /// What a scripted model's answers follow from.
    pub(super) seed: u64,
    /// Who speaks.
    pub(super) provider: String,
    /// The model, where it is not the configuration's.
    pub(super) model: Option<String>,
    #[serde(flatten)]
    pub(super) limit: Budget,
}

/// Where a run branched off.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(super) struct BranchedOff {
    /// From which run.
    pub(super) from: String,
    /// Where.
    pub(super) at: String,
    /// Whether only that move was debated again.
    pub(super) only: bool,
    /// What was changed.
    pub(super) set: Vec<String>,
}

/// Who takes part in runs, and what is measured.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(super) struct Cast {
    pub(super) synthesizers: Vec<Person>,
    pub(super) inferences: Vec<Person>,
    pub(super) analysts: Vec<Person>,
    pub(super) critic: Person,
    pub(super) decision_makers: Vec<Person>,
    pub(super) metrics: Vec<MetricShown>,
    pub(super) rounds: u32,
    pub(super) top_k: usize,
}

/// Someone who takes part.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(super) struct Person {
    /// What events call it.
    pub(super) id: String,
    /// What people call it.
    pub(super) name: String,
    /// The moves it proposes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub(super) moves: Vec<String>,
}

/// Something that is scored.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(super) struct MetricShown {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) question: String,
}

/// What the page needs to know before it asks for anything. Without a key, where one is needed, that is the first two.
#[derive(Debug, Clone, Default, Serialize, ToSchema)]
pub(super) struct Setup {
    /// Whether requests need a key.
    pub(super) needs_key: bool,
    /// The program's version.
    pub(super) version: String,
    /// Who speaks in new runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) provider: Option<String>,
    /// The model, where it is not the configuration's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) model: Option<String>,
    /// Where companies are read from: `synthetic`, `edgar` or `dir`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) data: Option<String>,
    /// Debates at once, where a request says nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) concurrency: Option<usize>,
    /// Who takes part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) config: Option<Cast>,
}

/// What a run came to.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(super) struct Results {
    /// The run's id.
    pub(super) analysis_id: String,
    /// The company.
    pub(super) ticker: String,
    /// Where the run stands.
    pub(super) status: Status,
    /// Why it failed.
    pub(super) error: Option<String>,
    /// The report, with the moves, findings and debates; null before the run's end.
    pub(super) result: Option<Map<String, Value>>,
}

/// Which events are wanted.
#[derive(Debug, Clone, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct EventsWanted {
    /// Only those after this number.
    #[param(minimum = 0, default = 0)]
    pub(super) after: Option<u64>,
    /// At most so many.
    #[param(minimum = 1, maximum = 1000, default = 1000)]
    pub(super) limit: Option<usize>,
}

/// Events of a run.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(super) struct Events {
    /// The events: each has a number `seq` and a `type`.
    pub(super) events: Vec<Map<String, Value>>,
    /// The number of the last one here; what to give as `after` for those that follow.
    pub(super) last: u64,
}

/// How a run is to go on.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Resume {
    /// The moves to debate, for a run that waits for a person to look at them: as `review` gives them, edited, without
    /// those that are dropped.
    pub(super) moves: Option<Vec<Map<String, Value>>>,
    /// Tokens the whole run may use, in and out together.
    #[serde(default, deserialize_with = "whole")]
    #[schema(minimum = 1)]
    pub(super) max_tokens: Option<u64>,
    /// Dollars the whole run may cost.
    #[schema(minimum = 0.000001)]
    pub(super) max_dollars: Option<f64>,
}

/// Where a run is to branch off.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ForkWanted {
    /// `layer_0`, `layer_1`, `layer_2`, `m4` or `m4:r5`.
    #[schema(
        max_length = 20,
        pattern = "^(layer_[0-2]|m[1-9][0-9]{0,2}(:r[1-9][0-9]?)?)$",
        example = "m4:r5"
    )]
    pub(super) at: String,
    /// What to change, each as `path=value`.
    #[serde(default)]
    #[schema(max_items = 100)]
    pub(super) set: Vec<String>,
    /// Whether to debate only that move again.
    #[serde(default)]
    pub(super) only: bool,
    /// Debates at once.
    #[serde(default, deserialize_with = "whole")]
    #[schema(minimum = 1, maximum = 15)]
    pub(super) concurrency: Option<usize>,
    /// Tokens the whole run may use, in and out together.
    #[serde(default, deserialize_with = "whole")]
    #[schema(minimum = 1)]
    pub(super) max_tokens: Option<u64>,
    /// Dollars the whole run may cost.
    #[schema(minimum = 0.000001)]
    pub(super) max_dollars: Option<f64>,
}

/// What a run would be given.
#[derive(Debug, Clone, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct PlanWanted {
    /// Rounds of each debate.
    #[param(minimum = 1, maximum = 50)]
    pub(super) rounds: Option<u32>,
    /// With scores before the debates too.
    pub(super) baseline: Option<bool>,
    /// Debates at once.
    #[param(minimum = 1, maximum = 15)]
    pub(super) concurrency: Option<usize>,
}

/// Two runs to compare.
#[derive(Debug, Clone, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Pair {
    /// A run.
    pub(super) a: String,
    /// The other one.
    pub(super) b: String,
}

/// The files that a run left.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(super) struct Files {
    pub(super) files: Vec<FileShown>,
}

/// A file that a run left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(super) struct FileShown {
    /// Its name.
    pub(super) name: String,
    /// Its length.
    pub(super) bytes: u64,
}

/// What the registry keeps of how a run is gone on with.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Kept {
    pub(super) concurrency: usize,
    #[serde(default)]
    pub(super) limit: Budget,
    #[serde(default)]
    pub(super) from: Option<String>,
}

/// An order that a run is gone on with.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Order {
    pub(super) moves: Option<Vec<Map<String, Value>>>,
    #[serde(default)]
    pub(super) limit: Budget,
}

/// What a complete run came to, as the registry keeps it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Outcome {
    #[serde(default)]
    pub(super) recommended: Vec<Best>,
}

impl Budget {
    pub(super) fn limit(self) -> Limit {
        Limit { tokens: self.max_tokens, money: self.max_dollars.map(llm::Money::from_dollars) }
    }

    /// The same, where it says nothing or no more than an operator allows.
    pub(super) fn within(self, most: Limit) -> Result<Self, String> {
        let (tokens, dollars) = (most.tokens, most.money.map(llm::Money::dollars));
        if let (Some(wanted), Some(most)) = (self.max_tokens, tokens)
            && wanted > most
        {
            return Err(format!("this server's runs may use {most} tokens at most"));
        }
        if let (Some(wanted), Some(most)) = (self.max_dollars, dollars)
            && wanted > most
        {
            return Err(format!("this server's runs may cost ${most:.2} at most"));
        }
        Ok(Self {
            max_tokens: self.max_tokens.or(tokens),
            max_dollars: self.max_dollars.or(dollars),
        })
    }

    /// What is wrong with it, if anything.
    pub(super) fn problem(self) -> Option<&'static str> {
        if self.max_dollars.is_some_and(|it| !(it.is_finite() && it >= LEAST)) {
            return Some("`max_dollars` is a millionth of a dollar at least");
        }
        if self.max_tokens == Some(0) { Some("`max_tokens` is 1 at least") } else { None }
    }
}

impl Started {
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
        let outcome: Outcome = serde_json::from_value(run.outcome.clone()).unwrap_or_default();
        let kept: Kept = serde_json::from_value(run.input.clone()).unwrap_or_default();
        Self {
            id: run.id.clone(),
            ticker: run.subject.clone(),
            status: run.status,
            error: run.error.clone(),
            created_at: time(run.created_at),
            updated_at: time(run.updated_at),
            ended_at: run.ended_at.map(time),
            recommended: outcome.recommended,
            from: kept.from,
        }
    }
}

impl From<Spent> for Usage {
    fn from(spent: Spent) -> Self {
        Self {
            calls: spent.calls,
            input_tokens: spent.input,
            cached_tokens: spent.cached,
            output_tokens: spent.output,
            dollars: spent.money.dollars(),
        }
    }
}

impl From<&Config> for Cast {
    fn from(config: &Config) -> Self {
        let person =
            |it: &Persona| Person { id: it.id.clone(), name: it.name.clone(), moves: Vec::new() };
        let each = config.moves_per_analyst;
        let analyst = |(idx, it): (u16, &Persona)| Person {
            moves: (1..=each).map(|nth| format!("m{}", idx * each + nth)).collect(),
            ..person(it)
        };
        Self {
            synthesizers: vec![
                person(&config.synthesizers.financial),
                person(&config.synthesizers.news),
            ],
            inferences: vec![person(&config.inferences.f1), person(&config.inferences.f2)],
            analysts: (0..).zip(&config.analysts).map(analyst).collect(),
            critic: person(&config.critic),
            decision_makers: config.decision_makers.iter().map(person).collect(),
            metrics: config
                .metrics
                .iter()
                .map(|it| MetricShown {
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
