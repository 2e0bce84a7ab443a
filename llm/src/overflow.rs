//! Context overflow: a conversation of rounds is shortened until it fits what a model can read.
//!
//! Kept are the first round and the last three; if that is still too long the last two, then the last one.
//! The rounds between are replaced by a summary that is made without a model, so the same rounds always give
//! the same request. No entry is ever cut: it is whole, or it is summarised.

pub use self::estimate::estimate_tokens;
pub(crate) use self::estimate::text_tokens;

mod estimate;
mod summary;

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::{Catalog, Error, ErrorKind, ModelId, Request};

/// One round of a conversation between several speakers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Round {
    /// Its number, as people count: from one.
    pub number: u32,
    /// What was said in it.
    pub entries: Vec<Entry>,
}

/// What one speaker said in a round.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Who said it.
    pub speaker: String,
    /// What was said.
    pub text: String,
}

/// A piece of a conversation as it is shown to a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passage<'a> {
    /// A round as it was.
    Round(&'a Round),
    /// Several rounds in short, under a heading as `[Rounds 2–6 summarised]`.
    Summary(&'a str),
}

/// What a model can read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// The model.
    pub model: ModelId,
    /// How many tokens its context holds, the answer included.
    pub tokens: u64,
}

/// A request that fits.
#[derive(Clone, Debug, PartialEq)]
pub struct Fitted {
    /// The request.
    pub request: Request,
    /// Which of the rounds, by position, it only has in short: none where all fit.
    pub summarised: Range<usize>,
}

impl Round {
    /// A round.
    pub fn new(number: u32, entries: Vec<Entry>) -> Self {
        Self { number, entries }
    }
}

impl Entry {
    /// What one speaker said.
    pub fn new(speaker: impl Into<String>, text: impl Into<String>) -> Self {
        Self { speaker: speaker.into(), text: text.into() }
    }
}

impl Window {
    /// The window of a model.
    pub fn new(model: ModelId, tokens: u64) -> Self {
        Self { model, tokens }
    }

    /// The window of a model, where a catalog knows it.
    pub fn of(model: ModelId, catalog: &Catalog) -> Option<Self> {
        let tokens = catalog.entry(&model)?.context?;
        Some(Self { model, tokens })
    }

    /// Whether a request and its answer fit, with a twentieth of the window to spare.
    pub fn holds(&self, request: &Request) -> bool {
        let wanted = estimate_tokens(&self.model.provider, request)
            .saturating_add(u64::from(request.max_tokens));
        wanted <= self.tokens - self.tokens.div_ceil(20)
    }
}

/// Makes a request of as many rounds as fit; `request` says how rounds become one.
///
/// ```
/// use llm::{
///     ModelId, Request,
///     overflow::{Entry, Passage, Round, Window, fit_rounds},
/// };
///
/// let words = "It will pay for itself [F1-07]. ".repeat(20);
/// let rounds: Vec<Round> =
///     (1..=9).map(|n| Round::new(n, vec![Entry::new("CRITIC", words.as_str())])).collect();
/// let window = Window::new(ModelId::new("openai", "small"), 2_000);
/// let fitted = fit_rounds(&window, &rounds, |passages| {
///     let shown = passages.iter().map(|passage| match passage {
///         Passage::Round(round) => format!("Round {}: {}", round.number, round.entries[0].text),
///         Passage::Summary(summary) => summary.to_string(),
///     });
///     Request::new(shown.collect::<Vec<_>>().join("\n\n")).max_tokens(100)
/// })?;
/// assert_eq!(fitted.summarised, 1..6);
/// let prompt = fitted.request.messages[0].text();
/// assert!(prompt.contains("[Rounds 2–6 summarised]\nRound 2, CRITIC: It will pay for itself [F1-07]."));
/// # Ok::<(), llm::Error>(())
/// ```
pub fn fit_rounds(
    window: &Window,
    rounds: &[Round],
    request: impl Fn(&[Passage<'_>]) -> Request,
) -> Result<Fitted, Error> {
    for summarised in cuts(rounds.len()) {
        let short = summary::summarise(&rounds[summarised.clone()]);
        let fitted = shown(rounds, summarised, &short, &request);
        if window.holds(&fitted.request) {
            return Ok(fitted);
        }
    }
    Err(too_long(window, rounds, request))
}

/// As [`fit_rounds`], with summaries of the caller's own, which may ask a model for them.
///
/// The summary is asked for again whenever other rounds have to be left out: keep it by those rounds. The
/// heading is added here.
pub async fn fit_rounds_with(
    window: &Window,
    rounds: &[Round],
    summarise: impl AsyncFn(&[Round]) -> Result<String, Error>,
    request: impl Fn(&[Passage<'_>]) -> Request,
) -> Result<Fitted, Error> {
    for summarised in cuts(rounds.len()) {
        let omitted = &rounds[summarised.clone()];
        let short = match omitted.is_empty() {
            true => String::new(),
            false => summary::under_heading(omitted, &summarise(omitted).await?),
        };
        let fitted = shown(rounds, summarised, &short, &request);
        if window.holds(&fitted.request) {
            return Ok(fitted);
        }
    }
    Err(too_long(window, rounds, request))
}

/// What may be left out, from nothing to all but the first and the last round.
fn cuts(n_rounds: usize) -> impl Iterator<Item = Range<usize>> {
    let shorter = [3, 2, 1].into_iter().map(move |kept| 1..n_rounds.saturating_sub(kept));
    std::iter::once(0..0).chain(shorter.filter(|it| !it.is_empty()))
}

fn shown(
    rounds: &[Round],
    summarised: Range<usize>,
    short: &str,
    request: impl Fn(&[Passage<'_>]) -> Request,
) -> Fitted {
    let mut passages: Vec<Passage<'_>> =
        rounds[..summarised.start].iter().map(Passage::Round).collect();
    if !summarised.is_empty() {
        passages.push(Passage::Summary(short));
    }
    passages.extend(rounds[summarised.end..].iter().map(Passage::Round));
    Fitted { request: request(&passages), summarised }
}

fn too_long(
    window: &Window,
    rounds: &[Round],
    request: impl Fn(&[Passage<'_>]) -> Request,
) -> Error {
    let shortest = cuts(rounds.len()).last().unwrap_or_default();
    let short = summary::summarise(&rounds[shortest.clone()]);
    let request = shown(rounds, shortest, &short, request).request;
    let message = format!(
        "about {} tokens and {} for the answer do not fit a window of {} with only the first and the last of {} rounds: \
         shorten the rounds, ask for less, or take a model with a larger window",
        estimate_tokens(&window.model.provider, &request),
        request.max_tokens,
        window.tokens,
        rounds.len(),
    );
    Error::new(ErrorKind::TooLong, window.model.clone(), message)
}
