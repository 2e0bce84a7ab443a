//! A model that follows a script, for tests, demonstrations and runs without an API key.
//!
//! The provider name of such a model is `scripted`. Its answers are deterministic: they depend only on the script, the
//! request, and how often the same request was made before. They do not depend on the order of concurrent calls.

pub use self::{
    check::ScriptError,
    script::{
        Answer, Capture, Conditions, Failure, Phrase, Rule, Script, Violation, ViolationKind,
    },
};

mod capture;
mod check;
mod fill;
mod phrases;
mod script;
mod seeded_rng;
mod source;
mod template;
mod tree;
mod violation;

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
    fmt,
    sync::Mutex,
    time::Duration,
};

use async_trait::async_trait;
use tokio::time::sleep;

use self::{
    capture::{CaptureLookup, Captures, RequestTexts},
    check::{CheckedAnswer, CheckedRule, CheckedScript},
    seeded_rng::{SeededRng, mix},
    source::TemplateSource,
};
use crate::{
    Error, ErrorKind, Finish, Listener, Model, ModelId, Money, Part, Piece, Request, Response,
    Role, ToolCall, Usage,
    lock::lock,
    overflow::{estimate_tokens, text_tokens},
};

/// A model that follows a [`Script`].
///
/// A script for an analyst, a critic and a judge:
///
/// ```
/// use llm::{Llm, Request, Rule, Script, Scripted};
/// use serde_json::json;
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Verdict {
///     #[schemars(range(min = 1, max = 10))]
///     impact: u8,
///     reasoning: String,
/// }
///
/// let script = Script::new("debate")
///     .seed(7)
///     .list("doubt", ["The payback rests on one quarter.", "Nobody owns the switch.", "Rivals can copy it."])
///     .rule(
///         Rule::text("{ticker} should {raise prices|open a second plant}; see {any fact}.")
///             .when_system("analyst")
///             .capture("ticker", "Ticker: {}")
///             .capture_or("fact", "[F{}]", "the filing"),
///     )
///     .rule(Rule::text("{doubt} {doubt}").when_system("critic"))
///     .rule(
///         Rule::json(json!({"impact": "{4..8}", "reasoning": "{doubt} Still worth a trial."}))
///             .when_schema("Verdict"),
///     );
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let llm = Llm::new(Scripted::new(script)?);
/// let request = Request::new("Ticker: ACME\nFacts: [F1-07], [F2-01]").system("You are an analyst.");
/// let advice = llm.generate(request).await?;
/// assert!(advice.text().starts_with("ACME should "));
/// assert_eq!(advice.model.to_string(), "scripted/debate");
///
/// let verdict = llm.generate_json::<Verdict>("Judge the debate.").await?;
/// assert!((4..=8).contains(&verdict.value.impact));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Scripted {
    name: String,
    seed: u64,
    script: CheckedScript,
    /// Rule for requests that have a schema and match no rule of the script.
    default_rule: CheckedRule,
    /// Number of times that each request was made, keyed by the hash of the request.
    // A std mutex suffices, because it is locked only to count and never across an await.
    times: Mutex<HashMap<u64, u32>>,
}

/// A request and the data that rules derive from it.
struct Call<'a> {
    request: &'a Request,
    /// Seed of all random choices for this call. It is derived from the script's seed, the request, and the
    /// occurrence number of the request.
    key: u64,
    /// Occurrence number of the request, starting at 1.
    time: u32,
    /// Texts of the request that are searched for captures.
    texts: RequestTexts,
}

impl Scripted {
    /// Provider name of scripted models.
    pub const PROVIDER: &'static str = "scripted";

    /// Creates a model that follows a script. Returns an error if the script is invalid, for example if a template
    /// uses an unknown name.
    pub fn new(script: Script) -> Result<Self, ScriptError> {
        let checked = check::check(&script)?;
        let Script { name, seed, .. } = script;
        Ok(Self {
            name,
            seed,
            script: checked,
            default_rule: CheckedRule::default(),
            times: Mutex::default(),
        })
    }

    fn count(&self, request: u64) -> u32 {
        let mut times = lock(&self.times);
        let time = times.entry(request).or_insert(0);
        *time = time.saturating_add(1);
        *time
    }

    /// Creates the parts of the answer that a rule specifies.
    fn answer(&self, rule: &CheckedRule, captures: &Captures, call: &Call<'_>) -> Vec<Part> {
        let found = self.found(captures, call);
        let mut source = self.source(rule, &found, captures, call);
        let text = match &rule.answer {
            CheckedAnswer::Text(template) => template.fill(&mut source),
            CheckedAnswer::Json(tree) => tree.fill(&mut source).to_string(),
            CheckedAnswer::Schema => schema_answer(call),
            CheckedAnswer::Tool { name, arguments } => {
                let arguments = arguments.fill(&mut source);
                let id = format!("call_{:016x}", call.key);
                return vec![Part::ToolCall(ToolCall {
                    id,
                    name: name.clone(),
                    arguments,
                    opaque: None,
                })];
            }
        };
        let violation =
            rule.rule.violation.filter(|it| SeededRng::of(call.key, "flaw").happens(it.chance));
        vec![Part::text(
            violation.map_or_else(|| text.clone(), |it| violation::apply(it.kind, &text)),
        )]
    }

