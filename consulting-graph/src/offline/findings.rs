//! Findings of the offline board.

use std::cmp::Ordering;

use minijinja::context;

use super::{
    candidate::{Candidate, bad_if, good_if},
    figures,
    writer::{TEXTS, Writer},
};
use crate::{
    data::{
        Company, ForumThread, Item, NewsItem, Note, PredictionMarket, Rating, Sentiment, Source,
        Split, Subject, number,
        ratio_table::{self, Ratio, Value},
        trend::spell_out,
    },
    finding::{
        Direction, FindingViolation, FindingsDraft, Inference, Kind, TensionDraft, violations,
    },
};

/// Minimum number of findings about the company. If there are fewer, fillers are added.
const ENOUGH: usize = 8;

/// Drafts the findings, most important first. `text` may be only a part of the document, so findings that quote other
/// parts are omitted.
pub(super) fn draft(
    inference: Inference,
    company: &Company,
    text: &str,
    writer: &Writer,
) -> FindingsDraft {
    let mut candidates = match inference {
        Inference::F1 => financial(company, writer),
        Inference::F2 => trend(company, writer),
    };
    let all = candidates.iter().map(|it| it.draft.clone()).collect();
    let violations = violations(&FindingsDraft { findings: all, tensions: Vec::new() }, text);
    let unusable: Vec<usize> = violations.iter().filter_map(unusable_finding).collect();
    let mut numbers = 1..;
    candidates.retain(|_| numbers.next().is_some_and(|it| !unusable.contains(&it)));
    if candidates.iter().filter(|it| !it.is_filler).count() >= ENOUGH {
        candidates.retain(|it| !it.is_filler);
    }
    candidates.truncate(writer.number(10, 14) as usize);
    let position = |label: &str| candidates.iter().position(|it| it.label == label);
    let tensions = TEXTS.tensions.iter().filter_map(|it| {
        let [one, other] = [position(&it.between[0])?, position(&it.between[1])?];
        // Findings with the same direction, such as two that are good for the company, do not contradict each other.
        if candidates[one].draft.direction == candidates[other].draft.direction {
            return None;
        }
        let between = [one, other].map(|it| u8::try_from(it + 1).unwrap_or(u8::MAX)).to_vec();
        Some(TensionDraft { between, text: writer.fill(&it.text, &context! {})? })
    });
    let tensions = tensions.take(writer.number(1, 3) as usize).collect();
    FindingsDraft { findings: candidates.into_iter().map(|it| it.draft).collect(), tensions }
}

fn unusable_finding(violation: &FindingViolation) -> Option<usize> {
    match violation {
        FindingViolation::QuoteNotFound { finding, .. }
        | FindingViolation::Recommends { finding, .. }
        | FindingViolation::UnknownPeriod { finding, .. }
        | FindingViolation::WrongPeriod { finding, .. }
        | FindingViolation::WrongUnit { finding, .. } => Some(*finding),
        _ => None,
    }
}

/// Returns the findings that the financial data supports, most important first.
fn financial(company: &Company, writer: &Writer) -> Vec<Candidate> {
    let ratios = ratio_table::table(company);
    let ratio = |name: &str, kind, strength| {
        let ratio = ratios.iter().find(|it| it.name == name)?;
        Some(ratio_finding(ratio, kind, writer).label(ratio.name).strength(strength))
    };
    let guidance = |idx| note(&company.guidance, idx, Kind::Guidance, "Management Guidance");
    let metric = |idx| note(&company.metrics, idx, Kind::Other, "Key Business Metrics");
    let no_segments = || not_available(Kind::Growth, "Revenue by Segment");
    let candidates = [
        ratio("Revenue growth (YoY)", Kind::Growth, 3),
        ratio("Gross margin", Kind::Margin, 3),
        ratio("Net debt", Kind::Leverage, 2),
        ratio("Free cash flow", Kind::Liquidity, 2),
        balance(company, Item::Receivables, 3),
        ratio("Shareholder payout", Kind::CapitalReturn, 2),
        guidance(0).map(|it| it.strength(2)),
        ratio("Operating margin", Kind::Margin, 2),
        company.segments.last().and_then(segments),
        ratio("Cash conversion", Kind::Efficiency, 2),
        ratio("Return on equity", Kind::CapitalReturn, 2),
        ratio("Free cash flow margin", Kind::Liquidity, 2),
        ratio("Debt to equity", Kind::Leverage, 1),
        balance(company, Item::Inventory, 1),
        ratio("Net margin", Kind::Margin, 1),
        metric(0),
        ratio("Current ratio", Kind::Liquidity, 1),
        guidance(1),
        company.geography.last().and_then(largest_region),
        ratio("Research intensity", Kind::Efficiency, 1),
        metric(1),
        note(&company.events, 0, Kind::Other, "Recent Corporate Events"),
        ratio("Earnings per share", Kind::CapitalReturn, 1),
        document_line(company, Subject::Financial),
        company.segments.is_empty().then(no_segments),
        Some(date(company)),
        Some(origin(company)),
    ];
    candidates.into_iter().flatten().collect()
}

