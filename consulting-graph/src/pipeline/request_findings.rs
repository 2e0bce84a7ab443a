//! Asks an inference agent for the findings in a document. The document is sent as a whole, or in chunks if it does not
//! fit the agent's context window or the configuration sets `chunk_lines`. If the list in the answer is cut off or too
//! short, the agent is asked once for the remaining findings. If the answer contains no list of findings that can be
//! parsed, the agent is asked for one finding at a time.

use std::sync::Arc;

use futures_util::future::join_all;
use graph_core::{Context, NodeError};
use llm::Request;

use super::deps::{Deps, call_model};
use crate::{
    call::{Answer, CallFailure, CallOutcome, CallUsage, FailureKind},
    config::{Group, Persona},
    data::{Company, Ticker},
    finding::{
        self, FindingDraft, FindingsDraft, Inference, MAX_PER_CHUNK, MAX_PER_DOCUMENT,
        SingleFinding,
    },
    offline::{Task, Work},
    prompt::{self, Chunk},
};

/// Numbers of lines per chunk, for documents that do not fit the context window. The first number for which all chunks
/// fit is used.
const CHUNK_LINES: [u32; 4] = [40, 20, 10, 5];

/// Maximum number of concurrent calls for the chunks of one document.
const CONCURRENT_CHUNKS: usize = 2;

/// Maximum number of findings that are requested one at a time from a whole document: the minimum for a list.
const MAX_SINGLE: usize = 8;

/// Maximum number of findings that are requested one at a time from a chunk of a document.
const MAX_SINGLE_PER_CHUNK: usize = 2;

/// Start of the reasons of [`FindingsResult::remaining_failure`].
const MAY_BE_MISSING: &str = "findings may be missing, because ";

/// Reason why a list of findings is not complete after the request for the remaining ones.
const PARTIAL: &str =
    "the list and the answer to the request for the remaining ones are cut off or cannot be parsed";

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
    /// Whether findings were requested one at a time, because a list could not be read.
    pub(super) one_at_a_time: bool,
    pub(super) calls: Vec<CallUsage>,
    /// The first failure of a call that the findings depend on. `None` if all such calls were answered.
    pub(super) failure: Option<CallFailure>,
    /// Why some findings may be missing. `None` if all lists are complete.
    pub(super) remaining_failure: Option<CallFailure>,
}

/// Asks for the findings in a document. If the call for one chunk fails, the whole document fails. The answers for the
/// other chunks are journaled, so a resumed run makes only the missing calls.
pub(super) async fn request_findings(
    cx: &Context<Deps>,
    task: &InferenceTask<'_>,
) -> Result<FindingsResult, NodeError> {
    let whole = task.request(cx, task.document, None);
    if let Some(lines) = cx.deps().config.inferences.chunk_lines {
        return ask_chunks(cx, task, &chunks(task.document, lines)).await;
    }
    let settings = cx.deps().models.call_settings(Group::Inferences, &task.persona.id);
    let fits = |it: Request| settings.window.as_ref().is_none_or(|w| w.fits(&settings.apply(it)));
    let mut result = FindingsResult::default();
    if fits(whole.clone()) {
        result = ask_whole(cx, task, whole).await?;
        if !result.is_too_long() {
            return Ok(result);
        }
    }
    let mut sizes = CHUNK_LINES.map(|lines| chunks(task.document, lines)).into_iter().peekable();
    while let Some(chunks) = sizes.next() {
        let mut requests =
            numbered(&chunks).map(|(chunk, text)| task.request(cx, text, Some(chunk)));
        // The smallest chunks are sent in any case, because the number of their tokens is only estimated.
        if sizes.peek().is_some() && !requests.all(fits) {
            continue;
        }
        result = ask_chunks(cx, task, &chunks).await?;
        // The context window is unknown, or the estimate of the tokens is too low.
        if !result.is_too_long() {
            break;
        }
    }
    Ok(result)
}

fn chunks(document: &str, lines: u32) -> Vec<String> {
    finding::chunks(document, usize::try_from(lines).unwrap_or(usize::MAX))
}

fn numbered(chunks: &[String]) -> impl Iterator<Item = (Chunk, &String)> {
    let of = chunks.len();
    (1..).map(move |number| Chunk { number, of }).zip(chunks)
}

