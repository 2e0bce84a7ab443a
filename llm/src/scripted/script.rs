//! Scripts of scripted models. A script is plain data that can be read from a file or built in code.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ErrorKind;

/// Script of a [`Scripted`](crate::Scripted) model: rules that are tried in order.
///
/// A script is plain data in any format that serde supports, such as JSON or TOML:
///
/// ```toml
/// name = "debate"
/// seed = 7
///
/// [lists]
/// doubt = ["The payback rests on {any fact|one quarter}.", "Who pays for the switch?"]
///
/// [[rules]]
/// when = { system = "critic" }
/// captures = { ticker = "Ticker: {}", fact = { find = "[F{}]", or = "no source" } }
/// answer = { text = "On {ticker}: {doubt} {doubt}" }
/// ```
///
/// A longer script reads values from tables in the request and builds JSON from them. The capture `margin` has named
/// groups. A phrase is skipped if it uses a capture that finds nothing in the request, such as `growth` here:
///
/// ```
/// # use llm::{Llm, Request, Script, Scripted};
/// # use serde_json::{Value, json};
/// let script = r#"
/// name = "reader"
///
/// [captures]
/// margin = { regex = '\| Margin \| (?<now>\S+) \| (?<sector>\S+) \|' }
/// growth = { regex = '\| Growth \| (\S+) \|' }
///
/// [[lists.finding]]
/// label = "margin"
/// value = { claim = "A margin of {margin.now}, {if margin.now < margin.sector: under|over} the sector's." }
///
/// [[lists.finding]]
/// value = { claim = "Growth: {growth}." }
///
/// [[lists.tension]]
/// value = { about = "{place margin}", text = "{Thin|Slim} for its size." }
///
/// [[rules]]
/// answer = { json = { findings = "{1..9 of finding}", tensions = "{0..3 of tension}" } }
/// "#;
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let llm = Llm::new(Scripted::new(toml::from_str::<Script>(script)?)?);
/// let answer = llm.generate(Request::new("| Margin | 8.5% | 12.0% |")).await?;
/// let read: Value = serde_json::from_str(&answer.text())?;
/// assert_eq!(read["findings"], json!([{ "claim": "A margin of 8.5%, under the sector's." }]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// Name of the model.
    pub name: String,
    /// Seed of all random choices. With the same seed, the same request gets the same answer.
    #[serde(default)]
    pub seed: u64,
    /// Regular expressions for text that must not affect answers, such as a run id.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignore: Vec<String>,
    /// Captures that the templates of all rules may use. A capture is searched for when a template uses it. If it
    /// finds nothing, the list with the same name is used; if there is no such list either, the name is missing, and
    /// the choices and phrases that use it are skipped.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub captures: BTreeMap<String, Capture>,
    /// Lists of phrases, by the name that templates use. Phrases are templates themselves. A phrase that uses a
    /// missing name is skipped.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub lists: BTreeMap<String, Vec<Phrase>>,
    /// The rules. The first rule whose conditions hold determines the answer.
    #[serde(default)]
    pub rules: Vec<Rule>,
}

/// A phrase in a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Phrase {
    /// A template.
    Text(String),
    /// JSON whose strings are templates. A template that consists only of the placeholder for the list, such as
    /// `{finding}`, becomes this JSON.
    Json {
        /// The JSON.
        value: Value,
        /// Label of the phrase. `{place label}` is replaced with the position of the phrase in an array of the
        /// answer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        label: Option<String>,
    },
}

/// A rule: its conditions, its answer, and optional simulated defects such as a failure or a delay.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Rule {
    /// Conditions of the rule.
    pub when: Conditions,
    /// Captures from the request, by name. The rule applies only if all captures without `or` are found.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub captures: BTreeMap<String, Capture>,
    /// Name of a capture that contains the number of the turn, such as a round number. Each turn starts one phrase
    /// later in every list, so phrases rarely repeat. By default, the turn is the number of earlier assistant messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn: Option<String>,
    /// The answer.
    pub answer: Answer,
    /// Simulated violation of the requested format.
    #[serde(rename = "flaw", skip_serializing_if = "Option::is_none")]
    pub violation: Option<Violation>,
    /// Simulated failure of the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// Delay before the answer starts, in milliseconds.
    pub delay_ms: u64,
    /// Delay before each word, in milliseconds.
    pub word_ms: u64,
}

