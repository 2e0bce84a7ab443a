//! Builds the appendix: reliability, unconfirmed citations, failures, cost, settings and sources.

use super::{
    super::{
        document::{Block, dash},
        evaluation::Report,
        outcome::{Outcome, SpendingEntry},
    },
    reliability, scores,
};
use crate::{call::Failure, citation::Flag, data::number};

pub(super) fn appendix(report: &Report) -> Vec<Block> {
    let mut blocks = vec![Block::Heading(2, "Appendix".to_owned())];
    blocks.extend(reliability::reliability(report));
    blocks.extend(citations(report));
    blocks.extend(failures(&report.outcome));
    blocks.extend(warnings(&report.outcome.warnings));
    blocks.extend(costs(report));
    blocks.extend(settings(report));
    blocks
}

fn citations(report: &Report) -> Vec<Block> {
    let mut blocks = vec![Block::Heading(3, "Citations and numbers".to_owned())];
    if report.flags.is_empty() {
        blocks.push(Block::Text(
            "All citations refer to existing findings. All numbers in the documents, findings, moves and debates are in \
             the data or are part of the move's own plan."
                .to_owned(),
        ));
        return blocks;
    }
    blocks.push(Block::Text(
        "The following citations and numbers are not confirmed by the data. Scores were not changed because of them."
            .to_owned(),
    ));
    let line = |it: &Flag| {
        let part = report.outcome.place_with_names(&it.location.part);
        let place = format!("{part}, sentence {}", it.location.sentence);
        vec![it.location.document.clone(), place, it.text.clone(), it.reason.to_string()]
    };
    blocks.push(Block::table(
        &["Document", "Location", "Text", "Reason"],
        report.flags.iter().map(line).collect(),
    ));
    blocks
}

fn failures(outcome: &Outcome) -> Vec<Block> {
    if outcome.failures.is_empty() {
        return Vec::new();
    }
    let line = |it: &Failure| vec![outcome.place_with_names(&it.place), it.reason.clone()];
    let table = Block::table(&["Place", "Reason"], outcome.failures.iter().map(line).collect());
    vec![Block::Heading(3, "Failures".to_owned()), table]
}

fn warnings(warnings: &[String]) -> Vec<Block> {
    if warnings.is_empty() {
        return Vec::new();
    }
    vec![Block::Heading(3, "Warnings".to_owned()), Block::List(warnings.to_vec())]
}

fn costs(report: &Report) -> Vec<Block> {
    let outcome: &Outcome = &report.outcome;
    if outcome.spending.is_empty() {
        return Vec::new();
    }
    let collapsed = |title: &str, what, spending: &[SpendingEntry]| Block::Collapsed {
        title: title.to_owned(),
        blocks: vec![spending_table(report, what, spending)],
    };
    let mut blocks = vec![Block::Heading(3, "Cost".to_owned())];
    if let Some(own) = &outcome.own_spending {
        let money =
            own.dollars.map_or_else(|| "price unknown".to_owned(), |it| format!("${it:.4}"));
        blocks.push(Block::Text(format!(
            "This run was forked from another run and paid for {} {} itself: {} input tokens, {} output tokens, \
             {money}. The table includes the calls that it shares with the other run.",
            number::grouped(own.calls),
            if own.calls == 1 { "call" } else { "calls" },
            number::grouped(own.input_tokens),
            number::grouped(own.output_tokens),
        )));
    }
    blocks.push(Block::Legend(
        "From cache: share of the input tokens that the provider had stored and bills at a lower price.".to_owned(),
    ));
    blocks.push(spending_table(report, "Role", &outcome.spending));
    let uncounted = SpendingEntry::total(&outcome.spending).uncounted_notice();
    blocks.extend(uncounted.map(|it| Block::Text(format!("Tokens and cost: {it}."))));
    if !outcome.spending_by_move.is_empty() {
        blocks.push(Block::PageOnly(vec![
            collapsed("Cost by move", "Move", &outcome.spending_by_move),
            collapsed("Cost by round, all debates", "Round", &outcome.spending_by_round),
        ]));
    }
    blocks
}

fn spending_table(report: &Report, what: &str, spending: &[SpendingEntry]) -> Block {
    let money = |it: Option<f64>| it.map_or_else(dash, |it| format!("${it:.4}"));
    let line = |name: &str, it: &SpendingEntry| {
        let cached = it.cached_tokens as f64 / it.input_tokens.max(1) as f64;
        let tokens = [it.input_tokens, it.output_tokens].map(number::grouped);
        let [input, output] = tokens;
        vec![
            role_name(report, name),
            number::grouped(it.calls),
            input,
            number::percent(cached),
            output,
            money(it.dollars),
        ]
    };
    let mut lines: Vec<Vec<String>> = spending.iter().map(|it| line(&it.name, it)).collect();
    lines.push(line("total", &SpendingEntry::total(spending)));
    Block::table(&[what, "Calls", "Input tokens", "From cache", "Output tokens", "Cost"], lines)
}

/// Returns the display name of a role such as `D1 scoring`.
fn role_name(report: &Report, role: &str) -> String {
    match role.rsplit_once(' ') {
        Some((id, task @ ("scoring" | "summaries"))) => {
            format!("{}, {task}", scores::display_name(report, id))
        }
        _ => scores::display_name(report, role),
    }
}

/// Returns the display name of a property such as `model of D1 scoring` or `prompt D1`.
fn property_name(report: &Report, property: &str) -> String {
    for (start, shown) in [("model of ", "model of "), ("prompt ", "prompt of ")] {
        if let Some(role) = property.strip_prefix(start) {
            return format!("{shown}{}", role_name(report, role));
        }
    }
    property.to_owned()
}

fn settings(report: &Report) -> Vec<Block> {
    let manifest = report.outcome.manifest.iter();
    let manifest = manifest.map(|(it, value)| vec![property_name(report, it), value.clone()]);
    let provenance = report.provenance.iter().map(|(a, b)| vec![a.clone(), b.clone()]);
    let sources = Block::table(&["Number", "Source"], provenance.collect());
    vec![
        Block::Heading(3, "Settings and hashes".to_owned()),
        Block::Legend(
            "Versions, models and the SHA-256 hashes of the configuration, prompts and graphs. Two runs with equal values \
             and equal data differ only by chance."
                .to_owned(),
        ),
        Block::table(&["Property", "Value"], manifest.collect()),
        Block::PageOnly(vec![Block::Collapsed {
            title: "Sources of all figures".to_owned(),
            blocks: vec![sources],
        }]),
    ]
}
