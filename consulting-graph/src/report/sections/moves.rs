//! Builds the section about all moves.

use super::{
    super::{
        document::{Block, Cell, Row},
        evaluation::Report,
    },
    scores,
};
use crate::{
    moves::{Move, Step},
    rank::Unscored,
};

pub(super) fn all_moves(report: &Report) -> Vec<Block> {
    let outcome = &report.outcome;
    let mut blocks = vec![Block::Heading(2, "All moves".to_owned())];
    if report.ranking.all().next().is_some() {
        blocks.extend(scores::standings(report));
        blocks.push(scores::totals(report));
    }
    if !report.ranking.unscored.is_empty() {
        blocks.push(Block::Heading(3, "Not scored".to_owned()));
        let line = |it: &Unscored| format!("{}: {}", it.move_id, it.reason);
        blocks.push(Block::List(report.ranking.unscored.iter().map(line).collect()));
    }
    let recommended: Vec<_> = report.ranking.recommended.iter().map(|it| it.move_id).collect();
    let ranked = report.ranking.all().map(|it| it.move_id);
    let unscored = report.ranking.unscored.iter().map(|it| it.move_id);
    for id in ranked.chain(unscored) {
        let Some(it) = outcome.find_move(id) else { continue };
        let is_recommended = recommended.contains(&id);
        blocks.push(Block::Target(3, format!("{id}: {}", it.draft.title), id.to_string()));
        blocks.push(Block::Text(format!(
            "{}, {} risk. {}",
            it.persona,
            it.draft.risk_level.name(),
            it.draft.thesis
        )));
        let mut details = details(it);
        let mut scored = Vec::new();
        if let Some(score) = outcome.find_score(id) {
            scored.extend(scores::metrics(report, score));
            if is_recommended {
                scored.push(scores::by_metric(report, score));
            }
        }
        if is_recommended {
            blocks.push(Block::PageOnly(details));
            blocks.extend(scored);
        } else {
            details.extend(scored);
            blocks.push(Block::PageOnly(details));
        }
        blocks.push(Block::MarkdownOnly(vec![Block::Text(format!("Full text: {id}.md"))]));
    }
    blocks
}

/// Renders everything that the analyst wrote about a move, except for its title and thesis.
fn details(it: &Move) -> Vec<Block> {
    let draft = &it.draft;
    let labelled = |label: &str, text: &str| {
        (!text.trim().is_empty()).then(|| Block::Text(format!("{label}: {text}")))
    };
    let mut blocks: Vec<Block> = Vec::new();
    blocks.extend(labelled("Why now", &draft.why_now));
    blocks.extend(draft.reasoning.iter().cloned().map(Block::Text));
    if !draft.steps.is_empty() {
        let row = |Step { action, owner, timeframe }: &Step| {
            Row::new([action, owner, timeframe].map(Cell::text).into())
        };
        let rows = draft.steps.iter().map(row).collect();
        blocks.push(Block::rows(&["Step", "Owner", "Date"], rows));
    }
    blocks.extend(labelled("Cost", &draft.cost));
    blocks.extend(labelled("What can go wrong", &draft.downside));
    blocks.extend(labelled("Mitigation", &draft.mitigation));
    blocks.extend(labelled("Stop if", &draft.falsifiers.join("; ")));
    blocks.extend(labelled("Measure of success", &draft.kpi));
    let cited: Vec<String> = draft.cited_findings().iter().map(|it| format!("[{it}]")).collect();
    blocks.extend(labelled("Cites", &cited.join(" ")));
    blocks
}
