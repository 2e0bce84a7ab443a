//! How far the order of the moves can be trusted.

use super::super::{Report, document::Block};
use crate::{
    data::number,
    rank::{Drift, Ranked, Severity},
};

pub(super) fn trust(report: &Report) -> Vec<Block> {
    let mut blocks = vec![Block::Heading(2, "How far the order can be trusted".to_owned())];
    let mut points = vec![format!("With other judges: {}.", report.robustness.verdict)];
    for standing in report.robustness.standings.iter().filter(|it| !it.hangs_on.is_empty()) {
        points.push(format!(
            "{} would change sides without any one of: {}.",
            standing.move_id,
            standing.hangs_on.join(", ")
        ));
    }
    if let Some(it) = report.compression {
        let resolved = if it.unresolved {
            "chance alone could explain that: the ranking is not resolved"
        } else {
            "more than chance explains"
        };
        points.push(format!("The best and the worst total are {} apart; {resolved}.", it.spread));
        points.push(format!(
            "{} of all scores are a 7 or an 8.",
            number::percent(it.sevens_and_eights)
        ));
    }
    if let Some(bias) = report.length_bias {
        points.push(format!("Correlation of score and length of debate: {bias:.2}."));
    }
    if let Some(tau) = report.tau {
        let vote: Vec<String> =
            report.before.recommended.iter().map(|it| it.move_id.to_string()).collect();
        points.push(format!(
            "A vote without debates would have recommended {}; the two orders agree by {tau:.2} (Kendall's tau, from -1 to 1).",
            vote.join(", ")
        ));
    }
    blocks.push(Block::List(points));
    if let Some(severity) = &report.severity {
        let leaning = |(name, it): (&String, &f64)| vec![name.clone(), format!("{it:+.2}")];
        blocks.push(Block::table(
            &["Scorer", "Above the mean of all scores by"],
            severity.scorers.iter().map(leaning).collect(),
        ));
        let adjusted = adjusted(report, severity);
        if !adjusted.is_empty() {
            blocks.push(Block::table(
                &["Move", "Total", "Total without the scorers' leanings"],
                adjusted,
            ));
        }
    }
    if !report.drift.is_empty() {
        let line = |it: &Drift| {
            vec![
                it.move_id.to_string(),
                it.before.to_string(),
                it.after.to_string(),
                format!("{:+}", it.change()),
            ]
        };
        blocks.push(Block::table(
            &["Move", "Before the debate", "After it", "Change"],
            report.drift.iter().map(line).collect(),
        ));
    }
    blocks
}

/// Moves whose total is another one when the scorers' leanings are taken out: those that not everybody scored.
fn adjusted(report: &Report, severity: &Severity) -> Vec<Vec<String>> {
    let line = |ranked: &Ranked| {
        let adjusted = format!("{:.1}", severity.adjusted.get(&ranked.move_id)?);
        let total = ranked.total_score;
        let differs = adjusted != format!("{total}.0");
        differs.then(|| vec![ranked.move_id.to_string(), total.to_string(), adjusted])
    };
    report.ranking.all().filter_map(line).collect()
}
