//! Builds the section about the reliability of the ranking.

use super::{
    super::{document::Block, evaluation::Report},
    scores::display_name,
};
use crate::{
    data::number,
    rank::{Drift, Ranked, Severity},
};

pub(super) fn reliability(report: &Report) -> Vec<Block> {
    let mut blocks = vec![Block::Heading(3, "Reliability of the ranking".to_owned())];
    let mut points =
        vec![format!("Sensitivity to judges and metrics: {}.", report.robustness.verdict)];
    for standing in report.robustness.standings.iter().filter(|it| !it.depends_on.is_empty()) {
        let names: Vec<String> =
            standing.depends_on.iter().map(|id| display_name(report, id)).collect();
        points.push(format!(
            "{} would enter or leave the recommendation if any one of these were removed: {}.",
            standing.move_id,
            names.join(", ")
        ));
    }
    if let Some(it) = report.compression {
        let resolved = if it.unresolved {
            "this is within the noise, so the ranking is inconclusive"
        } else {
            "this is more than the noise explains"
        };
        points.push(format!("The highest and lowest totals are {} apart; {resolved}.", it.spread));
        points.push(format!("{} of all scores are 7 or 8.", number::percent(it.sevens_and_eights)));
    }
    if let Some(bias) = report.length_bias {
        points.push(format!("Correlation between score and length of debate: {bias:.2}."));
    }
    if let Some(tau) = report.tau {
        let vote: Vec<String> =
            report.before.recommended.iter().map(|it| it.move_id.to_string()).collect();
        points.push(format!(
            "Without debates, a vote would have recommended {}; Kendall's tau of the two rankings is {tau:.2} (from -1 to 1).",
            vote.join(", ")
        ));
    }
    blocks.push(Block::List(points));
    if let Some(severity) = &report.severity {
        let leaning =
            |(id, it): (&String, &f64)| vec![display_name(report, id), format!("{it:+.2}")];
        blocks.push(Block::Legend(
            "Deviation: points per criterion by which the decision maker is more generous (+) or stricter (-) than the \
             average."
                .to_owned(),
        ));
        blocks.push(Block::table(
            &["Decision maker", "Deviation"],
            severity.scorers.iter().map(leaning).collect(),
        ));
        let adjusted = adjusted(report, severity);
        if !adjusted.is_empty() {
            blocks.push(Block::table(&["Move", "Total", "Total adjusted for severity"], adjusted));
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
            &["Move", "Before the debate", "After the debate", "Change"],
            report.drift.iter().map(line).collect(),
        ));
    }
    blocks
}

/// Lists the moves whose total score changes when it is adjusted for the severity of the scorers. These are the moves
/// for which some scores could not be read.
fn adjusted(report: &Report, severity: &Severity) -> Vec<Vec<String>> {
    let line = |ranked: &Ranked| {
        let adjusted = format!("{:.1}", severity.adjusted.get(&ranked.move_id)?);
        let total = ranked.total_score;
        let differs = adjusted != format!("{total}.0");
        differs.then(|| vec![ranked.move_id.to_string(), total.to_string(), adjusted])
    };
    report.ranking.all().filter_map(line).collect()
}