/// Conditions of a rule. A condition that is absent always holds.
///
/// `system` and `prompt` must occur in the request, ignoring case. A `*` in them matches any text, as in
/// `round*of 10`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Conditions {
    /// Text that the system prompt must contain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// Text that the last user message must contain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// Name that the requested schema must have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema: Option<String>,
    /// Occurrences of a request to which the rule applies: the numbers of the first and the last one, starting at 1.
    ///
    /// Only identical requests are counted, because a count of all requests would depend on the order of concurrent
    /// calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub times: Option<[u32; 2]>,
    /// Probability, from 0 to 1, that the rule applies if all other conditions hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chance: Option<f64>,
}

/// What to capture from a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Capture {
    /// Captures the text at `{}` in a pattern such as `Ticker: {}` or `[F{}]`. The captured text ends where the text
    /// after `{}` occurs, or at the end of the line if the pattern ends with `{}`.
    Find(String),
    /// Like [`Find`](Self::Find), but with a fallback.
    FindOr {
        /// The pattern, with one `{}`.
        find: String,
        /// Fallback if nothing is found.
        or: String,
    },
    /// Captures the matches of a regular expression: the first group of each match, or the whole match if there is
    /// no group. If the capture belongs to the script, templates can also use the groups of its first match, as in
    /// `{margin.now}`, or `{margin.0}` for the whole match.
    Regex {
        /// The regular expression.
        regex: String,
        /// Template for the captured text. Its placeholders are the names or numbers of the groups.
        #[serde(default, rename = "as", skip_serializing_if = "Option::is_none")]
        shape: Option<String>,
        /// Fallback if nothing is found.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        or: Option<String>,
    },
}

/// The answer of a rule.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// Generated values that conform to the request's schema.
    #[default]
    Schema,
    /// A template.
    Text(String),
    /// JSON whose strings are templates. A template that consists only of a range, such as `"{1..10}"`, becomes a
    /// number. A template that consists only of the placeholder for a list becomes the JSON of the next phrase in the
    /// list.
    Json(Value),
    /// A tool call, with arguments as in [`Json`](Self::Json).
    Tool {
        /// Name of the tool.
        name: String,
        /// Arguments of the call.
        arguments: Value,
    },
}

/// A simulated violation of the requested format.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Violation {
    /// Kind of violation.
    pub kind: ViolationKind,
    /// Probability of the violation, from 0 to 1.
    #[serde(default = "always")]
    pub chance: f64,
}

/// Kind of format violation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ViolationKind {
    /// The answer is wrapped in a code block.
    Fenced,
    /// The answer is surrounded by prose.
    Prose,
    /// The answer is truncated: its last third is missing.
    Broken,
    /// The numbers and booleans in the JSON are strings.
    WrongTypes,
    /// The answer is empty.
    Empty,
}

/// A simulated failure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    /// Kind of the returned error.
    pub kind: ErrorKind,
    /// Probability of the failure, from 0 to 1.
    #[serde(default = "always")]
    pub chance: f64,
    /// Number of words of the answer to send before failing.
    #[serde(default)]
    pub after_words: usize,
    /// Value of [`retry_after`](crate::Error::retry_after) in the error, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

fn always() -> f64 {
    1.0
}

impl Script {
    /// Creates a script without rules. Until rules are added, the model answers only requests with a schema.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// Sets the seed.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Adds a regular expression for text that must not affect answers.
    pub fn ignore(mut self, regex: impl Into<String>) -> Self {
        self.ignore.push(regex.into());
        self
    }

    /// Adds a capture that the templates of all rules may use.
    pub fn capture(mut self, name: impl Into<String>, capture: Capture) -> Self {
        self.captures.insert(name.into(), capture);
        self
    }

    /// Adds a list of phrases.
    pub fn list<I: IntoIterator<Item: Into<Phrase>>>(
        mut self,
        name: impl Into<String>,
        phrases: I,
    ) -> Self {
        self.lists.insert(name.into(), phrases.into_iter().map(Into::into).collect());
        self
    }

