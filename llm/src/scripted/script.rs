//! Scripts: rules as data, for files and code.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ErrorKind;

/// Script of a scripted model: rules that are tried in order.
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
/// A longer script parses tables and builds JSON from them. `margin` is captured when it is used, and its groups
/// have names. Phrases that use something missing from the request are skipped:
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
    /// Seed of all random choices. The same seed gives the same answers.
    #[serde(default)]
    pub seed: u64,
    /// Regular expressions for text that must not affect answers, such as a run id.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignore: Vec<String>,
    /// Captures that templates of all rules may use. They are evaluated when a template uses them. A name without a
    /// match and without a list of the same name is missing; see [`lists`](Self::lists).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub captures: BTreeMap<String, Capture>,
    /// Phrases that templates refer to by the list's name. Phrases are templates themselves. Those that use
    /// something missing are skipped.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub lists: BTreeMap<String, Vec<Phrase>>,
    /// The rules. The first one whose conditions hold answers.
    #[serde(default)]
    pub rules: Vec<Rule>,
}

/// An entry of a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Phrase {
    /// A template.
    Text(String),
    /// JSON whose strings are templates, for use in templates that consist of the list's name.
    Json {
        /// The JSON.
        value: Value,
        /// Label by which `{place label}` refers to the entry once it is in an array of the answer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        label: Option<String>,
    },
}

/// A rule: conditions, an answer, and optional defects of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Rule {
    /// Conditions of the rule.
    pub when: Conditions,
    /// Captures from the request, by name. The rule applies only if all captures without `or` are found.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub captures: BTreeMap<String, Capture>,
    /// Name of the capture whose number, such as a round number, advances the lists, so that phrases do not repeat
    /// soon. By default, the number of earlier assistant messages is used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn: Option<String>,
    /// The answer.
    pub answer: Answer,
    /// Format violation of the answer.
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

/// Conditions of a rule; absent ones always hold.
///
/// Texts must occur in the request, ignoring case; `*` matches anything: `round*of 10`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Conditions {
    /// Text in the system prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// Text in the last message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// Name of the requested schema.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema: Option<String>,
    /// First and last occurrence number of this request for which the rule applies, starting at 1.
    ///
    /// Only identical requests are counted: a count of all requests would depend on the order of concurrent calls.
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
    /// The text at `{}`, up to the text after it or the end of the line: `Ticker: {}`, `[F{}]`.
    Find(String),
    /// The same, with a fallback.
    FindOr {
        /// The pattern.
        find: String,
        /// Fallback if nothing is found.
        or: String,
    },
    /// Matches of a regular expression: its first group, or the whole match if it has none. Templates can also
    /// refer to the groups of the first match: `{margin.now}`, or `{margin.0}` for the whole match.
    Regex {
        /// The regular expression.
        regex: String,
        /// Template that combines the groups, by name or number, into one text.
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
    /// JSON whose strings are templates. A template that is only a range, such as `"{1..10}"`, becomes a number;
    /// one that is only a list's name becomes the JSON of its entry.
    Json(Value),
    /// A tool call, with arguments as in [`Json`](Self::Json).
    Tool {
        /// Name of the tool.
        name: String,
        /// Arguments of the call.
        arguments: Value,
    },
}

/// How an answer violates the requested format.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Violation {
    /// Kind of violation.
    pub kind: ViolationKind,
    /// Probability, from 0 to 1.
    #[serde(default = "always")]
    pub chance: f64,
}

/// Kind of format violation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ViolationKind {
    /// Wrapped in a code block.
    Fenced,
    /// Surrounded by prose.
    Prose,
    /// Truncated: the last third is missing.
    Broken,
    /// Numbers and booleans of JSON as strings.
    WrongTypes,
    /// Empty.
    Empty,
}

/// A simulated failure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    /// Error kind.
    pub kind: ErrorKind,
    /// Probability, from 0 to 1.
    #[serde(default = "always")]
    pub chance: f64,
    /// Number of words of the answer to send before failing.
    #[serde(default)]
    pub after_words: usize,
    /// Wait that the error asks for, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

fn always() -> f64 {
    1.0
}

impl Script {
    /// Creates a script without rules, which answers only requests with a schema.
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

    /// Adds a capture for all rules.
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

    /// Adds a rule after the others.
    pub fn rule(mut self, rule: Rule) -> Self {
        self.rules.push(rule);
        self
    }
}

impl Rule {
    /// Answers with a template.
    pub fn text(template: impl Into<String>) -> Self {
        Self::answer(Answer::Text(template.into()))
    }

    /// Answers with JSON whose strings are templates.
    pub fn json(value: Value) -> Self {
        Self::answer(Answer::Json(value))
    }

    /// Answers with generated values that conform to the request's schema.
    pub fn schema() -> Self {
        Self::answer(Answer::Schema)
    }

    /// Calls a tool.
    pub fn tool(name: impl Into<String>, arguments: Value) -> Self {
        Self::answer(Answer::Tool { name: name.into(), arguments })
    }

    /// Fails with an error of this kind.
    pub fn failure(kind: ErrorKind) -> Self {
        let failure = Failure { kind, chance: 1.0, after_words: 0, retry_after_ms: None };
        Self::schema().with_failure(failure)
    }

    fn answer(answer: Answer) -> Self {
        Self { answer, ..Self::default() }
    }

    /// Applies only if the system prompt contains this text.
    pub fn when_system(mut self, text: impl Into<String>) -> Self {
        self.when.system = Some(text.into());
        self
    }

    /// Applies only if the last message contains this text.
    pub fn when_prompt(mut self, text: impl Into<String>) -> Self {
        self.when.prompt = Some(text.into());
        self
    }

    /// Applies only if the schema with this name is requested.
    pub fn when_schema(mut self, name: impl Into<String>) -> Self {
        self.when.schema = Some(name.into());
        self
    }

    /// Applies only to the first `n` occurrences of a request.
    pub fn first_occurrences(mut self, n: u32) -> Self {
        self.when.times = Some([1, n]);
        self
    }

    /// Applies with this probability, from 0 to 1.
    pub fn when_chance(mut self, chance: f64) -> Self {
        self.when.chance = Some(chance);
        self
    }

    /// Adds a capture: see [`Capture::Find`].
    pub fn capture(mut self, name: impl Into<String>, pattern: impl Into<String>) -> Self {
        self.captures.insert(name.into(), Capture::Find(pattern.into()));
        self
    }

    /// Adds a capture with a fallback.
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

    /// Sets the capture that advances the lists: see [`turn`](Self::turn).
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
    /// Captures the matches of a regular expression: see [`Capture::Regex`].
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