/// Asks for the findings in the whole document. If the answer cannot be parsed, asks a second time, and then for one
/// finding at a time.
async fn ask_whole(
    cx: &Context<Deps>,
    task: &InferenceTask<'_>,
    request: Request,
) -> Result<FindingsResult, NodeError> {
    let mut result = FindingsResult::default();
    let Some(answer) = result.record(task.ask(cx, "findings", request.clone()).await?) else {
        return Ok(result);
    };
    let (mut request, mut list) = (request, FindingsList::read(&answer));
    if list.draft.findings.is_empty() {
        request = prompt::inference_retry(&request, &answer.text);
        let outcome = task.ask(cx, "findings again", request.clone()).await?;
        let Some(answer) = result.record(outcome) else { return Ok(result) };
        list = FindingsList::read(&answer);
    }
    if list.draft.findings.is_empty() {
        list.draft.findings =
            ask_singly(cx, task, "findings", task.document, MAX_SINGLE, &mut result).await?;
    } else if list.is_partial || list.draft.findings.len() < finding::min_count(task.document) {
        ask_remaining(cx, task, "findings", &request, &mut list, &mut result).await?;
    }
    result.draft = list.draft;
    Ok(result)
}

/// Asks once for the findings that are missing in a list, and appends them. If the agent does not answer, or the list
/// is still cut off, the findings in the list are used, and the run is incomplete.
async fn ask_remaining(
    cx: &Context<Deps>,
    task: &InferenceTask<'_>,
    key: &str,
    request: &Request,
    list: &mut FindingsList,
    result: &mut FindingsResult,
) -> Result<(), NodeError> {
    let request = prompt::remaining_findings(request, &list.draft.findings, &cx.deps().fence);
    let failure = match task.ask(cx, &format!("{key}, remaining"), request).await? {
        // The list may be complete, and the request would be too long again in a resumed run.
        CallOutcome::Failed(it) if it.kind == FailureKind::TooLong && !list.is_partial => None,
        CallOutcome::Failed(CallFailure { kind, reason }) => {
            let reason =
                format!("{MAY_BE_MISSING}the request for the remaining ones failed: {reason}");
            Some(CallFailure { kind, reason })
        }
        CallOutcome::Answered(answer) => {
            result.calls.push(answer.usage.clone());
            let remaining = FindingsList::read_json(&answer);
            let is_partial =
                remaining.is_partial || (list.is_partial && !remaining.is_complete(&answer));
            finding::append(&mut list.draft, remaining.draft);
            is_partial.then(|| CallFailure {
                kind: FailureKind::Unusable,
                reason: format!("{MAY_BE_MISSING}{PARTIAL}"),
            })
        }
    };
    if let Some(failure) = failure {
        result.remaining_failure.get_or_insert(failure);
    }
    Ok(())
}

/// Asks for at most `max` findings in a text, one at a time. Ends with the first answer without a new finding.
async fn ask_singly(
    cx: &Context<Deps>,
    task: &InferenceTask<'_>,
    key: &str,
    text: &str,
    max: usize,
    result: &mut FindingsResult,
) -> Result<Vec<FindingDraft>, NodeError> {
    let mut found: Vec<FindingDraft> = Vec::new();
    while found.len() < max {
        let request = task.single_request(cx, text, &found);
        let outcome = task.ask(cx, &format!("{key}, single {}", found.len() + 1), request).await?;
        let finding = result.record(outcome).and_then(|it| finding::read_single(&it.text));
        let is_new = |it: &FindingDraft| found.iter().all(|known| known.claim != it.claim);
        let Some(finding) = finding.filter(is_new) else { break };
        found.push(finding);
    }
    result.one_at_a_time |= !found.is_empty();
    Ok(found)
}