    /// Adds a rule, which is tried after the rules added before.
    pub fn rule(mut self, rule: Rule) -> Self {
        self.rules.push(rule);
        self
    }
}

impl Rule {
    /// Creates a rule that answers with a template.
    pub fn text(template: impl Into<String>) -> Self {
        Self::answer(Answer::Text(template.into()))
    }

    /// Creates a rule that answers with JSON whose strings are templates.
    pub fn json(value: Value) -> Self {
        Self::answer(Answer::Json(value))
    }

    /// Creates a rule that answers with generated values that conform to the request's schema.
    pub fn schema() -> Self {
        Self::answer(Answer::Schema)
    }

    /// Creates a rule that answers with a tool call.
    pub fn tool(name: impl Into<String>, arguments: Value) -> Self {
        Self::answer(Answer::Tool { name: name.into(), arguments })
    }

    /// Creates a rule that fails every call with an error of this kind.
    pub fn failure(kind: ErrorKind) -> Self {
        let failure = Failure { kind, chance: 1.0, after_words: 0, retry_after_ms: None };
        Self::schema().with_failure(failure)
    }

    fn answer(answer: Answer) -> Self {
        Self { answer, ..Self::default() }
    }

    /// Makes the rule apply only if the system prompt contains this text.
    pub fn when_system(mut self, text: impl Into<String>) -> Self {
        self.when.system = Some(text.into());
        self
    }

    /// Makes the rule apply only if the last user message contains this text.
    pub fn when_prompt(mut self, text: impl Into<String>) -> Self {
        self.when.prompt = Some(text.into());
        self
    }

    /// Makes the rule apply only if the schema with this name is requested.
    pub fn when_schema(mut self, name: impl Into<String>) -> Self {
        self.when.schema = Some(name.into());
        self
    }

    /// Makes the rule apply only to the first `n` occurrences of a request.
    pub fn first_occurrences(mut self, n: u32) -> Self {
        self.when.times = Some([1, n]);
        self
    }

    /// Makes the rule apply with this probability, from 0 to 1, if its other conditions hold.
    pub fn when_chance(mut self, chance: f64) -> Self {
        self.when.chance = Some(chance);
        self
    }

    /// Adds a capture with a pattern; see [`Capture::Find`].
    pub fn capture(mut self, name: impl Into<String>, pattern: impl Into<String>) -> Self {
        self.captures.insert(name.into(), Capture::Find(pattern.into()));
        self
    }

    /// Adds a capture with a pattern and a fallback; see [`Capture::FindOr`].
    pub fn capture_or(
        mut self,
        name: impl Into<String>,
        pattern: impl Into<String>,
        or: impl Into<String>,
    ) -> Self {
        let capture = Capture::FindOr { find: pattern.into(), or: or.into() };
        self.captures.insert(name.into(), capture);
        self
    }

    /// Sets the capture that contains the number of the turn; see [`turn`](Self::turn).
    pub fn turn(mut self, capture: impl Into<String>) -> Self {
        self.turn = Some(capture.into());
        self
    }

    /// Makes every answer violate the requested format.
    pub fn violation(mut self, kind: ViolationKind) -> Self {
        self.violation = Some(Violation { kind, chance: 1.0 });
        self
    }

    /// Adds a simulated failure.
    pub fn with_failure(mut self, failure: Failure) -> Self {
        self.failure = Some(failure);
        self
    }

    /// Sets the delays in milliseconds before the answer and before each word.
    pub fn timing(mut self, delay_ms: u64, word_ms: u64) -> Self {
        (self.delay_ms, self.word_ms) = (delay_ms, word_ms);
        self
    }
}

impl Capture {
    /// Creates a capture for the matches of a regular expression; see [`Capture::Regex`].
    pub fn regex(regex: impl Into<String>) -> Self {
        Self::Regex { regex: regex.into(), shape: None, or: None }
    }

    pub(crate) fn or(&self) -> Option<&str> {
        match self {
            Self::Find(_) => None,
            Self::FindOr { or, .. } => Some(or),
            Self::Regex { or, .. } => or.as_deref(),
        }
    }
}

impl From<&str> for Phrase {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Phrase {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}
