//! The scores of a debate, by the ladder: as asked, found in other words, asked for again, neutral.

use std::collections::BTreeMap;

use futures_util::future::join_all;
use graph_core::{Context, NodeError};
use llm::overflow::Passage;

use super::{
    Desk, SandboxState, SandboxStateUpdate, notes,
    state::{Seat, Speaking},
    turns::{Spoken, Turn},
};
use crate::{
    ask::{Heard, Paid, Said},
    config::Group,
    prompt,
    score::{MakerScore, Mark, form},
};

/// Each decision maker scores the move as it stands, before anybody has attacked it.
pub(super) async fn score_before(
    debate: &SandboxState,
    cx: &Context<Desk>,
) -> Result<SandboxStateUpdate, NodeError> {
    let scored = score_all(debate, cx, When::Before).await?;
    let update = SandboxState::update().baseline(scored.scores).calls(scored.calls);
    Ok(update.warnings(scored.silences))
}

/// Each decision maker scores the move after the debate, from its own conversation.
pub(super) async fn score_move(
    debate: &SandboxState,
    cx: &Context<Desk>,
) -> Result<SandboxStateUpdate, NodeError> {
    let scored = score_all(debate, cx, When::After).await?;
    let total: u32 = scored.scores.values().map(MakerScore::total).sum();
    let written = notes::write_scores(cx.deps().workspace(), &scored.scores);
    written.map_err(NodeError::terminal)?;
    let mut update = SandboxState::update()
        .scores(scored.scores)
        .total_score(total)
        .calls(scored.calls)
        .warnings(scored.silences);
    if scored.is_shortened {
        update = update.marks([Mark::Truncated]);
    }
    Ok(update)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum When {
    Before,
    After,
}

#[derive(Default)]
struct Scored {
    scores: BTreeMap<String, MakerScore>,
    calls: Vec<Paid>,
    /// Who was not heard, and why.
    silences: Vec<String>,
    is_shortened: bool,
}

async fn score_all(
    debate: &SandboxState,
    cx: &Context<Desk>,
    when: When,
) -> Result<Scored, NodeError> {
    let mut all = Scored::default();
    let scores = debate.seats().into_iter().map(|seat| score(debate, cx, seat, when));
    for scored in join_all(scores).await {
        let scored = scored?;
        all.scores.extend(scored.scores);
        all.calls.extend(scored.calls);
        all.silences.extend(scored.silences);
        all.is_shortened |= scored.is_shortened;
    }
    // Where nobody was heard there is no score. Where somebody was, who was not is neutral.
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
    cx: &Context<Desk>,
    seat: Seat<'_>,
    when: When,
) -> Result<Scored, NodeError> {
    let (persona, terms) = (&seat.maker.persona, &debate.terms);
    let voice = terms.scoring.get(seat.idx).cloned().unwrap_or_default();
    let scorer = Speaking { persona: persona.clone(), voice };
    let metrics = metrics(debate);
    // The rounds of this conversation, which may have ended before others.
    let rounds = seat.log.last().map_or(0, |it| it.round);
    let turn = Turn { speaking: &scorer, group: Group::Scoring, key: &persona.id, round: rounds };
    let request = |log: &[Passage<'_>]| {
        let asked = match when {
            When::Before => prompt::baseline(persona, &debate.brief, &terms.fence, &terms.metrics),
            When::After => {
                let (brief, fence) = (&debate.brief, &terms.fence);
                prompt::score(persona, brief, fence, log, &terms.metrics, rounds)
            }
        };
        asked.schema(form(&metrics))
    };
    let log = if when == When::Before { &[] } else { seat.log };
    let Spoken { heard, request, is_shortened } = turn.take(debate, cx, request, log).await?;
    let mut scored = Scored { is_shortened, ..Scored::default() };
    let Said { text, paid } = match heard {
        Heard::Said(said) => said,
        Heard::Silent(silence) => {
            scored.silences.push(format!("scoring, {}: {}", persona.id, silence.why));
            return Ok(scored);
        }
    };
    scored.calls.push(paid);
    let mut found = MakerScore::parse(&text, &metrics);
    if let (None, Some(request)) = (&found, request) {
        let key = format!("{} again", persona.id);
        let again = Turn { key: &key, ..turn };
        let repair = prompt::repair(&request, &text, &terms.metrics);
        if let Heard::Said(Said { text, paid }) = again.ask(debate, cx, repair).await? {
            scored.calls.push(paid);
            found = MakerScore::repaired(&text, &metrics);
        }
    }
    let score = found.unwrap_or_else(|| MakerScore::neutral(&metrics));
    scored.scores.insert(persona.id.clone(), score);
    Ok(scored)
}

fn metrics(debate: &SandboxState) -> Vec<&str> {
    debate.terms.metrics.iter().map(|it| it.id.as_str()).collect()
}