async fn ask_chunks(
    cx: &Context<Deps>,
    task: &InferenceTask<'_>,
    chunks: &[String],
) -> Result<FindingsResult, NodeError> {
    let numbered: Vec<(Chunk, &String)> = numbered(chunks).collect();
    // The key also contains the number of chunks, because the document may be split again into smaller chunks.
    let chunk_key = |Chunk { number, of }| format!("findings {number} of {of}");
    let (mut result, mut drafts) = (FindingsResult::default(), Vec::new());
    for pair in numbered.chunks(CONCURRENT_CHUNKS) {
        let calls = pair.iter().map(|(chunk, text)| async move {
            let request = task.request(cx, text, Some(*chunk));
            task.ask(cx, &chunk_key(*chunk), request).await
        });
        for ((chunk, text), outcome) in pair.iter().zip(join_all(calls).await) {
            let Some(answer) = result.record(outcome?) else { continue };
            let mut list = FindingsList::read(&answer);
            let is_unreadable =
                list.draft.findings.is_empty() && !finding::is_empty_list(&answer.text);
            let key = chunk_key(*chunk);
            if result.failure.is_some() {
                continue;
            } else if is_unreadable {
                list.draft.findings =
                    ask_singly(cx, task, &key, text, MAX_SINGLE_PER_CHUNK, &mut result).await?;
            } else if list.is_partial {
                let request = task.request(cx, text, Some(*chunk));
                ask_remaining(cx, task, &key, &request, &mut list, &mut result).await?;
            }
            drafts.push(list.draft);
        }
        if result.failure.is_some() {
            return Ok(result);
        }
    }
    result.draft = finding::merge(drafts);
    Ok(result)
}

impl InferenceTask<'_> {
    fn request(&self, cx: &Context<Deps>, text: &str, chunk: Option<Chunk>) -> Request {
        let (persona, fence) = (self.persona, &cx.deps().fence);
        let request = prompt::inference(persona, self.ticker, self.inference, text, chunk, fence);
        let (inference, text) = (self.inference, text.to_owned());
        let max = chunk.map_or(MAX_PER_DOCUMENT, |_| MAX_PER_CHUNK);
        self.with_task(request.schema(FindingsDraft::schema(max)), |company| Work::Findings {
            inference,
            company,
            text,
        })
    }

    fn single_request(&self, cx: &Context<Deps>, text: &str, known: &[FindingDraft]) -> Request {
        let Self { persona, ticker, inference, .. } = *self;
        let fence = &cx.deps().fence;
        let request = prompt::single_finding(persona, ticker, inference, text, known, fence);
        let known = known.iter().map(|it| it.claim.clone()).collect();
        let text = text.to_owned();
        self.with_task(request.schema(SingleFinding::schema()), |company| Work::SingleFinding {
            inference,
            company,
            text,
            known,
        })
    }

    /// Attaches the task of a request, if the company data is known.
    fn with_task(&self, request: Request, work: impl FnOnce(Arc<Company>) -> Work) -> Request {
        match self.company.clone() {
            Some(company) => {
                request.attach(Task { agent: self.persona.clone(), work: work(company) })
            }
            None => request,
        }
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

/// The list of findings in an answer.
struct FindingsList {
    draft: FindingsDraft,
    /// Whether the list has findings, but others may be missing, because the answer is cut off or contains invalid
    /// findings.
    is_partial: bool,
}

impl FindingsList {
    fn read(answer: &Answer) -> Self {
        let read = if answer.is_cut { finding::read_cut } else { finding::read };
        Self::new(answer, read(&answer.text))
    }

    fn read_json(answer: &Answer) -> Self {
        Self::new(answer, finding::read_json(&answer.text).unwrap_or_default())
    }

    fn new(answer: &Answer, draft: FindingsDraft) -> Self {
        let is_cut = answer.is_cut || finding::is_partial(&answer.text);
        Self { is_partial: is_cut && !draft.findings.is_empty(), draft }
    }

    /// Returns whether the answer contains a whole list, which may be empty.
    fn is_complete(&self, answer: &Answer) -> bool {
        match self.draft.findings.is_empty() {
            true => !answer.is_cut && finding::is_empty_list(&answer.text),
            false => !self.is_partial,
        }
    }
}

impl FindingsResult {
    fn is_too_long(&self) -> bool {
        self.failure.as_ref().is_some_and(|it| it.kind == FailureKind::TooLong)
    }

    /// Records the usage or the failure of a call. Returns the answer, or `None` if the call failed.
    fn record(&mut self, outcome: CallOutcome) -> Option<Answer> {
        match outcome {
            CallOutcome::Answered(answer) => {
                self.calls.push(answer.usage.clone());
                Some(answer)
            }
            CallOutcome::Failed(failure) => {
                self.failure.get_or_insert(failure);
                None
            }
        }
    }
}
