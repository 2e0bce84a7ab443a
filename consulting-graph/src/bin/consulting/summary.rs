//! Summary of a report for the terminal.

use std::path::Path;

use app_support::plural::counted;
use consulting_graph::{
    data::Source,
    rank::Ranked,
    report::{Provider, Report, SpendingEntry},
    score::Mark,
};

use crate::view::{short_count, text::first_line};

/// Renders a summary of a report.
pub(crate) fn summary(report: &Report, dir: &Path) -> String {
    let outcome = &report.outcome;
    let mut text = format!("{} ({})\n", first_line(&outcome.company.name), outcome.company.ticker);
    for notice in notices(report) {
        text += &format!("{notice}\n");
    }
    let moves = counted(outcome.moves.len(), "move", "moves");
    text += &format!("\nRecommended (of {moves})\n");
    for ranked in &report.ranking.recommended {
        text += &recommended(report, ranked);
    }
    let scored = report.ranking.all().count();
    let unscored = match report.ranking.unscored.len() {
        0 => String::new(),
        n => format!(", {n} without a score"),
    };
    text += &format!("\nDebates     {scored} scored{unscored}, in {}\n", outcome.sandboxes_text(),);
    text += &format!("Ranking     {}\n", report.robustness.verdict);
    text += &format!(
        "Flags       {}, {}\n",
        counted(
            report.flags.len(),
            "unsupported citation or number",
            "unsupported citations or numbers"
        ),
        counted(report.observations.len(), "noteworthy debate turn", "noteworthy debate turns"),
    );
    match &report.outcome.own_spending {
        Some(own) => {
            let own = std::slice::from_ref(own);
            text += &format!("Spent       {}\n", spending_text(report, own));
            text += &format!("Total       {}\n", spending_text(report, &report.outcome.spending));
        }
        None => {
            text += &format!("Spent       {}\n", spending_text(report, &report.outcome.spending))
        }
    }
    text += &format!("Report      {}\n", dir.join("report.html").display());
    text += &format!("            {}\n", dir.join("report.md").display());
    text
}

/// Returns warnings that readers must not miss.
fn notices(report: &Report) -> Vec<String> {
    let mut notices: Vec<String> =
        report.incomplete_notices().iter().map(|it| first_line(it)).collect();
    if report.outcome.company.source == Source::Synthetic {
        notices.push("SYNTHETIC DATA: the company and all its numbers are invented.".to_owned());
    } else {
        notices.push(report.outcome.company.source_notice());
        notices.extend(report.outdated_notice());
    }
    if report.outcome.provider == Provider::Scripted {
        notices.push(
            "SCRIPTED MODEL: a program made up all answers. Nothing here is advice.".to_owned(),
        );
    }
    notices.extend(report.outcome.mixed_settings.as_deref().map(first_line));
    notices
}

fn recommended(report: &Report, ranked: &Ranked) -> String {
    let outcome = &report.outcome;
    let title = outcome.find_move(ranked.move_id);
    let title = title.map_or(String::new(), |it| first_line(&it.draft.title));
    // Missing isolation is shown on a separate line.
    let marks = ranked.marks.iter().filter(|it| **it != Mark::NotIsolated).map(|it| match it {
        Mark::Defaulted => "neutral scores",
        Mark::Truncated => "shortened",
        Mark::Incomplete => "incomplete",
        Mark::NotIsolated => "not isolated",
        Mark::CutOff => "turns cut off",
    });
    let marks: Vec<&str> = marks.collect();
    let marks = if marks.is_empty() { String::new() } else { format!(" [{}]", marks.join(", ")) };
    let (rank, id, score, best) =
        (ranked.rank, ranked.move_id, ranked.total_score, outcome.best_score);
    format!("  {rank}. {:<4}{score:>4}/{best}  {title}{marks}\n", id.to_string())
}

fn spending_text(report: &Report, spending: &[SpendingEntry]) -> String {
    let total = SpendingEntry::total(spending);
    let uncounted = total.uncounted_notice().map_or(String::new(), |it| format!(", {it}"));
    let SpendingEntry { calls, input_tokens, output_tokens, dollars, .. } = total;
    let money = match (dollars, &report.outcome.provider) {
        (_, Provider::Scripted) => "no cost".to_owned(),
        (Some(dollars), _) => format!("${dollars:.2}"),
        (None, _) => "price unknown".to_owned(),
    };
    let (input, output) = (short_count(input_tokens), short_count(output_tokens));
    let calls = counted(calls, "call", "calls");
    format!("{calls}, {input} tokens in, {output} out, {money}{uncounted}")
}
