//! Scoring of a move by the decision makers.
//!
//! An answer is first parsed strictly as the requested JSON and, if that fails, leniently. If both attempts fail, the
//! decision maker is asked a second time. If the second answer cannot be parsed either, neutral scores are recorded for
//! the decision maker, unless the scores of all decision makers are missing.

use std::collections::BTreeMap;

use futures_util::future::join_all;
use graph_core::{Context, NodeError};
use llm::overflow::TranscriptItem;
use sandbox_vm::guest::Host;

use super::{
    files,
    state::{Conversation, Participant, SandboxState, SandboxStateUpdate},
    turn::{Turn, TurnOutcome},
};
use crate::{
    call::{Answer, CallOutcome, CallUsage, Failure},
    config::Group,
    prompt,
    score::{MakerScore, Mark, complete_part, request_schema},
};

/// Asks each decision maker to score the move before the debate.
pub(super) async fn score_before(
    debate: &SandboxState,
    cx: &Context<Host>,
) -> Result<SandboxStateUpdate, NodeError> {
    let result = score_all(debate, cx, ScoringTime::Before).await?;
    let update = SandboxState::update().baseline(result.scores).calls(result.calls);
    Ok(update.failures(result.failures))
}

/// Asks each decision maker to score the move after the debate, based on its own conversation.
pub(super) async fn score_move(
    debate: &SandboxState,
    cx: &Context<Host>,
) -> Result<SandboxStateUpdate, NodeError> {
    let result = score_all(debate, cx, ScoringTime::After).await?;
    let total: u32 = result.scores.values().map(MakerScore::total).sum();
    let written = files::write_scores(cx.deps().workspace(), &result.scores);
    written.map_err(NodeError::terminal)?;
    let mut update = SandboxState::update()
        .scores(result.scores)
        .total_score(total)
        .calls(result.calls)
        .failures(result.failures);
    if result.is_shortened {
        update = update.marks([Mark::Truncated]);
    }
    Ok(update)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ScoringTime {
    Before,
    After,
}

#[derive(Default)]
struct ScoringResult {
    scores: BTreeMap<String, MakerScore>,
    calls: Vec<CallUsage>,
    failures: Vec<Failure>,
    is_shortened: bool,
}

async fn score_all(
    debate: &SandboxState,
    cx: &Context<Host>,
    time: ScoringTime,
) -> Result<ScoringResult, NodeError> {
    let mut all = ScoringResult::default();
    let scores = debate
        .conversations()
        .into_iter()
        .map(|conversation| score(debate, cx, conversation, time));
    for result in join_all(scores).await {
        let result = result?;
        all.scores.extend(result.scores);
        all.calls.extend(result.calls);
        all.failures.extend(result.failures);
        all.is_shortened |= result.is_shortened;
    }
    // If no scores could be read, the move has no score. Otherwise neutral scores are recorded for the decision makers
    // whose scores are missing.
    if !all.scores.is_empty() {
        let metrics = metrics(debate);
        for maker in &debate.terms.decision_makers {
            let score = all.scores.entry(maker.persona.id.clone());
            score.or_insert_with(|| MakerScore::neutral(&metrics));
        }
    }
    Ok(all)
}

async fn score(
    debate: &SandboxState,
    cx: &Context<Host>,
    conversation: Conversation<'_>,
    time: ScoringTime,
) -> Result<ScoringResult, NodeError> {
    let (persona, terms) = (&conversation.maker.persona, &debate.terms);
    let settings = terms.scoring.get(conversation.idx).cloned().unwrap_or_default();
    let scorer = Participant { settings, ..conversation.maker.clone() };
    let metrics = metrics(debate);
    // Uses the last round of this conversation, which may have ended before the other conversations.
    let rounds = conversation.log.last().map_or(0, |it| it.round);
    let turn = Turn {
        participant: &scorer,
        group: Group::Scoring,
        key: &persona.id,
        round: rounds,
        reply_to: None,
    };
    let request = |log: &[TranscriptItem<'_>]| {
        let request = match time {
            ScoringTime::Before => {
                prompt::baseline(persona, &debate.brief, &terms.fence, &terms.metrics)
            }
            ScoringTime::After => {
                let (brief, fence) = (&debate.brief, &terms.fence);
                prompt::score(persona, brief, fence, log, &terms.metrics, rounds)
            }
        };
        request.schema(request_schema(&metrics))
    };
    let log = if time == ScoringTime::Before { &[][..] } else { &conversation.log };
    let TurnOutcome { outcome, request, is_shortened, summary_calls } =
        turn.run(debate, cx, request, log).await?;
    let mut result =
        ScoringResult { is_shortened, calls: summary_calls, ..ScoringResult::default() };
    let place = format!("scoring, {}", persona.id);
    let Answer { text, is_cut, usage, .. } = match outcome {
        CallOutcome::Answered(answer) => answer,
        CallOutcome::Failed(failure) => {
            result.failures.push(Failure::new(place, failure));
            return Ok(result);
        }
    };
    result.calls.push(usage);
    let mut score = MakerScore::parse(complete_part(&text, is_cut), &metrics);
    if let (None, Some(request)) = (&score, request) {
        let key = format!("{} again", persona.id);
        let retry = Turn { key: &key, ..turn };
        let repair = prompt::repair(&request, &text, &terms.metrics);
        match retry.call(debate, cx, repair).await? {
            CallOutcome::Answered(Answer { text, is_cut, usage, .. }) => {
                result.calls.push(usage);
                score = MakerScore::repaired(complete_part(&text, is_cut), &metrics);
            }
            CallOutcome::Failed(failure) => {
                result.failures.push(Failure::new(&*place, failure));
            }
        }
    }
    match score {
        Some(score) => drop(result.scores.insert(persona.id.clone(), score)),
        None if result.failures.is_empty() => {
            result.failures.push(Failure::unusable(place, "the scores could not be read"));
        }
        None => {}
    }
    Ok(result)
}

fn metrics(debate: &SandboxState) -> Vec<&str> {
    debate.terms.metrics.iter().map(|it| it.id.as_str()).collect()
}
