//! Layer 2: analysts propose moves, and a person may review them.

use std::collections::BTreeSet;

use graph_core::{Context, NodeError, Overwrite, Route};
use llm::Request;
use serde::{Deserialize, Serialize};

use super::{
    deps::{Deps, call_model},
    events::EventSender,
    state::{PipelineState, PipelineStateUpdate},
};
use crate::{
    call::{self, CallOutcome, CallUsage, Failure, FailureKind},
    config::{Group, Persona},
    data::Ticker,
    event::{Layer, PipelineEvent},
    finding::{self, Findings},
    moves::{self, Author, Move, MoveDraft, MovesDraft, violations},
    offline::{Task, Work},
    prompt,
};

const LAYER: Layer = Layer::Number(2);

/// Warning about an analyst that did not receive all findings with their quotations.
const SHORTENED: &str =
    "received shortened findings, because the full findings exceed the context window of the model";

/// Input of one analyst.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Assignment {
    /// Number of the analyst, which is its position in the configuration, starting at 1.
    number: u16,
    ticker: String,
    findings: Vec<Findings>,
}

#[derive(Route)]
pub(super) enum Layer2 {
    #[to(analyst_agent)]
    Assignments(Vec<Assignment>),
}

pub(super) fn layer_2_dispatch(run: &PipelineState, deps: &Deps) -> Layer2 {
    let mut findings = run.findings.clone();
    findings.sort_by_key(|it| it.inference);
    let assignment = |number| Assignment {
        number,
        ticker: run.company_ticker.clone(),
        findings: findings.clone(),
    };
    let analysts = u16::try_from(deps.config.analysts.len()).unwrap_or(u16::MAX);
    Layer2::Assignments((1..=analysts).map(assignment).collect())
}

/// Asks one analyst for its moves and numbers them. If the answer contains no readable move or breaks a rule that
/// requires a retry, asks the analyst a second time.
pub(super) async fn analyst_agent(
    assignment: Assignment,
    cx: &Context<Deps>,
) -> Result<PipelineStateUpdate, NodeError> {
    let Assignment { number, ticker, findings } = assignment;
    let ticker = Ticker::parse(&ticker).map_err(NodeError::terminal)?;
    let Deps { config, fence, .. } = cx.deps();
    let persona = config
        .analysts
        .get(usize::from(number).saturating_sub(1))
        .ok_or_else(|| NodeError::terminal(format!("the configuration has no analyst {number}")))?;
    let mut sender = EventSender::new(cx);
    sender.send(PipelineEvent::layer_start(LAYER)).await;
    sender.agent_started(LAYER, persona).await;
    let per_analyst = config.moves_per_analyst;
    let document = |it: &Findings| match it.findings.as_slice() {
        [] => String::new(),
        _ => it.markdown(),
    };
    let request = |shown: &[Findings]| {
        let documents: Vec<String> = shown.iter().map(document).collect();
        let [f1, f2] = [0, 1].map(|it| documents.get(it).map_or("", String::as_str));
        let request = prompt::analyst(persona, &ticker, per_analyst, f1, f2, fence);
        let work = Work::Moves { findings: findings.clone() };
        let task = Task { agent: persona.clone(), work };
        request.schema(MovesDraft::schema(per_analyst)).attach(task)
    };
    let proposed = propose(cx, persona, request, &findings).await?;
    let author = Author { number, agent_id: &persona.id, persona: &persona.name };
    let (moves, missing) = moves::assign_ids(author, &ticker, per_analyst, proposed.drafts);
    let mut failures: Vec<Failure> = proposed.failure.into_iter().collect();
    if !missing.is_empty() && failures.is_empty() {
        let ids: Vec<String> = missing.iter().map(|it| it.move_id.to_string()).collect();
        let reason = format!("{} could not be read from the answer", ids.join(", "));
        failures.push(Failure::unusable(&*persona.id, reason));
    }
    for it in &moves {
        cx.deps().write_document(&format!("{}.md", it.move_id), &Move::file_text(it))?;
    }
    match failures.first() {
        Some(failure) if moves.is_empty() => {
            sender.agent_failed(LAYER, persona, &failure.reason).await;
        }
        _ => {
            let outputs = moves.iter().map(|it| format!("{}.md", it.move_id)).collect();
            sender.agent_completed(LAYER, persona, outputs).await;
        }
    }
    Ok(PipelineState::update()
        .move_suggestions(moves)
        .missing_moves(missing)
        .calls(proposed.calls)
        .failures(failures)
        .warnings(proposed.warnings)
        .status_updates(sender.into_events()))
}

#[derive(Default)]
struct Proposal {
    drafts: Vec<MoveDraft>,
    calls: Vec<CallUsage>,
    warnings: Vec<String>,
    /// The failed call, if moves are missing because of it.
    failure: Option<Failure>,
}

