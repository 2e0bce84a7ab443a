//! Asks an inference agent for the findings in a document. The document is sent as a whole, or in pieces if it does not
//! fit the agent's context window or the configuration sets `chunk_lines`.

use std::sync::Arc;

use futures_util::future::join_all;
use graph_core::{Context, NodeError};
use llm::{Request, Schema};

use super::deps::{Deps, call_model};
use crate::{
    call::{Answer, CallFailure, CallOutcome, CallUsage, FailureKind},
    config::{Group, Persona},
    data::{Company, Ticker},
    finding::{self, FindingsDraft, Inference},
    offline::{Task, Work},
    prompt::{self, Chunk},
};

/// Default number of lines per piece, for documents that do not fit the context window.
const DEFAULT_PIECE_LINES: u32 = 20;

/// Maximum number of concurrent calls for the pieces of one document.
const CONCURRENT_PIECES: usize = 2;

/// A document and the agent that draws findings from it.
pub(super) struct InferenceTask<'a> {
    pub(super) persona: &'a Persona,
    pub(super) inference: Inference,
    pub(super) ticker: &'a Ticker,
    pub(super) document: &'a str,
    /// The company data that the document was written from, for the offline board (the scripted model).
    pub(super) company: Option<Arc<Company>>,
}

/// Findings drawn from a document.
#[derive(Default)]
pub(super) struct FindingsResult {
    pub(super) draft: FindingsDraft,
    pub(super) calls: Vec<CallUsage>,
    /// The first failed call. `None` if all calls were answered.
    pub(super) failure: Option<CallFailure>,
}

/// Asks for the findings in a document. If the call for one piece fails, the whole document fails. The answers for the
/// other pieces are journaled, so a resumed run makes only the missing calls.
pub(super) async fn request_findings(
    cx: &Context<Deps>,
    task: &InferenceTask<'_>,
) -> Result<FindingsResult, NodeError> {
    let whole = task.request(cx, task.document, None);
    let configured_lines = cx.deps().config.inferences.chunk_lines;
    let settings = cx.deps().models.call_settings(Group::Inferences, &task.persona.id);
    let fits = || settings.window.as_ref().is_none_or(|it| it.fits(&settings.apply(whole.clone())));
    match configured_lines.or_else(|| (!fits()).then_some(DEFAULT_PIECE_LINES)) {
        None => {
            let result = ask_whole(cx, task, whole).await?;
            match &result.failure {
                // The context window is unknown, or the estimate of the tokens is too low.
                Some(it) if it.kind == FailureKind::TooLong => {
                    ask_pieces(cx, task, DEFAULT_PIECE_LINES).await
                }
                _ => Ok(result),
            }
        }
        Some(lines) => ask_pieces(cx, task, lines).await,
    }
}

/// Asks for the findings in the whole document. If the answer cannot be parsed, asks a second time.
async fn ask_whole(
    cx: &Context<Deps>,
    task: &InferenceTask<'_>,
    request: Request,
) -> Result<FindingsResult, NodeError> {
    let mut result = FindingsResult::default();
    let Some(text) = result.record(task.ask(cx, "findings", request.clone()).await?) else {
        return Ok(result);
    };
    result.draft = finding::read(&text);
    if result.draft.findings.is_empty() {
        let retry = prompt::inference_retry(&request, &text);
        if let Some(text) = result.record(task.ask(cx, "findings again", retry).await?) {
            result.draft = finding::read(&text);
        }
    }
    Ok(result)
}

async fn ask_pieces(
    cx: &Context<Deps>,
    task: &InferenceTask<'_>,
    lines: u32,
) -> Result<FindingsResult, NodeError> {
    let pieces = finding::chunks(task.document, usize::try_from(lines).unwrap_or(usize::MAX));
    let numbered: Vec<(usize, &String)> = (1..).zip(&pieces).collect();
    let of = pieces.len();
    let (mut result, mut drafts) = (FindingsResult::default(), Vec::new());
    for pair in numbered.chunks(CONCURRENT_PIECES) {
        let calls = pair.iter().map(|(number, text)| async move {
            let piece = Chunk { number: *number, of };
            let request = task.request(cx, text, Some(piece));
            task.ask(cx, &format!("findings {number}"), request).await
        });
        for outcome in join_all(calls).await {
            if let Some(text) = result.record(outcome?) {
                drafts.push(finding::read(&text));
            }
        }
        if result.failure.is_some() {
            return Ok(result);
        }
    }
    result.draft = finding::merge(drafts);
    Ok(result)
}

impl InferenceTask<'_> {
    fn request(&self, cx: &Context<Deps>, text: &str, piece: Option<Chunk>) -> Request {
        let (persona, fence) = (self.persona, &cx.deps().fence);
        let request = prompt::inference(persona, self.ticker, self.inference, text, piece, fence);
        let request = request.schema(Schema::of::<FindingsDraft>());
        let Some(company) = self.company.clone() else { return request };
        let (agent, inference, text) = (persona.clone(), self.inference, text.to_owned());
        request.attach(Task { agent, work: Work::Findings { inference, company, text } })
    }

    async fn ask(
        &self,
        cx: &Context<Deps>,
        key: &str,
        request: Request,
    ) -> Result<CallOutcome, NodeError> {
        call_model(cx, Group::Inferences, self.persona, key, request).await
    }
}

impl FindingsResult {
    /// Records the usage or the failure of a call. Returns the text of the answer, or `None` if the call failed.
    fn record(&mut self, outcome: CallOutcome) -> Option<String> {
        match outcome {
            CallOutcome::Answered(Answer { text, usage, .. }) => {
                self.calls.push(usage);
                Some(text)
            }
            CallOutcome::Failed(failure) => {
                self.failure.get_or_insert(failure);
                None
            }
        }
    }
}