    fn found<'a>(&'a self, captures: &'a Captures, call: &'a Call<'_>) -> CaptureLookup<'a> {
        CaptureLookup::of(captures, self.seed).with(&self.script.captures, &call.texts)
    }

    /// Removes all matches of the script's `ignore` expressions from a text.
    fn without_ignored<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.script.ignore.iter().fold(Cow::Borrowed(text), |text, regex| {
            match regex.replace_all(&text, "") {
                Cow::Borrowed(_) => text,
                Cow::Owned(without) => Cow::Owned(without),
            }
        })
    }

    /// Creates the source that templates are filled from. The order of phrases is the same within a conversation. A
    /// conversation is identified by its system prompt and its first message. If the rule has a `turn`, the rule's
    /// other captures are used instead of the first message.
    fn source<'a>(
        &'a self,
        rule: &CheckedRule,
        found: &'a CaptureLookup<'a>,
        captures: &Captures,
        call: &Call<'_>,
    ) -> TemplateSource<'a> {
        let request = call.request;
        let system = self.without_ignored(request.system.as_deref().unwrap_or_default());
        let mut order = mix(self.seed, system.as_bytes());
        let turn = match &rule.rule.turn {
            Some(name) => {
                for (other, found) in captures.iter().filter(|it| it.0 != name) {
                    order = mix(mix(order, other.as_bytes()), found.join("\n").as_bytes());
                }
                captures.get(name).and_then(|it| it.first()?.parse().ok()).unwrap_or(0)
            }
            None => {
                let first = request.messages.first().map(crate::Message::text).unwrap_or_default();
                order = mix(order, self.without_ignored(&first).as_bytes());
                request.messages.iter().filter(|it| it.role == Role::Assistant).count()
            }
        };
        let turn = turn.wrapping_add(call.time as usize - 1);
        TemplateSource::new(
            found,
            &self.script.lists,
            SeededRng::of(call.key, "answer"),
            order,
            turn,
        )
    }

    fn no_rule(&self, call: &Call<'_>) -> Error {
        let start = |text: &str| text.chars().take(80).collect::<String>();
        let message = format!(
            "no rule of the script matches the request, whose system prompt starts with {:?} and whose last user message \
            starts with {:?}; add a rule for it, or add a rule without conditions at the end",
            start(call.request.system.as_deref().unwrap_or_default()),
            start(&capture::prompt(call.request)),
        );
        Error::new(ErrorKind::BadRequest, self.id(), message)
    }
}

#[async_trait]
impl Model for Scripted {
    fn id(&self) -> ModelId {
        ModelId::new(Self::PROVIDER, &*self.name)
    }

    async fn call(
        &self,
        request: &Request,
        listener: &mut Listener<'_>,
    ) -> Result<Response, Error> {
        let Decision { rule, content, cut, key } = self.decide(request)?;
        let latency = self.emit(rule, &content, key, listener).await?;
        let finish = match content.as_slice() {
            _ if cut => Finish::Length,
            [Part::ToolCall(_)] => Finish::ToolCalls,
            _ => Finish::Stop,
        };
        let usage = Some(usage(request, &content));
        Ok(Response { content, model: self.id(), finish, usage, latency, cost: Some(Money::ZERO) })
    }
}

/// The answer to a request, and the rule that produced it.
struct Decision<'a> {
    rule: &'a Rule,
    content: Vec<Part>,
    /// Whether the answer was truncated at the token limit.
    cut: bool,
    key: u64,
}

impl Scripted {
    fn decide(&self, request: &Request) -> Result<Decision<'_>, Error> {
        let written = serde_json::to_string(request).expect("a request is valid JSON");
        let hash = mix(self.seed, self.without_ignored(&written).as_bytes());
        let time = self.count(hash);
        let key = mix(hash, &time.to_le_bytes());
        let call = Call { request, key, time, texts: RequestTexts::of(request) };
        let (rule, captures) = match self.rule(&call) {
            Some(found) => found,
            None if request.schema.is_some() => (&self.default_rule, BTreeMap::new()),
            None => return Err(self.no_rule(&call)),
        };
        let (content, cut) = shorten(self.answer(rule, &captures, &call), request);
        Ok(Decision { rule: &rule.rule, content, cut, key })
    }

    /// Returns the first rule that applies to the call, with its captures.
    fn rule(&self, call: &Call<'_>) -> Option<(&CheckedRule, Captures)> {
        self.script.rules.iter().enumerate().find_map(|(n, rule)| {
            let captures = rule.captures(call, self.seed)?;
            let drawn = |it| SeededRng::of(call.key, &format!("rule {n}")).happens(it);
            let found = self.found(&captures, call);
            let holds = rule.rule.when.chance.is_none_or(drawn)
                && rule.answer.can_fill(&self.source(rule, &found, &captures, call));
            holds.then_some((rule, captures))
        })
    }

    /// Sends the answer word by word with the rule's delays. If the rule simulates a failure, stops after the
    /// configured number of words and returns the error.
    async fn emit(
        &self,
        rule: &Rule,
        content: &[Part],
        key: u64,
        listener: &mut Listener<'_>,
    ) -> Result<Duration, Error> {
        let Rule { failure, delay_ms, word_ms, .. } = *rule;
        let failure = failure.filter(|it| SeededRng::of(key, "failure").happens(it.chance));
        let n_words = failure.map_or(usize::MAX, |it| it.after_words);
        let mut latency = Duration::from_millis(delay_ms);
        wait(latency).await;
        for piece in content.iter().flat_map(pieces).take(n_words) {
            let pause = Duration::from_millis(word_ms);
            wait(pause).await;
            latency += pause;
            listener.send(piece);
        }
        match failure {
            None => Ok(latency),
            Some(failure) => {
                let mut error = Error::new(failure.kind, self.id(), "simulated by the script");
                error.retry_after = failure.retry_after_ms.map(Duration::from_millis);
                Err(error)
            }
        }
    }
}

