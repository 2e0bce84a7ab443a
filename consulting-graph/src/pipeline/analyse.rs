//! The third layer: what could be done.

use std::collections::BTreeSet;

use graph_core::{Context, NodeError, Overwrite, Route};
use llm::Request;
use serde::{Deserialize, Serialize};

use super::{Deps, PipelineState, PipelineStateUpdate, ask, tell::Telling};
use crate::{
    ask::{Heard, Paid},
    config::{Group, Persona},
    data::Ticker,
    event::{Layer, PipelineEvent},
    finding::Findings,
    moves::{self, Author, Move, MoveDraft, MovesDraft, problems},
    prompt,
};

const LAYER: Layer = Layer::Number(2);

/// What one analyst works on.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Assignment {
    /// The analyst's place among the analysts, from 1.
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

/// Proposes moves, is asked once more where they cannot be used, and gets the numbers that are its own.
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
        .ok_or_else(|| NodeError::terminal(format!("there is no analyst {number}")))?;
    let mut telling = Telling::new(cx);
    telling.tell(PipelineEvent::layer_start(LAYER)).await;
    telling.begins(LAYER, persona).await;
    let per_analyst = config.moves_per_analyst;
    let document = |it: &Findings| match it.findings.as_slice() {
        [] => String::new(),
        _ => it.markdown(),
    };
    let documents: Vec<String> = findings.iter().map(document).collect();
    let [f1, f2] = [0, 1].map(|it| documents.get(it).map_or("", String::as_str));
    let request = prompt::analyst(persona, &ticker, per_analyst, f1, f2, fence);
    let request = request.schema(llm::Schema::of::<MovesDraft>());
    let proposed = propose(cx, persona, request, &findings).await?;
    let author = Author { number, agent_id: &persona.id, persona: &persona.name };
    let (moves, missing) = moves::number(author, &ticker, per_analyst, proposed.drafts);
    let mut warnings = proposed.warnings;
    if !missing.is_empty() {
        let ids: Vec<String> = missing.iter().map(|it| it.move_id.to_string()).collect();
        warnings.push(format!("{} did not deliver {}", persona.label(), ids.join(", ")));
    }
    if moves.is_empty() {
        telling.failed(LAYER, persona, &proposed.silence).await;
    } else {
        let outputs = moves.iter().map(|it| format!("{}.md", it.move_id)).collect();
        telling.done(LAYER, persona, outputs).await;
    }
    Ok(PipelineState::update()
        .move_suggestions(moves)
        .missing_moves(missing)
        .calls(proposed.calls)
        .warnings(warnings)
        .status_updates(telling.told()))
}

#[derive(Default)]
struct Proposed {
    drafts: Vec<MoveDraft>,
    calls: Vec<Paid>,
    warnings: Vec<String>,
    silence: String,
}

async fn propose(
    cx: &Context<Deps>,
    persona: &Persona,
    request: Request,
    findings: &[Findings],
) -> Result<Proposed, NodeError> {
    let mut proposed = Proposed {
        silence: "no move can be read from the answer".to_owned(),
        ..Proposed::default()
    };
    let said = match ask(cx, Group::Analysts, persona, "moves", request.clone()).await? {
        Heard::Said(said) => said,
        Heard::Silent(silence) => {
            proposed.silence = silence.why;
            return Ok(proposed);
        }
    };
    proposed.calls.push(said.paid);
    proposed.drafts = moves::read(&said.text);
    let mut found = problems(&proposed.drafts, findings);
    if proposed.drafts.is_empty() || found.iter().any(moves::MoveProblem::asks_again) {
        let again = prompt::analyst_again(&request, &said.text, &found);
        if let Heard::Said(said) = ask(cx, Group::Analysts, persona, "moves again", again).await? {
            proposed.calls.push(said.paid);
            let second = moves::read(&said.text);
            let second_problems = problems(&second, findings);
            // A second answer that is worse than the first does not count.
            if second.len() >= proposed.drafts.len() && second_problems.len() <= found.len() {
                (proposed.drafts, found) = (second, second_problems);
            }
        }
    }
    proposed.warnings = found.iter().map(|it| format!("{}: {it}", persona.label())).collect();
    Ok(proposed)
}

/// What a person is shown before the debates.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Review {
    /// The moves as the analysts proposed them.
    pub moves: Vec<Move>,
}

/// What a person makes of them: all moves that are to be debated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reviewed {
    /// The moves, edited, without those that were dropped and with those that were added.
    pub moves: Vec<Move>,
}

impl Reviewed {
    /// Says what is wrong with the moves: there must be one, each has a number of its own, and says what it is.
    pub fn check(&self) -> Result<(), String> {
        if self.moves.is_empty() {
            return Err("there is no move in it; leave at least one".to_owned());
        }
        let mut known = BTreeSet::new();
        match self.moves.iter().find(|it| !known.insert(it.move_id)) {
            Some(twice) => {
                Err(format!("{} stands in it twice; give each move a number", twice.move_id))
            }
            None => self.moves.iter().try_for_each(says_something),
        }
    }
}

fn says_something(it: &Move) -> Result<(), String> {
    let draft = &it.draft;
    let lacks = [("title", &draft.title), ("thesis", &draft.thesis)]
        .into_iter()
        .chain(draft.steps.iter().map(|step| ("step's action", &step.action)))
        .find(|(_, text)| text.trim().is_empty());
    lacks.map_or(Ok(()), |(what, _)| Err(format!("{}: its {what} is empty", it.move_id)))
}

/// All moves are there. Their field is written by those who made them, except where a person changes it.
pub(super) async fn layer_2_reduce(
    run: &PipelineState,
    cx: &Context<Deps>,
) -> Result<PipelineStateUpdate, NodeError> {
    let mut telling = Telling::new(cx);
    let mut moves = run.moves();
    if moves.is_empty() {
        return Err(NodeError::terminal("no analyst delivered a move; there is nothing to debate"));
    }
    let mut update = PipelineState::update();
    if cx.deps().review {
        let reviewed: Reviewed = cx.interrupt(Review { moves })?;
        moves = reviewed.moves;
        if moves.is_empty() {
            return Err(NodeError::terminal("all moves were dropped; there is nothing to debate"));
        }
        update = update.move_suggestions(Overwrite(moves.clone()));
    }
    let artifacts = moves.iter().map(|it| format!("{}.md", it.move_id)).collect();
    telling.tell(PipelineEvent::layer_complete(LAYER, artifacts)).await;
    Ok(update.status_updates(telling.told()))
}
