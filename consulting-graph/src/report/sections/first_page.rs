//! Builds the first page: notices, the answer, the confidence in it, the recommended moves and the company's figures.

use std::collections::BTreeSet;

use app_support::plural::counted;

use super::{
    super::{
        document::{Block, Card, Link},
        due_date::due_date,
        evaluation::Report,
        objection::cites_findings,
        outcome::Provider,
    },
    scores,
};
use crate::{
    data::{Item, number, ratio},
    finding::{FindingId, find_citations},
    moves::{Move, Step},
    rank::Ranked,
    score::Mark,
};

pub(super) fn first_page(report: &Report) -> Vec<Block> {
    let mut blocks = notices(report);
    blocks.push(Block::Contents);
    blocks.push(Block::Heading(2, "Answer".to_owned()));
    blocks.push(Block::Text(answer(report)));
    blocks.push(Block::Heading(2, "Confidence".to_owned()));
    blocks.extend(confidence(report));
    blocks.push(Block::Heading(2, "Recommended".to_owned()));
    blocks.extend(cards(report));
    if let Some(chart) = report.figures.first() {
        blocks.push(Block::Heading(2, "The company in figures".to_owned()));
        blocks.push(Block::Figure(chart.clone()));
    }
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
    notices.extend(report.outdated_notice());
    notices.extend(report.isolation_notice.clone());
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
        "Run {}, data as of {}, written by {wrote}. Sandbox of the debates: {}.",
        outcome.run_id,
        outcome.company.as_of,
        outcome.sandboxes_text()
    )));
    blocks
}

/// Returns the answer in three sentences: the recommendation, its best move, and the company's position.
fn answer(report: &Report) -> String {
    let outcome = &report.outcome;
    let recommended = &report.ranking.recommended;
    let Some(best) = recommended.first() else {
        return "No move was scored, so none is recommended.".to_owned();
    };
    let quoted = |it: &Ranked| format!("“{}” ({})", title(report, it), it.move_id);
    let titles: Vec<String> = recommended.iter().map(quoted).collect();
    let makers: Vec<String> = outcome.decision_makers.iter().map(|it| it.name.clone()).collect();
    let mut sentences = vec![
        format!(
            "Of {} for {}, the board recommends {}.",
            counted(outcome.moves.len(), "proposed move", "proposed moves"),
            outcome.company.name.trim_end_matches('.'),
            join(&titles, "and")
        ),
        format!(
            "“{}” scored best, with {} of {} points from {} after its debates.",
            title(report, best),
            best.total_score,
            outcome.best_score,
            join(&makers, "and")
        ),
    ];
    sentences.extend(position(report));
    sentences.join(" ")
}

/// Describes the latest fiscal year in one sentence.
fn position(report: &Report) -> Option<String> {
    let company = &report.outcome.company;
    let latest = company.annuals.last()?;
    let revenue = latest.get(Item::Revenue)?;
    let growth = ratio::year_over_year(company, latest, Item::Revenue).map(|it| {
        let moved = if it < 0.0 { "down" } else { "up" };
        format!(", {moved} {} from {}", number::percent(it.abs()), latest.period.year_before())
    });
    let margin = ratio::operating_margin(latest)
        .map(|it| format!(", with an operating margin of {}", number::percent(it)));
    Some(format!(
        "Revenue was {} in {}{}{}.",
        number::dollars(revenue),
        latest.period,
        growth.unwrap_or_default(),
        margin.unwrap_or_default()
    ))
}

/// States the confidence in the recommendation, and the reasons.
fn confidence(report: &Report) -> Vec<Block> {
    let recommended = &report.ranking.recommended;
    if recommended.is_empty() {
        return vec![Block::Text("Not applicable, because no move is recommended.".to_owned())];
    }
    let top_k = recommended.len();
    let standing = |it: &Ranked| {
        report.robustness.standings.iter().find(|standing| standing.move_id == it.move_id)
    };
    let certain = recommended.iter().filter_map(standing).all(|it| it.top >= 0.9);
    let independent = recommended.iter().filter_map(standing).all(|it| it.depends_on.is_empty());
    let unresolved = report.compression.is_some_and(|it| it.unresolved);
    let selected = !report.ranking.other.is_empty();
    let (level, why) = if unresolved {
        ("Low", "the scores are too close together to tell the moves apart")
    } else if !report.incomplete_notices().is_empty() {
        ("Low", "parts of the run are missing")
    } else if !selected {
        ("Low", "every scored move is recommended, so the scores excluded none")
    } else if certain && independent {
        ("High", "the recommendation stays the same if any one judge or criterion is left out")
    } else if certain {
        ("Medium", "the recommendation depends on a single judge or criterion")
    } else {
        ("Medium", "at least one other move is almost as good")
    };
    let mut points = Vec::new();
    let shares: Vec<String> = recommended
        .iter()
        .filter_map(|it| Some(format!("{} in {}", it.move_id, number::percent(standing(it)?.top))))
        .collect();
    if selected {
        points.push(format!(
            "If the scores are resampled at random, these moves stay among the best {top_k}: {} of the samples.",
            join(&shares, "and")
        ));
    }
    if let (Some(last), Some(next)) = (recommended.last(), report.ranking.other.first()) {
        let next_one = format!("the next one, “{}” ({})", title(report, next), next.move_id);
        points.push(match last.total_score.saturating_sub(next.total_score) {
            0 => format!("The last recommended move has the same score as {next_one}."),
            ahead => format!(
                "The last recommended move is {ahead} of {} points ahead of {next_one}.",
                report.outcome.best_score
            ),
        });
    }
    for it in recommended.iter().filter_map(standing).filter(|it| !it.depends_on.is_empty()) {
        let names: Vec<String> =
            it.depends_on.iter().map(|id| scores::display_name(report, id)).collect();
        points.push(format!(
            "{} would lose its place if {} did not count.",
            it.move_id,
            join(&names, "or")
        ));
    }
    points.push(match report.flags.len() {
        0 => "The data confirms all citations and numbers.".to_owned(),
        n => format!("Citations or numbers that the data does not confirm: {n}; see the appendix."),
    });
    if report.outcome.provider == Provider::Scripted {
        points.push(
            "A script gave the scores, so this describes the calculation and not the company."
                .to_owned(),
        );
    }
    vec![Block::Text(format!("{level}: {why}.")), Block::List(points)]
}

