//! One turn of a debate: the call, with as much of the transcript as fits the context window.

use graph_core::{Context, NodeError};
use llm::{
    ModelId, Request,
    overflow::{
        ContextWindow, FittedRequest, Round, TranscriptItem, add_summary_heading, estimate_tokens,
        fit_rounds,
    },
};
use sandbox_vm::guest::Host;

use super::state::{Participant, SandboxState};
use crate::{
    call::{Answer, CallFailure, CallOutcome, CallUsage, FailureKind, LLM, ModelCall},
    config::Group,
    prompt,
    transcript::{ConversationEntry, rounds, whole},
};

/// Maximum number of times that a turn is repeated with a shorter transcript.
pub(crate) const MAX_SHORTENED: u32 = 3;

#[derive(Clone, Copy)]
pub(super) struct Turn<'a> {
    pub(super) participant: &'a Participant,
    pub(super) group: Group,
    /// Key that distinguishes the calls of one node in the journal, which stores their answers for restarts.
    pub(super) key: &'a str,
    pub(super) round: u32,
    /// Id of the decision maker that the critic replies to. `None` for all other turns.
    pub(super) reply_to: Option<&'a str>,
}

pub(super) struct TurnOutcome {
    pub(super) outcome: CallOutcome,
    /// The request that was sent. `None` if it did not fit the context window.
    pub(super) request: Option<Request>,
    /// Whether the transcript was shortened to fit the context window.
    pub(super) is_shortened: bool,
    /// Tokens and cost of the answered calls that summarised earlier rounds.
    pub(super) summary_calls: Vec<CallUsage>,
}

impl Turn<'_> {
    /// Makes the call, with as much of the transcript as fits the context window.
    pub(super) async fn run(
        &self,
        debate: &SandboxState,
        cx: &Context<Host>,
        request: impl Fn(&[TranscriptItem<'_>]) -> Request,
        log: &[ConversationEntry],
    ) -> Result<TurnOutcome, NodeError> {
        let settings = &self.participant.settings;
        let build = &|log: &[TranscriptItem<'_>]| settings.apply(request(log));
        let log = rounds(log);
        let mut summary_calls = Vec::new();
        let (request, mut is_shortened) = match &settings.window {
            Some(window) => {
                match self.fit(debate, cx, window, &log, build, &mut summary_calls).await? {
                    Ok(fitted) => fitted,
                    Err(reason) => {
                        let failure = CallFailure { kind: FailureKind::TooLong, reason };
                        return Ok(TurnOutcome {
                            outcome: CallOutcome::Failed(failure),
                            request: None,
                            is_shortened: true,
                            summary_calls,
                        });
                    }
                }
            }
            None => (build(&whole(&log)), false),
        };
        let mut outcome = self.call(debate, cx, request.clone()).await?;
        let mut sent = request;
        // The context window is unknown, or the estimate of the tokens is too low: tries a shorter transcript.
        for attempt in 1..=MAX_SHORTENED {
            if !matches!(&outcome, CallOutcome::Failed(it) if it.kind == FailureKind::TooLong) {
                break;
            }
            let key = format!("{} shortened {attempt}", self.key);
            let (retry, window) = (Turn { key: &key, ..*self }, smaller_window(&sent));
            let fitted = retry.fit(debate, cx, &window, &log, build, &mut summary_calls).await?;
            let Ok((shorter, _)) = fitted else { break };
            outcome = retry.call(debate, cx, shorter.clone()).await?;
            (sent, is_shortened) = (shorter, true);
        }
        Ok(TurnOutcome { outcome, request: Some(sent), is_shortened, summary_calls })
    }

    /// Builds a request that fits the context window. Returns the request, and whether it contains a summary of earlier
    /// rounds. If even the shortest request does not fit, returns the reason.
    async fn fit(
        &self,
        debate: &SandboxState,
        cx: &Context<Host>,
        window: &ContextWindow,
        log: &[Round],
        request: impl Fn(&[TranscriptItem<'_>]) -> Request,
        summary_calls: &mut Vec<CallUsage>,
    ) -> Result<Result<(Request, bool), String>, NodeError> {
        let fitted = match fit_rounds(window, log, &request) {
            Ok(fitted) => fitted,
            Err(error) => return Ok(Err(error.to_string())),
        };
        let FittedRequest { request: with_computed_summary, summarised } = fitted;
        let is_shortened = !summarised.is_empty();
        let summary =
            self.model_summary(debate, cx, &log[summarised.clone()], summary_calls).await?;
        let with_model_summary = summary.and_then(|summary| {
            let before = log[..summarised.start].iter().map(TranscriptItem::Round);
            let after = log[summarised.end..].iter().map(TranscriptItem::Round);
            let items = before.chain([TranscriptItem::Summary(&summary)]).chain(after);
            let request = request(&items.collect::<Vec<_>>());
            window.fits(&request).then_some(request)
        });
        Ok(Ok((with_model_summary.unwrap_or(with_computed_summary), is_shortened)))
    }

    /// Asks a model to summarise rounds of the conversation. Returns `None` if there are no rounds to summarise, if the
    /// program computes the summaries, or if the model gives no complete answer.
    async fn model_summary(
        &self,
        debate: &SandboxState,
        cx: &Context<Host>,
        omitted: &[Round],
        calls: &mut Vec<CallUsage>,
    ) -> Result<Option<String>, NodeError> {
        let Some(settings) = self.participant.summaries.as_ref().filter(|_| !omitted.is_empty())
        else {
            return Ok(None);
        };
        let request = settings.apply(prompt::summary(&debate.brief, &debate.terms.fence, omitted));
        if settings.window.as_ref().is_some_and(|it| !it.fits(&request)) {
            return Ok(None);
        }
        let key = format!("{} summary", self.key);
        let turn = Turn { key: &key, group: Group::Summaries, ..*self };
        Ok(match turn.call(debate, cx, request).await? {
            CallOutcome::Answered(Answer { text, is_cut, usage, .. }) => {
                calls.push(usage);
                (!is_cut).then(|| add_summary_heading(omitted, text.trim()))
            }
            CallOutcome::Failed(_) => None,
        })
    }

    /// Makes a call through the host. The answer is stored in the journal of the thread. A node that runs again after a
    /// crash reads the answer from the journal and does not repeat the call.
    pub(super) async fn call(
        &self,
        debate: &SandboxState,
        cx: &Context<Host>,
        request: Request,
    ) -> Result<CallOutcome, NodeError> {
        let call = ModelCall {
            agent_id: self.participant.persona.id.clone(),
            group: self.group,
            move_id: Some(debate.brief.move_id.clone()),
            round: self.round,
            reply_to: self.reply_to.map(str::to_owned),
            request,
        };
        LLM.call(cx.deps(), cx, self.key, &call).await
    }
}

/// Returns a context window that is too small for a request: about a third of the prompt has to be omitted.
fn smaller_window(request: &Request) -> ContextWindow {
    let model = ModelId::new("unknown", "unknown");
    let prompt = estimate_tokens(&model.provider, request);
    ContextWindow::new(model, prompt * 2 / 3 + u64::from(request.max_tokens))
}
