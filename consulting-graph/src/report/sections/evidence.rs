//! Builds the section about the evidence: findings, the figures that they are based on, and the filings.

use std::collections::BTreeMap;

use super::super::{
    document::{Block, Cell, Link, Row, dash},
    evaluation::Report,
    evidence::{Figure, figures, filing_address, filing_id, filings},
    outcome::Outcome,
};
use crate::{
    data::{Company, CurrentReport, number},
    finding::{Direction, Finding, FindingId, Inference, Tension},
};

pub(super) fn evidence(report: &Report) -> Vec<Block> {
    let company = &report.outcome.company;
    let mut blocks = vec![Block::Heading(2, "Evidence".to_owned())];
    blocks.push(Block::Text(company.source_notice()));
    blocks.extend(report.figures.iter().skip(1).cloned().map(Block::Figure));
    blocks.extend(company.missing_segments_notice().map(|it| Block::Text(it.to_owned())));
    let mut used: BTreeMap<String, (Figure<'_>, Vec<FindingId>)> = BTreeMap::new();
    for finding in report.outcome.findings.iter().flat_map(|it| &it.findings) {
        for figure in figures(company, finding) {
            used.entry(figure.id()).or_insert((figure, Vec::new())).1.push(finding.id);
        }
    }
    blocks.extend(findings(report));
    let mut used: Vec<(Figure<'_>, Vec<FindingId>)> = used.into_values().collect();
    used.sort_by_key(|(it, _)| (it.item, it.period.year, it.period.quarter));
    if !used.is_empty() {
        blocks.extend(figures_table(&used));
        blocks.extend(filings_table(report, &used));
    }
    blocks.extend(current_reports_table(report));
    blocks
}

fn findings(report: &Report) -> Vec<Block> {
    let mut blocks = vec![
        Block::Heading(3, "Findings".to_owned()),
        Block::Legend(
            "Sign: + favourable for the company, - unfavourable, ± both. Strength: 1 weak, 2 solid, 3 decisive. Figures: \
             the figures that the finding is based on. Cited by: the moves that cite the finding."
                .to_owned(),
        ),
    ];
    for document in &report.outcome.findings {
        let about = match document.inference {
            Inference::F1 => "F1: findings from the financial statements",
            Inference::F2 if report.outcome.company.has_news() => "F2: findings from the news",
            Inference::F2 => "F2: findings from the trends of the figures and the filings",
        };
        blocks.push(Block::Heading(4, about.to_owned()));
        let rows = document.findings.iter().map(|it| finding_row(report, it)).collect();
        blocks.push(Block::rows(
            &["Finding", "Claim", "Sign", "Strength", "Figures", "Cited by"],
            rows,
        ));
        let tension = |it: &Tension| {
            let ids: Vec<String> = it.between.iter().map(ToString::to_string).collect();
            format!("Contradiction between {}: {}", ids.join(" and "), it.text)
        };
        if !document.tensions.is_empty() {
            blocks.push(Block::List(document.tensions.iter().map(tension).collect()));
        }
    }
    blocks
}

fn finding_row(report: &Report, finding: &Finding) -> Row {
    let sign = match finding.draft.direction {
        Direction::Positive => "+",
        Direction::Negative => "-",
        Direction::Mixed => "±",
    };
    let figures = figures(&report.outcome.company, finding);
    let figures = figures.iter().map(|it| Link::to(&it.name(), &it.id())).collect::<Vec<_>>();
    let moves = report.outcome.moves.iter();
    let citing = moves.filter(|it| it.draft.cited_findings().contains(&finding.id));
    let id = finding.id.to_string();
    Row::with_id(
        id.clone(),
        vec![
            Cell::Text(id),
            Cell::text(&finding.draft.claim),
            Cell::text(sign),
            Cell::Text(finding.draft.strength.to_string()),
            if figures.is_empty() { Cell::Text(dash()) } else { Cell::Links(figures) },
            Cell::references(citing.map(|it| it.move_id.to_string())),
        ],
    )
}

fn figures_table(used: &[(Figure<'_>, Vec<FindingId>)]) -> Vec<Block> {
    let row = |(figure, findings): &(Figure<'_>, Vec<FindingId>)| {
        let filings = figure.accessions();
        let filings: Vec<Link> = filings.iter().map(|it| Link::to(it, &filing_id(it))).collect();
        let source = if filings.is_empty() {
            Cell::Text(figure.fact.origin.to_string())
        } else {
            Cell::Links(filings)
        };
        let cells = vec![
            Cell::Text(figure.name()),
            Cell::Text(figure.value()),
            source,
            Cell::references(findings.iter().map(ToString::to_string)),
        ];
        Row::with_id(figure.id(), cells)
    };
    vec![
        Block::Heading(3, "Figures behind the findings".to_owned()),
        Block::Legend(
            "Source: the filing that reports the figure. A figure with several filings is the difference between what \
             they report, for example a fourth quarter."
                .to_owned(),
        ),
        Block::rows(&["Figure", "Value", "Source", "Used by"], used.iter().map(row).collect()),
    ]
}

fn filings_table(report: &Report, used: &[(Figure<'_>, Vec<FindingId>)]) -> Vec<Block> {
    let company = &report.outcome.company;
    let row = |(accession, filing): (&&str, &super::super::evidence::Filing)| {
        let figures: Vec<&Figure<'_>> =
            used.iter().map(|it| &it.0).filter(|it| it.accessions().contains(accession)).collect();
        if figures.is_empty() {
            return None;
        }
        let links = figures.iter().map(|it| Link::to(&it.name(), &it.id())).collect();
        let cells = vec![
            accession_cell(company, accession),
            Cell::text(&filing.form),
            Cell::Text(filing.filed.to_string()),
            Cell::Text(number::grouped(figures.len() as u64)),
            Cell::Links(links),
        ];
        Some(Row::with_id(filing_id(accession), cells))
    };
    let filings = filings(company);
    let rows: Vec<Row> = filings.iter().filter_map(row).collect();
    if rows.is_empty() {
        return Vec::new();
    }
    vec![
        Block::Heading(3, "Filings".to_owned()),
        Block::Legend(
            "Form: 10-K is an annual report, 10-Q a quarterly one. The accession number leads to the filing at the SEC."
                .to_owned(),
        ),
        Block::PageOnly(vec![Block::rows(
            &["Accession number", "Form", "Filed", "Number of figures", "Figures"],
            rows.clone(),
        )]),
        Block::MarkdownOnly(vec![Block::rows(
            &["Accession number", "Form", "Filed", "Number of figures"],
            rows.into_iter().map(without_last_cell).collect(),
        )]),
    ]
}

/// Lists the 8-K filings that findings quote.
fn current_reports_table(report: &Report) -> Vec<Block> {
    let Outcome { company, findings, .. } = &report.outcome;
    let row = |it: &CurrentReport| {
        let is_quoted = |finding: &&Finding| {
            finding.draft.evidence.iter().any(|evidence| evidence.quote.contains(&it.accession))
        };
        let findings = findings.iter().flat_map(|it| &it.findings).filter(is_quoted);
        let findings: Vec<String> = findings.map(|it| it.id.to_string()).collect();
        let cells = vec![
            accession_cell(company, &it.accession),
            Cell::text(&it.form),
            Cell::Text(it.filed.to_string()),
            Cell::Text(it.items.join(", ")),
            Cell::references(findings.clone()),
        ];
        (!findings.is_empty()).then(|| Row::with_id(filing_id(&it.accession), cells))
    };
    let rows: Vec<Row> = company.current_reports.iter().filter_map(row).collect();
    if rows.is_empty() {
        return Vec::new();
    }
    vec![
        Block::Heading(3, "Events reported to the SEC".to_owned()),
        Block::Legend(
            "Form 8-K reports an event between two periodic reports. Items: the kinds of events, as numbered in the form; \
             the findings state their titles. Only dates and items were read, not the texts."
                .to_owned(),
        ),
        Block::rows(&["Accession number", "Form", "Filed", "Items", "Used by"], rows),
    ]
}

/// Returns a cell with an accession number that leads to the filing at the SEC, if its address is known.
fn accession_cell(company: &Company, accession: &str) -> Cell {
    match filing_address(company, accession) {
        Some(address) => Cell::Links(vec![Link { text: accession.to_owned(), address }]),
        None => Cell::text(accession),
    }
}

fn without_last_cell(mut row: Row) -> Row {
    row.cells.pop();
    row
}
