//! Builds the content of a report, section by section.

mod ranked;
mod reliability;

use super::{
    document::{Block, dash},
    evaluation::Report,
    outcome::{Outcome, Provider, Spending},
};
use crate::{
    call::Failure,
    citation::Flag,
    data::number,
    finding::{Finding, Tension},
    rank::Ranked,
    score::Mark,
    watch::{Observation, ObservationKind},
};
use sandbox_vm::report::IsolationLevel;

pub(super) fn title(report: &Report) -> String {
    format!(
        "Strategic moves for {} ({})",
        report.outcome.company.name, report.outcome.company.ticker
    )
}

pub(super) fn document(report: &Report) -> Vec<Block> {
    let mut blocks = vec![Block::Heading(1, title(report))];
    blocks.extend(notices(report));
    blocks.extend(ranked::recommended(report));
    blocks.extend(ranked::other(report));
    blocks.extend(reliability::reliability(report));
    blocks.extend(citations(report));
    blocks.extend(debates(report));
    blocks.extend(findings(report));
    blocks.extend(failures(&report.outcome.failures));
    blocks.extend(warnings(&report.outcome.warnings));
    blocks.extend(costs(&report.outcome));
    blocks.extend(provenance(report));
    blocks
}

fn notices(report: &Report) -> Vec<Block> {
    let outcome = &report.outcome;
    let mut notices = report.incomplete_notices();
    if report.is_synthetic() {
        notices.push(outcome.company.source_notice());
    }
    match &outcome.provider {
        Provider::Scripted => notices.push(
            "This report was written by a scripted model that makes up its answers. Nothing in it is advice."
                .to_owned(),
        ),
        Provider::Models { .. } => {}
    }
    notices.extend(isolation_notice(report));
    notices.extend(outcome.mixed_settings.clone());
    let defaulted: Vec<String> = report
        .ranking
        .recommended
        .iter()
        .filter(|it| it.marks.contains(&Mark::Defaulted))
        .map(|it| it.move_id.to_string())
        .collect();
    if !defaulted.is_empty() {
        notices.push(format!(
            "Recommended although some scores could not be read and were set to neutral: {}.",
            defaulted.join(", ")
        ));
    }
    let mut blocks: Vec<Block> = notices.into_iter().map(Block::Notice).collect();
    let wrote = match &outcome.provider {
        Provider::Scripted => "a scripted model".to_owned(),
        Provider::Models { name } => name.clone(),
    };
    if !report.is_synthetic() {
        blocks.push(Block::Text(outcome.company.source_notice()));
    }
    blocks.push(Block::Text(format!(
        "Run {}, data as of {}, written by {wrote}. Sandbox of the debates: {} ({}).",
        outcome.run_id,
        outcome.company.as_of,
        outcome.isolation.backend,
        outcome.isolation.level.description()
    )));
    blocks
}

/// Returns a notice about debates that ran without isolation, with their moves if others were isolated.
fn isolation_notice(report: &Report) -> Option<String> {
    let isolation = &report.outcome.isolation;
    if isolation.level > IsolationLevel::Off {
        return None;
    }
    let is_exposed = |it: &&Ranked| it.marks.contains(&Mark::NotIsolated);
    let exposed: Vec<String> =
        report.ranking.all().filter(is_exposed).map(|it| it.move_id.to_string()).collect();
    let is_partial = !exposed.is_empty() && exposed.len() < report.ranking.all().count();
    let which = if is_partial { format!(" about {}", exposed.join(", ")) } else { String::new() };
    Some(format!("The debates{which} ran without isolation ({}).", isolation.backend))
}

fn citations(report: &Report) -> Vec<Block> {
    let mut blocks = vec![Block::Heading(2, "Citations and numbers".to_owned())];
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
        let place = format!("{}, sentence {}", it.location.part, it.location.sentence);
        vec![it.location.document.clone(), place, it.text.clone(), it.reason.to_string()]
    };
    blocks.push(Block::table(
        &["Document", "Location", "Text", "Reason"],
        report.flags.iter().map(line).collect(),
    ));
    blocks
}