async fn wait(pause: Duration) {
    if !pause.is_zero() {
        sleep(pause).await;
    }
}

fn schema_answer(call: &Call<'_>) -> String {
    let schema = call.request.schema.as_ref();
    schema.map_or_else(String::new, |it| {
        fill::fill(&it.schema, &mut SeededRng::of(call.key, "schema")).to_string()
    })
}

fn pieces(part: &Part) -> Vec<Piece> {
    match part {
        Part::Text { text } => {
            let words = text.split_inclusive(char::is_whitespace);
            words.map(|it| Piece::Text(it.to_owned())).collect()
        }
        Part::ToolCall(call) => vec![Piece::ToolCall(call.clone())],
        Part::Reasoning { .. } | Part::ToolResult { .. } => Vec::new(),
    }
}

/// Truncates an answer at the first stop sequence and at the token limit. Returns the answer, and whether the token
/// limit truncated it.
fn shorten(content: Vec<Part>, request: &Request) -> (Vec<Part>, bool) {
    let mut cut = false;
    let content = content.into_iter().map(|part| match part {
        Part::Text { mut text } => {
            let stops = request.stop.iter().filter(|it| !it.is_empty());
            if let Some(end) = stops.filter_map(|it| text.find(it.as_str())).min() {
                text.truncate(end);
            }
            let end = fitting(&text, request.max_tokens);
            cut |= end < text.len();
            text.truncate(end);
            Part::Text { text }
        }
        other => other,
    });
    (content.collect(), cut)
}

/// Returns the length of the longest prefix that consists of whole words and has at most `max_tokens` tokens.
fn fitting(text: &str, max_tokens: u32) -> usize {
    if text_tokens(Scripted::PROVIDER, text) <= u64::from(max_tokens) {
        return text.len();
    }
    let mut end = 0;
    let mut tokens = 0;
    for word in text.split_inclusive(char::is_whitespace) {
        tokens += text_tokens(Scripted::PROVIDER, word);
        if tokens > u64::from(max_tokens) {
            break;
        }
        end += word.len();
    }
    end
}

fn usage(request: &Request, content: &[Part]) -> Usage {
    let output = content.iter().map(|part| match part {
        Part::Text { text } => text_tokens(Scripted::PROVIDER, text),
        Part::ToolCall(call) => text_tokens(Scripted::PROVIDER, &call.arguments.to_string()),
        Part::Reasoning { .. } | Part::ToolResult { .. } => 0,
    });
    let input = estimate_tokens(Scripted::PROVIDER, request);
    Usage { input, output: output.sum(), ..Usage::default() }
}

impl CheckedRule {
    /// Returns the rule's captures from a request. Returns `None` if a condition does not hold or a capture without
    /// a fallback finds nothing.
    fn captures(&self, call: &Call<'_>, seed: u64) -> Option<Captures> {
        let Conditions { system, prompt, schema, times, .. } = &self.rule.when;
        let request = call.request;
        let has = |pattern: &Option<String>, text: &str| {
            pattern.as_deref().is_none_or(|it| capture::occurs(it, text))
        };
        let wanted = request.schema.as_ref().map(|it| it.name.as_str());
        let holds = has(system, request.system.as_deref().unwrap_or_default())
            && has(prompt, &capture::prompt(request))
            && schema.as_deref().is_none_or(|it| Some(it) == wanted)
            && times.is_none_or(|[first, last]| (first..=last).contains(&call.time))
            && (wanted.is_some()
                || self.answer != CheckedAnswer::Schema
                || self.rule.failure.is_some());
        if !holds {
            return None;
        }
        let found = self.captures.iter().map(|(name, finder)| {
            let found = finder.find(&call.texts.all, seed);
            (!found.is_empty()).then(|| (name.clone(), found))
        });
        found.collect()
    }
}

impl fmt::Debug for Scripted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scripted")
            .field("name", &self.name)
            .field("seed", &self.seed)
            .field("rules", &self.script.rules.len())
            .finish_non_exhaustive()
    }
}
