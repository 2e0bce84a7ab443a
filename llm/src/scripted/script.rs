//! Scripts: rules as data, for files and for code.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ErrorKind;

/// What a scripted model answers: rules, tried in their order.
///
/// It is plain data and comes from any format that serde reads, as JSON or TOML:
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
/// A longer script takes tables apart and builds JSON from what it finds there. `margin` is looked for where it is
/// used, and its groups are known by their names. A phrase that uses what is not in the request is passed over:
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
    /// The model's name.
    pub name: String,
    /// Decides every choice. Another seed gives other answers, the same seed the same.
    #[serde(default)]
    pub seed: u64,
    /// Regular expressions for what decides nothing, as the mark of a run: answers are the same without it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignore: Vec<String>,
    /// What templates of all rules may take from the request. It is looked for when a template uses it; what is not
    /// found and no list has the name of, is missing: see [`lists`](Self::lists).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub captures: BTreeMap<String, Capture>,
    /// Phrases that templates take one of by the list's name. They are templates themselves. A phrase that uses what is
    /// missing is passed over.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub lists: BTreeMap<String, Vec<Phrase>>,
    /// The rules. The first whose conditions hold answers.
    #[serde(default)]
    pub rules: Vec<Rule>,
}

/// An entry of a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Phrase {
    /// A template.
    Text(String),
    /// JSON whose strings are templates, for templates that are nothing but the list's name.
    Json {
        /// The JSON.
        value: Value,
        /// What `{place label}` finds it by, once it stands in an array of the answer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        label: Option<String>,
    },
}

/// When to answer what, and how badly.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Rule {
    /// Its conditions.
    pub when: Conditions,
    /// What to take from the request, by name. All that have no `or` must be found, or the rule does not hold.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub captures: BTreeMap<String, Capture>,
    /// The capture whose number turns the lists on, as a round's, so that phrases do not come back at once. Where
    /// none is named, the model's own earlier messages are counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn: Option<String>,
    /// The answer.
    pub answer: Answer,
    /// What is wrong with the answer's form.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub violation: Option<Violation>,
    /// How the call fails.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// How long it takes until the answer begins, in milliseconds.
    pub delay_ms: u64,
    /// How long each word takes, in milliseconds.
    pub word_ms: u64,
}

/// The conditions of a rule; those that are not given always hold.
///
/// A text has to occur, in any case of letters; `*` in it stands for anything: `round*of 10`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Conditions {
    /// In the system text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// In the last message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// The name of the schema that is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema: Option<String>,
    /// The how manieth time this very request comes, from the first to the last, counted from one.
    ///
    /// There is no count over all requests: it would depend on which of two concurrent calls came first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub times: Option<[u32; 2]>,
    /// How often, from 0 to 1, of all requests for which the other conditions hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chance: Option<f64>,
}

/// What to take from a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Capture {
    /// What stands for `{}`, up to the text behind it or the line's end: `Ticker: {}`, `[F{}]`.
    Find(String),
    /// The same, with what to take where nothing is found.
    FindOr {
        /// The pattern.
        find: String,
        /// What to take instead.
        or: String,
    },
    /// What a regular expression finds, over lines if it says so: its first group, or all of it where it has none.
    /// Templates also know the groups of the first place where it is found: `{margin.now}`, `{margin.0}` for all of it.
    Regex {
        /// The expression.
        regex: String,
        /// A template of the expression's groups, by name or number, that makes one text of them.
        #[serde(default, rename = "as", skip_serializing_if = "Option::is_none")]
        shape: Option<String>,
        /// What to take where nothing is found.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        or: Option<String>,
    },
}

/// What to answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// Values that fit the schema of the request.
    #[default]
    Schema,
    /// A template.
    Text(String),
    /// JSON whose strings are templates; one that is nothing but a range, as `"{1..10}"`, becomes a number, and one that
    /// is nothing but the name of a list becomes what stands there.
    Json(Value),
    /// A call of a tool, with arguments as in [`Json`](Self::Json).
    Tool {
        /// The tool's name.
        name: String,
        /// Its arguments.
        arguments: Value,
    },
}