fn debates(report: &Report) -> Vec<Block> {
    if report.observations.is_empty() {
        return Vec::new();
    }
    let kind = |it| match it {
        ObservationKind::Capitulation => "conceded without new facts",
        ObservationKind::DisagreementCollapse => "two turns in a row added nothing new",
        ObservationKind::Repetition => "repeated an earlier turn",
    };
    let line = |it: &Observation| {
        vec![
            it.move_id.to_string(),
            it.log.clone(),
            it.round.to_string(),
            it.role.to_string(),
            kind(it.kind).to_owned(),
        ]
    };
    let table = Block::table(
        &["Move", "Log", "Round", "Speaker", "Observation"],
        report.observations.iter().map(line).collect(),
    );
    vec![Block::Heading(2, "Observations on the debates".to_owned()), table]
}

fn findings(report: &Report) -> Vec<Block> {
    let mut blocks = vec![Block::Heading(2, "Findings".to_owned())];
    for document in &report.outcome.findings {
        let line = |it: &Finding| {
            vec![it.id.to_string(), it.draft.claim.clone(), it.draft.strength.to_string()]
        };
        blocks.push(Block::table(
            &["Finding", "Claim", "Strength"],
            document.findings.iter().map(line).collect(),
        ));
        let tension = |it: &Tension| {
            let ids: Vec<String> = it.between.iter().map(ToString::to_string).collect();
            format!("Tension between {}: {}", ids.join(" and "), it.text)
        };
        if !document.tensions.is_empty() {
            blocks.push(Block::List(document.tensions.iter().map(tension).collect()));
        }
    }
    blocks
}

fn failures(failures: &[Failure]) -> Vec<Block> {
    if failures.is_empty() {
        return Vec::new();
    }
    let line = |it: &Failure| vec![it.place.clone(), it.reason.clone()];
    let table = Block::table(&["Place", "Reason"], failures.iter().map(line).collect());
    vec![Block::Heading(2, "Failures".to_owned()), table]
}

fn warnings(warnings: &[String]) -> Vec<Block> {
    if warnings.is_empty() {
        return Vec::new();
    }
    vec![Block::Heading(2, "Warnings".to_owned()), Block::List(warnings.to_vec())]
}

fn costs(outcome: &Outcome) -> Vec<Block> {
    if outcome.spending.is_empty() {
        return Vec::new();
    }
    let collapsed = |title: &str, what, spending: &[Spending]| Block::Collapsed {
        title: title.to_owned(),
        blocks: vec![spending_table(what, spending)],
    };
    let mut blocks = vec![Block::Heading(2, "Cost".to_owned())];
    if let Some(own) = &outcome.own_spending {
        let money =
            own.dollars.map_or_else(|| "price unknown".to_owned(), |it| format!("${it:.4}"));
        blocks.push(Block::Text(format!(
            "This run was forked from another run and paid for {} calls itself: {} input tokens, {} output tokens, \
             {money}. The table includes the calls that it shares with the other run.",
            number::grouped(own.calls),
            number::grouped(own.input_tokens),
            number::grouped(own.output_tokens),
        )));
    }
    blocks.push(spending_table("Role", &outcome.spending));
    if !outcome.spending_by_move.is_empty() {
        blocks.push(collapsed("Cost by move", "Move", &outcome.spending_by_move));
        blocks.push(collapsed("Cost by round, all debates", "Round", &outcome.spending_by_round));
    }
    blocks
}

fn spending_table(what: &str, spending: &[Spending]) -> Block {
    let money = |it: Option<f64>| it.map_or_else(dash, |it| format!("${it:.4}"));
    let line = |name: &str, it: &Spending| {
        let cached = it.cached_tokens as f64 / it.input_tokens.max(1) as f64;
        let tokens = [it.input_tokens, it.output_tokens].map(number::grouped);
        let [input, output] = tokens;
        vec![
            name.to_owned(),
            number::grouped(it.calls),
            input,
            number::percent(cached),
            output,
            money(it.dollars),
        ]
    };
    let mut lines: Vec<Vec<String>> = spending.iter().map(|it| line(&it.name, it)).collect();
    lines.push(line("total", &Spending::total(spending)));
    Block::table(&[what, "Calls", "Input tokens", "From cache", "Output tokens", "Cost"], lines)
}

fn provenance(report: &Report) -> Vec<Block> {
    let pairs = |all: Vec<(String, String)>| all.into_iter().map(|(a, b)| vec![a, b]).collect();
    let manifest = report.outcome.manifest.clone().into_iter().collect();
    let provenance = Block::table(&["Number", "Source"], pairs(report.provenance.clone()));
    vec![
        Block::Heading(2, "Provenance".to_owned()),
        Block::table(&["Property", "Value"], pairs(manifest)),
        Block::Collapsed { title: "Sources of the figures".to_owned(), blocks: vec![provenance] },
    ]
}
