//! Asking for the findings of a document: at once, or piece by piece for a model that reads little at a time.

use futures_util::future::join_all;
use graph_core::{Context, NodeError};
use llm::{Request, Schema};

use super::{Deps, ask};
use crate::{
    ask::{Heard, Paid, Said},
    config::{Group, Persona},
    data::Ticker,
    finding::{self, FindingsDraft, Inference},
    prompt::{self, Piece},
};

/// So many lines are read at a time where the whole document does not fit.
const LINES: u32 = 20;

/// So many pieces are read at once.
const AT_ONCE: usize = 2;

/// What an inference is asked about.
pub(super) struct About<'a> {
    pub(super) persona: &'a Persona,
    pub(super) inference: Inference,
    pub(super) ticker: &'a Ticker,
    pub(super) document: &'a str,
}

/// What came of it.
#[derive(Default)]
pub(super) struct Concluded {
    pub(super) draft: FindingsDraft,
    pub(super) calls: Vec<Paid>,
    /// Why there is nothing, or not everything.
    pub(super) silence: Option<String>,
}

/// Asks for the findings of a document. Who is silent about a piece of it is silent about the whole: what was answered
/// is journaled, and a run that goes on asks for the rest.
pub(super) async fn conclude(
    cx: &Context<Deps>,
    subject: &About<'_>,
) -> Result<Concluded, NodeError> {
    let whole = subject.request(cx, subject.document, None);
    let set = cx.deps().config.inferences.chunk_lines;
    let voice = cx.deps().models.voice(Group::Inferences, &subject.persona.id);
    let fits = || voice.window.as_ref().is_none_or(|it| it.holds(&voice.set(whole.clone())));
    match set.or_else(|| (!fits()).then_some(LINES)) {
        None => at_once(cx, subject, whole).await,
        Some(lines) => by_pieces(cx, subject, lines).await,
    }
}

/// An answer that cannot be read is asked for once more.
async fn at_once(
    cx: &Context<Deps>,
    subject: &About<'_>,
    request: Request,
) -> Result<Concluded, NodeError> {
    let mut concluded = Concluded::default();
    let Some(text) = concluded.take(subject.ask(cx, "findings", request.clone()).await?) else {
        return Ok(concluded);
    };
    concluded.draft = finding::read(&text);
    if concluded.draft.findings.is_empty() {
        let again = prompt::inference_again(&request, &text);
        if let Some(text) = concluded.take(subject.ask(cx, "findings again", again).await?) {
            concluded.draft = finding::read(&text);
        }
    }
    Ok(concluded)
}

async fn by_pieces(
    cx: &Context<Deps>,
    subject: &About<'_>,
    lines: u32,
) -> Result<Concluded, NodeError> {
    let pieces = finding::pieces(subject.document, usize::try_from(lines).unwrap_or(usize::MAX));
    let numbered: Vec<(usize, &String)> = (1..).zip(&pieces).collect();
    let of = pieces.len();
    let (mut concluded, mut drafts) = (Concluded::default(), Vec::new());
    for pair in numbered.chunks(AT_ONCE) {
        let asked = pair.iter().map(|(number, text)| async move {
            let piece = Piece { number: *number, of };
            let request = subject.request(cx, text, Some(piece));
            subject.ask(cx, &format!("findings {number}"), request).await
        });
        for heard in join_all(asked).await {
            if let Some(text) = concluded.take(heard?) {
                drafts.push(finding::read(&text));
            }
        }
        if concluded.silence.is_some() {
            return Ok(concluded);
        }
    }
    concluded.draft = finding::join(drafts);
    Ok(concluded)
}

impl About<'_> {
    fn request(&self, cx: &Context<Deps>, text: &str, piece: Option<Piece>) -> Request {
        let (persona, fence) = (self.persona, &cx.deps().fence);
        let request = prompt::inference(persona, self.ticker, self.inference, text, piece, fence);
        request.schema(Schema::of::<FindingsDraft>())
    }

    async fn ask(
        &self,
        cx: &Context<Deps>,
        key: &str,
        request: Request,
    ) -> Result<Heard, NodeError> {
        ask(cx, Group::Inferences, self.persona, key, request).await
    }
}

impl Concluded {
    /// Takes in what was heard, and gives its words.
    fn take(&mut self, heard: Heard) -> Option<String> {
        match heard {
            Heard::Said(Said { text, paid }) => {
                self.calls.push(paid);
                Some(text)
            }
            Heard::Silent(silence) => {
                self.silence.get_or_insert(silence.why);
                None
            }
        }
    }
}