/// What is wrong with an answer's form.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Violation {
    /// What it is.
    pub kind: ViolationKind,
    /// How often, from 0 to 1.
    #[serde(default = "always")]
    pub chance: f64,
}

/// A way to spoil an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ViolationKind {
    /// Between fences.
    Fenced,
    /// With words before and behind.
    Prose,
    /// Without its last third.
    Broken,
    /// Numbers and truth values of JSON as words.
    WrongTypes,
    /// Nothing at all.
    Empty,
}

/// How a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    /// What goes wrong.
    pub kind: ErrorKind,
    /// How often, from 0 to 1.
    #[serde(default = "always")]
    pub chance: f64,
    /// After so many words of the answer; at once where none are given.
    #[serde(default)]
    pub after_words: usize,
    /// How long the caller is asked to wait, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

fn always() -> f64 {
    1.0
}

impl Script {
    /// A script without rules: it answers requests for JSON, and those only.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// Sets the seed.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Leaves what a regular expression finds out of what decides.
    pub fn ignore(mut self, regex: impl Into<String>) -> Self {
        self.ignore.push(regex.into());
        self
    }

    /// Takes something from all requests that have it.
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

    /// Adds a rule, after the others.
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

    /// Answers with values that fit the schema of the request.
    pub fn schema() -> Self {
        Self::answer(Answer::Schema)
    }

    /// Calls a tool.
    pub fn tool(name: impl Into<String>, arguments: Value) -> Self {
        Self::answer(Answer::Tool { name: name.into(), arguments })
    }

    /// Fails in some way.
    pub fn failure(kind: ErrorKind) -> Self {
        let failure = Failure { kind, chance: 1.0, after_words: 0, retry_after_ms: None };
        Self::schema().with_failure(failure)
    }

    fn answer(answer: Answer) -> Self {
        Self { answer, ..Self::default() }
    }

    /// Holds where the system text has these words.
    pub fn when_system(mut self, words: impl Into<String>) -> Self {
        self.when.system = Some(words.into());
        self
    }

    /// Holds where the last message has these words.
    pub fn when_prompt(mut self, words: impl Into<String>) -> Self {
        self.when.prompt = Some(words.into());
        self
    }

    /// Holds where the schema of this name is asked for.
    pub fn when_schema(mut self, name: impl Into<String>) -> Self {
        self.when.schema = Some(name.into());
        self
    }

    /// Holds for the first so many times that a request comes.
    pub fn first_occurrences(mut self, n: u32) -> Self {
        self.when.times = Some([1, n]);
        self
    }

    /// Holds so often, from 0 to 1.
    pub fn when_chance(mut self, chance: f64) -> Self {
        self.when.chance = Some(chance);
        self
    }

    /// Takes something from the request: see [`Capture::Find`].
    pub fn capture(mut self, name: impl Into<String>, pattern: impl Into<String>) -> Self {
        self.captures.insert(name.into(), Capture::Find(pattern.into()));
        self
    }

    /// Takes something from the request, or this where it is not there.
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

    /// Names the capture whose number turns the lists on: see [`turn`](Self::turn).
    pub fn turn(mut self, capture: impl Into<String>) -> Self {
        self.turn = Some(capture.into());
        self
    }

    /// Spoils the answer always.
    pub fn violation(mut self, kind: ViolationKind) -> Self {
        self.violation = Some(Violation { kind, chance: 1.0 });
        self
    }

    /// Fails.
    pub fn with_failure(mut self, failure: Failure) -> Self {
        self.failure = Some(failure);
        self
    }

    /// Takes time: so many milliseconds before the answer, and for each word of it.
    pub fn timing(mut self, delay_ms: u64, word_ms: u64) -> Self {
        (self.delay_ms, self.word_ms) = (delay_ms, word_ms);
        self
    }
}

impl Capture {
    /// Takes what a regular expression finds: see [`Capture::Regex`].
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