/// Asks for moves. `request` builds the request from the findings, which are shortened if they do not fit the context
/// window of the analyst's model.
async fn propose(
    cx: &Context<Deps>,
    persona: &Persona,
    request: impl Fn(&[Findings]) -> Request,
    findings: &[Findings],
) -> Result<Proposal, NodeError> {
    let mut proposed = Proposal::default();
    let settings = cx.deps().models.call_settings(Group::Analysts, &persona.id);
    let fits = |it: &Request| {
        settings.window.as_ref().is_none_or(|window| window.fits(&settings.apply(it.clone())))
    };
    let requests: Vec<Request> =
        finding::shorter_versions(findings).iter().map(|it| request(it)).collect();
    // If no request fits, the shortest one is sent, because the number of its tokens is only estimated.
    let shortest = requests.len() - 1;
    let mut sent = requests.iter().position(fits).unwrap_or(shortest);
    let outcome = loop {
        let key = if sent == 0 { "moves".to_owned() } else { format!("moves shortened {sent}") };
        let outcome = call_model(cx, Group::Analysts, persona, &key, requests[sent].clone());
        match outcome.await? {
            CallOutcome::Failed(it) if it.kind == FailureKind::TooLong && sent < shortest => {
                sent += 1;
            }
            outcome => break outcome,
        }
    };
    if sent > 0 {
        let label = persona.label();
        proposed.warnings.push(format!("{label}: {SHORTENED}"));
    }
    let answer = match outcome {
        CallOutcome::Answered(answer) => answer,
        CallOutcome::Failed(failure) => {
            proposed.failure = Some(Failure::new(&*persona.id, failure));
            return Ok(proposed);
        }
    };
    proposed.calls.push(answer.usage);
    proposed.drafts = moves::read(&answer.text);
    let mut problems_found = violations(&proposed.drafts, findings);
    let is_insufficient = proposed.drafts.is_empty()
        || problems_found.iter().any(moves::MoveViolation::requires_retry);
    let retry = is_insufficient
        .then(|| prompt::analyst_retry(&requests[sent], &answer.text, &problems_found));
    // A small context window may have no room for the first answer and a second one.
    if let Some(retry) = retry.filter(fits) {
        match call_model(cx, Group::Analysts, persona, "moves again", retry).await? {
            CallOutcome::Answered(answer) => {
                proposed.calls.push(answer.usage);
                let second = moves::read(&answer.text);
                let second_problems = violations(&second, findings);
                // The second answer replaces the first only if it has at least as many moves and no more problems.
                if second.len() >= proposed.drafts.len()
                    && second_problems.len() <= problems_found.len()
                {
                    (proposed.drafts, problems_found) = (second, second_problems);
                }
            }
            CallOutcome::Failed(it) if it.kind == FailureKind::TooLong => {}
            CallOutcome::Failed(failure) => {
                proposed.failure = Some(Failure::new(&*persona.id, failure));
            }
        }
    }
    let problems = problems_found.iter().map(|it| format!("{}: {it}", persona.label()));
    proposed.warnings.extend(problems);
    Ok(proposed)
}

/// Moves that a person is asked to review before the debates.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReviewRequest {
    /// The moves as the analysts proposed them.
    pub moves: Vec<Move>,
}

/// Decision of the reviewer, which lists all moves to debate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReviewDecision {
    /// Edited, kept and added moves. Dropped moves are absent.
    pub moves: Vec<Move>,
}

impl ReviewDecision {
    /// Checks that there is at least one move, that no number appears twice, and that titles, theses and step actions
    /// are not empty.
    pub fn check(&self) -> Result<(), String> {
        if self.moves.is_empty() {
            return Err("the review contains no move; keep at least one".to_owned());
        }
        let mut known = BTreeSet::new();
        match self.moves.iter().find(|it| !known.insert(it.move_id)) {
            Some(duplicate) => {
                Err(format!("{} appears twice; give each move its own number", duplicate.move_id))
            }
            None => self.moves.iter().try_for_each(check_required_text),
        }
    }
}

fn check_required_text(it: &Move) -> Result<(), String> {
    let draft = &it.draft;
    let empty = [("title", &draft.title), ("thesis", &draft.thesis)]
        .into_iter()
        .chain(draft.steps.iter().map(|step| ("action of a step", &step.action)))
        .find(|(_, text)| text.trim().is_empty());
    empty.map_or(Ok(()), |(what, _)| Err(format!("{}: the {what} is empty", it.move_id)))
}

/// Completes layer 2 after all analysts have finished, and pauses for the review if it is enabled. The analysts have
/// already written their moves to the state. This node only overwrites them with the reviewer's decision.
pub(super) async fn layer_2_reduce(
    run: &PipelineState,
    cx: &Context<Deps>,
) -> Result<PipelineStateUpdate, NodeError> {
    let mut sender = EventSender::new(cx);
    let mut moves = run.moves();
    let config = &cx.deps().config;
    let is_own = |it: &&Failure| config.analysts.iter().any(|analyst| analyst.id == it.place);
    let failures: Vec<Failure> = run.failures.iter().filter(is_own).cloned().collect();
    if moves.is_empty() {
        let first = failures.first().map(|it| it.describe(config)).unwrap_or_default();
        return Err(NodeError::terminal(format!(
            "no analyst delivered a move, so there is nothing to debate; {first}; {}",
            call::advice(&failures)
        )));
    }
    let mut update = PipelineState::update();
    if cx.deps().review {
        let decision: ReviewDecision = cx.interrupt(ReviewRequest { moves })?;
        moves = decision.moves;
        if moves.is_empty() {
            return Err(NodeError::terminal(
                "the review dropped all moves, so there is nothing to debate",
            ));
        }
        update = update.move_suggestions(Overwrite(moves.clone()));
    }
    for it in &moves {
        cx.deps().write_document(&format!("{}.md", it.move_id), &Move::file_text(it))?;
    }
    let artifacts = moves.iter().map(|it| format!("{}.md", it.move_id)).collect();
    sender.send(PipelineEvent::layer_end(LAYER, artifacts, &failures)).await;
    Ok(update.status_updates(sender.into_events()))
}