/// Returns the finding about a ratio. For most ratios, the finding compares the company with its sector if the sector's
/// figure is known.
fn ratio_finding(ratio: &Ratio, kind: Kind, writer: &Writer) -> Candidate {
    let Ratio { name, period, value, sector, .. } = ratio;
    let (amount, is_negative) = (amount(*value), amount(*value) < 0.0);
    let verb = writer.pick(&["amounted to", "stood at", "was"]);
    let described = spell_out(name);
    let (claim, direction) = match (*name, sector) {
        ("Net debt", _) => {
            let meaning = if is_negative {
                "so cash and securities exceed long-term debt"
            } else {
                "so long-term debt exceeds cash and securities"
            };
            (format!("Net debt stood at {value} in {period}, {meaning}."), good_if(is_negative))
        }
        ("Free cash flow", _) => {
            let after = writer.pick(&["", ", after capital expenditure"]);
            (format!("Free cash flow was {value} in {period}{after}."), good_if(!is_negative))
        }
        ("Shareholder payout", _) => {
            (format!("Repurchases and dividends totalled {value} in {period}."), Direction::Mixed)
        }
        ("Earnings per share", _) => {
            (format!("Earnings per share were {value} in {period}."), Direction::Mixed)
        }
        ("Current ratio", sector) => {
            let compared = sector.map(|it| format!(", compared with {it} in the sector"));
            let compared = compared.unwrap_or_default();
            let claim = format!("The current ratio was {value} in {period}{compared}.");
            (claim, bad_if(amount < 1.0))
        }
        (_, Some(sector)) => {
            // Two figures count as equal if they are displayed as the same text.
            let is_below =
                amount < self::amount(*sector) && value.to_string() != sector.to_string();
            let position = if is_below { "below" } else { "at or above" };
            let is_good = is_below == (*name == "Debt to equity");
            let claim = format!(
                "{described} {verb} {value} in {period}, {position} the sector figure of {sector}."
            );
            (claim, good_if(is_good))
        }
        (_, None) => (format!("{described} {verb} {value} in {period}."), bad_if(is_negative)),
    };
    let sector = sector.map(|it| format!(" | {it}")).unwrap_or_default();
    let quote = format!("{name} | {period} | {value}{sector}");
    Candidate::new(kind, claim, "Key Ratios", quote).direction(direction)
}

fn amount(value: Value) -> f64 {
    match value {
        Value::Fraction(it) | Value::Multiple(it) => it,
        Value::Dollars(it) | Value::Cents(it) => it as f64,
    }
}

/// Returns the finding about the change of a balance sheet item in the last year.
fn balance(company: &Company, item: Item, strength: u8) -> Option<Candidate> {
    let [.., before, after] = company.annuals.as_slice() else { return None };
    let (from, to) = (before.get(item)?, after.get(item)?);
    let change = match from.cmp(&to) {
        Ordering::Less => "rose",
        Ordering::Equal => "did not change",
        Ordering::Greater => "fell",
    };
    let (label, direction) = (item.label(), good_if(from >= to));
    let (from, to) = (number::dollars(from), number::dollars(to));
    let (before, after) = (before.period, after.period);
    let claim =
        format!("{label} {change}: {from} at the end of {before}, {to} at the end of {after}.");
    let quote = format!("{label} | {before} | {from} | {after} | {to}");
    let candidate = Candidate::new(Kind::Efficiency, claim, "Balance Sheet", quote);
    Some(candidate.label(label).strength(strength).direction(direction))
}

