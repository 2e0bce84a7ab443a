//! Context overflow: shortens a multi-round conversation until it fits a model's context window.
//!
//! Keeps the first round and the last three rounds. If that is too long, keeps the first and the last two, and finally
//! the first and the last one. A summary replaces the rounds in between. By default, the summary is computed without a
//! model, so the same rounds always give the same request. Entries are never truncated: each one is either kept or
//! summarised.

pub(crate) use self::estimate::text_tokens;
pub use self::{
    estimate::estimate_tokens,
    round::{Entry, Round},
    summary::add_summary_heading,
};

mod estimate;
mod round;
mod summary;

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::{Catalog, Error, ErrorKind, ModelId, Request};

/// An item of a transcript as it is shown to a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TranscriptItem<'a> {
    /// A complete round.
    Round(&'a Round),
    /// A summary of several rounds, under a heading such as `[Rounds 2–6 summarised]`.
    Summary(&'a str),
}

/// Context window of a model.
///
/// ```
/// use llm::{ModelId, Request, overflow::ContextWindow};
///
/// let window = ContextWindow::new(ModelId::new("openai", "small"), 2_000);
/// assert!(window.fits(&Request::new("How long is the Rhine?").max_tokens(500)));
/// assert!(!window.fits(&Request::new("How long is the Rhine?").max_tokens(4_000)));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextWindow {
    /// The model.
    pub model: ModelId,
    /// Size of the window in tokens, for request and response together.
    pub tokens: u64,
}

/// A request that fits the context window.
#[derive(Clone, Debug, PartialEq)]
pub struct FittedRequest {
    /// The request.
    pub request: Request,
    /// Indices of the rounds that were replaced with a summary. Empty if all rounds fit.
    pub summarised: Range<usize>,
}

impl ContextWindow {
    /// Creates a window with this size in tokens.
    pub fn new(model: ModelId, tokens: u64) -> Self {
        Self { model, tokens }
    }

    /// Returns the window of a model, if the catalog knows its size.
    pub fn from_catalog(model: ModelId, catalog: &Catalog) -> Option<Self> {
        let tokens = catalog.entry(&model)?.context?;
        Some(Self { model, tokens })
    }

    /// Returns whether a request and its response fit the window and leave 5 % of it free.
    pub fn fits(&self, request: &Request) -> bool {
        let wanted = estimate_tokens(&self.model.provider, request)
            .saturating_add(u64::from(request.max_tokens));
        wanted <= self.tokens - self.tokens.div_ceil(20)
    }
}

/// Builds a request that fits the context window and summarises as few rounds as possible. `request` converts
/// transcript items to a request.
///
/// ```
/// use llm::{
///     ModelId, Request,
///     overflow::{Entry, TranscriptItem, Round, ContextWindow, fit_rounds},
/// };
///
/// let text = "It will pay for itself [F1-07]. ".repeat(20);
/// let rounds: Vec<Round> =
///     (1..=9).map(|n| Round::new(n, vec![Entry::new("CRITIC", text.as_str())])).collect();
/// let window = ContextWindow::new(ModelId::new("openai", "small"), 2_000);
/// let fitted = fit_rounds(&window, &rounds, |passages| {
///     let shown = passages.iter().map(|passage| match passage {
///         TranscriptItem::Round(round) => format!("Round {}: {}", round.number, round.entries[0].text),
///         TranscriptItem::Summary(summary) => summary.to_string(),
///     });
///     Request::new(shown.collect::<Vec<_>>().join("\n\n")).max_tokens(100)
/// })?;
/// assert_eq!(fitted.summarised, 1..6);
/// let prompt = fitted.request.messages[0].text();
/// assert!(prompt.contains("[Rounds 2–6 summarised]\nRound 2, CRITIC: It will pay for itself [F1-07]."));
/// # Ok::<(), llm::Error>(())
/// ```
pub fn fit_rounds(
    window: &ContextWindow,
    rounds: &[Round],
    request: impl Fn(&[TranscriptItem<'_>]) -> Request,
) -> Result<FittedRequest, Error> {
    for summarised in omission_ranges(rounds.len()) {
        let short = summary::summarise(&rounds[summarised.clone()]);
        let fitted = build_request(rounds, summarised, &short, &request);
        if window.fits(&fitted.request) {
            return Ok(fitted);
        }
    }
    Err(too_long_error(window, rounds, request))
}

/// Like [`fit_rounds`], but with a function that writes the summaries, for example with a model.
///
/// `summarise` is called once for each set of rounds that is tried, so it should cache its results. It returns the
/// summary without the heading.
pub async fn fit_rounds_with(
    window: &ContextWindow,
    rounds: &[Round],
    summarise: impl AsyncFn(&[Round]) -> Result<String, Error>,
    request: impl Fn(&[TranscriptItem<'_>]) -> Request,
) -> Result<FittedRequest, Error> {
    for summarised in omission_ranges(rounds.len()) {
        let omitted = &rounds[summarised.clone()];
        let short = match omitted.is_empty() {
            true => String::new(),
            false => summary::add_summary_heading(omitted, &summarise(omitted).await?),
        };
        let fitted = build_request(rounds, summarised, &short, &request);
        if window.fits(&fitted.request) {
            return Ok(fitted);
        }
    }
    Err(too_long_error(window, rounds, request))
}

/// Returns the ranges of rounds to summarise, in the order in which they are tried: from no rounds to all rounds except
/// the first and the last.
fn omission_ranges(n_rounds: usize) -> impl Iterator<Item = Range<usize>> {
    let shorter = [3, 2, 1].into_iter().map(move |kept| 1..n_rounds.saturating_sub(kept));
    std::iter::once(0..0).chain(shorter.filter(|it| !it.is_empty()))
}

fn build_request(
    rounds: &[Round],
    summarised: Range<usize>,
    short: &str,
    request: impl Fn(&[TranscriptItem<'_>]) -> Request,
) -> FittedRequest {
    let mut passages: Vec<TranscriptItem<'_>> =
        rounds[..summarised.start].iter().map(TranscriptItem::Round).collect();
    if !summarised.is_empty() {
        passages.push(TranscriptItem::Summary(short));
    }
    passages.extend(rounds[summarised.end..].iter().map(TranscriptItem::Round));
    FittedRequest { request: request(&passages), summarised }
}

fn too_long_error(
    window: &ContextWindow,
    rounds: &[Round],
    request: impl Fn(&[TranscriptItem<'_>]) -> Request,
) -> Error {
    let shortest = omission_ranges(rounds.len()).last().unwrap_or_default();
    let short = summary::summarise(&rounds[shortest.clone()]);
    let request = build_request(rounds, shortest, &short, request).request;
    let message = format!(
        "about {} tokens and {} for the response do not fit a context window of {}, even with only the first and the last of {} rounds; \
         shorten the rounds, lower `max_tokens`, or use a model with a larger context window",
        estimate_tokens(&window.model.provider, &request),
        request.max_tokens,
        window.tokens,
        rounds.len(),
    );
    Error::new(ErrorKind::RequestTooLong, window.model.clone(), message)
}
