//! Findings of the offline board from the trends of the figures and from filings, for companies without news.

use super::candidate::{Candidate, bad_if, good_if};
use crate::{
    data::{
        Company,
        filing::{self, FilingEvent, FilingEventKind},
        trend::{self, Topic, Trend},
    },
    finding::{Direction, Kind},
};

/// Maximum number of findings about trends, few enough that filings are among the findings too.
const MAX_TRENDS: usize = 8;

/// Maximum number of findings about 8-K filings. They replace findings about trends.
const MAX_CURRENT_REPORTS: usize = 3;

/// Section of the document that lists the filings.
pub(super) const FILING_EVENTS: &str = "Filing Events";

/// Returns the findings that the trends and the filings support, most important first.
pub(super) fn candidates(company: &Company) -> Vec<Candidate> {
    let (quarterly, annual) = (trend::quarterly(company), trend::annual(company));
    let mut trends: Vec<Candidate> =
        quarterly.iter().chain(&annual).filter_map(from_trend).collect();
    // Trends over several periods first. The sort is stable.
    trends.sort_by_key(|it| std::cmp::Reverse(it.draft.strength));
    let events = filing::events(company);
    let current_reports = current_reports(&events);
    let mut candidates = balanced(trends, MAX_TRENDS - current_reports.len());
    candidates.extend(current_reports.into_iter().map(from_filing));
    let newest = |kind| events.iter().find(|it| it.kind == kind).map(from_filing);
    let filings = [FilingEventKind::Restatement, FilingEventKind::Report].map(newest);
    candidates.extend(filings.into_iter().flatten());
    candidates
}

/// Selects up to `n` candidates, alternating between unfavourable and other ones as long as there are both.
fn balanced(candidates: Vec<Candidate>, n: usize) -> Vec<Candidate> {
    let is_negative = |it: &Candidate| it.draft.direction == Direction::Negative;
    let (negative, other): (Vec<_>, Vec<_>) = candidates.into_iter().partition(is_negative);
    let (mut negative, mut other) = (negative.into_iter(), other.into_iter());
    let mut selected = Vec::new();
    while selected.len() < n {
        let pair = [other.next(), negative.next()];
        if pair.iter().all(Option::is_none) {
            break;
        }
        selected.extend(pair.into_iter().flatten());
    }
    selected.truncate(n);
    selected
}

/// Selects 8-K filings: unfavourable ones first, then the newest ones.
fn current_reports(events: &[FilingEvent]) -> Vec<&FilingEvent> {
    let is_unfavourable = |it: &FilingEvent| match it.kind {
        FilingEventKind::CurrentReport { is_unfavourable } => Some(is_unfavourable),
        _ => None,
    };
    let mut reports: Vec<&FilingEvent> =
        events.iter().filter(|it| is_unfavourable(it).is_some()).collect();
    // The sort is stable, so the newest of equally important filings comes first.
    reports.sort_by_key(|it| is_unfavourable(it) != Some(true));
    reports.truncate(MAX_CURRENT_REPORTS);
    reports
}

fn from_trend(trend: &Trend) -> Option<Candidate> {
    let (change, sentence) = (trend.yearly_change()?, trend.sentence()?);
    let kind = match trend.topic {
        Topic::Growth => Kind::Growth,
        Topic::Margin => Kind::Margin,
        Topic::Liquidity => Kind::Liquidity,
        Topic::Leverage => Kind::Leverage,
        Topic::CapitalReturn => Kind::CapitalReturn,
        Topic::Efficiency => Kind::Efficiency,
    };
    let label = match change.is_good {
        Some(true) => "improving trend",
        Some(false) => "worsening trend",
        None => "",
    };
    let direction = change.is_good.map_or(Direction::Mixed, good_if);
    let strength = if change.periods > 1 { 2 } else { 1 };
    let quote = sentence.trim_end_matches('.').to_owned();
    let candidate = Candidate::new(kind, sentence, "Direction of the Figures", quote);
    Some(candidate.label(label).direction(direction).strength(strength))
}

fn from_filing(event: &FilingEvent) -> Candidate {
    let FilingEvent { filed, text, kind } = event;
    let quote = format!("{filed}: {text}");
    let claim = format!("A filing of {filed} shows this: {text}.");
    match kind {
        FilingEventKind::CurrentReport { is_unfavourable } => {
            let candidate = Candidate::new(Kind::Event, claim, FILING_EVENTS, quote);
            candidate.direction(bad_if(*is_unfavourable)).strength(2)
        }
        _ => Candidate::new(Kind::Other, claim, FILING_EVENTS, quote),
    }
}