/// Returns the finding about the revenue of the first and the last segment.
fn segments(split: &Split) -> Option<Candidate> {
    let [lead, .., young] = split.parts.as_slice() else { return None };
    let (period, [lead_share, young_share]) =
        (split.period, [lead, young].map(|it| share(split, it.1)));
    let (lead, young) = (&lead.0, &young.0);
    let claim = format!(
        "{lead} contributed {lead_share} of revenue in {period}, and {young} {young_share}."
    );
    // The separators are needed, because the moves extract the names of the segments from the quotation.
    let quote = format!("{period} | {lead} | {lead_share} | {young} | {young_share}");
    Some(Candidate::new(Kind::Growth, claim, "Revenue by Segment", quote).strength(2))
}

fn largest_region(split: &Split) -> Option<Candidate> {
    let (name, revenue) = split.parts.first()?;
    let (period, share) = (split.period, share(split, *revenue));
    let claim = format!("{name} contributed {share} of revenue in {period}.");
    let quote = format!("{period} | {name} | {share}");
    Some(Candidate::new(Kind::Growth, claim, "Revenue by Geography", quote))
}

fn share(split: &Split, part: i64) -> String {
    let total: i64 = split.parts.iter().map(|it| it.1).sum();
    format!("{} ({})", number::dollars(part), number::percent(part as f64 / total.max(1) as f64))
}

fn note(notes: &[Note], idx: usize, kind: Kind, section: &str) -> Option<Candidate> {
    let text = notes.get(idx)?.text.trim_end_matches('.');
    Some(Candidate::new(kind, format!("{text}."), section, text))
}

/// Returns the findings that the news supports, most important first. Without news, returns those that the trends of
/// the figures and the filings support.
fn trend(company: &Company, writer: &Writer) -> Vec<Candidate> {
    if !company.has_news() {
        return figures::candidates(company);
    }
    let news = company.news.clone().unwrap_or_default();
    let report = |sentiment, kind, direction| {
        let item = news.items.iter().find(|it| it.sentiment == sentiment)?;
        Some(report(item, kind, writer).direction(direction))
    };
    let competitor = |idx: usize| {
        let it = news.competitors.get(idx)?;
        let (name, text) = (&it.name, it.text.trim_end_matches('.'));
        // The colon is needed, because the moves extract the name of the competitor from the quotation.
        let quote = format!("{name}: {text}");
        let claim = format!("{name} {text}.");
        Some(Candidate::new(Kind::Competitor, claim, "Competitor Activity", quote))
    };
    let rating = |advice: &'static str, direction| {
        let rating = news.ratings.iter().find(|it| it.advice == advice)?;
        Some(rated(rating).label(advice).direction(direction))
    };
    let (positive, negative, mixed) = (Direction::Positive, Direction::Negative, Direction::Mixed);
    let candidates = [
        report(Sentiment::Positive, Kind::Event, positive)
            .map(|it| it.label("favourable report").strength(2)),
        competitor(0).map(|it| it.label("competitor").strength(3).direction(negative)),
        report(Sentiment::Negative, Kind::Event, negative)
            .map(|it| it.label("critical report").strength(2)),
        news.threads.first().and_then(thread).map(|it| it.strength(2)),
        rating("sell", negative).map(|it| it.strength(2)),
        rating("buy", positive).map(|it| it.strength(2)),
        news.markets.first().map(|it| market(it).label("prediction market").strength(2)),
        report(Sentiment::Mixed, Kind::Sentiment, mixed),
        competitor(1).map(|it| it.strength(2)),
        news.markets.get(1).map(market),
        news.threads.get(1).and_then(thread),
        rating("hold", mixed),
        competitor(2),
        news.markets.get(2).map(market),
    ];
    let absent = [
        (news.items.is_empty(), Kind::Event, "Recent News Coverage"),
        (news.competitors.is_empty(), Kind::Competitor, "Competitor Activity"),
        (news.ratings.is_empty(), Kind::Analyst, "Analyst Ratings"),
        (news.threads.is_empty(), Kind::Sentiment, "Social Sentiment"),
        (news.markets.is_empty(), Kind::Prediction, "Prediction Market Signals"),
    ];
    let absent = absent.into_iter().filter(|it| it.0).map(|it| not_available(it.1, it.2));
    let title = format!("News and sentiment: {} ({})", company.name, company.ticker);
    let claim = format!("The document has the title \u{201c}{title}\u{201d}.");
    let title = Candidate::new(Kind::Other, claim, "Opening", title).filler();
    let rest = [
        document_line(company, Subject::Trend),
        Some(date(company)),
        Some(origin(company)),
        Some(title),
    ];
    candidates.into_iter().flatten().chain(absent).chain(rest.into_iter().flatten()).collect()
}

