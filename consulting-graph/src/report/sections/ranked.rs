//! Builds the sections about the ranked moves and their scores.

use super::super::{
    chart::Chart,
    document::{Block, dash},
    evaluation::Report,
};
use crate::{
    data::number,
    moves::Move,
    rank::{Ranked, Unscored},
    score::{Adjustment, MakerScore, Mark, MoveScore, SCORE_RANGE},
    transcript::{escaped, format_transcript},
};

pub(super) fn recommended(report: &Report) -> Vec<Block> {
    let mut blocks = vec![Block::Heading(2, "Recommended".to_owned())];
    if report.ranking.recommended.is_empty() {
        blocks.push(Block::Text("No move was scored, so none is recommended.".to_owned()));
        return blocks;
    }
    blocks.push(standings(report, &report.ranking.recommended));
    blocks.push(Block::Chart(totals(report)));
    for ranked in &report.ranking.recommended {
        let Some(it) = report.outcome.find_move(ranked.move_id) else { continue };
        blocks.push(Block::Heading(
            3,
            format!("{}. {}: {}", ranked.rank, it.move_id, it.draft.title),
        ));
        blocks.push(Block::Text(it.draft.thesis.clone()));
        if let Some(score) = report.outcome.find_score(ranked.move_id) {
            blocks.push(metrics(report, score));
            blocks.push(Block::Chart(by_metric(report, score)));
        }
        blocks.push(collapsed_move(report, it));
    }
    blocks
}

pub(super) fn other(report: &Report) -> Vec<Block> {
    let mut blocks = Vec::new();
    if !report.ranking.other.is_empty() {
        blocks.push(Block::Heading(2, "Other moves".to_owned()));
        blocks.push(standings(report, &report.ranking.other));
        for ranked in &report.ranking.other {
            blocks.extend(
                report.outcome.find_move(ranked.move_id).map(|it| collapsed_move(report, it)),
            );
        }
    }
    if !report.ranking.unscored.is_empty() {
        blocks.push(Block::Heading(2, "Not scored".to_owned()));
        let line = |it: &Unscored| format!("{}: {}", it.move_id, it.reason);
        blocks.push(Block::List(report.ranking.unscored.iter().map(line).collect()));
    }
    blocks
}

/// Builds a table of moves in ranked order.
fn standings(report: &Report, ranked: &[Ranked]) -> Block {
    let makers = &report.outcome.decision_makers;
    let mut header = vec![
        "Rank".to_owned(),
        "Move".to_owned(),
        "Title".to_owned(),
        "Analyst".to_owned(),
        "Risk".to_owned(),
    ];
    header.push(format!("Score (max {})", report.outcome.best_score));
    header.extend(makers.iter().map(|it| it.id.clone()));
    header.push(format!("P(top {})", report.outcome.top_k));
    header.extend(["Flags", "Caveats"].map(str::to_owned));
    let line = |ranked: &Ranked| {
        let it = report.outcome.find_move(ranked.move_id);
        let text = |of: fn(&Move) -> String| it.map(of).unwrap_or_default();
        let score = report.outcome.find_score(ranked.move_id);
        let total = |id: &str| {
            score
                .and_then(|it| it.scores_by_agent.get(id))
                .map_or_else(dash, |it| it.total().to_string())
        };
        let standing = report.robustness.standings.iter().find(|it| it.move_id == ranked.move_id);
        let own = ranked.move_id.to_string();
        let flags = report.flags.iter().filter(|it| it.location.document == own).count();
        let mut cells = vec![ranked.rank.to_string(), ranked.move_id.to_string()];
        cells.push(text(|it| it.draft.title.clone()));
        cells.push(text(|it| it.persona.clone()));
        cells.push(text(|it| format!("{:?}", it.draft.risk_level).to_lowercase()));
        cells.push(ranked.total_score.to_string());
        cells.extend(makers.iter().map(|it| total(&it.id)));
        cells.push(standing.map_or_else(dash, |it| number::percent(it.top)));
        cells.push(flags.to_string());
        cells.push(marks(ranked));
        cells
    };
    Block::Table { header, lines: ranked.iter().map(line).collect() }
}

