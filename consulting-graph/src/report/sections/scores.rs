//! Builds tables and charts of scores.

use super::super::{
    bar_chart::BarChart,
    document::{Block, Cell, Link, Row, Table, dash},
    evaluation::Report,
};
use crate::{
    data::number,
    moves::Move,
    rank::Ranked,
    score::{Adjustment, MakerScore, Mark, MoveScore, SCORE_RANGE, ScoreSource},
    transcript::CRITIC,
};

/// Maximum number of characters of a move's title in a chart.
const MAX_LABEL: usize = 58;

/// Returns the display name of an agent or a metric. Returns the id if it is unknown.
pub(super) fn display_name(report: &Report, id: &str) -> String {
    let outcome = &report.outcome;
    if id == CRITIC {
        return "Critic".to_owned();
    }
    let metric = outcome.metrics.iter().find(|it| it.id == id);
    metric.map_or_else(|| outcome.agent_name(id), |it| it.name.as_str()).to_owned()
}

/// Builds a table of all ranked moves.
pub(super) fn standings(report: &Report) -> Vec<Block> {
    let outcome = &report.outcome;
    let makers = &outcome.decision_makers;
    let mut header: Vec<String> =
        ["Rank", "Move", "Title", "Risk", "Score"].map(str::to_owned).into();
    header.extend(makers.iter().map(|it| it.name.clone()));
    header.extend(["Stability", "Flags", "Caveats"].map(str::to_owned));
    let row = |ranked: &Ranked| {
        let it = outcome.find_move(ranked.move_id);
        let text = |of: fn(&Move) -> String| Cell::Text(it.map(of).unwrap_or_default());
        let score = outcome.find_score(ranked.move_id);
        let total = |id: &str| {
            let score = score.and_then(|it| it.scores_by_agent.get(id));
            Cell::Text(score.map_or_else(dash, |it| it.total().to_string()))
        };
        let standing = report.robustness.standings.iter().find(|it| it.move_id == ranked.move_id);
        let own = ranked.move_id.to_string();
        let flags = report.flags.iter().filter(|it| it.location.document == own).count();
        let mut cells = vec![Cell::Text(ranked.rank.to_string())];
        cells.push(Cell::Links(vec![Link::to(&own, &own)]));
        cells.push(text(|it| it.draft.title.clone()));
        cells.push(text(|it| it.draft.risk_level.name().to_owned()));
        cells.push(Cell::Text(ranked.total_score.to_string()));
        cells.extend(makers.iter().map(|it| total(&it.id)));
        cells.push(Cell::Text(standing.map_or_else(dash, |it| number::percent(it.top))));
        cells.push(Cell::Text(flags.to_string()));
        cells.push(Cell::Text(marks(ranked)));
        Row::new(cells)
    };
    let each = outcome.best_score / makers.len().max(1);
    let legend = format!(
        "Score: sum of the columns of the decision makers, up to {} points, of which each gives up to {each}. Stability: \
         share of random resamples of the scores in which the move is among the best {}. Flags: citations and numbers in \
         the move that the data does not confirm. Caveats: limits of the debate or of the scores.",
        outcome.best_score, outcome.top_k
    );
    let rows = report.ranking.all().map(row).collect();
    vec![Block::Legend(legend), Block::Table(Table { header, rows })]
}

fn marks(ranked: &Ranked) -> String {
    let name = |it: &Mark| match it {
        Mark::Defaulted => "neutral scores",
        Mark::Truncated => "debate shortened",
        Mark::Incomplete => "debate incomplete",
        Mark::NotIsolated => "not isolated",
        Mark::CutOff => "turns cut off",
    };
    let names: Vec<&str> = ranked.marks.iter().map(name).collect();
    if names.is_empty() { dash() } else { names.join(", ") }
}