fn report(item: &NewsItem, kind: Kind, writer: &Writer) -> Candidate {
    let NewsItem { publisher, headline, date, .. } = item;
    let (text, verb) = (item.text.trim_end_matches('.'), writer.pick(&["reports", "writes"]));
    let tone = item.sentiment.name();
    let quote = format!("{headline} ({publisher}, {date}, {tone}): {text}");
    Candidate::new(kind, format!("{publisher} {verb}: {text}."), "Recent News Coverage", quote)
}

fn thread(thread: &ForumThread) -> Option<Candidate> {
    let [one, other, ..] = thread.comments.as_slice() else { return None };
    let [one, other] = [one, other].map(|it| it.trim_end_matches('.'));
    let ForumThread { title, score, .. } = thread;
    let claim = format!(
        "Private investors disagree in the thread \u{201c}{title}\u{201d}: one writes \u{201c}{one}\u{201d}, another \
         \u{201c}{other}\u{201d}."
    );
    let quote = format!("{title} (score {score}) {one}. {other}");
    Some(Candidate::new(Kind::Sentiment, claim, "Social Sentiment", quote))
}

fn market(market: &PredictionMarket) -> Candidate {
    let PredictionMarket { event, percent, volume } = market;
    let claim =
        format!("A prediction market puts the probability of this event at {percent}%: {event}.");
    let quote = format!("{event}: {percent}% ({} traded)", number::dollars(*volume));
    let candidate = Candidate::new(Kind::Prediction, claim, "Prediction Market Signals", quote);
    candidate.direction(bad_if(*percent < 40))
}

fn rated(rating: &Rating) -> Candidate {
    let Rating { house, advice, .. } = rating;
    let target = number::cents(rating.target_cents);
    let claim = format!("{house} rates the stock a {advice} with a price target of {target}.");
    let quote = format!("{house}: {advice}, target {target}");
    Candidate::new(Kind::Analyst, claim, "Analyst Ratings", quote)
}

fn not_available(kind: Kind, section: &str) -> Candidate {
    let claim = format!("The section \u{201c}{section}\u{201d} is not available from this source.");
    Candidate::new(kind, claim, section, "Not available from this source").filler()
}

/// Returns a finding that quotes the first non-empty line of the user's first document about a subject.
fn document_line(company: &Company, subject: Subject) -> Option<Candidate> {
    let document = company.documents.iter().find(|it| it.about == subject)?;
    let (number, line) = (1..).zip(document.text.lines()).find(|it| !it.1.trim().is_empty())?;
    let text = line.trim_start_matches(['-', '*', '#', '>', ' ']).trim().trim_end_matches('.');
    let claim = format!("A document supplied by the user states: {text}.");
    let quote = format!("{}:{number}: {}", document.name, line.trim_end());
    Some(Candidate::new(Kind::Other, claim, "Documents", quote))
}

fn date(company: &Company) -> Candidate {
    let date = format!("As of {}", company.as_of);
    let claim = format!("The data is dated as follows: {date}.");
    Candidate::new(Kind::Other, claim, "Opening", date).filler()
}

fn origin(company: &Company) -> Candidate {
    let origin = match company.source {
        Source::Synthetic => "This company and all figures below are fictional",
        Source::Snapshot | Source::Edgar => "Figures as filed with the SEC",
        Source::Folder => "Figures from the user's own files",
    };
    let claim = format!("The document states about its source: {origin}.");
    Candidate::new(Kind::Other, claim, "Opening", origin).filler()
}