fn marks(ranked: &Ranked) -> String {
    let name = |it: &Mark| match it {
        Mark::Defaulted => "neutral scores",
        Mark::Truncated => "debate shortened",
        Mark::Incomplete => "debate incomplete",
        Mark::NotIsolated => "not isolated",
    };
    let names: Vec<&str> = ranked.marks.iter().map(name).collect();
    if names.is_empty() { dash() } else { names.join(", ") }
}

fn totals(report: &Report) -> Chart {
    let makers = &report.outcome.decision_makers;
    let bar = |ranked: &Ranked| {
        let score = report.outcome.find_score(ranked.move_id);
        let part =
            |id: &str| score.and_then(|it| it.scores_by_agent.get(id)).map_or(0, MakerScore::total);
        (
            format!("{}. {}", ranked.rank, ranked.move_id),
            makers.iter().map(|it| part(&it.id)).collect(),
        )
    };
    Chart {
        title: "Total scores by decision maker".to_owned(),
        parts: makers.iter().map(|it| it.id.clone()).collect(),
        bars: report.ranking.all().map(bar).collect(),
        max: u32::try_from(report.outcome.best_score).unwrap_or(u32::MAX),
    }
}

fn by_metric(report: &Report, score: &MoveScore) -> Chart {
    let makers = &report.outcome.decision_makers;
    let given = |maker: &str, metric: &str| -> u32 {
        score
            .scores_by_agent
            .get(maker)
            .and_then(|it| it.metrics.get(metric))
            .copied()
            .map_or(0, u32::from)
    };
    let bars = report.outcome.metrics.iter();
    let bars = bars.map(|metric| {
        (metric.name.clone(), makers.iter().map(|it| given(&it.id, &metric.id)).collect())
    });
    Chart {
        title: format!("Scores of {} by metric", score.move_id),
        parts: makers.iter().map(|it| it.id.clone()).collect(),
        bars: bars.collect(),
        max: u32::try_from(makers.len()).unwrap_or(1) * u32::from(*SCORE_RANGE.end()),
    }
}

/// Builds a table of all scores for a move, which also shows how the scores were read.
fn metrics(report: &Report, score: &MoveScore) -> Block {
    let mut header = vec!["Scorer".to_owned()];
    header.extend(report.outcome.metrics.iter().map(|it| it.name.clone()));
    header.extend(["Total", "Source", "Reasoning"].map(str::to_owned));
    let line = |(id, it): (&String, &MakerScore)| {
        let mut cells = vec![id.clone()];
        cells.extend(
            report
                .outcome
                .metrics
                .iter()
                .map(|metric| it.metrics.get(&metric.id).map_or_else(dash, u8::to_string)),
        );
        cells.push(it.total().to_string());
        cells.push(source(it));
        cells.push(it.reasoning.clone());
        cells
    };
    Block::Table { header, lines: score.scores_by_agent.iter().map(line).collect() }
}

fn source(score: &MakerScore) -> String {
    let name =
        serde_json::to_value(score.score_source).ok().and_then(|it| it.as_str().map(str::to_owned));
    let changed =
        |it: &Adjustment| format!("; {} changed from {} to {}", it.metric, it.given, it.kept);
    name.unwrap_or_default() + &score.adjustments.iter().map(changed).collect::<String>()
}

fn collapsed_move(report: &Report, it: &Move) -> Block {
    let mut blocks = vec![Block::Quote(it.markdown())];
    for (name, log) in report.outcome.logs.get(&it.move_id).into_iter().flatten() {
        let collapsed = vec![Block::Quote(format_transcript(&escaped(log)))];
        blocks.push(Block::Collapsed {
            title: format!("Debate {name}, {} turns", log.len()),
            blocks: collapsed,
        });
    }
    Block::Collapsed {
        title: format!("{}: {} (full text and debates)", it.move_id, it.draft.title),
        blocks,
    }
}