fn cards(report: &Report) -> Vec<Block> {
    let card = |ranked: &Ranked| {
        let it = report.outcome.find_move(ranked.move_id)?;
        let draft = &it.draft;
        let subtitle = format!(
            "{} of {} points · {} risk · proposed by {}",
            ranked.total_score,
            report.outcome.best_score,
            draft.risk_level.name(),
            it.persona
        );
        let rows = [
            ("Decision", draft.thesis.clone()),
            ("Cost", draft.cost.clone()),
            ("First step", first_step(report, it)),
            ("Unanswered objection", objection(report, ranked)),
            ("Stop if", draft.falsifiers.first().cloned().unwrap_or_default()),
            ("Measure of success", draft.kpi.clone()),
        ];
        let stated = |(label, text): (&'static str, String)| {
            let text = if text.trim().is_empty() { "Not stated.".to_owned() } else { text };
            (label, text)
        };
        let title = Link::to(&format!("{}. {}", ranked.rank, draft.title), &it.move_id.to_string());
        Some(Card { title, subtitle, rows: rows.into_iter().map(stated).collect() })
    };
    let cards: Vec<Card> = report.ranking.recommended.iter().filter_map(card).collect();
    if cards.is_empty() {
        return vec![Block::Text("No move was scored, so none is recommended.".to_owned())];
    }
    vec![Block::Cards(cards)]
}

fn first_step(report: &Report, it: &Move) -> String {
    let Some(Step { action, owner, timeframe }) = it.draft.steps.first() else {
        return String::new();
    };
    let mut text = action.trim_end_matches('.').to_owned() + ".";
    if !owner.trim().is_empty() {
        text += &format!(" Owner: {owner}.");
    }
    let due = report.outcome.started_on.and_then(|from| due_date(from, timeframe));
    match (timeframe.trim(), due) {
        ("", _) => {}
        (timeframe, Some(due)) => text += &format!(" Date: {timeframe}, by {due}."),
        (timeframe, None) => text += &format!(" Date: {timeframe}."),
    }
    text
}

fn objection(report: &Report, ranked: &Ranked) -> String {
    match report.objections.iter().find(|it| it.move_id == ranked.move_id) {
        Some(it) => {
            let maker = scores::display_name(report, &it.maker);
            format!("“{}” (to {maker}, round {}){}", it.text, it.round, claims(report, &it.text))
        }
        None => match report.outcome.logs.get(&ranked.move_id) {
            None => "None, because there was no debate.".to_owned(),
            Some(logs) if cites_findings(logs) => {
                "None: each objection that cites a finding was answered.".to_owned()
            }
            Some(_) => {
                "Unknown: the critic cited no findings, so answers cannot be matched to objections."
                    .to_owned()
            }
        },
    }
}

/// States the claims of the findings that an objection cites without quoting them.
fn claims(report: &Report, objection: &str) -> String {
    let cited = find_citations(objection).into_iter().filter_map(|it| it.1.ok());
    let cited: BTreeSet<FindingId> = cited.collect();
    let claims = cited.into_iter().filter_map(|id| {
        let finding = report.outcome.findings.iter().find_map(|it| it.get(id))?;
        let claim = finding.draft.claim.trim_end_matches('.');
        (!objection.contains(claim)).then(|| format!(" {id} says: {claim}."))
    });
    claims.collect()
}

fn title<'a>(report: &'a Report, ranked: &Ranked) -> &'a str {
    report.outcome.find_move(ranked.move_id).map_or("", |it| it.draft.title.as_str())
}

/// Joins texts with commas, and the last one with the conjunction.
fn join(texts: &[String], conjunction: &str) -> String {
    match texts {
        [] => String::new(),
        [one] => one.clone(),
        [all @ .., last] => format!("{} {conjunction} {last}", all.join(", ")),
    }
}