/// Builds a chart of the total scores of all ranked moves.
pub(super) fn totals(report: &Report) -> Block {
    let makers = &report.outcome.decision_makers;
    let bar = |ranked: &Ranked| {
        let score = report.outcome.find_score(ranked.move_id);
        let part =
            |id: &str| score.and_then(|it| it.scores_by_agent.get(id)).map_or(0, MakerScore::total);
        let title =
            report.outcome.find_move(ranked.move_id).map_or("", |it| it.draft.title.as_str());
        let label = shortened(&format!("{}. {}: {title}", ranked.rank, ranked.move_id));
        (label, makers.iter().map(|it| part(&it.id)).collect())
    };
    Block::Bars(BarChart {
        title: format!(
            "Total scores by decision maker, from 0 to {} points",
            report.outcome.best_score
        ),
        parts: makers.iter().map(|it| it.name.clone()).collect(),
        bars: report.ranking.all().map(bar).collect(),
        max: u32::try_from(report.outcome.best_score).unwrap_or(u32::MAX),
    })
}

fn shortened(text: &str) -> String {
    if text.chars().count() <= MAX_LABEL {
        return text.to_owned();
    }
    text.chars().take(MAX_LABEL - 1).collect::<String>().trim_end().to_owned() + "…"
}

/// Builds a chart of a move's scores by metric.
pub(super) fn by_metric(report: &Report, score: &MoveScore) -> Block {
    let makers = &report.outcome.decision_makers;
    let given = |maker: &str, metric: &str| -> u32 {
        let score = score.scores_by_agent.get(maker).and_then(|it| it.metrics.get(metric));
        score.copied().map_or(0, u32::from)
    };
    let bars = report.outcome.metrics.iter().map(|metric| {
        (metric.name.clone(), makers.iter().map(|it| given(&it.id, &metric.id)).collect())
    });
    let max = u32::try_from(makers.len()).unwrap_or(1) * u32::from(*SCORE_RANGE.end());
    Block::Bars(BarChart {
        title: format!("Scores of {} by criterion, from 0 to {max} points", score.move_id),
        parts: makers.iter().map(|it| it.name.clone()).collect(),
        bars: bars.collect(),
        max,
    })
}

/// Builds a table of all scores for a move, which also shows how the scores were read.
pub(super) fn metrics(report: &Report, score: &MoveScore) -> Vec<Block> {
    let mut header = vec!["Decision maker".to_owned()];
    header.extend(report.outcome.metrics.iter().map(|it| it.name.clone()));
    header.extend(["Total", "Reason", "Read from"].map(str::to_owned));
    let row = |(id, it): (&String, &MakerScore)| {
        let mut cells = vec![display_name(report, id)];
        cells.extend(
            report
                .outcome
                .metrics
                .iter()
                .map(|metric| it.metrics.get(&metric.id).map_or_else(dash, u8::to_string)),
        );
        cells.push(it.total().to_string());
        cells.push(it.reasoning.clone());
        cells.push(source(report, it));
        Row::new(cells.into_iter().map(Cell::Text).collect())
    };
    let rows = score.scores_by_agent.iter().map(row).collect();
    let legend = "Each criterion has 1 to 10 points. Read from: the part of the answer that contained the scores; values \
                  that were not whole numbers from 1 to 10 were rounded or limited to that range.";
    vec![Block::Legend(legend.to_owned()), Block::Table(Table { header, rows })]
}

fn source(report: &Report, score: &MakerScore) -> String {
    let part = match score.score_source {
        ScoreSource::Schema => "requested form",
        ScoreSource::Json => "corrected form",
        ScoreSource::JsonExtracted => "form inside a text",
        ScoreSource::Regex => "numbers in a text",
        ScoreSource::Repaired => "second answer",
        ScoreSource::Default => "nothing, so all scores are neutral",
    };
    let changed = |it: &Adjustment| {
        let metric = display_name(report, &it.metric);
        format!("; {metric} changed from {} to {}", it.given, it.kept)
    };
    part.to_owned() + &score.adjustments.iter().map(changed).collect::<String>()
}
